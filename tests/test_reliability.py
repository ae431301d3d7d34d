import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.reliability import CAUSES, Checks, FlagChange, Monitor, verdict
from hilrt.solver import Port
from tests.stepping import Recorded, Stepping

STEP, CLEAR = 0.01, 0.045  # between two ticks, so that rounding does not decide


class Watched:
    """One input of magnitude 10 whose defect is given tick by tick; threshold 10 %."""

    def __init__(self, magnitude: float = 10.0, warm_up: float = 0.0) -> None:
        self.s = Stepping(
            {"a": Recorded({"y": lambda t: magnitude}), "b": Recorded({}, [Port("u")])},
            master={"step": STEP},
            connections=[{"from": "a.y", "to": "b.u"}],
            reliability={"clear_time": CLEAR, "warm_up": warm_up},
        )
        self.s.look()
        self.monitor = self.s.state.monitor
        self.given = self.s.exchange.given
        self.tick = 0

    def see(self, ratio: float = 0.0, **given) -> bool:
        """One tick with a defect of `ratio` times its threshold; whether the flag is up."""
        self.tick += 1
        self.given.t, self.given.elapsed = self.tick * STEP, STEP
        for key, value in given.items():
            setattr(self.given, key, value)
        self.s.state.u_defect = np.array([ratio])  # 10 % of 10
        self.monitor.update(self.s.plan, self.s.state, self.given)
        return ("connection_defect", "b.u") in self.monitor.active_flags()

    def of(self, cause: str) -> tuple[int, float]:
        c = self.monitor.checks.causes.index(cause)
        return int(self.monitor.count[c]), float(self.monitor.seconds[c])


def test_a_spike_raises_at_once_and_clears_after_its_time():
    w = Watched()
    assert not w.see(0.9)
    assert w.see(1.01)
    up = [w.see(0.0) for _ in range(8)]
    assert up == [True] * 4 + [False] * 4
    assert w.of("connection_defect") == (1, pytest.approx(5 * STEP))
    raised, cleared = w.monitor.changes
    assert raised == FlagChange(pytest.approx(0.02), "connection_defect", "b.u", True)
    assert cleared == FlagChange(pytest.approx(0.07), "connection_defect", "b.u", False)


def test_what_is_relative_to_a_scale_does_not_count_before_there_is_one():
    w = Watched(warm_up=0.035)
    assert [w.see(5.0) for _ in range(5)] == [False] * 3 + [True] * 2


def test_noise_around_the_threshold_does_not_chatter():
    rng = np.random.default_rng(3)
    w = Watched()
    for _ in range(200):
        w.see(rng.uniform(0.6, 1.4))
    assert w.of("connection_defect")[0] == 1
    assert len(w.monitor.changes) == 1


def test_between_half_and_full_a_flag_stays_but_is_not_raised():
    w = Watched()
    assert not any(w.see(0.99) for _ in range(20))
    w.see(1.5)
    assert all(w.see(0.6) for _ in range(20))
    assert [w.see(0.4) for _ in range(6)][-1] is False


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.0, 2.0), min_size=1, max_size=40))
def test_hysteresis_by_its_definition(ratios):
    w, up, high = Watched(), False, -math.inf
    for tick, ratio in enumerate(ratios, start=1):
        if abs(ratio - 0.5) < 1e-9 or abs(ratio - 1.0) < 1e-9:
            ratio = 0.3
        high = tick if ratio >= 0.5 else high
        up = ratio >= 1.0 or (up and tick - high < CLEAR / STEP)
        assert w.see(ratio) == up


def test_unknown_measures_raise_nothing():
    w = Watched()
    assert not w.see(math.nan)
    w.see(2.0)
    assert [w.see(math.nan) for _ in range(6)] == [True] * 4 + [False] * 2


def test_thresholds_follow_the_signals_scale_with_a_floor():
    w = Watched(magnitude=100.0)
    assert not w.see(5.0)  # 5 % of 100
    w.s.state.measured[0] = 1.0  # the signal has become small: the scale decays …
    ticks = [w.see(5.0) for _ in range(int(3.0 / STEP))]
    assert not ticks[10]
    assert ticks[-1]  # … with 2 s: 5 is more than 10 % of 22
    for _ in range(int(30.0 / STEP)):
        w.see(0.0)
    assert w.monitor.scale[0] == pytest.approx(2.0)  # … to 2 % of what it once was
    w.s.state.measured[0] = -300.0
    w.see(0.0)
    assert w.monitor.scale[0] == 300.0


def test_a_signal_that_was_never_other_than_zero_stays_finite():
    w = Watched(magnitude=0.0)
    assert not w.see(0.0)
    assert w.see(1e8)  # any defect is large against nothing; without an overflow
    assert np.isfinite(w.monitor.ratio).all()


def test_causes_of_the_session_are_counted_with_their_time():
    w = Watched()
    for missed in (True, False, True, False, False):
        w.see(missed=missed)
    assert w.of("deadline_missed") == (1, pytest.approx(5 * STEP))
    w.see(late=np.array([True, False]))
    assert ("sample_late", "a") in w.monitor.active_flags()


def test_every_check_has_a_cause_in_words():
    checks = Watched().s.plan.checks
    assert set(checks.causes) <= set(CAUSES)
    named = [checks.causes[checks.cause_of(i)] for i in range(len(checks))]
    assert named[0] == "sample_late"
    assert checks.where[checks.groups[checks.causes.index("connection_defect")]] == ["b.u"]
    assert sorted(set(named), key=named.index) == [checks.causes[c] for c in checks.used]


def ended(**seconds: float) -> Monitor:
    """A monitor at the end of a session that spent the given time under each cause, s."""
    causes = list(CAUSES)
    checks = Checks(causes, [slice(i, i + 1) for i in range(len(causes))], causes)
    monitor = Monitor.start(checks, np.zeros(0), np.zeros(0), 0)
    for cause, value in seconds.items():
        monitor.seconds[causes.index(cause)] = value
    return monitor


@pytest.mark.parametrize(
    ("seconds", "word"),
    [
        ({}, "good"),
        ({"connection_defect": 4.9}, "good"),
        ({"connection_defect": 5.1}, "degraded"),
        ({"connection_defect": 51.0}, "unreliable"),
        ({"sample_implausible": 0.01}, "degraded"),
        ({"sample_late": 11.0, "connection_defect": 5.1}, "unreliable"),
        ({"correction_shadow": 100.0}, "degraded"),  # never more than that
    ],
)
def test_verdict_follows_from_the_time_under_each_cause(seconds, word):
    found = verdict(ended(**seconds), 100.0, None)
    assert found.word == word
    assert len(found.reasons) == (0 if word == "good" else len(seconds))
    assert all(CAUSES[reason.partition(":")[0]] for reason in found.reasons)


def test_a_fault_makes_a_session_unreliable():
    found = verdict(ended(connection_defect=5.1), 100.0, "subsystem 'engine': silent")
    assert found.word == "unreliable"
    assert found.reasons[0] == "ended by a fault: subsystem 'engine': silent"
    assert len(found.reasons) == 2


def test_a_session_that_never_began_has_no_time_to_judge():
    assert verdict(ended(), 0.0, None) == ("good", [])
