"""Inputs inside a step: the same numbers as the Python model, however the FMU is given them."""

import numpy as np
import pytest

from hilrt.models.two_mass import Mass1, Mass2
from hilrt.solver import InputPolynomial
from tests.fmu.build import needs_compiler, oscillator
from tests.fmu.driving import STEP, STILL, compare, fmu_solver, made

ORDERS = (0, 1, 2)
#: How each kind of FMU is brought to follow an input polynomial.
FOLLOWING = {
    "input derivatives": (2, {"canInterpolateInputs": "true"}, {}),
    "intermediate update": (3, {"providesIntermediateUpdate": "true"}, {}),
    "substeps, fmi 2": (2, {"providesDirectionalDerivative": "true"}, {"substeps": 4}),
    "substeps, fmi 3": (3, {"providesDirectionalDerivatives": "true"}, {"substeps": 4}),
    "inputs of the end": (2, {}, {"substeps": 4, "end_inputs": True}),
}


@needs_compiler
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("way", FOLLOWING)
def test_it_follows_the_polynomial_like_the_python_model(way, order):
    major, flags, options = FOLLOWING[way]
    assert compare(made(major, options, **flags), Mass1(), 2, order) < 1e-9


@needs_compiler
def test_held_inputs_are_held_from_the_start_of_each_step():
    solver, held = made(2), made(2, {"input_derivatives": False}, canInterpolateInputs="true")
    assert compare(solver, Mass1(), 2, 0) < 1e-9
    assert compare(held, Mass1(), 2, 1) > 1e-3


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("package", ["pythonfmu", "pythonfmu3"])
@pytest.mark.parametrize(("side", "model", "n"), [("Mass1", Mass1, 2), ("Mass2", Mass2, 1)])
def test_fmus_of_python_packages_equal_the_python_model(package, side, model, n, order):
    solver = fmu_solver(oscillator(package, side), substeps=4)
    assert compare(solver, model(), n, order) < 1e-9


@needs_compiler
def test_a_lower_order_forgets_the_derivatives_of_a_higher_one():
    solver, model = made(2, canInterpolateInputs="true"), Mass1()
    for one in (solver, model):
        one.initialize(0.0, np.zeros(2))
    for i, order in enumerate((2, 0, 1)):
        u = InputPolynomial(i * STEP, np.full((order + 1, 2), 100.0))
        y, expected = (one.advance(i * STEP, STEP, u).y for one in (solver, model))
        np.testing.assert_allclose(y, expected, rtol=1e-9)
    solver.stop("done")


@needs_compiler
def test_what_is_not_continuous_keeps_its_value_inside_a_step():
    solver = made(2, {"substeps": 2}, {}, types=True)
    solver.initialize(0.0, np.zeros(6))
    u = np.zeros((2, 6))
    u[1] = 1e6
    sample = solver.advance(0.0, 1e-3, InputPolynomial(0.0, u))
    assert dict(zip([p.name for p in solver.outputs], sample.y, strict=True))["gear_out"] == 0.0
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("fault", [0, 9])
def test_outputs_are_brought_to_the_end_from_where_inputs_were_last_set(fault):
    params = STILL | {"fault": fault}  # 9 stops half way, and inputs are set there
    solver = made(2, params=params, providesDirectionalDerivative="true")
    solver.initialize(0.0, np.zeros(1))
    force = solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.array([[0.0], [1.0]]))).y[0]
    assert force == pytest.approx(-0.1, rel=1e-6)
    solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_feedthrough_without_derivatives_has_the_inputs_of_the_end_unless_refused(major):
    u = InputPolynomial(0.0, np.array([[0.0], [1.0]]))
    force = {}
    for end_inputs in (None, False):
        solver = made(major, {"end_inputs": end_inputs}, STILL)
        solver.initialize(0.0, np.zeros(1))
        force[end_inputs] = solver.advance(0.0, 1e-3, u).y[0]
        assert any("lag by a step" in text for text in solver.remarks) == (end_inputs is False)
        solver.stop("done")
    assert force[None] == pytest.approx(-0.1, rel=1e-6)  # -100 N/m times 1 mm
    assert force[False] == 0.0
