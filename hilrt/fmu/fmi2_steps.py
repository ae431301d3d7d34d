"""Steps of FMI 2.0 FMUs in compiled loops.

For FMUs whose step is three calls; whatever they answer other than "ok" is left to the one who asks
in Python, who can log it, try again or end the session.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.c_calls import call, clock_ns
from hilrt.compiled import compiled
from hilrt.fmu.fmi2_calls import GET, LOOK, SET, STEP, Fmi2Calls
from hilrt.solver import Floats
from hilrt.tables.network import Side


class Steps(NamedTuple):
    """The steps of several FMUs, as `run` takes them.

    Attributes
    ----------
    calls : ndarray of int, shape (n, 11)
        What `Fmi2Calls` has but the offset, and where the values of the inputs and of the outputs
        stand in memory.
    offset : ndarray, shape (n,)
    u, y : ndarray, shape (nu,), (ny,)
        Inputs and outputs of all.
    last : ndarray of int, shape (n,)
        Each one's last output in `y`, plus one.
    compute_us : ndarray, shape (n,)
    answer : ndarray of int, shape (3,)
        Which FMU answered otherwise, to what (`SET` …), and what.
    """

    calls: NDArray[np.int64]
    offset: Floats
    u: Floats
    y: Floats
    last: NDArray[np.int64]
    compute_us: Floats
    answer: NDArray[np.int64]


def build_steps(each: list[Fmi2Calls], inputs: Side, outputs: Side) -> Steps:
    """Steps of the FMUs `each`, which are all subsystems in their order."""
    n = len(each)
    u, y = np.zeros(len(inputs)), np.zeros(len(outputs))
    calls = np.zeros((n, len(Fmi2Calls._fields) + 1), dtype=np.int64)
    for s, one in enumerate(each):
        into = u.ctypes.data + u.itemsize * inputs.slices[s].start
        out_of = y.ctypes.data + y.itemsize * outputs.slices[s].start
        calls[s] = (*one[:-1], into, out_of)
    last = np.array([part.stop for part in outputs.slices], dtype=np.int64)
    offset = np.array([one.offset for one in each])
    return Steps(calls, offset, u, y, last, np.zeros(n), np.zeros(3, dtype=np.int64))


@compiled
def run(steps: Steps, t: float, h: float, clock: int, reading: NDArray[np.int64]) -> bool:
    """Step all from `t` to ``t + h`` [s] with the inputs in `u`; False if one answered otherwise.

    Those before it have their outputs in `y` then, those after it have not been asked.
    """
    begun, first = clock_ns(clock, reading), 0
    for s in range(len(steps.calls)):
        (instance, set_reals, inputs, n_inputs, get_reals, outputs, n_outputs, do_step,
         never_back, u, y) = steps.calls[s]  # fmt: skip
        asked, status = SET, 0
        if n_inputs:
            status = call(set_reals, (instance, inputs, n_inputs, u))
        if status == 0:
            asked = STEP
            status = call(do_step, (instance, t + steps.offset[s], h, never_back))
        if status == 0 and n_outputs:
            asked = GET
            status = call(get_reals, (instance, outputs, n_outputs, y))
        if status == 0:
            for i in range(first, steps.last[s]):
                if not np.isfinite(steps.y[i]):
                    asked, status = LOOK, 1
        first = steps.last[s]
        ended = clock_ns(clock, reading)
        steps.compute_us[s] = (ended - begun) * 1e-3
        begun = ended
        if status:
            steps.answer[:] = (s, asked, status)
            return False
    return True
