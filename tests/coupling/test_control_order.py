"""Order control by scaled derivative norms: the rules alone."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.coupling.control_order import next_order, scaled_derivative_norm
from hilrt.coupling.extrapolate import newton_form
from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.tables.record import table
from hilrt.tables.state import SessionStateRow
from tests.stepping import make_numerics

LIMITS = {"minimum": 0, "maximum": 5}
QUIET = {"failed": False, "reduced": False}


@pytest.fixture(scope="module")
def numerics():
    """Two inputs with controlled orders, each fed by an output of its own."""
    return make_numerics(
        {
            "a": Ports((), (Port("y"), Port("z"))),
            "b": Ports((Port("u"), Port("v")), ()),
        },
        master={
            "step": 0.1,
            "step_control": {"atol": {"b.u": 2.0, "b.v": 2.0}},
            "order_control": {"method": "derivatives", "maximum": 5},
        },
        connections=[{"from": "a.y", "to": "b.u"}, {"from": "a.z", "to": "b.v"}],
    )


@given(
    st.lists(st.floats(-1.0, 1.0, width=32), min_size=1, max_size=6),
    st.lists(st.floats(0.25, 1.0, width=32), min_size=5, max_size=5),
    st.floats(0.25, 1.0),
)
def test_of_a_polynomial_the_highest_norm_is_its_derivative(numerics, coefficients, gaps, h):
    degree = len(coefficients) - 1
    t = -np.concatenate(([0.0], np.cumsum(gaps)))
    y = np.polynomial.Polynomial(coefficients)(t)
    for out in numerics.state.outputs:
        out.t_past[:6], out.y_past[:6] = t, y
        newton_form(out, 6, 0.0)
    numerics.plan.inputs["atol"] = 2.0
    norms = [scaled_derivative_norm(numerics.plan, numerics.state, j, h) for j in range(1, 6)]
    if degree > 0:
        expected = h**degree * math.factorial(degree) * abs(coefficients[-1]) / 2.0
        assert norms[degree - 1] == pytest.approx(expected, abs=1e-7)
    assert norms[degree:] == pytest.approx([0.0] * (5 - degree), abs=1e-6)


def test_the_norm_is_over_all_inputs(numerics):
    numerics.state.outputs["differences"][:, 1] = [3.0, 8.0]
    numerics.plan.inputs["atol"] = [1.0, 2.0]
    norm = scaled_derivative_norm(numerics.plan, numerics.state, 1, 0.1)
    assert norm == pytest.approx(0.1 * math.sqrt((9.0 + 16.0) / 2.0))


def at_order(order: int, successes: int = 0):
    """The session's record at an order, after so many successful steps with it."""
    record = table(SessionStateRow, 1)[0]
    record.order, record.successes = order, successes
    return record


def step(record, norms, *, failed, reduced, minimum, maximum):
    """One step; the order afterwards."""
    record.failed, record.derivative_norms[: len(norms)] = failed, norms
    next_order(record, len(norms), reduced, minimum, maximum)
    return record.order


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
    assert step(at_order(order), norms, **QUIET, **LIMITS) == expected


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
def test_raising_after_some_successes(order, norms, expected):
    record = at_order(order, successes=order)
    assert step(record, norms, **QUIET, **LIMITS) == expected
    assert record.successes == (order + 1 if expected == order else 0)


@pytest.mark.parametrize("event", ["failed", "reduced"])
def test_the_order_rises_after_more_than_k_steps_without_failure_or_reduction(event):
    falling = [1.0, 0.5, 0.2, 0.1]
    record = at_order(2)
    for _ in range(2):
        assert step(record, falling, **QUIET, **LIMITS) == 2
    disturbed = record.copy()
    assert step(disturbed, falling, **{**QUIET, event: True}, **LIMITS) == 2
    assert (disturbed.failures, disturbed.successes) == (event == "failed", 0)
    assert step(record, falling, **QUIET, **LIMITS) == 3


def test_failures_in_a_row_bring_the_order_down():
    falling = [1.0, 0.5, 0.2, 0.1, 0.05]
    record = at_order(3)
    orders = [step(record, falling, failed=True, reduced=True, **LIMITS) for _ in range(7)]
    assert orders == [3, 3, 3, 1, 1, 0, 0]
    step(record, falling, **QUIET, **LIMITS)
    assert record.failures == 0


def test_the_bounds_hold():
    assert step(at_order(1), [1.0, 9.0], **QUIET, minimum=1, maximum=3) == 1
    falling = [1.0, 0.5, 0.2, 0.1, 0.05]
    assert step(at_order(3, successes=9), falling, **QUIET, minimum=1, maximum=3) == 3
