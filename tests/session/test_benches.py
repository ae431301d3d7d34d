"""Benches after the last tick: the stop sequence, and what cuts it short."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from hilrt.config.structs import Step
from hilrt.exchange.master import End
from hilrt.link import Ports
from hilrt.monitor.session_state import SessionState
from hilrt.monitor.status import StatusPublisher
from hilrt.reliability.alarms import STOP
from hilrt.session import benches
from hilrt.session.assembly import Assembled
from hilrt.session.benches import Benches
from hilrt.session.ending import Ending, LoopEnd, value_fault
from hilrt.session.event_log import EventLog
from hilrt.session.operation import Operator
from hilrt.session.processes import Processes
from hilrt.session.result import Result
from hilrt.solver import Port
from tests.stepping import make_numerics

BENCH = Ports((Port("demand", "rad/s", max=200.0),), (Port("speed", "rad/s"),))
NEVER = Step(wait="bench.speed", min=1000.0, timeout=600.0)


class Bench:
    """Stands still at 50 rad/s; notes what it is told."""

    physical = True

    def __init__(self, name="bench"):
        self.name = name
        self.told = []
        self.latest = np.array([50.0])
        self.not_at_rest = ""
        self.looks = 0
        self.on_look = lambda: None

    async def arm(self, u):
        self.told.append(("arm", *u.tolist()))

    async def safe(self, reason):
        self.told.append(("safe", reason))

    async def stop(self, reason):
        self.told.append(("stop", reason))

    def receive(self):
        self.looks += 1
        self.on_look()


class Loop:
    """What is left of the master after its last tick."""

    stop_requested = ""

    def request_stop(self, reason):
        self.stop_requested = self.stop_requested or reason

    def stopping(self):
        return bool(self.stop_requested)


class Ended(SimpleNamespace):
    """A session whose loop has ended."""

    def interrupt(self, reason):
        self.interrupted = reason
        self.master.request_stop(reason)

    async def bring_down(self, ended):
        return await self.ending.bring_down(self.assembled, self.master, ended)


@pytest.fixture
def ending(monkeypatch, tmp_path):
    """A session whose loop has ended, made of fake benches: function that brings it down."""
    monkeypatch.setattr(benches, "POLL_S", 0.0)

    def make(*benches, steps=(), alarms=(), sent=(40.0,)):
        numerics = make_numerics({bench.name: BENCH for bench in benches}, alarms=list(alarms))
        numerics.state.outputs["y"] = 50.0
        numerics.state.inputs["polynomial"][:, 0] = sent
        tables = SimpleNamespace(
            stop=list(steps),
            calculated=[],
            master=SimpleNamespace(arm_timeout=30.0),
            monitor=SimpleNamespace(adjust={}),
        )
        session = Ended()
        publisher = StatusPublisher(None, "s", 1.0)
        session.events = events = EventLog(publisher)
        session.operator = operator = Operator(events, tables)
        brought_up = Benches(list(benches), tables, events, publisher, operator)
        brought_up.armed = list(benches)
        session.result, session.interrupted = Result(), ""
        processes = Processes(
            tmp_path, events, session.result.warnings, lambda name, pid, text: False
        )
        session.ending = Ending(
            brought_up, operator, events, processes, session.result, lambda: session.interrupted
        )
        events.state = SessionState.RUNNING
        session.master = operator.master = Loop()
        reports = SimpleNamespace(take=lambda: [])
        session.assembled = Assembled(numerics, SimpleNamespace(reports=reports, ended={}))
        return session

    return make


async def bring_down(session, end=End.FINISHED):
    async with asyncio.timeout(60.0):
        fault = value_fault(session.assembled.numerics) if end is End.ALARMED else None
        return await session.bring_down(LoopEnd(end, fault))


async def test_a_stop_sequence_then_the_safe_profile(ending):
    bench = Bench()
    session = ending(bench, steps=[Step(ramp={"bench.demand": 10.0})])
    states = []
    bench.on_look = lambda: states.append(str(session.events.state))
    assert await bring_down(session) is None
    assert set(states) == {"STOPPING"}  # it does not run while the bench is brought to rest
    assert bench.told[-2:] == [("arm", 10.0), ("stop", "session finished")]
    assert (session.events.state, session.result.exit_status) == (SessionState.STOPPED, 0)


UNREST = "bench two was NOT brought to rest: its gateway did not answer"


@pytest.mark.parametrize("interrupted", [False, True])
async def test_a_bench_that_is_not_known_to_be_at_rest_is_a_fault(ending, interrupted):
    benches = [Bench("one"), Bench("two")]
    benches[1].not_at_rest = "its gateway did not answer"
    session = ending(*benches)
    if interrupted:
        session.interrupt("Ctrl-C")
    assert await bring_down(session, End.INTERRUPTED if interrupted else End.FINISHED) == UNREST
    status = 130 if interrupted else 3  # the graver one
    assert (session.events.state, session.result.exit_status) == (SessionState.FAULT, status)
    assert session.result.fault == UNREST


async def test_after_a_fault_it_is_told_beside_that(ending):
    benches = [Bench("one"), Bench("two")]
    benches[1].not_at_rest = "its gateway did not answer"
    session = ending(*benches)
    fault = await session.bring_down(LoopEnd(None, "one is lost", "one"))
    assert (fault, session.result.fault) == ("one is lost", "one is lost")
    assert session.result.warnings == [UNREST]


async def test_benches_hold_their_set_points_before_the_first_stop_step(ending):
    """A gateway that is not told to wait takes the end of the ticks for that of the master."""
    benches = [Bench("one"), Bench("two")]
    steps = [Step(wait="one.speed", max=60.0), Step(ramp={"two.demand": 10.0})]
    session = ending(*benches, steps=steps, sent=(40.0, 30.0))
    assert await bring_down(session) is None
    assert [bench.told[0] for bench in benches] == [("arm", 40.0), ("arm", 30.0)]
    assert benches[1].told[1:] == [("arm", 10.0), ("stop", "session finished")]


async def test_a_signal_in_the_stop_sequence_brings_the_safe_profile_at_once(ending):
    bench = Bench()
    session = ending(bench, steps=[NEVER])
    states = []
    bench.on_look = lambda: bench.looks == 5 and session.interrupt("Ctrl-C")
    session.events.publisher.announce = lambda state, cause: states.append(state)
    assert await bring_down(session) is None
    assert bench.told[-1] == ("stop", "Ctrl-C")
    assert states[-2:] == ["SAFE", "STOPPED"]
    assert (session.result.exit_status, session.result.warnings) == (130, [])
    assert not session.operator.in_stop_sequence


async def test_the_operators_safe_in_the_stop_sequence_holds_the_session(ending):
    bench = Bench()
    session = ending(bench, steps=[NEVER])
    command = SimpleNamespace(action="safe", who="Ada", text="")
    bench.on_look = lambda: bench.looks == 5 and session.operator.obey(command)
    session.operator.end.set()  # and is ended by them later
    await bring_down(session)
    assert bench.told[-2][0] == "safe"
    assert bench.told[-1][0] == "stop"
    assert session.result.exit_status == 130


def alarm(**values):
    return {"signal": "bench.speed", "action": "stop", **values}


def raise_first_alarm(session):
    """The first alarm is active, and ends the session."""
    state = session.assembled.numerics.state
    state.alarms["active"][0], state.session["alarm_level"] = 1, STOP


async def test_an_alarm_in_the_stop_sequence_brings_the_safe_profile(ending):
    """Also one that could have ended the session; its loop did not see it."""
    bench = Bench()
    session = ending(bench, steps=[NEVER], alarms=[alarm(max=60.0), alarm(min=-1.0)])

    def runs_away():
        bench.latest = np.array([50.0 if bench.looks < 5 else 70.0])

    bench.on_look = runs_away
    assert await bring_down(session) is None
    assert bench.told[-1][0] == "stop"
    (warning,) = session.result.warnings
    assert warning == "stop sequence: alarm: bench.speed above 60 (70)"


async def test_an_alarm_that_is_active_does_not_keep_the_stop_sequence_from_running(ending):
    bench = Bench()
    steps = [Step(ramp={"bench.demand": 10.0}), NEVER]
    session = ending(bench, steps=steps, alarms=[alarm(max=40.0), alarm(max=60.0)])
    raise_first_alarm(session)

    def runs_away():
        bench.latest = np.array([50.0 if bench.told[-1:] != [("arm", 10.0)] else 70.0])

    bench.on_look = runs_away
    assert await bring_down(session, End.ALARMED) == "alarm: bench.speed above 40"
    assert ("arm", 10.0) in bench.told
    (warning,) = session.result.warnings
    assert "bench.speed above 60 (70)" in warning
    assert "above 40" not in warning


async def test_a_recording_that_is_lost_ends_through_the_stop_sequence(ending):
    bench = Bench()
    session = ending(bench, steps=[Step(ramp={"bench.demand": 10.0})])
    fault = await session.bring_down(LoopEnd(End.FAULTY, "the recording is lost"))
    assert fault == "the recording is lost"
    assert bench.told[-2:] == [("arm", 10.0), ("stop", "the recording is lost")]
    assert (session.events.state, session.result.exit_status) == (SessionState.FAULT, 3)


async def test_after_an_alarm_an_interruption_leaves_the_fault(ending):
    bench = Bench()
    session = ending(bench, steps=[NEVER], alarms=[alarm(max=40.0)])
    raise_first_alarm(session)
    bench.on_look = lambda: bench.looks == 5 and session.interrupt("Ctrl-C")
    assert "bench.speed above 40" in await bring_down(session, End.ALARMED)
    assert (session.events.state, session.result.exit_status) == (SessionState.FAULT, 130)
