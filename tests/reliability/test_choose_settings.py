"""The choice of step and order, from errors that are powers of the step."""

import math

import pytest

from hilrt.reliability.choose_settings import (
    ORDER,
    Candidate,
    Prediction,
    choose,
    grows,
    time_bounds,
)

STEPS = [0.001, 0.002, 0.004, 0.008, 0.016]
ORDERS = [Candidate(f"order {order}", {ORDER: order}) for order in (1, 0, 2)]


def of_power(gains, predicted=None, **changes):
    """Errors of ``gain h^(order + 1)``, and the changes of some candidates' predictions."""

    def predict(candidate, step):
        order = candidate.settings[ORDER]
        if predicted is not None:
            predicted.append((order, step))
        error = gains[order] * step ** (order + 1)
        return Prediction(error / 0.01, error, "a.y")._replace(**changes.get(candidate.name, {}))

    return predict


@pytest.mark.parametrize(
    ("gains", "order", "step"),
    [
        ({0: 2.0, 1: 500.0, 2: 1e4}, 2, 0.008),
        ({0: 1.0, 1: 100.0, 2: 1e4}, 1, 0.008),  # no other order allows a longer step
        ({0: 0.5, 1: 1e4, 2: 1e9}, 0, 0.016),
    ],
)
def test_the_simplest_order_with_the_longest_step_is_chosen(gains, order, step):
    found = choose(ORDERS, STEPS, of_power(gains))
    assert found.best.candidate.settings[ORDER] == order
    assert found.best.step_s == step
    longest = {
        o: max((h for h in STEPS if gains[o] * h ** (o + 1) <= 0.01), default=0.0) for o in gains
    }
    assert step == max(longest.values())
    assert len(found.rejected) == 2


def test_every_rejected_candidate_has_its_reason():
    predict = of_power({0: 100.0, 1: 100.0, 2: 1.0}, **{"order 2": {"unstable": True}})
    found = choose(ORDERS, STEPS, predict)
    assert (found.best.candidate.name, found.best.step_s) == ("order 1", 0.008)
    assert found.rejected == [
        "order 0: its error is 160 % (a.y) at 16.0 ms",
        "order 2: is unstable at 16.0 ms where the responses are stiffest",
    ]
    assert not [one for one in found.tested if one.predicted.unstable and not one.against]


def test_a_later_candidate_must_allow_longer_steps():
    seen = []
    found = choose(ORDERS, STEPS, of_power({0: 1.0, 1: 1.0, 2: 1.0}, seen))
    assert found.best.step_s == STEPS[-1]
    assert {order for order, _ in seen} == {1}
    assert found.rejected[0] == "order 0: not tested, because no step is longer"


def test_what_there_is_no_time_for_is_named():
    left = [2]

    def predict(candidate, step):
        left[0] -= 1
        return None if left[0] < 0 else Prediction(1e3 * step, step, "a.y")

    found = choose(ORDERS, STEPS, predict, first=STEPS[2])
    assert found.best is None
    assert found.tested == []
    assert found.rejected == [
        "order 1: not tested to its end, because the time was up",
        "order 0: not tested, because the time was up",
        "order 2: not tested, because the time was up",
    ]


def test_growth_counts_if_it_is_e_fold_within_the_session_and_faster_than_what_is_tolerated():
    assert grows(1.1, 1.0)
    assert not grows(0.9, 1.0)
    assert not grows(1.1, 1.0, 2.0)
    assert not grows(math.nan, 1.0)


def test_times_bound_the_step_from_below():
    late, slow = time_bounds(100.0, 0.2, {"a": 400.0})
    assert late.step_s == pytest.approx(0.5e-3)
    assert slow.step_s == pytest.approx(0.5e-3)
    assert "a needs 400 µs a step" in slow.basis
