import asyncio
import time

import numpy as np
import pytest

from hilrt.errors import SessionFault
from hilrt.exchange.jacobians import find_jacobians
from hilrt.exchange.master import End, Master
from hilrt.models.linear import Linear
from hilrt.monitor.status import StatusPublisher
from hilrt.record.feed import Feed
from hilrt.reliability.flags import flag_totals
from hilrt.session.observers import make_master
from hilrt.session.summary import RunFacts, build_summary
from hilrt.solver import Port
from hilrt.step.observer import Observer, Observers
from hilrt.step_log.signals import build_topics
from tests.stepping import MemoryLink, Recorded, Stepping
from tests.virtual_clock import VirtualClock

MS = 1_000_000
EPOCH = 5_000_000_000


class Stalling(MemoryLink):
    """A subsystem whose inputs take time to hand over at given ticks, by a virtual clock."""

    def __init__(self, clock: VirtualClock, stalls: dict[int, int]) -> None:
        super().__init__("a", Recorded({"y": np.sin}, [Port("u")]))
        self.clock, self.stalls = clock, stalls

    def dispatch(self, tick, t, h, coefficients):
        super().dispatch(tick, t, h, coefficients)
        self.clock.advance(self.stalls.get(tick, 0))


def prepare(
    stalls: dict[int, int], every: int = 1, overrun="skip", on_shift=lambda ns: None
) -> tuple[Master, Stalling]:
    """A master; beside the stalling subsystem one that is due only so often."""
    clock = VirtualClock(EPOCH)
    link = Stalling(clock, stalls)
    s = Stepping(
        {"a": link, "slow": Recorded({"y": np.cos}, [])},
        connections=[{"from": "a.y", "to": "a.u"}],
        subsystems={"a": {}, "slow": {"every": every}},
        master={"step": 1e-3, "pacing": {"overrun": overrun}},
    )
    feed = Feed(build_topics(s.numerics))
    publisher = StatusPublisher(None, "test", 0.02)
    return make_master(s.assembled, s.real_time(clock, on_shift), feed, publisher), link


async def test_without_stalls_nothing_is_missed():
    master, link = prepare({})
    assert await master.run(20 * MS, EPOCH) is End.FINISHED
    assert (master.progress.steps, master.progress.missed) == (20, 0)
    assert master.progress.timeline.causes == {}
    assert [asked.tick for asked in link.asked] == list(range(20))


async def test_a_late_tick_is_missed_and_the_next_one_is_not():
    master, link = prepare({4: MS // 2})
    await master.run(20 * MS, EPOCH)
    progress = master.progress
    assert (progress.steps, progress.missed) == (20, 1)
    assert progress.timeline.causes == {"dispatch": 1}
    worst = progress.timeline.slowest()[0]
    assert (worst["tick"], worst["cause"]) == (4, "dispatch")
    assert worst["lateness_us"] == pytest.approx(500.0)
    assert len(link.asked) == 20


async def test_ticks_that_passed_are_left_out_and_the_grid_stays():
    master, link = prepare({4: 5 * MS + MS // 2})
    await master.run(20 * MS, EPOCH)
    progress = master.progress
    # Tick 4 is late itself; 5 to 8 have wholly passed; 9 has begun and runs late.
    assert [asked.tick for asked in link.asked] == [*range(5), *range(9, 20)]
    assert (link.asked[5].t, link.asked[5].h) == pytest.approx((0.005, 0.005))  # one merged step
    assert progress.timeline.causes == {"dispatch": 1, "skipped": 4, "previous": 1}
    assert progress.missed == 6
    assert progress.max_h == 5 * MS
    flags = flag_totals(master.numerics.checks, master.numerics.state)
    assert flags["deadline_missed"].raised == 1
    assert master.pace.clock.now_ns() == EPOCH + 20 * MS


async def test_stretching_leaves_no_tick_out_and_tells_by_how_much():
    shifts: list[int] = []
    stalls = {4: 5 * MS + MS // 2}
    master, link = prepare(stalls, overrun="stretch", on_shift=shifts.append)
    await master.run(20 * MS, EPOCH)
    progress = master.progress
    assert [asked.tick for asked in link.asked] == list(range(20))
    assert shifts == [4 * MS + MS // 2]
    assert progress.stretched_ns == sum(shifts)
    assert progress.max_h == MS
    assert progress.missed == 1 + 4  # tick 4, and the four grid points that passed meanwhile
    assert master.pace.clock.now_ns() == EPOCH + 20 * MS + sum(shifts)


async def test_an_overrun_can_end_the_session():
    master, _ = prepare({4: 5 * MS}, overrun="stop")
    with pytest.raises(SessionFault, match=r"t = 0\.005 s is 4\.0 ms behind .*overrun is"):
        await master.run(20 * MS, EPOCH)


async def test_a_tick_that_could_only_begin_too_late_is_left_out_too():
    """It would be late itself, and the one after it with it."""
    master, link = prepare({4: MS + 6 * MS // 10})
    await master.run(20 * MS, EPOCH)
    assert [asked.tick for asked in link.asked] == [*range(5), *range(6, 20)]
    assert (link.asked[5].t, link.asked[5].h) == pytest.approx((0.005, 0.002))
    assert master.progress.missed == 2  # tick 4, and tick 5
    assert master.progress.timeline.causes == {"dispatch": 1, "skipped": 1}


def held_up(monkeypatch, master, naps: dict[int, int]) -> None:
    """Let the clock wake the master so much later [ns] than these grid points."""
    sleep_until = master.pace.clock.sleep_until

    async def oversleep(target_ns: int, **how: object) -> None:
        await sleep_until(target_ns, **how)
        master.pace.clock.advance(naps.pop((target_ns - EPOCH) // MS, 0))

    monkeypatch.setattr(master.pace.clock, "sleep_until", oversleep)


@pytest.mark.parametrize(
    ("late_ns", "resumed"), [(MS // 2, 8), (6 * MS // 10, 9), (2 * MS, 10), (26 * MS // 10, 11)]
)
async def test_a_tick_for_which_the_master_wakes_too_late_is_left_out(
    monkeypatch, late_ns, resumed
):
    master, link = prepare({})
    held_up(monkeypatch, master, {8: late_ns})
    await master.run(20 * MS, EPOCH)
    assert [asked.tick for asked in link.asked] == [*range(8), *range(resumed, 20)]
    assert link.asked[8].h == pytest.approx(1e-3 * (resumed - 7))  # one merged step
    assert master.progress.missed == max(1, resumed - 8)
    assert master.progress.steps == 20 - (resumed - 8)
    flags = flag_totals(master.numerics.checks, master.numerics.state)
    assert flags["deadline_missed"].raised == 1
    assert master.pace.clock.now_ns() == EPOCH + 20 * MS


async def test_with_several_rates_a_late_tick_is_not_left_out(monkeypatch):
    """A subsystem that is due at every fifth tick would lose all five."""
    master, link = prepare({4: MS + 6 * MS // 10}, every=5)
    held_up(monkeypatch, master, {10: 6 * MS // 10})
    await master.run(20 * MS, EPOCH)
    assert [asked.tick for asked in link.asked] == list(range(20))
    assert master.progress.missed == 3  # 4, 5 and 10


async def test_with_a_clock_that_is_always_late_ticks_run_late(monkeypatch):
    master, link = prepare({})
    held_up(monkeypatch, master, dict.fromkeys(range(1, 20), 7 * MS // 10))
    await master.run(20 * MS, EPOCH)
    assert [asked.tick for asked in link.asked] == [0, *range(2, 20)]
    assert master.progress.missed == 19


@pytest.mark.parametrize("overrun", ["skip", "stretch", "stop"])
async def test_a_tick_that_is_only_late_is_no_overrun(overrun):
    master, link = prepare({4: MS + MS // 2}, overrun=overrun)
    await master.run(20 * MS, EPOCH)
    assert [asked.tick for asked in link.asked] == list(range(20))
    assert master.progress.stretched_ns == 0
    assert master.progress.missed == 2  # tick 4, and tick 5 that begins half a step late


async def test_a_fault_of_the_recording_ends_the_loop_at_the_next_point():
    master, link = prepare({})

    class FullDisk(Observer):
        def stepped(self, turn):
            if turn.point.t_ns == 5 * MS:
                master.request_end("no disk")

    master.observers = Observers([FullDisk()])
    assert await master.run(20 * MS, EPOCH) is End.FAULTY
    assert master.fault == "no disk"
    assert [asked.tick for asked in link.asked] == list(range(6))  # nothing is sent at the end
    assert master.progress.steps == 6


class Slow(Recorded):
    """A model that takes 10 ms for a step."""

    def advance(self, t, h, u):
        time.sleep(0.01)
        return super().advance(t, h, u)


async def test_as_fast_as_possible_others_have_their_turn_after_every_step_of_a_slow_model():
    s = Stepping({"slow": Slow({"y": np.sin}, [])}, connections=[], master={"step": 1e-3})
    feed = Feed(build_topics(s.numerics))
    publisher = StatusPublisher(None, "test", 1.0)
    master = make_master(s.assembled, s.as_fast_as_possible(), feed, publisher)
    asyncio.get_running_loop().call_later(0.03, master.request_stop, "enough")
    assert await master.run(1000 * MS, EPOCH) is End.INTERRUPTED
    assert master.progress.steps <= 10


H = 2e-4  # s


def identifying() -> Stepping:
    """Two oscillators that move each other, both identified."""
    A, B, C = [[0.0, 1.0], [-9e4, -30.0]], [[0.0], [1.0]], [[100.0, 0.0]]
    first = Linear(A, B, C, x0=[1.0, 0.0], inputs=["v [m/s]"], outputs=["force [N]"])
    second = Linear(A, B, C, x0=[0.6, 0.0], inputs=["force [N]"], outputs=["v [m/s]"])
    s = Stepping(
        {"one": first, "two": second},
        master={"step": H, "extrapolation": {"order": 1}},
        subsystems={
            name: {"jacobian": {"source": "identify", "dither": 1e-3}} for name in ("one", "two")
        },
        connections=[{"from": "one.force", "to": "two.force"}, {"from": "two.v", "to": "one.v"}],
        bonds=[
            {
                "name": "b",
                "effort": "one.force",
                "flow": "two.v",
                "correction": {"method": "model"},
            }
        ],
    )
    links = list(s.links.values())
    s.correct(jacobians=asyncio.run(find_jacobians(s.network, s.tables, links, s.u0)))
    return s


@pytest.mark.parametrize(("busy_ns", "made"), [(20_000, 300), (190_000, 0)])
def test_identification_learns_only_where_it_fits_before_the_next_tick(monkeypatch, busy_ns, made):
    """One turn takes 50 us; the rest of a tick of 200 us leaves room for it, or does not."""
    clock, s = VirtualClock(EPOCH), identifying()
    looks: list[bool] = []
    assess = s.numerics.assess

    def timed():
        looks.append(bool(s.numerics.slack["learns"][0]))
        clock.advance(50_000 if looks[-1] else 1_000)
        assess()

    monkeypatch.setattr(s.numerics, "assess", timed)
    dispatch = s.exchange.dispatch

    def busy(*arguments):
        dispatch(*arguments)
        clock.advance(busy_ns)

    monkeypatch.setattr(s.exchange, "dispatch", busy)
    publisher = StatusPublisher(None, "test", 300 * H)
    feed = Feed(build_topics(s.numerics))
    master = make_master(s.assembled, s.real_time(clock), feed, publisher)
    asyncio.run(master.run(round(300 * H * 1e9), EPOCH))
    budget = master.progress.learning
    assert budget.made + budget.skipped == len(looks) == 301
    assert budget.made == sum(looks)
    assert made <= budget.made <= made + 12  # now and then it is tried again
    # What was sampled is remembered in any case.
    assert (s.state.model.learning.regressions["unbroken"] == 300).all()


@pytest.mark.parametrize(("every", "word"), [(8, "degraded"), (4, "unreliable"), (40, "")])
async def test_a_session_that_misses_many_ticks_is_not_good(every, word):
    """12 % of them in the first case: what was to act in them acted late."""
    master, _ = prepare(dict.fromkeys(range(every, 200, every), MS // 2))
    await master.run(200 * MS, EPOCH)
    missed = master.progress.missed
    assert missed == len(range(every, 200, every))
    facts = RunFacts("busy", "stopped", 0.2, real_time=True, fault=None)
    summary = build_summary(master.numerics, master.exchange, master.progress, facts)
    reasons = [one for one in summary["reasons"] if one.startswith("deadline_missed: ")]
    if word:
        assert reasons[0].startswith(f"deadline_missed: {missed} ticks in 200 steps")
        assert summary["verdict"] != "good"
    else:
        assert not any("ticks in" in one for one in reasons)
