"""What is said of a session's end."""

import pytest

from hilrt.session.ending import held_up
from hilrt.timing.grid import TickMarks
from hilrt.timing.timeline import Timeline

MS = 1_000_000


@pytest.mark.parametrize(
    ("slack_ms", "waited_ms", "said"),
    [
        (120, 3, "120 ms: the previous tick and its slack took too long"),
        (2, 140, "140 ms: the host woke the master late"),
    ],
)
def test_the_fault_says_what_held_the_master_up(slack_ms, waited_ms, said):
    timeline = Timeline()
    timeline.rest(0, slack_ms * MS)
    told = held_up(timeline, (slack_ms + waited_ms) * MS)
    assert told.startswith(f"the master was held up for {said}; ")
    assert "hilrt doctor" in told


def test_a_slow_tick_that_was_served_counts_too():
    """The cut took 300 ms, and then the gateway had given up."""
    timeline, marks = Timeline(), TickMarks(lambda: 0)
    marks.target_ns, marks.begun_ns, marks.cut_ns = 0, 1 * MS, 301 * MS
    marks.stepped_ns = marks.done_ns = 302 * MS
    timeline.add(1, 0.001, marks, True, list)
    timeline.rest(302 * MS, 303 * MS)
    told = held_up(timeline, 304 * MS)
    assert told.startswith("the master was held up for 302 ms: receiving samples took too long")
