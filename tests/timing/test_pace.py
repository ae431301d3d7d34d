"""How session time passes, by a virtual clock and with scripted solvers."""

import asyncio
import math

import pytest

from hilrt.timing.grid import CommunicationPoint, TickMarks
from hilrt.timing.overrun import SkipLateStarts, SkipTicks
from hilrt.timing.pace import QUIET_NS, AsFastAsPossible, RealTime
from hilrt.timing.timeline import Progress
from tests.virtual_clock import VirtualClock

MS = 1_000_000
EPOCH = 5_000_000_000
FIRST = CommunicationPoint(0, 0, 0)
THIRD = CommunicationPoint(3, 3 * MS, MS)


class Samples:
    """Notes what it is asked."""

    def __init__(self):
        self.behind = False
        self.asked, self.looks = [], []

    async def catch_up(self, until_ns):
        self.asked.append(("catch_up", until_ns))

    async def collect(self, t_ns, timeout, stopping):
        self.asked.append(("collect", t_ns, timeout))

    def fileno(self):
        return None

    def receive_early(self, until_ns, *, first):
        self.looks.append((until_ns, first))
        return 1


def never():
    return False


def real_time(kind=SkipLateStarts, **options):
    progress = Progress()
    pace = RealTime(VirtualClock(), kind(progress.skip), Samples(), MS, False, progress, **options)
    pace.begin(EPOCH, 10**12)
    return pace


# --- by a clock -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "at_ns"), [(1.0, 3 * MS), (2.0, 3 * MS // 2), (0.5, 6 * MS)])
async def test_a_point_has_come_when_the_clock_says_so(factor, at_ns):
    pace = real_time(factor=factor)
    assert await pace.reach(THIRD, never) == THIRD
    assert pace.now_ns() == EPOCH + at_ns
    assert pace.samples.asked == []  # no solver is waited for
    ((until_ns, first),) = pace.samples.looks  # but what has come is received before
    assert first
    assert EPOCH <= until_ns <= EPOCH + at_ns


async def test_nothing_is_received_early_for_a_point_that_has_passed():
    pace = real_time()
    pace.clock.advance(EPOCH + 3 * MS)
    await pace.reach(THIRD, never)
    assert pace.samples.looks == []


async def test_a_clock_that_wakes_too_late_leads_to_a_later_point():
    pace = real_time()
    pace.clock.advance(EPOCH + 3 * MS + 6 * MS // 10)
    assert await pace.reach(THIRD, never) == CommunicationPoint(4, 4 * MS, 2 * MS)
    assert pace.now_ns() == EPOCH + 4 * MS
    assert pace.overran
    marks = TickMarks(pace.now_ns)
    pace.progress.enter(4, 4e-3, marks, False, list)  # they count with the tick that is served
    assert (pace.progress.missed, pace.progress.timeline.skipped) == (1, 1)
    assert pace.progress.timeline.causes == {"skipped": 1}


async def test_the_first_point_is_served_however_late_it_is():
    pace = real_time()
    pace.clock.advance(EPOCH + 10 * MS)
    assert await pace.reach(FIRST, never) == FIRST


async def test_solvers_that_are_behind_are_sent_what_they_missed_meanwhile():
    pace = real_time()
    pace.samples.behind = True
    pace.clock.sleep_until = lambda target_ns, stand_still: asyncio.sleep(0)
    await pace.reach(THIRD, never)
    assert pace.samples.asked == [("catch_up", EPOCH + 3 * MS - QUIET_NS)]


async def test_what_goes_wrong_meanwhile_is_raised():
    async def catch_up(until_ns):
        raise RuntimeError("lost")

    pace = real_time()
    pace.samples.behind, pace.samples.catch_up = True, catch_up
    pace.clock.sleep_until = lambda target_ns, stand_still: asyncio.sleep(0.001)
    with pytest.raises(RuntimeError, match="lost"):
        await pace.reach(THIRD, never)


@pytest.mark.parametrize(("took_ns", "missed"), [(MS // 5, False), (MS // 5 + 1, True)])
async def test_a_tick_is_late_from_its_time_on(took_ns, missed):
    pace = real_time(deadline_ns=MS // 5)
    await pace.reach(THIRD, never)
    marks = TickMarks(pace.now_ns)
    pace.clock.advance(took_ns)
    marks.dispatched()
    assert pace.judge(THIRD, marks) is missed
    assert (marks.target_ns, marks.late_ns) == (EPOCH + 3 * MS, took_ns)
    assert pace.progress.lateness.n == 1


async def test_the_next_point_lies_on_the_grid_and_passed_ticks_are_the_policys():
    pace = real_time(SkipTicks)
    await pace.reach(THIRD, never)
    assert pace.next_point(THIRD, MS) == CommunicationPoint(4, 4 * MS, MS)
    pace.clock.advance(4 * MS)
    assert pace.next_point(THIRD, MS) == CommunicationPoint(7, 7 * MS, 4 * MS)
    assert pace.overran


async def test_time_is_left_until_the_clock_wants_the_processor():
    pace = real_time()
    await pace.reach(THIRD, never)
    assert pace.time_left_ns(4 * MS) == MS
    pace.clock.wake_ns = lambda target_ns: target_ns - 1000
    assert pace.time_left_ns(4 * MS) == MS - 1000


# --- as fast as possible --------------------------------------------------------------------------


def fast(*between_steps, variable=False):
    pace = AsFastAsPossible(
        Samples(), MS, variable, Progress(), step_timeout=7.0, between_steps=between_steps
    )
    pace.begin(EPOCH, 10**12)
    return pace


async def test_a_point_has_come_when_the_solvers_have():
    pace = fast()
    assert await pace.reach(THIRD, never) == THIRD
    assert pace.samples.asked == [("collect", 3 * MS, 7.0)]
    assert not pace.overran


async def test_what_happens_between_two_steps_may_move_the_point():
    order = []

    async def moves(point, stopping):
        order.append("moves")
        return point._replace(t_ns=point.t_ns - 1)

    async def looks(point, stopping):
        order.append(point.t_ns)
        return point

    pace = fast(moves, looks)
    assert await pace.reach(THIRD, never) == THIRD._replace(t_ns=3 * MS - 1)
    assert order == ["moves", 3 * MS - 1]
    assert await pace.reach(THIRD, lambda: True) == THIRD  # the loop is to end
    assert len(order) == 2


async def test_others_get_their_turn():
    pace, turns = fast(), []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await pace.reach(THIRD, never)
    assert turns


def test_no_tick_is_late():
    pace = fast()
    marks = TickMarks(iter(range(1000, 9000, 1000)).__next__)
    marks.begin()
    marks.dispatched()
    assert pace.judge(THIRD, marks) is False
    assert (marks.target_ns, marks.late_ns, marks.compute_ns) == (1000, 0, 1000)
    assert pace.progress.lateness.n == 0
    assert pace.time_left_ns(4 * MS) == math.inf


@pytest.mark.parametrize(("variable", "tick"), [(False, 5), (True, 4)])
def test_points_are_numbered_by_the_grid_or_counted(variable, tick):
    pace = fast(variable=variable)
    assert pace.next_point(THIRD, 2 * MS) == CommunicationPoint(tick, 5 * MS, 2 * MS)
    assert pace.next_point(THIRD, MS // 3) == CommunicationPoint(4, 3 * MS + MS // 3, MS // 3)
