"""The promise of each step, not to go back before it, which some FMUs need to go on at all."""

import numpy as np
import pytest

from hilrt.solver import InputPolynomial
from tests.fmu.build import needs_compiler
from tests.fmu.driving import STEP, Calls, made

STATE = {2: "canGetAndSetFMUstate", 3: "canGetAndSetFMUState"}


def promises(solver, calls, t):
    """The promise of each FMU step in a macro step from `t` [s]."""
    calls.forget()
    solver.advance(t, STEP, InputPolynomial(t, np.zeros((1, 2))))
    return [int(call.rpartition(",")[2].strip(")")) for call in calls.seen() if "step(" in call]


@needs_compiler
@pytest.mark.parametrize("able", ["true", "false"])
@pytest.mark.parametrize("major", [2, 3])
def test_a_step_that_will_not_be_repeated_promises_it(major, able):
    solver = made(major, **{STATE[major]: able})
    solver.initialize(0.0, np.zeros(2))
    assert promises(solver, Calls(solver), 0.0) == [1]
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_the_promise_waits_while_a_state_before_the_step_is_kept(major):
    solver = made(major, **{STATE[major]: "true"})
    solver.initialize(0.0, np.zeros(2))
    calls = Calls(solver)
    saved = solver.save_state()
    assert promises(solver, calls, 0.0) == [0]
    solver.restore_state(saved)
    assert promises(solver, calls, 0.0) == [0]
    del saved
    assert promises(solver, calls, STEP) == [1]
    solver.stop("done")
