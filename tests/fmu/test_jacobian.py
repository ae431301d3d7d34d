"""Interface Jacobians from directional derivatives and from a probe."""

import numpy as np
import pytest

from hilrt.coupling.jacobian import probe_jacobian
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.solver import InputPolynomial
from tests.fmu.build import description, mass, needs_compiler
from tests.fmu.driving import HELD, STEP, fmu_solver, made

STATE_AND_DERIVATIVES = {
    2: {"providesDirectionalDerivative": "true", "canGetAndSetFMUstate": "true"},
    3: {"providesDirectionalDerivatives": "true", "canGetAndSetFMUState": "true"},
}


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_jacobian_of_the_derivatives_agrees_with_the_probe(major):
    micro = 1e-6  # so fine that Euler and the exact exponential agree
    params = {"v": 1.0, "micro": micro, "cc": 2.0, **HELD}
    solver = made(major, {"end_inputs": True}, params, **STATE_AND_DERIVATIVES[major])
    hosted = HostedSolver(solver)
    hosted.initialize(0.0, np.zeros(2))
    exact = hosted.jacobian("solver", 0.0, 1e-3, 0, np.zeros(2))
    probed = hosted.jacobian("probe", 0.0, 1e-3, 0, np.zeros(2))
    np.testing.assert_allclose(exact, probed, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(exact[0, 0], [-100.0, -2.0], rtol=1e-2)
    hosted.stop("done")


@needs_compiler
@pytest.mark.parametrize("keeps_state", [True, False])
@pytest.mark.parametrize("major", [2, 3])
def test_an_fmu_that_is_moved_by_being_asked_goes_on_as_if_it_were_not(major, keeps_state):
    """Dymola's answer by differences, and stay where they looked last."""
    flags = dict(STATE_AND_DERIVATIVES[major])
    if not keeps_state:
        flags = {key: value for key, value in flags.items() if "Derivative" in key}
    u, seen = InputPolynomial(0.0, np.zeros((1, 2))), []
    for asked in (False, True):
        fmu = mass(major, flags=("-DMOVES",), **flags)
        solver = fmu_solver(fmu, params={"v": 1.0, **HELD})
        solver.initialize(0.0, np.zeros(2))
        if asked:
            assert solver.linear_model(STEP) is not None
        seen.append(solver.advance(0.0, STEP, u).y)
        solver.stop("done")
    np.testing.assert_array_equal(*seen)


#: How an FMU has its inputs inside a step, with the flags and options for it.
INSIDE = {
    "held": (2, {}, {}),
    "substeps": (3, {}, {"substeps": 3}),
    "constant steps": (2, {"canHandleVariableCommunicationStepSize": "false"}, {"substeps": 2}),
    "inputs of the end": (2, {}, {"substeps": 2, "end_inputs": True}),
    "no feedthrough known": (2, {}, {"substeps": 2, "feedthrough": {"force": []}}),
    "input derivatives": (2, {"canInterpolateInputs": "true"}, {}),
    "discrete": (2, {}, {}),
}


@needs_compiler
@pytest.mark.parametrize("way", INSIDE)
def test_jacobian_has_the_inputs_as_they_are_inside_a_step(way):
    major, flags, options = INSIDE[way]
    flags = STATE_AND_DERIVATIVES[major] | flags
    if way == "discrete":
        text = description(major, canInterpolateInputs="true", **flags)
        flags = {"xml": text.replace('name="x2"', 'name="x2" variability="discrete"')}
    solver = made(major, options, {"v": 1.0, "micro": 1e-5, "cc": 2.0, **HELD}, **flags)
    hosted = HostedSolver(solver)
    hosted.initialize(0.0, np.zeros(2))
    probed = hosted.jacobian("probe", 0.0, 0.01, 2, np.zeros(2))
    exact = hosted.jacobian("solver", 0.0, 0.01, 2, np.zeros(2))
    np.testing.assert_allclose(exact, probed, rtol=5e-3, atol=2e-3)
    hosted.stop("done")


@needs_compiler
def test_hidden_states_leave_the_feedthrough_or_a_probe():
    flags = {"states": False, "providesDirectionalDerivative": "true"}
    solver = made(2, params={"cc": 2.0, **HELD}, **flags)
    solver.initialize(0.0, np.zeros(2))
    gamma = solver.jacobian(1e-9, 1)
    np.testing.assert_allclose(gamma, [[[-100, -2], [0, 0], [0, 0]]] * 2)
    assert solver.jacobian(1e-3, 0) is None
    solver.stop("done")
    able = made(2, {"end_inputs": True}, **flags, canGetAndSetFMUstate="true")
    able.initialize(0.0, np.zeros(2))
    probed = probe_jacobian(
        able, lambda t, h, c: able.advance(t, h, InputPolynomial(t, c)).y, 0.0, STEP, np.zeros(2), 1
    )
    np.testing.assert_allclose(able.jacobian(STEP, 1), probed, atol=1e-9)
    able.stop("done")


@needs_compiler
def test_without_any_of_it_there_is_no_jacobian():
    solver = made(2)
    solver.initialize(0.0, np.zeros(2))
    assert solver.jacobian(1e-3, 0) is None
    solver.stop("done")
