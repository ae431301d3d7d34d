"""Cases of the two-mass session that FMPy and mosaik can run, too, for `bench_sweep`.

The inputs are held, nothing is corrected (neither tool has a counterpart of our corrections and
orders), and the cases differ in the first mass's initial speed:

* ``mosaik``: the session's Python masses as simulators in mosaik's own process;
* ``fmpy``: FMPy's own loop over coupled FMUs, `simulate_ssp`, with the masses as FMUs (C, FMI 2.0);
* ``fmpy_calls``: a loop over FMPy's bare calls, written for this one system. It measures nothing
  and keeps nothing but the last values.

Neither tool runs many cases by itself: the cases are mapped over a pool of processes.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tools.benchmarks import other_masters

STEPS = round(1.0 / other_masters.STEP_S)
#: Cases that a process takes from the pool at once.
CHUNK = 20
#: From the first mass's initial speed, m/s, to where the second mass is after a second, m.
Case = Callable[[float], float]


def mosaik_case(v: float) -> float:
    masses = other_masters.mosaik_two_mass(STEPS, v)
    return float(masses.solvers[1].x)


def fmpy_case(system: Path, v: float) -> float:
    from tools.benchmarks import bench_fmu

    return float(bench_fmu.fmpy_run(system, STEPS, with_speed(v))["mass2.x"][-1])


def fmpy_calls_case(folder: Path, v: float) -> float:
    from tools.benchmarks import bench_fmu

    return bench_fmu.fmpy_calls(folder, STEPS, with_speed(v))[1]


def with_speed(v: float) -> dict[str, dict[str, float]]:
    """Start values of the FMUs."""
    from tools.benchmarks.bench_fmu import PARAMS

    found = {name: dict(values) for name, values in PARAMS.items()}
    found["mass1"]["v"] = v
    return found


def fmu_session(folder: Path) -> tuple[Path, dict[str, Case]]:
    """The session with FMUs in a folder, and FMPy's ways to run it; needs FMPy and a C compiler."""
    from tests.fmu.build import mass
    from tools.benchmarks import bench_fmu, bench_inprocess

    fmu = folder / "mass.fmu"
    shutil.copy(mass(2, flags=("-DQUIET",)), fmu)
    text = '[session]\nname = "fmus"\nduration = 1.0\npace = "asap"\n[master]\n'
    text += f"step = {other_masters.STEP_S}\nextrapolation = {{ order = 0 }}\n"
    for name, values in bench_fmu.PARAMS.items():
        text += f'[subsystems.{name}]\nadapter = "fmu"\nfmu = "{fmu}"\n'
        text += f"params = {bench_fmu.toml(values)}\n"
    session, system = folder / "fmus.toml", folder / "masses.ssp"
    session.write_text(text + bench_inprocess.connections("F"), "utf-8")
    bench_fmu.write_ssp(system, fmu)
    unpacked = bench_fmu.unpacked(fmu)
    return session, {
        "fmpy": functools.partial(fmpy_case, system),
        "fmpy_calls": functools.partial(fmpy_calls_case, unpacked),
    }


def has_fmpy() -> bool:
    """Whether FMUs can be built and run by FMPy."""
    return importlib.util.find_spec("fmpy") is not None and shutil.which("cc") is not None


def has_mosaik() -> bool:
    """Whether mosaik is installed."""
    return not other_masters.missing("mosaik_inprocess")


def in_pool(run: Case, speeds: Sequence[float], workers: int) -> tuple[float, list[float]]:
    """Time of all cases with the start of the processes, s, and their results."""
    began = time.perf_counter()
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        ends = list(pool.map(run, speeds, chunksize=CHUNK))
    return time.perf_counter() - began, ends
