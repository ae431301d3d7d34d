"""Sequences and matching, with benches in memory."""

import asyncio

import numpy as np
import pytest

from hilrt.check.check_expect import check_procedures
from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.config.structs import Alarm, Match, Step
from hilrt.errors import PeerLost, SessionFault
from hilrt.link import Ports
from hilrt.reliability.alarms import Ranges, alarm_rows
from hilrt.session import benches as module
from hilrt.session.benches import Procedure
from hilrt.solver import Port
from hilrt.tables.plan import RANGE_SAFE
from tests.stepping import make_numerics, make_session

PORTS = {
    "model": Ports((Port("torque"),), (Port("speed", "1/min"),)),
    "bench": Ports(
        (Port("demand", "rad/s", min=0.0, max=200.0, start=5.0), Port("mode", max=3.0)),
        (Port("speed", "rad/s"),),
    ),
}


class Bench:
    """Realises its first input a share further at each look."""

    physical = True

    def __init__(self, name="bench", follow=0.5):
        self.name = name
        self.follow = follow
        self.moves = []
        self.latest = np.zeros(1)
        self.lost = ""

    async def arm(self, u):
        self.moves.append(u.tolist())

    def receive(self):
        if self.lost:
            raise PeerLost(self.name, self.lost)
        target = self.moves[-1][0] if self.moves else 0.0
        self.latest = self.latest + self.follow * (target - self.latest)


class Model:
    physical = False
    name = "model"
    latest = None

    def receive(self):
        raise AssertionError("a model is not looked at while no ticks run")


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(module, "POLL_S", 0.0)

    def make(bench, *alarms, speed=1000.0, ports=None):
        numerics = make_numerics(PORTS if ports is None else ports, physical=("bench",))
        told = []
        watched = alarm_rows(numerics.network, list(alarms))
        ranges = Ranges(numerics.network, numerics.plan)
        procedure = Procedure(
            [Model(), bench], ranges, watched, np.array([speed, 0.0]), 1.0, told.append
        )
        return procedure, told

    return make


async def test_steps_ramp_then_wait(made):
    bench = Bench()
    procedure, told = made(bench)
    steps = [
        Step(name="mode", ramp={"bench.mode": 2.0}),
        Step(ramp={"bench.demand": 50.0}, wait="bench.speed", min=49.0, max=51.0),
        Step(wait="bench.speed", min=49.9),
    ]
    await procedure.run(steps, procedure.network.u_start, "start")
    assert bench.moves == [[5.0, 2.0], [50.0, 2.0]]
    assert bench.latest[0] >= 49.9
    assert told == ["start step 0: mode", "start step 1", "start step 2"]


async def test_a_condition_that_does_not_come_names_step_signal_and_limits(made):
    procedure, _ = made(Bench(follow=0.0))
    steps = [Step(name="warm up", wait="bench.speed", min=10.0, max=20.0, timeout=0.02)]
    with pytest.raises(SessionFault, match=r"start step 0 warm up: bench.speed is 0, .* 10 to 20"):
        await procedure.run(steps, procedure.network.u_start, "start")


async def test_matching_converts_units_and_holds(made):
    bench = Bench()
    procedure, told = made(bench, speed=1000.0)
    await procedure.move(np.array([0.0, 104.72, 0.0]))
    await procedure.match([Match(signal="bench.speed", to="model.speed", tolerance=1.0, hold=0.01)])
    assert bench.latest[0] == pytest.approx(104.72, abs=1.0)
    assert told == ["bringing bench.speed to 104.72"]


async def test_sides_that_do_not_meet_end_the_session(made):
    bench = Bench(follow=1.0)
    procedure, _ = made(bench)
    await procedure.move(np.array([0.0, 50.0, 0.0]))
    with pytest.raises(SessionFault, match=r"match: bench.speed is 50, .* from 99 to 101"):
        await procedure.match([Match(signal="bench.speed", to=100.0, tolerance=1.0, timeout=0.02)])


async def test_alarms_act_while_waiting(made):
    bench = Bench()
    procedure, _ = made(bench, Alarm(signal="bench.speed", max=40.0, action="safe"))
    steps = [Step(ramp={"bench.demand": 50.0}, wait="bench.speed", min=49.0)]
    with pytest.raises(SessionFault, match=r"bench\.speed above 40"):
        await procedure.run(steps, procedure.network.u_start, "start")


async def test_a_value_outside_its_declared_range_fulfils_no_condition(made):
    """It is at what is waited for, and is not used; an alarm judges it all the same."""
    speed = Port("speed", "rad/s", min=0.0, max=40.0)
    ports = {**PORTS, "bench": Ports(PORTS["bench"].inputs, (speed,))}
    steps = [
        Step(ramp={"bench.demand": 50.0}, wait="bench.speed", min=49.0, timeout=0.02),
    ]
    procedure, _ = made(Bench(follow=1.0), ports=ports)
    with pytest.raises(SessionFault, match=r"bench.speed is 50, and was not from 49 to inf"):
        await procedure.run(steps, procedure.network.u_start, "start")
    alarm = Alarm(signal="bench.speed", max=45.0, action="safe")
    procedure, _ = made(Bench(follow=1.0), alarm, ports=ports)
    with pytest.raises(SessionFault, match=r"alarm: bench\.speed above 45"):
        await procedure.run(steps, procedure.network.u_start, "start")


async def test_a_value_outside_brings_the_safe_profile_where_its_policy_says_so(made):
    speed = Port("speed", "rad/s", min=0.0, max=40.0)
    ports = {**PORTS, "bench": Ports(PORTS["bench"].inputs, (speed,))}
    procedure, _ = made(Bench(follow=1.0), ports=ports)
    procedure.ranges.plan.outputs["range_policy"] = RANGE_SAFE
    with pytest.raises(SessionFault, match=r"bench.speed = 50 rad/s is above 40"):
        await procedure.move(np.array([0.0, 50.0, 0.0]))


class Slow(Bench):
    """A long ramp: it has arrived when the test says so."""

    def __init__(self, *values):
        super().__init__(*values)
        self.asked, self.arrived = asyncio.Event(), asyncio.Event()
        self.cancelled = False

    async def arm(self, u):
        await super().arm(u)
        self.asked.set()
        try:
            await self.arrived.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_alarms_act_while_a_bench_ramps(made):
    bench = Slow()
    procedure, _ = made(bench, Alarm(signal="bench.speed", max=40.0, action="safe"))
    async with asyncio.timeout(30.0):
        with pytest.raises(SessionFault, match=r"bench\.speed above 40"):
            await procedure.run(
                [Step(ramp={"bench.demand": 50.0})], procedure.network.u_start, "start"
            )
    assert bench.cancelled  # nothing goes on in the background


async def test_a_bench_that_is_lost_while_it_ramps_is_named_with_its_reason(made):
    bench = Slow()
    bench.lost = "enable withdrawn"
    procedure, _ = made(bench)
    with pytest.raises(PeerLost, match="enable withdrawn"):
        await procedure.move(procedure.network.u_start)


async def test_a_ramp_that_does_not_end_names_the_bench_and_the_limit(made):
    bench = Slow()
    procedure, _ = made(bench)
    procedure.timeout = 0.02
    with pytest.raises(PeerLost, match=r"could not be armed within 0\.02 s"):
        await procedure.move(procedure.network.u_start)
    assert bench.cancelled


def among(benches, timeout):
    """A procedure of several benches."""
    numerics = make_numerics({bench.name: PORTS["bench"] for bench in benches})
    ranges = Ranges(numerics.network, numerics.plan)
    alarms = alarm_rows(numerics.network, [])
    return Procedure(benches, ranges, alarms, np.zeros(2), timeout, print)


async def test_all_benches_are_held_at_once():
    """One that had to wait for another would miss its ticks."""
    benches = [Slow("one"), Slow("two")]
    procedure = among(benches, 30.0)
    holding = asyncio.ensure_future(procedure.hold(np.array([5.0, 2.0, 7.0, 1.0])))
    async with asyncio.timeout(30.0):
        for bench in benches:  # each has been asked before any has arrived
            await bench.asked.wait()
        for bench in benches:
            bench.arrived.set()
        await holding
    assert [bench.moves for bench in benches] == [[[5.0, 2.0]], [[7.0, 1.0]]]


async def test_of_benches_that_are_held_the_one_that_does_not_answer_is_named():
    benches = [Slow("one"), Slow("two")]
    benches[0].arrived.set()
    procedure = among(benches, 0.1)
    with pytest.raises(PeerLost, match=r"two.* could not be armed within 0\.1 s"):
        await procedure.hold(np.zeros(4))
    assert benches[1].cancelled


async def test_a_bench_that_is_lost_ends_the_wait(made):
    bench = Bench(follow=0.0)
    bench.lost = "enable withdrawn"
    procedure, _ = made(bench)
    with pytest.raises(PeerLost, match="enable withdrawn"):
        await procedure.run([Step(wait="bench.speed", min=1.0)], procedure.network.u_start, "start")


async def test_without_steps_nothing_moves(made):
    bench = Bench()
    procedure, told = made(bench)
    await procedure.run([], procedure.network.u_start, "start")
    await procedure.match([])
    assert bench.moves == told == []


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"start": [{"ramp": {"bench.demant": 1.0}}]}, "did you mean 'demand'"),
        ({"start": [{"ramp": {"bench.demand": 300.0}}]}, "lies outside 0 to 200"),
        ({"stop": [{"ramp": {"model.torque": 1.0}}]}, "not a set-point of a bench"),
        ({"start": [{"wait": "model.speed", "min": 1.0}]}, "does not change while no ticks run"),
        ({"start": [{"wait": "bench.speed"}]}, "has no limit"),
        ({"stop": [{}]}, "does nothing"),
        ({"match": [{"signal": "bench.speed", "to": "model.x", "tolerance": 1.0}]}, "no output"),
    ],
)
def test_check(tables, said):
    session = make_session(
        {"master": {"step": 1e-3}, "subsystems": {name: {} for name in PORTS}, **tables}
    )
    findings = Findings()
    check_procedures(Topology(session, dict(PORTS), {"bench"}), findings)
    assert [said in str(p) for p in findings.problems] == [True], findings.problems
