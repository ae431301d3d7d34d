"""A rehearsal changes nothing and keeps its time."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from hilrt import rehearsal
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.rehearsal import Rehearsal
from tests.stepping import Stepping


def make() -> Stepping:
    return Stepping(
        {"a": Mass1(), "b": Mass2()},
        master={"step": 1e-3, "extrapolation": {"order": 1}},
        connections=[
            {"from": "a.force", "to": "b.force"},
            {"from": "b.x", "to": "a.x2"},
            {"from": "b.v", "to": "a.v2"},
        ],
    )


def test_the_session_goes_on_as_without_it() -> None:
    with_it, without = make(), make()
    rehearsed = Rehearsal(with_it.plan, with_it.state, with_it.exchange.given)
    for _ in range(20):
        rehearsed.run(1 << 62)
        with_it.run(with_it.tick * 1e-3 + 1e-3)
        without.run(without.tick * 1e-3 + 1e-3)
    np.testing.assert_array_equal(with_it.state.y, without.state.y)
    np.testing.assert_array_equal(with_it.state.sent, without.state.sent)


def test_it_does_not_begin_what_it_cannot_end(monkeypatch: pytest.MonkeyPatch) -> None:
    s = make()
    rehearsed = Rehearsal(s.plan, s.state, s.exchange.given)
    clock = iter([0, 100, 1000, 1110, 2000])
    monkeypatch.setattr(rehearsal, "monotonic_ns", lambda: next(clock))
    steps = []
    monkeypatch.setattr(rehearsal, "macro_step", lambda *a: steps.append(copy.copy(a[2].t)))
    rehearsed.run(10_000)  # takes 100 ns
    assert rehearsed.took_ns == 100
    rehearsed.run(1_126)  # 126 ns left: enough
    assert rehearsed.took_ns == 110
    rehearsed.run(2_137)  # 137 ns left: not enough with the margin
    assert len(steps) == 2
    assert rehearsed.took_ns < 110
