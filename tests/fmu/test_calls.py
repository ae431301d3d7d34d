"""The right calls in the right order, and every capability only where it is offered."""

import numpy as np
import pytest

from hilrt.models.two_mass import Mass1
from hilrt.solver import InputPolynomial
from tests.fmu.build import FLAGS, description, needs_compiler
from tests.fmu.driving import Calls, compare, made, trace


@needs_compiler
@pytest.mark.parametrize(
    ("major", "start"),
    [
        (2, ["instantiate", "set", "setup(0.0001,2,9)", "enter"]),
        (3, ["instantiate(0,0,0)", "set", "enter(0.0001,2,9)"]),
    ],
)
def test_call_sequence(major, start):
    solver = made(major, {"tolerance": 1e-4, "start_time": 2.0, "stop_time": 9.0})
    solver.initialize(0.0, np.zeros(2))
    solver.initialize(0.0, np.ones(2))
    assert trace(solver) == [*start, "set", "get", "set", "get"]
    solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, 2))))
    assert trace(solver) == ["exit", "set", "step(2,0.001,1)", "get"]
    calls = Calls(solver)
    solver.stop("done")
    solver.stop("again")
    assert calls.seen() == ["terminate", "free"]


@needs_compiler
def test_structural_parameters_are_set_before_all_others():
    solver = made(3, params={"k": 3.0, "size": 2}, types=True)
    n = sum(port.size for port in solver.inputs)
    solver.initialize(0.0, np.zeros(n))
    calls = trace(solver)[1:6]
    assert calls == ["configure", "size(2)", "configured", "set", "enter(-1,0,-1)"]
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_nothing_is_assumed_that_nobody_said(major):
    """No tolerance and no stop time are told, and none invented."""
    solver = made(major)
    solver.initialize(0.0, np.zeros(2))
    assert {"setup(-1,0,-1)", "enter(-1,0,-1)"} & set(trace(solver))
    solver.stop("done")


@needs_compiler
def test_event_mode_settles_before_the_first_step():
    solver = made(3, hasEventMode="true", mightReturnEarlyFromDoStep="true")
    solver.initialize(0.0, np.zeros(2))
    assert trace(solver)[0] == "instantiate(1,1,0)"
    solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, 2))))
    assert trace(solver)[:4] == ["exit", "update", "stepmode", "set"]
    solver.stop("done")


@needs_compiler
def test_discrete_inputs_are_set_in_event_mode_when_they_change():
    flags = {"hasEventMode": "true", "providesIntermediateUpdate": "true"}
    solver = made(3, {"outputs": ["gear_out", "v"]}, {}, types=True, **flags)
    n = sum(port.size for port in solver.inputs)
    gear = [port.name for port in solver.inputs].index("gear")
    solver.initialize(0.0, np.zeros(n))
    got = []
    for i, value in enumerate((0.0, 0.0, 3.0, 3.0)):
        u = np.zeros((1, n))
        u[0, gear] = value
        trace(solver)
        sample = solver.advance(i * 1e-3, 1e-3, InputPolynomial(i * 1e-3, u))
        calls = trace(solver)
        got.append((sample.y[0], "event" in calls))
    assert got == [(0.0, False), (0.0, False), (3.0, True), (3.0, False)]
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("flag", ["true", "false"])
def test_input_derivatives_only_where_offered(flag):
    solver = made(2, canInterpolateInputs=flag)
    solver.initialize(0.0, np.zeros(2))
    trace(solver)
    solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.ones((2, 2))))
    assert ("derivatives" in trace(solver)) == (flag == "true")
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("flag", ["true", "false"])
def test_intermediate_variables_only_where_provided(flag):
    solver = made(3, providesIntermediateUpdate=flag)
    solver.initialize(0.0, np.zeros(2))
    assert trace(solver)[0] == f"instantiate(0,0,{5 if flag == 'true' else 0})"
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
@pytest.mark.parametrize("flag", ["true", "false"])
def test_state_only_where_offered(major, flag):
    name = "canGetAndSetFMUstate" if major == 2 else "canGetAndSetFMUState"
    solver = made(major, **{name: flag})
    assert solver.can_restore() == (flag == "true")
    solver.initialize(0.0, np.zeros(2))
    solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, 2))))
    assert "step(0,0.001,1)" in trace(solver)  # no state is kept: it promises not to go back
    if flag == "true":
        state = solver.save_state()
        ahead = solver.advance(1e-3, 1e-3, InputPolynomial(1e-3, np.ones((1, 2)))).y
        solver.restore_state(state)
        again = solver.advance(1e-3, 1e-3, InputPolynomial(1e-3, np.ones((1, 2)))).y
        assert again.tolist() == ahead.tolist()
        trace(solver)
        del state
        assert trace(solver) == ["release"]
    solver.stop("done")


ORDER_OUT = "maxOutputDerivativeOrder"
#: Flags that change nothing here.
ANY = ("canBeInstantiatedOnlyOncePerProcess", "needsExecutionTool")
UNUSED = {
    2: (*ANY, "canRunAsynchronuously", "canSerializeFMUstate"),
    3: (*ANY, "providesAdjointDerivatives", "canSerializeFMUState"),
}


def other_way(flag, value):
    """The value of a flag that it does not have by default."""
    return "1" if flag == ORDER_OUT else {"true": "false", "false": "true"}[value]


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_no_flag_alone_and_not_all_of_them_change_what_comes_out(major):
    other = {flag: other_way(flag, value) for flag, value in FLAGS[major].items()}
    on = {flag: "1" if flag == ORDER_OUT else "true" for flag in other}
    off = {flag: "0" if flag == ORDER_OUT else "false" for flag in other}
    for flags in (on, off, *({flag: value} for flag, value in other.items())):
        assert compare(made(major, **flags), Mass1(), 2, 0) < 1e-9, flags
    more = " ".join(f'{flag}="true"' for flag in UNUSED[major])
    xml = description(major).replace("<CoSimulation ", f"<CoSimulation {more} ")
    solver = made(major, xml=xml)
    assert solver.fmu.notes == []  # they are spelt as the standard does
    assert compare(solver, Mass1(), 2, 0) < 1e-9
