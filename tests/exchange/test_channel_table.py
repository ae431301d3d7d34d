"""What is due, late and lost, from the numbers of the channels alone: a base step of 1 ms."""

import numpy as np
import pytest

from hilrt.exchange.channel_table import BENCH_PATIENCE, ChannelTable, update_channels
from hilrt.tables import given, state
from hilrt.tables.record import table

MS = 1_000_000


def channel_table(every, physical, catches_up, max_misses):
    """A table whose samples are of t = 0."""
    n = len(every)
    leaving = table(state.SubsystemState, n)
    leaving["dispatch"] = 1
    channels = ChannelTable(every, physical, catches_up, max_misses, 1e-3, leaving)
    channels.cut = table(given.GivenSubsystem, n)
    return channels


def equal(every=1, physical=False, catches_up=False, max_misses=3, n=1):
    """Of equal channels."""
    return channel_table([every] * n, [physical] * n, [catches_up] * n, [max_misses] * n)


def look(channels, tick):
    """Whether all is regular, and which one is lost, at a point of the grid."""
    return update_channels(channels.rows, channels.cut, tick, tick * MS, 1e-3)


def found(channels, *names):
    return tuple(channels.cut[0][name] for name in names)


def test_a_solver_that_has_answered_is_due_and_on_time():
    channels = equal()
    assert look(channels, 0) == (1, -1)
    assert found(channels, "due", "late", "busy") == (1, 0, 0)
    assert channels.age[0] == 0.0


def test_a_solver_that_has_not_answered_is_busy_and_late():
    channels = equal()
    channels.busy[0], channels.answer_ns[0] = 1, 1 * MS
    assert look(channels, 1) == (0, -1)
    assert found(channels, "due", "late", "busy") == (1, 1, 1)
    assert channels.age[0] == pytest.approx(1e-3)
    assert (channels.rows["misses"][0], channels.rows["late"][0]) == (1, 1)


def test_an_answer_that_came_after_its_tick_is_late_and_not_missing():
    channels = equal()
    channels.newest[0] = 1e-3
    assert look(channels, 2) == (0, -1)
    assert found(channels, "due", "late", "busy") == (1, 1, 0)
    assert (channels.rows["misses"][0], channels.rows["late"][0]) == (0, 1)


def test_calculated_channels_are_never_late_whatever_points_were_skipped():
    channels = equal()
    channels.rows["calculated"] = 1
    channels.newest[0] = 1e-3  # the interval before the points that were skipped
    assert look(channels, 4) == (1, -1)
    assert found(channels, "due", "late", "reached", "covered") == (1, 0, 0.004, 1e-3)
    assert (channels.age[0], channels.rows["late"][0]) == (0.0, 0)


def test_a_solver_that_steps_across_the_point_is_not_due():
    channels = equal(every=2)
    channels.busy[0], channels.answer_ns[0] = 1, 2 * MS
    for tick in (0, 1):  # an interval that began late may lead across a point of its own
        assert look(channels, tick) == (0, -1)
        assert found(channels, "due", "late") == (0, 0)
    assert channels.rows["misses"][0] == 0


def test_a_solver_that_catches_up_stands_where_its_intervals_end():
    channels = equal(catches_up=True)
    channels.busy[0], channels.pending_end_ns[0] = 1, 2 * MS
    assert look(channels, 2) == (0, -1)
    assert found(channels, "reached", "busy", "late") == (0.002, 0, 1)
    channels.newest[0] = 0.002
    assert look(channels, 2) == (1, -1)


@pytest.mark.parametrize(("age_ms", "late"), [(BENCH_PATIENCE, 0), (BENCH_PATIENCE + 1e-3, 1)])
def test_a_bench_is_late_when_its_newest_sample_is_too_old(age_ms, late):
    channels = equal(physical=True)
    channels.newest[0] = 0.01 - age_ms * 1e-3 + 1e-12
    assert look(channels, 10) == (1, -1)  # a bench lives by itself: it is never behind
    assert found(channels, "late", "reached", "covered") == (late, 0.01, 1e-3)
    assert channels.rows["misses"][0] == late


def test_a_bench_that_is_not_due_makes_the_point_irregular():
    channels = equal(every=2, physical=True)
    assert look(channels, 2) == (1, -1)
    assert look(channels, 3) == (0, -1)


def test_one_that_came_back_makes_the_point_irregular():
    channels = equal()
    channels.cut["rejoined"] = 1
    assert look(channels, 0) == (0, -1)


def test_too_many_misses_in_a_row_are_a_loss_and_the_first_one_is_named():
    channels = equal(n=3, max_misses=2)
    channels.busy[1:] = 1
    assert [look(channels, tick) for tick in (1, 2)] == [(0, -1)] * 2
    channels.newest[0] = 0.003
    assert look(channels, 3) == (0, 1)
    assert channels.rows["late"].tolist() == [2, 2, 2]  # the tick that ends the session is none
    channels.busy[1] = 0
    assert look(channels, 4)[1] == 2
    assert channels.rows["misses"].tolist() == [0, 0, 4]


def test_ticks_at_which_a_solver_is_not_due_do_not_end_its_misses():
    channels = equal(every=2)
    channels.busy[0], channels.answer_ns[0] = 1, 2 * MS
    look(channels, 2)
    channels.busy[0] = 0
    look(channels, 3)
    assert channels.rows["misses"][0] == 1
    look(channels, 4)
    assert channels.rows["misses"][0] == 0


@pytest.mark.parametrize(
    ("kind", "owes"), [({}, True), ({"physical": True}, False), ({"catches_up": True}, False)]
)
def test_a_solver_owes_an_answer_from_its_dispatch_on(kind, owes):
    """A bench never does; one that catches up, when its next interval is sent."""
    channels = equal(every=3, **kind)
    channels.note_dispatch(6 * MS, MS)
    assert channels.first_outstanding(9 * MS) == (0 if owes else -1)
    assert channels.first_outstanding(9 * MS - 1) == -1


def test_the_first_that_owes_an_answer():
    channels = equal(n=4)
    assert channels.first_outstanding(10 * MS) == -1
    channels.busy[:] = 0, 1, 1, 1
    channels.answer_ns[:] = 1 * MS, 5 * MS, 1 * MS, 1 * MS
    channels.answered[:] = 0, 0, 1, 0
    assert channels.first_outstanding(1 * MS) == 3
    assert channels.first_outstanding(5 * MS) == 1
    assert channels.first_outstanding(MS // 2) == -1


def test_the_compiled_look_is_the_python_one_bit_for_bit():
    rng, n = np.random.default_rng(3), 50
    channels = channel_table(
        rng.integers(1, 4, n).tolist(),
        (rng.random(n) < 0.3).tolist(),
        (rng.random(n) < 0.3).tolist(),
        rng.integers(0, 4, n).tolist(),
    )
    python = getattr(update_channels, "py_func", update_channels)
    for tick in range(30):
        channels.busy[:] = rng.random(n) < 0.5
        channels.answer_ns[:] = (tick + rng.integers(-1, 3, n)) * MS
        channels.pending_end_ns[:] = (tick + rng.integers(0, 2, n)) * MS
        channels.newest[:] = (tick - rng.integers(0, 4, n)) * MS * 1e-9
        channels.cut["rejoined"] = rng.random(n) < 0.1
        rows, cut = channels.rows.copy(), channels.cut.copy()
        expected = python(rows, cut, tick, tick * MS, 1e-3)
        assert look(channels, tick) == expected
        assert channels.rows.tobytes() == rows.tobytes()
        assert channels.cut.tobytes() == cut.tobytes()
