"""Order control by scaled derivative norms: the rules alone."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.coupling.control_order import OrderState, next_order, scaled_derivative_norms
from hilrt.coupling.extrapolate import History, divided_differences

LIMITS = {"minimum": 0, "maximum": 5}
QUIET = {"failed": False, "reduced": False}


@given(
    st.lists(st.floats(-1.0, 1.0, width=32), min_size=1, max_size=6),
    st.lists(st.floats(0.25, 1.0, width=32), min_size=5, max_size=5),
    st.floats(0.25, 1.0),
)
def test_of_a_polynomial_the_highest_norm_is_its_derivative(coefficients, gaps, h):
    degree = len(coefficients) - 1
    t = -np.concatenate(([0.0], np.cumsum(gaps)))
    y = np.polynomial.Polynomial(coefficients)(t)
    history = History(t[:, None], y[:, None], np.array([6]))
    differences, _ = divided_differences(history, 0.0)
    norms = scaled_derivative_norms(differences[1:], np.array([2.0]), h)
    assert len(norms) == 5
    if degree > 0:
        expected = h**degree * math.factorial(degree) * abs(coefficients[-1]) / 2.0
        assert norms[degree - 1] == pytest.approx(expected, abs=1e-7)
    assert norms[degree:] == pytest.approx([0.0] * (5 - degree), abs=1e-6)


def test_the_norm_is_over_all_inputs():
    (norm,) = scaled_derivative_norms(np.array([[3.0, 8.0]]), np.array([1.0, 2.0]), 0.1)
    assert norm == pytest.approx(0.1 * math.sqrt((9.0 + 16.0) / 2.0))


@pytest.mark.parametrize(
    ("order", "norms", "expected"),
    [
        # down
        (1, [1.0, 2.0], 0),
        (1, [1.0, 1.9], 1),
        (2, [1.0, 2.0, 2.0], 1),
        (2, [3.0, 2.0, 2.5], 2),  # the larger of SDN(1), SDN(2) counts
        (3, [9.0, 1.0, 1.0, 1.0], 2),
        # not enough samples to say
        (2, [1.0, 2.0], 2),
        (0, [], 0),
    ],
)
def test_lowering_at_once(order, norms, expected):
    assert next_order(OrderState(order), norms, **QUIET, **LIMITS).order == expected


@pytest.mark.parametrize(
    ("order", "norms", "expected"),
    [
        (0, [1.0, 0.49], 1),
        (0, [1.0, 0.51], 0),
        (1, [1.0, 0.5, 0.4], 2),
        (1, [1.0, 0.5, 0.6], 1),
        (1, [1.0, 1.2, 1.1], 0),
        (3, [9.0, 3.0, 1.0, 0.5, 0.2], 4),
        (3, [9.0, 3.0, 0.5, 0.6, 0.5], 2),
        (3, [9.0, 3.0, 1.0, 0.5, 0.5], 3),
        (3, [9.0, 3.0, 1.0, 0.5], 3),  # SDN(5) is not known yet
    ],
)
def test_raising_after_some_peace(order, norms, expected):
    peaceful = OrderState(order, successes=order)
    after = next_order(peaceful, norms, **QUIET, **LIMITS)
    assert after.order == expected
    assert after.successes == (order + 1 if expected == order else 0)


@pytest.mark.parametrize("event", ["failed", "reduced"])
def test_peace_is_more_than_k_steps_without_failure_or_reduction(event):
    state = OrderState(2)
    falling = [1.0, 0.5, 0.2, 0.1]
    for _ in range(2):
        state = next_order(state, falling, **QUIET, **LIMITS)
        assert state.order == 2
    disturbed = next_order(state, falling, **{**QUIET, event: True}, **LIMITS)
    assert disturbed == OrderState(2, failures=event == "failed", successes=0)
    assert next_order(state, falling, **QUIET, **LIMITS).order == 3


def test_failures_in_a_row_bring_the_order_down():
    falling = [1.0, 0.5, 0.2, 0.1, 0.05]
    state, orders = OrderState(3), []
    for _ in range(7):
        state = next_order(state, falling, failed=True, reduced=True, **LIMITS)
        orders.append(state.order)
    assert orders == [3, 3, 3, 1, 1, 0, 0]
    assert next_order(state, falling, **QUIET, **LIMITS).failures == 0


def test_the_bounds_hold():
    assert next_order(OrderState(1), [1.0, 9.0], **QUIET, minimum=1, maximum=3).order == 1
    top = OrderState(3, successes=9)
    falling = [1.0, 0.5, 0.2, 0.1, 0.05]
    assert next_order(top, falling, **QUIET, minimum=1, maximum=3).order == 3
