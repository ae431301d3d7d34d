"""Comparison of every FMU of a folder, alone in a session, with FMPy's own simulation.

    python -m tools.qualification.fmus_against_fmpy FOLDER [--steps 100] [--step 0.001953125]

Inputs are held at their start values, those of real types 0.1 above if their bounds allow. Steps
are 2^-9 s, so that times are exact. The first sample is compared separately: a session reads it
before the end of the initialization, FMPy after it. Both runs use separate processes, so that an
FMU may crash or hang in either. Prints a table with the largest difference of an output, relative
to its largest value, or the reason why an FMU was not run. Files with the same contents count once.
Exit status 1 if an FMU runs in FMPy but not here, or differs.

The FMUs' code is executed: use only trusted folders.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hilrt.errors import ConfigError, HilrtError
from hilrt.fmu.description import Fmu, read_fmu
from hilrt.fmu.fmu_options import FmuOptions
from hilrt.fmu.fmu_solver import FmuSolver
from hilrt.fmu.variables import CONTINUOUS
from hilrt.solver import Floats

#: Offset of inputs of a real type.
MOVED = 0.1
#: Maximum difference that counts as equal.
EQUAL = 1e-9
HERE = "tools.qualification.fmus_against_fmpy"


class Row(NamedTuple):
    """Result of an FMU.

    Attributes
    ----------
    name, version : str
        Its path in the folder, and its FMI version.
    ports : str
        Numbers of inputs and outputs.
    result : str
        The largest relative difference, or the reason why there is none.
    agrees : bool
        Whether it does not differ, and runs here if it runs in FMPy.
    """

    name: str
    version: str
    ports: str
    result: str
    agrees: bool


class Setup(NamedTuple):
    """Settings of an FMU's run: held inputs, scalar outputs by name, tolerance."""

    inputs: dict[str, float]
    outputs: list[str]
    tolerance: float | None


def setup_of(fmu: Fmu, solver: FmuSolver) -> Setup:
    """Scalar inputs and outputs with numeric values."""
    inputs = {}
    for port in solver.inputs:
        variable = fmu.variables[port.name]
        if port.size != 1 or variable.type == "Clock":
            continue
        by = MOVED if variable.type in CONTINUOUS else 0.0
        inputs[port.name] = port.start + by if port.start + by <= port.max else port.start
    outputs = [
        port.name
        for port in solver.outputs
        if port.size == 1 and fmu.variables[port.name].type != "Clock"
    ]
    default = fmu.model.defaultExperiment
    tolerance = None
    with contextlib.suppress(TypeError, ValueError):
        tolerance = float(default.tolerance) if default is not None else None
    return Setup(inputs, outputs, tolerance)


def solver_of(path: Path) -> FmuSolver:
    """Solver of an FMU before any of its code is run; `ConfigError` if not possible."""
    solver = FmuSolver(FmuOptions(adapter="fmu", fmu=str(path)), Path())
    solver.fmu.need_binary()
    return solver


def by_hilrt(path: Path, steps: int, step: float) -> Floats:
    """Outputs at the communication points of a session, shape (steps + 1, n)."""
    import hilrt

    solver = solver_of(path)
    setup = setup_of(solver.fmu, solver)
    lines = [
        "[session]",
        'name = "alone"',
        f"duration = {steps * step!r}",
        'pace = "asap"',
        "[master]",
        f"step = {step!r}",
        "[subsystems.model]",
        'adapter = "fmu"',
        f"fmu = {json.dumps(str(path))}",
        f"stop_time = {steps * step!r}",
    ]
    if setup.tolerance:
        lines.append(f"tolerance = {setup.tolerance!r}")
    for name, value in setup.inputs.items():
        lines += [f"[subsystems.model.inputs.{json.dumps(name)}]", f"start = {value!r}"]
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder) / "alone.toml"
        session.write_text("\n".join(lines), "utf-8")
        result = hilrt.simulate(session)
        if result.fault is not None:
            raise HilrtError(result.fault)
        log = result.log
        return at_points(
            log.time(f"model.{setup.outputs[0]}"),
            np.array([log[f"model.{name}"] for name in setup.outputs]).T,
            steps,
            step,
        )


def by_fmpy(path: Path, steps: int, step: float) -> Floats:
    """Likewise by FMPy's simulation of a single FMU."""
    import fmpy

    solver = solver_of(path)
    fmu, setup = solver.fmu, setup_of(solver.fmu, solver)
    signals, end = None, steps * step
    if setup.inputs:  # at later times: before the first, values are not interpolated
        columns = [("time", float), *((name, float) for name in setup.inputs)]
        held = tuple(setup.inputs.values())
        signals = np.array([(2.0 * end, *held), (3.0 * end, *held)], dtype=columns)
    result = fmpy.simulate_fmu(
        str(path),
        start_time=0.0,
        stop_time=end,
        output_interval=step,
        fmi_type="CoSimulation",
        relative_tolerance=setup.tolerance,
        input=signals,
        output=setup.outputs,
        use_event_mode=fmu.event_mode,
        early_return_allowed=fmu.event_mode,
        set_stop_time=True,
    )
    values = np.array([result[name].astype(float) for name in setup.outputs]).T
    return at_points(result["time"], values, steps, step)


def at_points(t: Floats, values: Floats, steps: int, step: float) -> Floats:
    """The last row at each communication point; NaN if there is none."""
    found = np.full((steps + 1, values.shape[1]), np.nan)
    for at, row in zip(t, values, strict=True):
        k = round(float(at) / step)
        if abs(at - k * step) < 1e-6 * step and k <= steps:
            found[k] = row
    return found


def difference(here: Floats, there: Floats) -> float:
    """Largest difference of an output over its largest value; infinite if one is missing."""
    both = np.isnan(here) & np.isnan(there)
    apart = np.where(both, 0.0, np.abs(here - there))
    most = np.nanmax(np.abs(there), axis=0, initial=0.0)
    apart = np.where(np.isnan(apart), np.inf, apart)
    return float((apart / np.maximum(most, np.finfo(float).tiny)).max(initial=0.0))


def half(name: str, path: Path, steps: int, step: float, limit: float) -> Floats | str:
    """Outputs of one of the two runs, in a separate process, or the reason why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "outputs.npy"
        command = [sys.executable, "-m", HERE, str(path.absolute()), "--half", name]
        command += ["--steps", str(steps), "--step", repr(step), "--to", str(target)]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit,
                check=False,
                env={**os.environ, "TMPDIR": folder},
            )
        except subprocess.TimeoutExpired:
            return f"not at its end after {limit:g} s"
        if target.exists():
            return np.asarray(np.load(target))
        if done.returncode < 0:
            return f"crashes (signal {-done.returncode})"
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        said = [line for line in lines if line.startswith("failed: ")] or lines[-1:]
        return said[-1].removeprefix("failed: ") if said else f"exit status {done.returncode}"


def compare(path: Path, name: str, steps: int, step: float, limit: float) -> Row:
    """Run an FMU both ways."""
    try:
        fmu = read_fmu(path)
        solver = solver_of(path)
    except ConfigError as error:
        return Row(name, "", "", f"not run: {_short(error.problems[0], path)}", True)
    setup = setup_of(fmu, solver)
    version = f"{fmu.major}.0"
    ports = f"{len(setup.inputs)}, {len(setup.outputs)}"
    if not setup.outputs:
        return Row(name, version, ports, "not run: has no scalar output", True)
    there = half("fmpy", path, steps, step, limit)
    here = half("hilrt", path, steps, step, limit)
    if isinstance(there, str) and isinstance(here, str):
        return Row(name, version, ports, f"fails in both: {_short(here, path)}", True)
    if isinstance(there, str):
        return Row(name, version, ports, f"runs; in FMPy: {_short(there, path)}", True)
    if isinstance(here, str):
        return Row(name, version, ports, f"fails here: {_short(here, path)}", False)
    apart = difference(here[1:], there[1:])
    result = "0" if apart == 0.0 else f"{apart:.1e}"
    if difference(here, there) > max(apart, EQUAL):
        result += "; what it gives while it initializes is other than after"
    return Row(name, version, ports, result, apart <= EQUAL)


def _short(text: str, path: Path) -> str:
    said = text.replace(str(path.absolute()), path.name).replace(str(path), path.name)
    return " ".join(said.split())[:160].replace("|", "/")


def distinct(folder: Path) -> Iterator[Path]:
    """The FMUs below a folder, of those with the same contents the first."""
    seen: set[bytes] = set()
    for path in sorted(folder.rglob("*.[fF][mM][uU]")):
        digest = hashlib.sha256(path.read_bytes()).digest()
        if digest not in seen:
            seen.add(digest)
            yield path


def run_half(options: argparse.Namespace) -> int:
    """Run one of the two; its outputs are written to a file."""
    runs = {"hilrt": by_hilrt, "fmpy": by_fmpy}
    try:
        outputs = runs[options.half](options.folder, options.steps, options.step)
    except Exception as error:
        problems: Sequence[Any] = getattr(error, "problems", None) or [error]
        kind = "" if isinstance(error, HilrtError) else f"{type(error).__name__}: "
        print(f"failed: {kind}{' '.join(str(problems[0]).split())}", file=sys.stderr)
        return 1
    np.save(options.to, outputs)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step", type=float, default=2.0**-9, help="s")
    parser.add_argument("--limit", type=float, default=60.0, help="of each run, s")
    parser.add_argument("--half", choices=("hilrt", "fmpy"), help=argparse.SUPPRESS)
    parser.add_argument("--to", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.half:
        return run_half(options)
    print("| FMU | FMI | Inputs, outputs | Largest difference |\n|---|---|---|---|", flush=True)
    agrees = True
    for path in distinct(options.folder):
        name = path.relative_to(options.folder).as_posix()
        row = compare(path, name, options.steps, options.step, options.limit)
        print(f"| `{row.name}` | {row.version} | {row.ports} | {row.result} |", flush=True)
        agrees &= row.agrees
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
