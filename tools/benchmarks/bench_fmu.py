"""Macro steps per second of two coupled FMUs (two-mass oscillator, FMI 2.0, compiled C).

    python -m tools.benchmarks.bench_fmu [--steps 5000] [--repeat 3] [--cpu] [--json]

In alternating blocks of one run, and compared within each round, because the load of the machine
changes the times more than the code does:

* ``fmpy``: FMPy's own loop over coupled FMUs, `simulate_ssp`, which keeps the results in memory;
* ``fmpy calls``: a loop over FMPy's bare calls, written for this one system: set, step, get;
* ``libcosim``: libcosimpy's fixed-step algorithm, if it is installed;
* ``hilrt solver``: the same hand-written loop over `FmuSolver`: the cost of wrapping the calls;
* ``hilrt session``: a session with ``adapter = "fmu"``, pace "asap", with its log;
* ``hilrt hosted``: the same with both FMUs in separate processes;
* ``hosted floor``: the same with two Python solvers of the same ports that compute nothing.

Sessions and ``fmpy`` run twice, short and long, and the difference counts, without the start-up.
The start of processes occasionally takes much longer, so that for hosted sessions the steps' time
in the summary counts. ``--cpu`` counts the processor time of this process instead, for a busy
machine; cases with separate processes are then omitted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]

import fmpy  # noqa: E402
from fmpy.fmi2 import FMU2Slave  # noqa: E402
from fmpy.model_description import read_model_description  # noqa: E402
from fmpy.ssp.simulation import simulate_ssp  # noqa: E402

import hilrt  # noqa: E402
from hilrt import InputPolynomial, Port, RunOptions, Sample, Solver  # noqa: E402
from hilrt.fmu.fmu_options import FmuOptions  # noqa: E402
from hilrt.fmu.fmu_solver import FmuSolver  # noqa: E402
from hilrt.solver import Floats  # noqa: E402
from tests.fmu.build import REALS, mass  # noqa: E402

#: Cases with separate processes.
HOSTED = ("hilrt hosted", "hosted floor")
#: Clock used for the figures, s.
now = time.perf_counter
STEP = 1e-3
Params = Mapping[str, Mapping[str, float]]
PARAMS: Params = {
    "mass1": {"v": 100.0, "F": 0.0},
    "mass2": {"k": 1000.0, "kc": 0.0, "v": -100.0, "x2": 0.0, "v2": 0.0},
}
WIRES = (("mass1.force", "mass2.F"), ("mass2.x", "mass1.x2"), ("mass2.v", "mass1.v2"))
ENDS = [(*source.split("."), *target.split(".")) for source, target in WIRES]
REF = {name: row[0] for name, row in REALS.items()}


class Idle1(Solver):
    """The ports of mass 1, without a model."""

    inputs: tuple[Port, ...] = (Port("x2"), Port("v2"))
    outputs = (Port("force"), Port("x"), Port("v"))

    def initialize(self, t0: float, u0: Floats) -> Sample:
        self.y = np.zeros(len(self.outputs))
        return Sample(self.y)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return Sample(self.y)


class Idle2(Idle1):
    """The ports of mass 2, without a model."""

    inputs = (Port("F"),)


def write_ssp(path: Path, fmu: Path) -> None:
    """Write the system in the form that FMPy's loop reads."""
    components = "".join(
        f'<Component name="{name}" source="resources/mass.fmu"><Connectors>'
        + "".join(f'<Connector name="{port}" kind="{kind}"/>' for kind, port in sorted(ports))
        + "</Connectors></Component>"
        for name, ports in {
            name: {("output", a) for n, a, _, _ in ENDS if n == name}
            | {("input", b) for _, _, n, b in ENDS if n == name}
            for name in PARAMS
        }.items()
    )
    wires = "".join(
        f'<Connection startElement="{a}" startConnector="{out}" endElement="{b}" '
        f'endConnector="{into}"/>'
        for a, out, b, into in ENDS
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(fmu, "resources/mass.fmu")
        archive.writestr(
            "SystemStructure.ssd",
            '<SystemStructureDescription version="1.0" name="bench" '
            'xmlns="http://ssp-standard.org/SSP1/SystemStructureDescription"><System name="root">'
            f"<Elements>{components}</Elements><Connections>{wires}</Connections></System>"
            "</SystemStructureDescription>",
        )


def fmpy_run(system: Path, steps: int, params: Params = PARAMS) -> Any:
    """Results of FMPy's loop over the system that `write_ssp` has written."""
    start_values = [
        SimpleNamespace(name=f"{name}.{key}", value=value)
        for name, values in params.items()
        for key, value in values.items()
    ]
    return simulate_ssp(
        str(system),
        stop_time=STEP * (steps - 0.5),
        step_size=STEP,
        parameter_set=SimpleNamespace(parameters=start_values),
    )


def fmpy_loop(path: Path, steps: int) -> float:
    """Seconds."""
    with tempfile.TemporaryDirectory() as folder:
        system = Path(folder) / "bench.ssp"
        write_ssp(system, path)

        def run(count: int) -> float:
            start = now()
            fmpy_run(system, count)
            return now() - start

        short = min(run(10), run(10))
        return run(steps + 10) - short


def unpacked(path: Path) -> Path:
    """The FMU's folder, beside its archive."""
    return Path(fmpy.extract(str(path), str(path.with_suffix(""))))


def fmpy_calls(folder: Path, steps: int, params: Params = PARAMS) -> tuple[float, float]:
    """Seconds of the loop, and where the second mass is in the end."""
    fmus = []
    model = read_model_description(str(folder))
    for name, values in params.items():
        fmu = FMU2Slave(
            guid=model.guid,
            unzipDirectory=str(folder),
            modelIdentifier="mass",
            instanceName=name,
        )
        fmu.instantiate()
        fmu.setReal([REF[key] for key in values], list(values.values()))
        fmu.setupExperiment(startTime=0.0)
        fmu.enterInitializationMode()
        fmu.exitInitializationMode()
        fmus.append(fmu)
    one, two = fmus
    ins, outs = [REF["x2"], REF["v2"]], [REF["force"], REF["x"], REF["v"]]
    force_in = [REF["F"]]
    start = now()
    y1, y2 = one.getReal(outs), two.getReal(outs)
    for i in range(steps):
        one.setReal(ins, y2[1:])
        two.setReal(force_in, y1[:1])
        one.doStep(i * STEP, STEP)
        two.doStep(i * STEP, STEP)
        y1, y2 = one.getReal(outs), two.getReal(outs)
    took = now() - start
    for fmu in fmus:
        fmu.terminate()
        fmu.freeInstance()
    return took, y2[1]


def solver_loop(path: Path, steps: int) -> float:
    """Seconds."""
    one, two = (
        FmuSolver(FmuOptions(adapter="fmu", fmu=str(path), params=dict(params)), Path())
        for params in PARAMS.values()
    )
    y1, y2 = one.initialize(0.0, np.zeros(2)).y, two.initialize(0.0, np.zeros(1)).y
    start = now()
    for i in range(steps):
        t = i * STEP
        u1, u2 = InputPolynomial(t, y2[None, 1:]), InputPolynomial(t, y1[None, :1])
        y1, y2 = one.advance(t, STEP, u1).y, two.advance(t, STEP, u2).y
    took = now() - start
    one.stop("done")
    two.stop("done")
    return took


def libcosim_loop(path: Path, steps: int) -> float:
    """Seconds."""
    from libcosimpy.CosimExecution import CosimExecution
    from libcosimpy.CosimLogging import CosimLogLevel, log_output_level
    from libcosimpy.CosimSlave import CosimLocalSlave

    log_output_level(CosimLogLevel.WARNING)
    execution = CosimExecution.from_step_size(int(STEP * 1e9))
    index = {}
    for name, params in PARAMS.items():
        slave = CosimLocalSlave(fmu_path=str(path), instance_name=name)
        index[name] = execution.add_local_slave(slave)
        for key, value in params.items():
            execution.real_initial_value(index[name], REF[key], value)
    for a, out, b, into in ENDS:
        execution.connect_real_variables(index[a], REF[out], index[b], REF[into])
    execution.step()
    start = now()
    execution.step(step_count=steps)
    return now() - start


def session(tables: dict[str, str], steps: int, loop_only: bool = False) -> float:
    """Seconds without start-up and end; of the steps alone with `loop_only`."""
    wires = "".join(f'[[connections]]\nfrom = "{a}"\nto = "{b}"\n' for a, b in WIRES)
    subsystems = "".join(f"[subsystems.{name}]\n{table}\n" for name, table in tables.items())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.toml"

        def run(duration: float) -> float:
            file.write_text(
                f'[session]\nname = "bench"\nduration = {duration}\npace = "asap"\n'
                f"[master]\nstep = {STEP}\nextrapolation = {{ order = 0 }}\n"
                f"{subsystems}{wires}"
            )
            start = now()
            result = hilrt.run_session(file, options=RunOptions(out=folder))
            assert not result.fault, result.fault
            return result.summary["wall_s"] if loop_only else now() - start

        short = min(run(STEP * 10), run(STEP * 10))
        return run(STEP * (steps + 10)) - short


def toml(params: Mapping[str, float]) -> str:
    return "{ " + ", ".join(f"{key} = {value}" for key, value in params.items()) + " }"


def cases(path: Path) -> dict[str, Callable[[int], float]]:
    """Map each case to a function from a number of steps to seconds."""
    inside = {
        name: f'adapter = "fmu"\nfmu = "{path}"\nparams = {toml(params)}'
        for name, params in PARAMS.items()
    }
    hosted, idle = {}, {}
    for i, (name, params) in enumerate(PARAMS.items(), 1):
        argv = ["hilrt", "solver", str(path)]
        for key, value in params.items():
            argv += ["--param", f"{key}={value}"]
        hosted[name] = f'adapter = "zeromq"\nspawn = {json.dumps(argv)}'
        argv = ["hilrt", "solver", f"tools.benchmarks.bench_fmu:Idle{i}"]
        idle[name] = f'adapter = "zeromq"\nspawn = {json.dumps(argv)}'
    found: dict[str, Callable[[int], float]] = {
        "fmpy": lambda n: fmpy_loop(path, n),
        "fmpy calls": lambda n: fmpy_calls(unpacked(path), n)[0],
    }
    with contextlib.suppress(ImportError):
        import libcosimpy  # noqa: F401

        found["libcosim"] = lambda n: libcosim_loop(path, n)
    return found | {
        "hilrt solver": lambda n: solver_loop(path, n),
        "hilrt session": lambda n: session(inside, n),
        "hilrt hosted": lambda n: session(hosted, n, loop_only=True),
        "hosted floor": lambda n: session(idle, n, loop_only=True),
    }


def over(some: list[float], others: list[float]) -> float:
    """Median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(some, others, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--cpu", action="store_true", help="count this process's processor time")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.cpu:
        global now
        now = time.process_time
    path = mass(2, flags=("-DQUIET",))
    os.environ["PYTHONPATH"] = str(ROOT)  # where solver processes find `Idle1`
    runs = cases(path)
    if given.cpu:
        runs = {name: run for name, run in runs.items() if not name.startswith(HOSTED)}
    seen: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(given.repeat):
        for name, run in runs.items():
            seen[name].append(1e6 * run(given.steps) / given.steps)
    times = {name: statistics.median(some) for name, some in seen.items()}
    if given.json:
        print(json.dumps({"us_per_step": times, "runs": seen}, indent=1))
        return
    for name, us in times.items():
        ratio, least = over(seen["fmpy"], seen[name]), min(seen[name])
        print(f"{name:14} {us:8.1f} us per macro step {ratio:6.2f} x fmpy; least {least:8.1f}")
    if not given.cpu:
        print(f"hosted / floor {over(seen['hilrt hosted'], seen['hosted floor']):8.2f}")


if __name__ == "__main__":
    main()
