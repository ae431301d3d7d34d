"""Recording around triggers: what is let through, in which order, and what is let go."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.record import gate as module
from hilrt.record.gate import Gate, HeldFrame, Rows
from hilrt.record.messages import Level, Limit, RecordEvent, Signal, Topic, Trigger

MS, S = 1_000_000, 1_000_000_000
TOPICS = [
    Topic("outputs", [Signal("a.x", "m"), Signal("a.y", "N")]),
    Topic("flags", [Signal("flag:alarm", "")]),
]
LIMITS = [Limit("a.y", above=1.0, below=-1.0)]


def make(
    before: int,
    after: int,
    *,
    limits: list[Limit] = LIMITS,
    alarms: list[str] = [],  # noqa: B006 - not changed
    causes: list[str] = [],  # noqa: B006
    known: bool = False,
) -> Gate:
    """A gate; unless the first state is `known`, windows begin where they are asked to."""
    gate = Gate(Trigger(before, after, limits, alarms, causes), TOPICS)
    if not known:
        gate._snapshots.clear()
    return gate


def batch(first: int, hits: list[bool], step: int = MS) -> Rows:
    n = len(hits)
    values = np.full((n, 3), np.nan)
    values[:, 1] = np.where(hits, 2.0, 0.0)
    return Rows(first, (first + np.arange(n)) * step, values)


def quiet(gate: Gate, first: int, count: int, step: int = MS) -> list[int]:
    """Numbers of the rows that come out while nothing triggers."""
    found: list[int] = []
    for i in range(first, first + count, 50):
        n = min(50, first + count - i)
        found += numbers(gate.rows(batch(i, [False] * n, step)))
    return found


def numbers(parts: list[Rows]) -> list[int]:
    return [part.first + i for part in parts for i in range(len(part.times))]


def event(t_ns: int, level: Level, cause: str, source: str = "session") -> RecordEvent:
    return RecordEvent(t_ns, level, cause, source, "text")


@given(
    st.lists(st.lists(st.sampled_from([False] * 9 + [True]), min_size=1, max_size=8), max_size=12),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_exactly_the_rows_around_a_trigger_come_out_in_their_order(
    batches: list[list[bool]], before: int, after: int
) -> None:
    gate = make(before * MS, after * MS)
    out: list[Rows] = []
    first = 0
    for hits in batches:
        out += gate.rows(batch(first, hits))
        first += len(hits)
    out += gate.finish()
    found = numbers(out)
    hit = [i for i, is_hit in enumerate(hit for hits in batches for hit in hits) if is_hit]
    wanted = [k for k in range(first) if any(h - before <= k <= h + after for h in hit)]
    assert found == wanted
    starts = {part.first for part in out if part.opens}
    jumps = {k for i, k in enumerate(wanted) if i == 0 or wanted[i - 1] != k - 1}
    assert jumps <= starts


@pytest.mark.parametrize(
    ("value", "wanted"), [(1.0, False), (1.5, True), (-1.5, True), (np.nan, False)]
)
def test_a_limit_is_crossed_strictly_and_not_by_what_is_unknown(value: float, wanted: bool) -> None:
    rows = Rows(0, np.arange(3) * MS, np.zeros((3, 3)))
    rows.values[1, 1] = value
    assert bool(make(0, 0).rows(rows)) is wanted


def test_a_window_begins_at_a_snapshot() -> None:
    gate = make(300 * MS, 0)
    for row in (1000, 2000, 2800):
        gate.snapshot(row)
    assert quiet(gate, 0, 3000) == []
    found = numbers(gate.rows(batch(3000, [True])))
    assert found == list(range(2000, 3001))


def test_the_first_window_begins_with_the_session_if_it_is_not_long_ago() -> None:
    gate = make(300 * MS, 0, known=True)
    quiet(gate, 0, 800)
    assert numbers(gate.rows(batch(800, [True]))) == list(range(801))


def test_windows_with_no_snapshot_between_them_are_one() -> None:
    gate = make(100 * MS, 100 * MS)
    gate.snapshot(1000)
    quiet(gate, 0, 1500)
    out = numbers(gate.rows(batch(1500, [True])))
    out += quiet(gate, 1501, 500)
    out += numbers(gate.rows(batch(2001, [True])))
    assert out == list(range(1000, 2002))
    gate.snapshot(2200)
    assert quiet(gate, 2002, 500) == list(range(2002, 2102))
    assert numbers(gate.rows(batch(2502, [True]))) == list(range(2200, 2503))


def test_what_no_trigger_can_want_any_more_is_let_go() -> None:
    gate = make(100 * MS, 0)
    quiet(gate, 0, 20_000)
    assert gate.held_bytes <= 1.3 * 1000 * 3 * 8
    assert not gate.shortened


def test_a_buffer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_BYTES", 100 * 3 * 8)
    monkeypatch.setattr(module, "FRAMES_BYTES", 10 * 120)
    gate = make(10 * S, 0)
    quiet(gate, 0, 1000)
    for i in range(100):
        gate.hold(HeldFrame(i * MS, 1, bytes(20)))
    assert gate.shortened
    assert gate.held_bytes <= 100 * 3 * 8
    found = numbers(gate.rows(batch(1000, [True])))
    assert found == list(range(found[0], 1001))
    assert len(found) <= 101
    assert [frame.t_ns for frame in gate.frames()] == [i * MS for i in range(90, 100)]


def test_an_event_of_the_cause_and_every_error_trigger() -> None:
    cases: list[tuple[Level, str, bool]] = [
        ("info", "mark", True),
        ("error", "x", True),
        ("warning", "x", False),
    ]
    for level, cause, wanted in cases:
        gate = make(2 * MS, MS, limits=[], causes=["mark"])
        gate.event(event(100 * MS, level, cause))
        assert numbers(gate.rows(batch(0, [False] * 50))) == []
        found = quiet(gate, 50, 100)
        assert found == ([98, 99, 100, 101] if wanted else [])


def test_an_alarm_triggers_as_long_as_it_is_active() -> None:
    gate = make(0, 10 * MS, limits=[], alarms=["hot"])
    gate.event(event(0, "warning", "alarm", "cold: a.x below 1"))
    assert quiet(gate, 0, 100) == []
    gate.event(event(120 * MS, "warning", "alarm", "hot: a.x above 9"))
    found = quiet(gate, 100, 200)
    assert found[-1] == 299
    gate.event(event(310 * MS, "info", "alarm", "hot: a.x above 9"))
    assert quiet(gate, 300, 200) == list(range(300, 321))


def test_the_end_in_a_fault_keeps_what_came_before() -> None:
    gate = make(20 * MS, 0, limits=[])
    quiet(gate, 0, 100)
    gate.event(event(105 * MS, "error", "session"))
    gate.hold(HeldFrame(50 * MS, 1, b"early"))
    gate.hold(HeldFrame(104 * MS, 1, b"late"))
    assert numbers(gate.finish()) == list(range(85, 100))
    assert [frame.data for frame in gate.frames()] == [b"late"]


def test_frames_are_wanted_like_rows_whenever_they_come() -> None:
    gate = make(20 * MS, 20 * MS)
    for t in range(0, 200, 10):
        gate.hold(HeldFrame(t * MS, 1, b""))
    quiet(gate, 0, 100)
    assert list(gate.frames()) == []
    gate.rows(batch(100, [True]))
    assert [frame.t_ns // MS for frame in gate.frames()] == [80, 90, 100, 110, 120]
    assert gate.covers(90 * MS)
    assert not gate.covers(121 * MS)
    gate.rows(batch(101, [False] * 30))
    gate.rows(batch(131, [True]))  # follows on without a gap of rows
    assert [frame.t_ns // MS for frame in gate.frames()] == [130, 140, 150]
