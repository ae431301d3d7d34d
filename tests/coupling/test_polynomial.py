import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.polynomial import Polynomial
from scipy.integrate import quad
from scipy.special import factorial

from hilrt.coupling.extrapolate import gram_factor, shift, value_at
from hilrt.solver import InputPolynomial

coefficients = st.integers(1, 6).flatmap(
    lambda n: arrays(np.float64, n, elements=st.floats(-10.0, 10.0, width=32))
)
times = st.floats(-2.0, 2.0, width=32)


def second_opinion(c: np.ndarray) -> Polynomial:
    return Polynomial(c / factorial(np.arange(len(c))))


def shifted(c: np.ndarray, dt: float) -> np.ndarray:
    moved = c.copy()
    shift(moved, len(c), dt)
    return moved


@given(coefficients, times)
def test_value_is_that_of_numpys_polynomial(c, dt):
    expected = second_opinion(c)(dt)
    assert value_at(c, len(c), dt) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    # and of what a solver evaluates
    assert InputPolynomial(5.0, c[:, None])(5.0 + dt)[0] == pytest.approx(expected, abs=1e-10)


@given(coefficients, times)
def test_coefficients_beyond_the_count_do_not_act(c, dt):
    padded = np.append(c, np.nan)
    assert value_at(padded, len(c), dt) == value_at(c, len(c), dt)
    shift(padded, len(c), dt)
    np.testing.assert_array_equal(padded[:-1], shifted(c, dt))


@given(coefficients, times, times)
def test_a_shifted_polynomial_is_the_same_one(c, by, at):
    moved = shifted(c, by)
    value = value_at(c, len(c), at)
    assert value_at(moved, len(c), at - by) == pytest.approx(value, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(shifted(moved, -by), c, rtol=1e-9, atol=1e-9)


def mean_square(c: np.ndarray, h: float) -> float:
    """As `hilrt.coupling.measure_defects` uses the factor: column m scaled by h^m."""
    part = gram_factor(6)[: len(c), : len(c)] @ (c * h ** np.arange(len(c)))
    return float(part @ part)


@given(coefficients, st.sampled_from([1e-3, 0.3, 2.0]))
def test_mean_square_is_the_integral(c, h):
    p, result = second_opinion(c), mean_square(c, h)
    integral, error = quad(lambda s: p(s) ** 2, -h, 0.0, limit=100)
    assert result == pytest.approx(integral / h, rel=1e-9, abs=2 * error / h + 1e-12)


@pytest.mark.parametrize("n", range(1, 7))
def test_the_factor_of_fewer_coefficients_is_the_leading_block(n):
    np.testing.assert_allclose(gram_factor(n), gram_factor(6)[:n, :n], rtol=1e-7, atol=1e-15)


def test_mean_square_of_a_polynomial_that_vanishes_is_a_number():
    # (t - t0 + h/2)**5 scaled by 1e-12: the terms are large against their sum
    c = (Polynomial([0.5, 1.0]) ** 5).coef * factorial(np.arange(6)) * 1e-12
    assert 0.0 <= mean_square(c, 1.0) < 1e-26
