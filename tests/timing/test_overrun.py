"""Ticks that have passed before the master came to them: every policy, on a grid of 1 ms."""

import pytest

from hilrt.errors import SessionFault
from hilrt.timing.grid import Grid
from hilrt.timing.overrun import (
    LONGEST_SKIP_NS,
    EndSession,
    SkipLateStarts,
    SkipTicks,
    StretchGrid,
    overrun_policy,
)

MS = 1_000_000
EPOCH = 5_000_000_000
END = 10**12


@pytest.fixture
def missed():
    return []


@pytest.fixture
def shifts():
    return []


@pytest.fixture
def make(missed, shifts):
    """Makes a policy at the beginning of a session."""

    def made(kind, pace=1.0, end_ns=END):
        callbacks = [missed.append, shifts.append] if kind is StretchGrid else [missed.append]
        policy = kind(*callbacks)
        policy.begin(Grid(EPOCH, MS, pace), end_ns)
        return policy

    return made


@pytest.mark.parametrize("kind", [SkipTicks, SkipLateStarts, StretchGrid, EndSession])
@pytest.mark.parametrize("late_ns", [-MS, 0, MS // 2])
def test_a_tick_that_is_only_late_is_no_overrun(make, missed, kind, late_ns):
    policy = make(kind)
    assert policy.after_step(7 * MS, EPOCH + 7 * MS + late_ns) == 7 * MS
    assert not policy.overran
    assert not missed


@pytest.mark.parametrize(
    ("kind", "behind_ns", "passed"),
    [
        (SkipTicks, MS - 1, 0),
        (SkipTicks, MS, 1),
        (SkipTicks, 3 * MS + MS // 2, 3),
        (SkipLateStarts, MS // 2 + 1, 1),  # it could only begin too late
        (SkipLateStarts, 3 * MS + MS // 2, 3),
        (SkipLateStarts, 3 * MS + MS // 2 + 1, 4),
    ],
)
def test_ticks_that_passed_are_left_out_and_the_grid_stays(make, missed, kind, behind_ns, passed):
    policy = make(kind)
    assert policy.after_step(7 * MS, EPOCH + 7 * MS + behind_ns) == (7 + passed) * MS
    assert policy.overran == (passed > 0)
    assert sum(missed) == passed
    assert policy.grid.epoch_ns == EPOCH
    assert policy.after_step(20 * MS, EPOCH) == 20 * MS
    assert not policy.overran


def test_at_a_factor_the_clock_passes_more_slowly(make):
    policy = make(SkipTicks, pace=0.5)  # a tick takes 2 ms of the clock
    assert policy.after_step(7 * MS, EPOCH + 14 * MS + 2 * MS - 1) == 7 * MS
    assert policy.after_step(7 * MS, EPOCH + 14 * MS + 2 * MS) == 8 * MS


def test_nothing_is_left_out_beyond_the_end(make, missed):
    policy = make(SkipTicks, end_ns=10 * MS)
    assert policy.after_step(7 * MS, EPOCH + 100 * MS) == 10 * MS
    assert sum(missed) == 3
    assert policy.after_step(12 * MS, EPOCH + 100 * MS) == 12 * MS
    assert policy.overran  # a step beyond the end was late all the same
    assert sum(missed) == 3


def test_a_long_stall_is_left_out_in_parts(make):
    policy = make(SkipTicks)
    assert policy.after_step(0, EPOCH + 10 * LONGEST_SKIP_NS) == LONGEST_SKIP_NS


def test_stretching_shifts_the_grid_and_leaves_no_tick_out(make, missed, shifts):
    policy = make(StretchGrid)
    assert policy.after_step(7 * MS, EPOCH + 9 * MS + MS // 2) == 7 * MS
    assert policy.overran
    assert (missed, shifts) == ([2], [2 * MS + MS // 2])
    assert policy.grid.clock_ns(7 * MS) == EPOCH + 9 * MS + MS // 2
    assert policy.after_step(8 * MS, EPOCH + 10 * MS + MS // 2) == 8 * MS
    assert not policy.overran


def test_an_overrun_can_end_the_session(make):
    policy = make(EndSession)
    with pytest.raises(SessionFault, match=r"t = 0\.007 s is 1\.5 ms behind .*overrun is"):
        policy.after_step(7 * MS, EPOCH + 8 * MS + MS // 2)


@pytest.mark.parametrize(
    ("late_ns", "later"),
    [(MS // 2, 7), (6 * MS // 10, 8), (2 * MS, 9), (26 * MS // 10, 10)],
)
def test_a_tick_for_which_the_master_wakes_too_late_is_left_out(make, missed, late_ns, later):
    policy = make(SkipLateStarts)
    assert policy.wake(7 * MS, EPOCH + 7 * MS + late_ns) == later * MS
    assert policy.overran == (later > 7)
    assert sum(missed) == later - 7


def test_with_a_clock_that_is_always_late_ticks_run_late(make, missed):
    policy = make(SkipLateStarts)
    points = [policy.wake(k * MS, EPOCH + k * MS + 7 * MS // 10) for k in range(5)]
    assert points == [MS, MS, 2 * MS, 3 * MS, 4 * MS]
    assert missed == [1]


def test_after_an_overrun_the_next_late_start_is_served(make, missed):
    policy = make(SkipLateStarts)
    policy.after_step(7 * MS, EPOCH + 8 * MS)
    assert policy.wake(8 * MS, EPOCH + 8 * MS + 7 * MS // 10) == 8 * MS
    assert missed == [1]


@pytest.mark.parametrize("kind", [SkipTicks, StretchGrid, EndSession])
def test_only_one_policy_minds_late_starts(make, kind):
    assert make(kind).wake(7 * MS, EPOCH + 7 * MS + 9 * MS // 10) == 7 * MS


@pytest.mark.parametrize(
    ("name", "one_rate", "kind"),
    [
        ("skip", True, SkipLateStarts),
        ("skip", False, SkipTicks),
        ("stretch", True, StretchGrid),
        ("stop", False, EndSession),
    ],
)
def test_policies_by_their_names(name, one_rate, kind, missed, shifts):
    policy = overrun_policy(
        name, one_rate=one_rate, on_missed=missed.append, on_shift=shifts.append
    )
    assert type(policy) is kind
