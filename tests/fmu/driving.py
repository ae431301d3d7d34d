"""Drive one FMU by hand: made from the C FMU, its calls read back, compared with a Python model."""

import ctypes
import itertools
from pathlib import Path

import numpy as np

from hilrt.fmu.fmu_options import FmuOptions
from hilrt.fmu.fmu_solver import FmuSolver
from hilrt.solver import InputPolynomial
from tests.fmu.build import mass

STEP = 4e-3  # macro step: four micro steps of the model
HELD = {"F": 0.0}
#: A mass that does not move: its force is -100 N/m times the displacement `x2`.
STILL = {"m": 1e9, "k": 0.0, "v2": 0.0, **HELD}


def fmu_solver(fmu, params=None, **options):
    """Solver of an FMU with keys of its table."""
    table = FmuOptions(adapter="fmu", fmu=str(fmu), params=params or {}, **options)
    return FmuSolver(table, Path())


def made(major, options=None, params=None, types=False, **flags):
    params = {"v": 100.0, **HELD} if params is None else params
    return fmu_solver(mass(major, types=types, **flags), params=params, **(options or {}))


class Calls:
    """What the library of an FMU is asked to do; it can be read after the FMU is gone, too."""

    def __init__(self, solver):
        self._library = solver._instance.fmi.dll
        self._library.recorded.restype = ctypes.c_char_p

    def seen(self):
        """The calls since the last `forget`."""
        return self._library.recorded().decode().split()

    def forget(self):
        self._library.forget()


def trace(solver):
    """The calls that the FMU has seen."""
    calls = Calls(solver)
    seen = calls.seen()
    calls.forget()
    return [name for name, _ in itertools.groupby(seen)]  # one call per type counts once


def compare(solver, model, n, order, steps=6):
    """Largest difference of the outputs over some steps with one and the same inputs."""
    rng = np.random.default_rng(7)
    u0 = rng.normal(size=n)
    difference = np.abs(solver.initialize(0.0, u0).y - model.initialize(0.0, u0).y).max()
    scale = np.array([10.0 ** (2 * m) for m in range(order + 1)])[:, None]
    for i in range(steps):
        t = i * STEP
        u = InputPolynomial(t, rng.normal(size=(order + 1, n)) * scale)
        y, expected = solver.advance(t, STEP, u).y, model.advance(t, STEP, u).y
        difference = max(difference, np.abs(y - expected).max())
    solver.stop("done")
    return difference
