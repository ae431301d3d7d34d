"""What the master tells of itself, and how often."""

import asyncio
import math

import numpy as np
import pytest

from hilrt.errors import ConfigError
from hilrt.monitor import status
from hilrt.monitor.status import MAX_RESULTS, PERIOD_NS, StatusPublisher, set_points_of
from hilrt.monitor.telemetry import (
    AlarmStatus,
    ResultStatus,
    Status,
    alarm_order,
    alarm_words,
    display_order,
    merged,
    result_words,
)
from hilrt.record.feed import Feed
from hilrt.reliability.estimates import REPEATED, make_estimate
from hilrt.reliability.flags import flag_totals
from hilrt.reliability.verdict import SessionCourse, verdict
from hilrt.session.observers import StatusObserver, make_master
from hilrt.solver import Port
from hilrt.step_log.signals import build_topics
from tests.stepping import MemoryLink, Recorded, Stepping
from tests.virtual_clock import VirtualClock

MS = 1_000_000
EPOCH = 5_000_000_000


class Told:
    """Keeps what is published."""

    def __init__(self):
        self.statuses = []

    def publish(self, told):
        self.statuses.append(told)


@pytest.fixture
def publisher():
    return StatusPublisher(Told(), "test", 1.0, adjustable=["reliability.power_residual"])


@pytest.fixture
def master(monkeypatch, publisher):
    """A master on a virtual clock, with a step of 1 ms."""
    clock = VirtualClock(EPOCH)
    monkeypatch.setattr(status, "monotonic_ns", clock.now_ns)
    link = MemoryLink("a", Recorded({"y": np.sin}, [Port("u")]))
    s = Stepping({"a": link}, connections=[{"from": "a.y", "to": "a.u"}], master={"step": 1e-3})
    feed = Feed(build_topics(s.numerics))
    return make_master(s.assembled, s.real_time(clock), feed, publisher)


def slow(master, cut):
    """Every step takes 3.5 ms."""

    def slow_cut(tick, t_ns, elapsed_ns):
        master.pace.clock.advance(7 * MS // 2)
        return cut(tick, t_ns, elapsed_ns)

    return slow_cut


async def test_status_comes_every_period_with_the_rate_between(master, publisher):
    await master.run(1000 * MS, EPOCH)
    *told, last = publisher.telemetry.statuses
    assert np.diff([one.t for one in told]) == pytest.approx(PERIOD_NS * 1e-9)
    assert last.t == 1.0
    assert told[0].rate_hz == 0.0  # nothing to compare with
    assert [one.rate_hz for one in told[1:]] == pytest.approx(5 * [1000.0])


def test_a_status_is_built_in_the_slack_of_several_ticks(monkeypatch, publisher, master):
    """Each reading of the clock takes 100 us here, and so does each part of the status."""
    clock = VirtualClock(EPOCH)

    def reading():
        clock.advance(MS // 10)
        return clock.now_ns()

    monkeypatch.setattr(status, "monotonic_ns", reading)
    shown = StatusObserver(master.numerics, master.exchange, master.progress, Feed([]), publisher)
    told, turns = publisher.telemetry.statuses, 0
    given = master.numerics.given.session[0]
    while not told:
        before_ns = clock.now_ns()
        shown.idle(3 * MS // 10)
        assert clock.now_ns() - before_ns <= 3 * MS // 10
        turns += 1
        if not told:
            given.t, given.tick = turns * 1e-3, turns
    assert turns > 3
    assert (told[0].t, told[0].tick) == ((turns - 1) * 1e-3, turns - 1)  # of the same step
    shown.idle(0.0)
    assert len(told) == 1
    shown.closing(True)  # at once, whatever time there is
    assert len(told) == 2


async def test_messages_that_a_link_missed_are_told(master, publisher):
    (link,) = master.exchange.links
    link.lost, link.dropped = 3, 2
    await master.run(1 * MS, EPOCH)
    peer = publisher.telemetry.statuses[-1].peers["a"]
    assert (peer.lost, peer.dropped) == (3, 2)


async def test_what_is_watched_ends_with_the_last_numbers(master, publisher):
    """Also where the newest message alone is kept: announcements tell them again."""
    master.exchange.cut = slow(master, master.exchange.cut)
    await master.run(90 * MS, EPOCH)
    publisher.announce("STOPPED", "finished")
    last = publisher.telemetry.statuses[-1]
    assert (last.state, last.message) == ("STOPPED", "finished")
    assert (last.t, last.missed) == (master.progress.t_ns / 1e9, master.progress.missed)
    assert last.missed > 0
    assert last.values
    totals = flag_totals(master.numerics.checks, master.numerics.state)
    found = verdict(totals, SessionCourse(last.t, None, last.missed, master.progress.steps))
    assert last.verdict == found.word == "unreliable"  # for the missed ticks alone


async def test_the_verdict_rests_on_errors_that_other_runs_have_found(master, publisher):
    """As the final one does: a repeated session is judged by that from its start."""
    await master.run(300 * MS, EPOCH)
    publisher.errors = {"a.y": make_estimate("", 0.3, 1.0, REPEATED)}
    await master.run(300 * MS, EPOCH + 1000 * MS)
    first, *_, last = publisher.telemetry.statuses
    assert (first.verdict, last.verdict) == ("good", "unreliable")
    assert any("a.y" in reason for reason in last.reasons)


async def test_adjustable_numbers_are_told_as_they_are(master, publisher):
    await master.run(250 * MS, EPOCH)
    master.numerics.changes.add("reliability.power_residual", 0.25)
    await master.run(250 * MS, EPOCH + 1000 * MS)
    told = [one.adjustable["reliability.power_residual"] for one in publisher.telemetry.statuses]
    assert told[0] != told[-1] == 0.25


async def test_rate_counts_the_steps_that_were_made(master, publisher):
    """Not the ticks: those that were skipped have passed, too."""
    master.exchange.cut = slow(master, master.exchange.cut)
    await master.run(1000 * MS, EPOCH)
    told = publisher.telemetry.statuses
    assert told[-1].missed > 500
    assert len(told) > 3  # although there is never any slack
    assert [one.rate_hz for one in told[1:]] == pytest.approx((len(told) - 1) * [1e3 / 3.5])


async def test_lateness_is_that_of_the_period(master, publisher):
    """One late tick is gone from the next status."""
    cut = master.exchange.cut

    def once_slow(tick, t_ns, elapsed_ns):
        if tick == 250:
            master.pace.clock.advance(80 * MS)
        return cut(tick, t_ns, elapsed_ns)

    master.exchange.cut = once_slow
    await master.run(1000 * MS, EPOCH)
    worst = [one.lateness_us.max for one in publisher.telemetry.statuses if one.lateness_us]
    assert max(worst) >= 79e3
    assert worst[-1] < 1e3


async def test_cause_stays_in_view_while_the_session_is_degraded(master, publisher):
    publisher.announce("IMPAIRED", "engine is late")
    await master.run(100 * MS, EPOCH)
    assert publisher.telemetry.statuses[-1].message == "engine is late"
    publisher.announce("RUNNING", "first tick")
    await master.run(10 * MS, EPOCH)
    assert publisher.telemetry.statuses[-1].message == ""


def test_announcement_is_repeated_until_the_next(master, publisher):
    publisher.repeat()  # nothing has been said
    publisher.announce("CONNECTED", "waiting for engine")
    publisher.repeat()
    told = publisher.telemetry.statuses
    assert [(one.state, one.message) for one in told] == 2 * [("CONNECTED", "waiting for engine")]


def test_a_wait_is_told_with_its_time(master, publisher):
    clock = master.pace.clock
    publisher.announce("CONNECTING", "waiting for engine, vehicle")
    clock.advance(2000 * MS)
    publisher.announce("CONNECTING", "waiting for engine", still=True)
    clock.advance(1000 * MS)
    publisher.repeat()
    publisher.announce("INITIALIZED", "press Enter")
    clock.advance(500 * MS)
    publisher.repeat()
    publisher.announce("RUNNING", "first tick")
    clock.advance(500 * MS)
    publisher.repeat()
    waits = [one.waited_s for one in publisher.telemetry.statuses]
    assert waits == pytest.approx([0.0, 2.0, 3.0, 0.0, 0.5, 0.0, 0.0])


async def test_an_end_that_takes_time_keeps_the_last_numbers(master, publisher):
    """A view that is opened then must not see a session at its beginning."""
    publisher.announce("RUNNING", "first tick")
    await master.run(90 * MS, EPOCH)
    publisher.announce("STOPPING", "bringing engine to rest")
    publisher.repeat()
    told = publisher.telemetry.statuses[-1]
    assert (told.state, told.t) == ("STOPPING", master.progress.t_ns / 1e9)
    assert told.values


async def test_values_are_in_the_order_of_display(master, publisher):
    publisher.order = [0]
    master.exchange.channels["age"] = -0.002
    await master.run(10 * MS, EPOCH)
    told = publisher.telemetry.statuses[-1]
    assert list(told.values) == ["a.y"]
    assert [peer.age_ms >= 0.0 for peer in told.peers.values()] == [True]


NAMES = ["model.x", "bench.torque", "model.v[0]", "model.v[1]", "bench.speed"]
BENCH = [False, True, False, False, True]


@pytest.mark.parametrize(
    ("chosen", "order"),
    [
        ([], [1, 4, 0, 2, 3]),
        (["model.v"], [2, 3, 1, 4, 0]),
        (["bench.speed", "bench.*"], [4, 1, 0, 2, 3]),
        (["model.v[1]"], [3, 1, 4, 0, 2]),
    ],
)
def test_benches_are_shown_first_or_what_is_chosen(chosen, order):
    assert display_order(NAMES, BENCH, chosen) == order


def test_a_value_that_there_is_not_is_refused():
    with pytest.raises(ConfigError, match=r"\[monitor\] values = 'bench.speeed': is not an output"):
        display_order(NAMES, BENCH, ["bench.speeed"])


@pytest.mark.usefixtures("master")
async def test_session_whose_loop_does_not_run_says_that_it_is_there(publisher, monkeypatch):
    monkeypatch.setattr(status, "ALIVE_S", 0.0)
    told = publisher.telemetry.statuses
    publisher.announce("FAULT", "bench gone")
    alive = asyncio.ensure_future(publisher.keep_alive())
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(told) > 3
    publisher._next_ns = 2 * EPOCH  # the loop publishes
    had = len(told)
    for _ in range(20):
        await asyncio.sleep(0)
    alive.cancel()
    assert len(told) == had
    assert {(one.state, one.message) for one in told} == {("FAULT", "bench gone")}


def test_every_result_counts_and_passed_ones_push_no_failed_one_out():
    publisher = StatusPublisher(Told(), "test", 1.0)
    publisher.add_result(ResultStatus("limit", "failed", "beyond"))
    for i in range(2 * MAX_RESULTS):
        publisher.add_result(ResultStatus(f"point {i}", "passed"))
    publisher.announce("RUNNING")
    (told,) = publisher.telemetry.statuses
    assert result_words(told) == f"results: {2 * MAX_RESULTS} passed, 1 failed"
    assert [one.name for one in told.results][0::MAX_RESULTS] == ["limit"]
    assert told.results[-1].name == f"point {2 * MAX_RESULTS - 1}"
    assert len(told.results) == MAX_RESULTS


async def test_set_points_are_demanded_sent_and_measured(publisher):
    """A demand of 5 is limited to 3; the bench measures 180 degrees of angle as pi."""
    ports = [Port("u", "rad", max=3.0)]
    bench = MemoryLink("bench", Recorded({"angle": lambda t: 180.0}, ports), physical=True)
    bench.outputs = (Port("angle", "deg"),)
    a = MemoryLink("a", Recorded({"y": lambda t: 5.0}))
    a.outputs = (Port("y", "rad"),)
    connections = [{"from": "a.y", "to": "bench.u"}]
    s = Stepping({"a": a, "bench": bench}, connections=connections, master={"step": 1e-3})
    s.plan.inputs["realised_by"] = s.output("bench.angle")
    s.run(0.01)
    (name, point), *others = set_points_of(s.numerics, {}).items()
    assert (name, others) == ("bench.u", [])
    assert (point.demanded, point.sent, point.measured) == (5.0, 3.0, pytest.approx(math.pi))
    assert (point.unit, point.by) == ("rad", "a.y")
    assert set_points_of(s.numerics, {"bench.u": "operator"})["bench.u"].by == "operator"
    s.plan.inputs["realised_by"] = -1
    assert math.isnan(set_points_of(s.numerics, {})["bench.u"].measured)


def test_alarms_are_told_with_who_has_seen_them(publisher):
    publisher.alarms.note("hot", 1.5, raised=True)
    publisher.announce("RUNNING")
    assert publisher.alarms.acknowledge("hot", "Ada", 2.5)
    publisher.alarms.note("hot", 3.0, raised=False)
    publisher.repeat()
    before, after = (one.alarms for one in publisher.telemetry.statuses)
    assert before == [AlarmStatus("hot", 1, 1.5, 1.5)]
    assert after == [AlarmStatus("hot", 1, 1.5, 1.5, 3.0, "Ada", 2.5)]
    assert merged(Status(session="s", state="RUNNING"), publisher.telemetry.statuses[-1]).alarms


def test_urgent_alarms_come_first():
    seen = {"acknowledged_by": "Ada", "acknowledged_t": 9.0}
    old, cleared = AlarmStatus("old", 2, 1.0, 4.0, **seen), AlarmStatus("cleared", 1, 2.0, 2.0, 3.0)
    gone = AlarmStatus("gone", 1, 1.0, 1.0, 2.0, **seen)
    new = AlarmStatus("new", 1, 8.0, 8.0)
    status = Status(session="s", state="RUNNING", alarms=[gone, old, cleared, new])
    assert [one.name for one in alarm_order(status)] == ["new", "cleared", "old", "gone"]
    assert [one.open for one in alarm_order(status)] == [True, True, True, False]
    said = "active since 4.0 s, 2 times since 1.0 s; acknowledged by Ada at 9.0 s"
    assert alarm_words(old) == said
