"""A session whose steps are drafted before the tick is the same session, bit for bit."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from hilrt.draft import MARGIN, WINDOW, Draft
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.record.snapshot import encode_state
from hilrt.solver import Port
from hilrt.step.macro_step import assess, macro_step
from tests.stepping import MemoryLink, Recorded, Stepping

TICKS = 60


def two_mass(hold_back: Callable[[int], int], **late) -> Stepping:
    return Stepping(
        {"a": MemoryLink("a", Mass1(), hold_back=hold_back), "b": Mass2()},
        master={"step": 1e-3, "extrapolation": {"order": 1}},
        connections=[
            {"from": "a.force", "to": "b.force"},
            {"from": "b.x", "to": "a.x2"},
            {"from": "b.v", "to": "a.v2"},
        ],
        bonds=[
            {
                "name": "spring",
                "effort": "a.force",
                "flow": "b.v",
                "correction": {"method": "energy", "mu": 0.5, "nu": 0.1, "cap": 0.2},
            }
        ],
        alarms=[{"signal": "b.v", "max": 0.5, "max_rate": 1e3}],
        subsystems={"a": {"late": late}, "b": {}},
    )


def bench(hold_back: Callable[[int], int]) -> Stepping:
    """A bench with limits and an actuation delay, which sends what is no number at times."""

    def speed(t: float) -> float:
        return math.nan if 0.02 < t < 0.024 else math.sin(40.0 * t)

    demand = [Port("demand", min=-0.8, max=0.8, max_rate=30.0, max_jerk=3e3)]
    link = MemoryLink("bench", Recorded({"speed": speed}, demand), physical=True)
    link.hold_back = hold_back
    return Stepping(
        {"bench": link, "car": Recorded({"torque": math.cos}, [Port("speed")])},
        lead={"bench": 0.002},
        master={"step": 1e-3, "extrapolation": {"order": 2}},
        connections=[
            {"from": "bench.speed", "to": "car.speed"},
            {"from": "car.torque", "to": "bench.demand"},
        ],
    )


def states(s: Stepping, drafts: bool) -> tuple[list[bytes], Draft]:
    """The state after every tick, and who drafted it."""
    draft, seen = Draft(s.plan, s.state, s.exchange), []
    for _ in range(TICKS):
        draft.announce(s.tick, s.t_ns, s.elapsed_ns)
        draft.took_ns = 1000
        if draft.wanted(2000):  # without a draft, one look that takes what has arrived, too
            draft.make() if drafts else s.exchange.prefetch()
        given = s.exchange.cut(s.tick, s.t_ns, s.elapsed_ns)
        given.apply = s.tick % 17 != 5
        if draft.stands(given):
            assert draft.ready == s.exchange.encoded(draft.state)
            draft.put_into_force(given)
        else:
            macro_step(s.plan, s.state, given)
        assess(s.plan, s.state, given)
        s.state.monitor.changes.clear()
        seen.append(encode_state(s.state, False) + given.fresh.tobytes())
        s.go()
    return seen, draft


@pytest.mark.parametrize("make", [two_mass, bench])
@pytest.mark.parametrize(
    ("hold_back", "least", "most"),
    [
        (lambda tick: 0, TICKS - 12, TICKS),  # all but the first, and where `apply` changes
        (lambda tick: 1, 0, 4),  # arrives after the draft, every time
        (lambda tick: (0, 0, 1, 3)[tick % 4], 10, TICKS - 10),
    ],
)
def test_the_states_are_the_same(make, hold_back, least, most):
    drafted, draft = states(make(hold_back), drafts=True)
    plain, _ = states(make(hold_back), drafts=False)
    assert drafted == plain
    assert draft.made >= TICKS - 1 - 1
    assert least <= draft.stood <= most


def test_a_draft_is_wanted_shortly_before_the_tick_and_again_after_an_arrival():
    s = two_mass(lambda tick: 0)
    draft = Draft(s.plan, s.state, s.exchange)
    draft.took_ns = 100
    draft.announce(0, 0, 0)
    assert not draft.wanted(200)  # the first point has no interval behind it
    s.look()
    s.go()
    draft.announce(s.tick, s.t_ns, s.elapsed_ns)
    assert not draft.wanted(round(MARGIN * 100))
    assert not draft.wanted(round(WINDOW * 100))
    # Nothing is left to wait for.
    assert draft.wanted(round(WINDOW * 100), more=False)
    assert draft.wanted(1, more=False)
    assert not draft.wanted(0, more=False)
    assert draft.wanted(200)
    draft.make()
    draft.took_ns = 100
    assert not draft.wanted(200)
    s.exchange.taken += 1
    assert draft.wanted(200)


def test_one_stalled_draft_hardly_counts(monkeypatch):
    s = two_mass(lambda tick: 0)
    s.look()
    s.go()
    draft = Draft(s.plan, s.state, s.exchange)
    draft.took_ns = 100_000
    clock = iter([0, 50_000_000])
    monkeypatch.setattr("hilrt.draft.monotonic_ns", lambda: next(clock))
    draft.announce(s.tick, s.t_ns, s.elapsed_ns)
    draft.make()
    assert draft.took_ns == pytest.approx(112_500)
    assert np.isfinite(s.state.y).all()
