import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.polynomial import Polynomial
from scipy.integrate import quad
from scipy.special import factorial

from hilrt.coupling.polynomial import evaluate, raise_by, rms_difference, shift
from hilrt.solver import InputPolynomial

coefficients = st.integers(1, 6).flatmap(
    lambda n: arrays(np.float64, (n, 3), elements=st.floats(-10.0, 10.0, width=32))
)
times = arrays(np.float64, 3, elements=st.floats(-2.0, 2.0, width=32))


def second_opinion(c: np.ndarray, channel: int) -> Polynomial:
    return Polynomial(c[:, channel] / factorial(np.arange(len(c))))


@given(coefficients, times)
def test_value_is_that_of_numpys_polynomial(c, dt):
    expected = [second_opinion(c, i)(dt[i]) for i in range(3)]
    np.testing.assert_allclose(evaluate(c, dt), expected, rtol=1e-12, atol=1e-12)
    for i in range(3):  # and of what a solver evaluates
        assert InputPolynomial(5.0, c)(5.0 + dt[i])[i] == pytest.approx(expected[i], abs=1e-10)


@given(coefficients, times, times)
def test_a_shifted_polynomial_is_the_same_one(c, by, at):
    moved = shift(c, by)
    np.testing.assert_allclose(evaluate(moved, at - by), evaluate(c, at), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(shift(moved, -by), c, rtol=1e-9, atol=1e-9)


def test_shift_leaves_its_argument_alone():
    c = np.array([[1.0], [2.0]])
    shift(c, 3.0)
    np.testing.assert_array_equal(c, [[1.0], [2.0]])


@given(coefficients)
def test_constants_raise_the_values_and_leave_the_derivatives(c):
    raised = np.full_like(c, np.nan)
    raise_by(c, np.array([1.0, -2.0, 0.0]), raised)
    np.testing.assert_array_equal(raised[0], c[0] + [1.0, -2.0, 0.0])
    np.testing.assert_array_equal(raised[1:], c[1:])


def mean_square(c, h):
    rms = np.full(c.shape[1], np.nan)
    rms_difference(c, np.zeros(len(rms)), np.zeros_like(c), 0.0, h, rms)
    return rms**2


@given(coefficients, st.sampled_from([1e-3, 0.3, 2.0]))
def test_mean_square_is_the_integral(c, h):
    result = mean_square(c, h)
    for i in range(3):
        p = second_opinion(c, i)
        integral, error = quad(lambda s, p=p: p(s) ** 2, -h, 0.0, limit=100)
        assert result[i] == pytest.approx(integral / h, rel=1e-9, abs=2 * error / h + 1e-12)
    assert (result >= 0.0).all()


@given(coefficients, st.floats(-1.0, 1.0))
def test_the_difference_is_that_of_the_shifted_polynomial(c, since):
    rms = np.full(c.shape[1], np.nan)
    other = np.roll(c, 1, axis=1)
    rms_difference(c, np.full(len(rms), 1.0), other, 1.0 + since, 0.3, rms)
    wanted = mean_square(shift(c, since) - other, 0.3)
    np.testing.assert_allclose(rms**2, wanted, rtol=1e-9, atol=1e-12)


def test_mean_square_of_a_polynomial_that_vanishes_is_a_number():
    # (t - t0 + h/2)**5 scaled by 1e-12: the terms are large against their sum
    c = np.array([(Polynomial([0.5, 1.0]) ** 5).coef * factorial(np.arange(6)) * 1e-12]).T
    assert 0.0 <= mean_square(c, 1.0)[0] < 1e-26
