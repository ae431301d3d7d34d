import math

import pytest

from hilrt.timing.grid import TickMarks
from hilrt.timing.timeline import KEPT, LONGEST, STAGES, Timeline
from hilrt.wording import MISSED_BECAUSE

US = 1000


def add(timeline, tick, *parts, target=None, missed=False, late=()):
    """A tick whose wake, cut, macro step and dispatch took these µs; returns when it was done."""
    readings = [tick * 1000 * US if target is None else target]
    for part in parts:
        readings.append(readings[-1] + part * US)
    target_ns, *readings = readings
    remaining = iter(readings)
    marks = TickMarks(lambda: next(remaining))
    marks.target_ns = target_ns
    for mark in (marks.begin, marks.taken, marks.stepped, marks.dispatched):
        mark()
    timeline.add(tick, tick * 1e-3, marks, missed, lambda: list(late))
    return marks.done_ns


@pytest.mark.parametrize("longest", range(4))
def test_the_longest_part_is_named_as_the_cause(longest):
    timeline = Timeline()
    parts = [10, 10, 10, 10]
    parts[longest] = 300
    add(timeline, 1, *parts, missed=True)
    assert timeline.causes == {STAGES[longest]: 1}
    assert STAGES[longest] in MISSED_BECAUSE


def test_a_late_wake_up_after_a_long_slack_is_the_slacks_fault():
    timeline = Timeline()
    done = add(timeline, 0, 1, 1, 1, 1)
    timeline.rest(done, 1200 * US)  # 200 µs beyond the next grid point
    add(timeline, 1, 250, 10, 20, 30, missed=True)
    done = add(timeline, 2, 1, 1, 1, 1)
    timeline.rest(done, 2500 * US)
    add(timeline, 3, 250, 10, 20, 30, missed=True)
    assert timeline.causes == {"previous": 1, "wake": 1}


def test_the_slowest_ticks_are_kept_whole_and_in_order():
    timeline = Timeline()
    for tick in range(100):
        late = ("vehicle",) if tick == 41 else ()
        add(timeline, tick, 1, 2, 500 if tick == 41 else tick % 37, 4, late=late)
    slowest = timeline.slowest()
    assert len(slowest) == KEPT
    worst = slowest[0]
    assert (worst["tick"], worst["late"], worst["cause"]) == (41, ["vehicle"], "macro_step")
    assert worst["t"] == pytest.approx(0.041)
    assert worst["lateness_us"] == pytest.approx(507.0)
    parts = [worst[f"{stage}_us"] for stage in STAGES]
    assert parts[:4] == pytest.approx([1.0, 2.0, 500.0, 4.0])
    lateness = [entry["lateness_us"] for entry in slowest]
    assert lateness == sorted(lateness, reverse=True)
    assert lateness[1:] == pytest.approx([43, 43, 42, 42, 41, 41, 40, 40, 39])
    assert [entry["tick"] for entry in slowest[1:3]] == [36, 73]  # of equal ones the first


def test_parts_are_counted_and_add_up_to_the_lateness():
    timeline = Timeline()
    done = add(timeline, 0, 5, 20, 60, 40)
    assert timeline.parts_us == pytest.approx((5.0, 20.0, 60.0, 40.0, math.nan), nan_ok=True)
    timeline.rest(done, done + 200 * US)
    add(timeline, 1, 5, 20, 60, 40)
    counts = {stage: times.n for stage, times in timeline.stages.items()}
    assert counts == {**dict.fromkeys(STAGES, 2), "slack": 1}  # that of the tick before
    assert timeline.quantiles()["slack"]["max"] == pytest.approx(200.0)
    assert timeline.parts_us[-1] == pytest.approx(200.0)


def test_skipped_ticks_have_a_cause_of_their_own():
    timeline = Timeline()
    add(timeline, 0, 1, 1, 1, 1)
    assert not timeline.causes
    timeline.skip(3)
    add(timeline, 4, 1, 2, 1, 1)  # they count with the tick after them, in whose row they stand
    assert timeline.causes == {"skipped": 3}
    assert timeline.newest[len(STAGES) :].tolist() == [0.0, 3.0, LONGEST.index("cut")]
