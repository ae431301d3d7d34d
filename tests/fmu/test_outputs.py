"""Output derivatives, and outputs in the middle of a step."""

import numpy as np
import pytest

from hilrt.fmu.instance import middle_and_mean
from hilrt.models.two_mass import Mass1
from hilrt.solver import InputPolynomial
from tests.fmu.build import description, needs_compiler
from tests.fmu.driving import STEP, STILL, made


@needs_compiler
def test_output_derivatives_of_arrays():
    flags = {"maxOutputDerivativeOrder": "1"}
    solver = made(3, {"outputs": ["twice", "x"]}, {"v": 3.0, "size": 2}, types=True, **flags)
    n = sum(port.size for port in solver.inputs)
    solver.initialize(0.0, np.zeros(n))
    sample = solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, n))))
    assert sample.dy[0, :2].tolist() == [2.0, 4.0]
    assert sample.dy[0, 2] == pytest.approx(3.0, rel=1e-2)
    solver.stop("done")


def discrete(name):
    """Description of FMI 2 where the real variable `name` is discrete."""
    return description(2, canInterpolateInputs="true", maxOutputDerivativeOrder="1").replace(
        f'name="{name}"', f'name="{name}" variability="discrete"'
    )


@needs_compiler
def test_derivatives_of_continuous_variables_only():
    solver = made(2, params=STILL, xml=discrete("x2"))
    solver.initialize(0.0, np.zeros(1))
    sample = solver.advance(0.0, 0.01, InputPolynomial(0.0, np.array([[0.0], [1.0]])))
    assert sample.y[0] == pytest.approx(0.0, abs=1e-6)  # the input was held
    solver.stop("done")
    for xml, rate in ((discrete("force"), 0.0), (discrete("none"), -100.0)):
        solver = made(2, params=STILL, xml=xml)
        solver.initialize(0.0, np.zeros(1))
        sample = solver.advance(0.0, 0.01, InputPolynomial(0.0, np.array([[0.0], [1.0]])))
        assert sample.dy[0, 0] == pytest.approx(rate, rel=1e-6)
        solver.stop("done")


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_output_derivatives_where_offered(major):
    solver = made(major, maxOutputDerivativeOrder="1")
    solver.initialize(0.0, np.zeros(2))
    sample = solver.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, 2))))
    force, x, v = sample.y
    expected = [[100.0 * v, v, -10.0 * x - force]]
    np.testing.assert_allclose(sample.dy, expected, rtol=1e-12)
    solver.stop("done")
    other = made(major)
    other.initialize(0.0, np.zeros(2))
    assert other.advance(0.0, 1e-3, InputPolynomial(0.0, np.zeros((1, 2)))).dy is None
    other.stop("done")


@needs_compiler
@pytest.mark.parametrize("way", ["half steps", "intermediate update"])
def test_outputs_in_the_middle(way):
    halves = way == "half steps"
    options = {"half_steps": True} if halves else {}
    flags = {} if halves else {"providesIntermediateUpdate": "true"}
    solver, model = made(3, options, **flags), Mass1()
    u = InputPolynomial(0.0, np.ones((1, 2)))
    solver.initialize(0.0, np.ones(2))
    sample = solver.advance(0.0, STEP, u)
    middle = model.advance(0.0, STEP / 2, u).y
    end = model.advance(STEP / 2, STEP / 2, u).y
    np.testing.assert_allclose(sample.y_mid, middle, atol=1e-9)
    assert (sample.y_mean is None) == halves
    np.testing.assert_allclose(sample.y, end, atol=1e-9)
    solver.stop("done")


def test_the_mean_over_a_step_is_that_of_the_lines_between_what_was_seen_inside():
    seen = [(2.1, np.array([1.1, 1.0])), (2.3, np.array([1.3, 3.0]))]
    middle, mean = middle_and_mean(2.0, 0.4, np.array([1.0, 1.0]), seen, np.array([1.4, 3.0]))
    np.testing.assert_allclose(middle, [1.2, 2.0])
    np.testing.assert_allclose(mean, [1.2, 2.0])
    assert middle_and_mean(2.0, 0.4, np.zeros(1), [], np.zeros(1)) == (None, None)


@needs_compiler
@pytest.mark.parametrize("way", ["half steps", "intermediate update"])
def test_outputs_in_the_middle_are_those_of_the_inputs_there(way):
    halves = way == "half steps"
    flag = "providesDirectionalDerivatives" if halves else "providesIntermediateUpdate"
    params = STILL | {"micro": 5e-3}
    solver = made(3, {"half_steps": halves}, params, **{flag: "true"})
    solver.initialize(0.0, np.zeros(1))
    sample = solver.advance(0.0, 0.01, InputPolynomial(0.0, np.array([[0.0], [1.0]])))
    assert sample.y_mid[0] == pytest.approx(-0.5, rel=1e-6)
    solver.stop("done")


@needs_compiler
def test_no_middle_where_nobody_asks():
    solver = made(2)
    solver.initialize(0.0, np.ones(2))
    assert solver.advance(0.0, STEP, InputPolynomial(0.0, np.ones((1, 2)))).y_mid is None
    solver.stop("done")
