import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from scipy.integrate import quad
from scipy.special import factorial

from hilrt.coupling.defect import DefectTotals, connection_defect, output_defect


def taylor(p: Polynomial, n: int) -> np.ndarray:
    """Taylor coefficients about 0, shape (n, 1)."""
    return np.array([[p.coef[m] * factorial(m) if m < len(p.coef) else 0.0] for m in range(n)])


@given(
    st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=4),
    st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=4),
    st.sampled_from([0.01, 0.7]),
)
def test_connection_defect_is_the_rms_of_the_difference(sent, measured, h):
    a, b = Polynomial(sent), Polynomial(measured)
    integral, error = quad(lambda s: (a(s) - b(s)) ** 2, -h, 0.0)
    result = np.full(1, np.nan)
    connection_defect(taylor(a, 4), np.zeros(1), taylor(b, 4), 0.0, h, result)
    assert result[0] ** 2 == pytest.approx(integral / h, rel=1e-8, abs=error / h + 1e-13)


@pytest.mark.parametrize("order", range(5))
@pytest.mark.parametrize("h", [0.01, 2.0])
def test_output_defect_is_the_rms_of_its_monomial(order, h):
    delta = -0.3

    def error(back: float) -> float:
        return delta * (back / (h / 2)) ** (order + 1)

    integral, _ = quad(lambda s: error(s) ** 2, 0.0, h)
    assert error(h / 2) == delta  # the middle of the interval
    result = output_defect(np.array([1.7]), np.array([2.0]), np.array([order]))
    assert result[0] == pytest.approx(np.sqrt(integral / h), rel=1e-12)


def test_output_defect_is_unknown_without_a_middle():
    result = output_defect(np.array([np.nan, 1.0]), np.zeros(2), np.array([0, 3]))
    assert np.isnan(result[0])
    assert result[1] == pytest.approx(2.0**4 / 3.0)


def test_totals_are_integrals_and_maxima_of_what_is_known():
    totals = DefectTotals.start(1, 3)
    steps = [(0.5, 2.0, [1.0, np.nan, np.nan]), (0.25, 4.0, [np.nan, 3.0, np.nan])]
    for h, u, y in steps:
        totals.add_inputs(np.array([u]), h)
        totals.add_outputs(np.array(y), np.full(3, h))
    np.testing.assert_allclose(totals.u_square, [0.5 * 4.0 + 0.25 * 16.0])
    np.testing.assert_allclose(totals.u_max, [4.0])
    np.testing.assert_allclose(totals.y_square, [0.5, 0.25 * 9.0, 0.0])
    np.testing.assert_allclose(totals.y_max, [1.0, 3.0, 0.0])
    np.testing.assert_array_equal(totals.y_known, [True, True, False])
