"""Macro steps as fast as possible with two subsystems in the master's process.

    python -m tools.benchmarks.bench_inprocess [--json] [--steps 3000] [--repeat 8]

The two-mass oscillator, in alternating blocks of one run. Each figure is the median time from one
step to the next in the fastest block, us, because a shared processor is temporarily half as fast:

* ``nothing``: a session with every method off, without a log;
* ``everything``: first order, limits, an alarm, a bond with energy correction, one subsystem's
  Jacobian identified, log and telemetry on;
* ``mosaik``: the same Python masses as simulators in mosaik's own process;
* ``libcosim``, ``nothing_fmu``: the masses as FMUs (C, FMI 2.0), with libcosimpy's fixed-step
  algorithm (which supports only FMUs), and as a session with every method off. The figure of
  libcosim is the mean of a block instead of its median, because one call makes all steps; the
  session has a third subsystem that only reads the clock.

Null if not installed; ``pip install hilrt[benchmarks,fmu]``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hilrt
from hilrt import RunOptions
from tools.benchmarks import other_masters, timed

STEP_S, WARM_UP = other_masters.STEP_S, other_masters.WARM_UP
MASSES = {
    "mass1": ("tools.benchmarks.timed:TimedMass1", {"v": 100.0}),
    "mass2": ("hilrt.models.two_mass:Mass2", {"k": 1000.0, "v": -100.0}),
}
WIRES = (("mass1.force", "mass2.force"), ("mass2.x", "mass1.x2"), ("mass2.v", "mass1.v2"))
EVERYTHING = """
[monitor]
listen = "tcp://127.0.0.1:*"
[[alarms]]
signal = "mass1.x"
max = 1e6
action = "log"
[[bonds]]
name = "spring"
effort = "mass1.force"
flow = "mass2.v"
correction = { method = "energy", mu = 0.5, cap = 1.0 }
"""


def session(tables: str, steps: int, *, order: int = 0, record: bool = False) -> float:
    """Time per macro step, us, median."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.toml"
        file.write_text(
            f'[session]\nname = "bench"\nduration = {steps * STEP_S}\npace = "asap"\n'
            f"[master]\nstep = {STEP_S}\nextrapolation = {{ order = {order} }}\n{tables}",
            encoding="utf-8",
        )
        options = RunOptions(out=Path(folder), record=record)
        result = hilrt.run_session(hilrt.load_session(file), options=options)
        if result.fault or not result.summary:
            sys.exit(f"the session ended early: {result.fault}")
        return statistics.median(timed.intervals_us(WARM_UP))


def connections(force: str) -> str:
    wires = [(a, b.replace("mass2.force", f"mass2.{force}")) for a, b in WIRES]
    return "".join(f'[[connections]]\nfrom = "{a}"\nto = "{b}"\n' for a, b in wires)


def python_masses(*, everything: bool) -> str:
    tables = connections("force")
    for name, (model, params) in MASSES.items():
        given = ", ".join(f"{key} = {value}" for key, value in params.items())
        tables += f'[subsystems.{name}]\nadapter = "inprocess"\n'
        tables += f'model = "{model}"\nparams = {{ {given} }}\n'
        if everything and name == "mass1":
            tables += 'jacobian = { source = "identify" }\n'
    return tables + (EVERYTHING if everything else "")


def fmu_cases() -> dict[str, Callable[[int], float]]:
    """The cases with FMUs whose requirements are installed."""
    if importlib.util.find_spec("fmpy") is None or shutil.which("cc") is None:
        return {}
    bench_fmu: Any = importlib.import_module("tools.benchmarks.bench_fmu")  # needs FMPy
    path = bench_fmu.mass(2, flags=("-DQUIET",))
    tables = connections("F")
    for name, params in bench_fmu.PARAMS.items():
        tables += f'[subsystems.{name}]\nadapter = "fmu"\nfmu = "{path}"\n'
        tables += f"params = {bench_fmu.toml(params)}\n"
    tables += (
        '[subsystems.witness]\nadapter = "inprocess"\nmodel = "tools.benchmarks.timed:Witness"\n'
    )
    cases: dict[str, Callable[[int], float]] = {"nothing_fmu": lambda n: session(tables, n)}
    if importlib.util.find_spec("libcosimpy") is not None:
        cases["libcosim"] = lambda n: bench_fmu.libcosim_loop(path, n) / n * 1e6
    return cases


def cases() -> dict[str, Callable[[int], float]]:
    """Map each case to a function from a number of steps to the time per step, us."""
    nothing, everything = python_masses(everything=False), python_masses(everything=True)
    found: dict[str, Callable[[int], float]] = {
        "nothing": lambda n: session(nothing, n),
        "everything": lambda n: session(everything, n, order=1, record=True),
    }
    if problem := other_masters.missing("mosaik_inprocess"):
        print(problem, file=sys.stderr)
    else:
        found["mosaik"] = lambda n: statistics.median(
            other_masters.measure("mosaik_inprocess", 2, n) or [math.nan]
        )
    fmus = fmu_cases()
    if "libcosim" not in fmus:
        print("libcosim: needs libcosimpy, FMPy and a C compiler", file=sys.stderr)
    return found | fmus


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--repeat", type=int, default=8)
    arguments = parser.parse_args()
    runs = cases()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(arguments.repeat):
        for name, run in runs.items():
            times[name].append(run(arguments.steps))
    names = ("nothing", "everything", "mosaik", "nothing_fmu", "libcosim")
    result: dict[str, Any] = {
        f"{name}_us": min(times[name]) if name in times else None for name in names
    }
    result["load_average"] = os.getloadavg()[0]
    for over, under in (
        ("mosaik", "nothing"),
        ("mosaik", "everything"),
        ("libcosim", "nothing_fmu"),
    ):
        if over in times and under in times:
            result[f"{over}_over_{under}"] = result[f"{over}_us"] / result[f"{under}_us"]
    if arguments.json:
        print(json.dumps(result, indent=1))
        return
    for key, value in result.items():
        print(f"{key:24} {'-' if value is None else f'{value:.2f}':>10}")


if __name__ == "__main__":
    main()
