"""In real time, on a virtual clock: sensitivities are renewed between the steps of the solvers."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hilrt import RunOptions, run_session
from hilrt.config.session_file import load_session
from hilrt.hosting.slack_trial import SlackTrial
from hilrt.link import LinearModel
from hilrt.monitor.status import StatusPublisher
from hilrt.session.assembly import assemble, real_time
from hilrt.session.ending import finish, prepare, run, summarise
from hilrt.session.event_log import EventLog
from hilrt.session.initialization import initialize
from hilrt.session.opening import Connected
from hilrt.session.result import Result
from hilrt.session.simulate import MemoryFeed
from hilrt.solver import Floats
from hilrt.step_log.signals import build_topics
from hilrt_adapters.inprocess import InProcessLink
from tests.reliability.test_changing_sensitivities import CASES, judged, true_word, uncovered
from tests.virtual_clock import VirtualClock

#: A tenth of this is what a step takes, and a solver waits the rest of it.
TICK_NS = 5_000_000


class HostedElsewhere(InProcessLink):
    """A solver as its own process would host it; it takes a tenth of every tick."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.in_slack, self.now_ns, self.ended = self, 0, False

    async def open(self) -> None:
        await super().open()
        self.trial = SlackTrial(self._hosted, self._now_ns)

    def _now_ns(self) -> int:
        self.now_ns += TICK_NS // 1000
        return self.now_ns

    def begin_trial(self, h: float, u: Floats) -> None:
        self.trial.begin(u, h)

    def trial_result(self) -> tuple[bool, LinearModel | None]:
        ended, self.ended = self.ended, False
        return ended, self.trial.found

    def abandon_trial(self) -> None:
        pytest.fail("a trial was given up")

    def receive(self) -> None:
        job = self._job
        if job is not None:
            self.trial.step_begins()
        super().receive()
        if job is not None:
            self.now_ns += TICK_NS // 10
            self.trial.step_ended(job[0] + job[1])
            self.ended |= self.trial.work()
            self.now_ns += TICK_NS


@pytest.fixture(autouse=True)
def evaluated_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master takes no time to evaluate a trial, however busy this machine is."""
    monkeypatch.setattr("hilrt.exchange.slack_renewal.monotonic_ns", lambda: 0)


def in_real_time(path: Path, settings: Mapping[str, object], renews: bool = True) -> Result:
    """The session on a virtual clock, every solver as if in a process of its own."""

    async def session() -> Result:
        file = load_session(path, settings)
        tables, links = file.tables, list[HostedElsewhere]()
        for name, options in tables.subsystems.items():
            links.append(HostedElsewhere(name, options, path.parent))
            await links[-1].open()
        connected = Connected(file, tuple(links), tables.session.duration)
        assembled = await assemble(await initialize(connected), renews=renews, in_slack=True)
        pace = real_time(assembled, tables, VirtualClock(), 1.0, lambda ns: None)
        feed, result = MemoryFeed(build_topics(assembled.numerics)), Result()
        events = EventLog(StatusPublisher(None, tables.session.name, tables.session.duration))
        prepared = prepare(connected, assembled, pace, feed, events)
        finish(events, assembled.exchange, result, (await run(prepared, 0)).fault)
        summarise(prepared, result, 0.0, real_time=True)
        result.log = feed.log(path, {})
        return result

    return asyncio.run(session())


@pytest.mark.parametrize(
    ("case", "seconds", "step", "word"),
    [
        ("animals", 100.0, 0.005, "unreliable"),
        ("animals", 20.0, 0.005, "degraded"),
        ("clutch", 20.0, 0.01, "unreliable"),
        ("clutch", 10.0, 0.005, "degraded"),
        ("limit cycle", 30.0, 0.005, "degraded"),
        ("limit cycle", 30.0, 0.001, "good"),
    ],
)
def test_the_verdict_is_that_of_the_true_error(
    case: str, seconds: float, step: float, word: str, tmp_path: Path
) -> None:
    make, rates, start = CASES[case]
    result = in_real_time(make(tmp_path), {"session.duration": seconds, "master.step": step})
    errors = judged(result, rates, start)
    assert (result.verdict, true_word(errors)) == (word, word), (errors, result.summary["reasons"])
    assert not uncovered(result, errors)


@pytest.mark.real_time
def test_a_session_by_the_clock_is_probed_at_its_start_alone_unless_it_asks(
    tmp_path: Path,
) -> None:
    """And not along the way where its solvers are in the master's process."""
    make, _, _ = CASES["animals"]
    for trials in ("start", "along"):
        settings = {
            "session.pace": "realtime",
            "session.duration": 0.2,
            "reliability.trials": trials,
        }
        result = run_session(make(tmp_path), settings, options=RunOptions(folder=tmp_path / trials))
        for error in result.summary["estimated_error"].values():
            assert not error["how"].startswith("sensitivities along the way")
        told = " ".join(event.text for event in result.log.events)
        assert ("run in separate processes" in told) == (trials == "along")


def test_trials_leave_the_session_as_it_is(tmp_path: Path) -> None:
    make, _, start = CASES["animals"]
    settings = {"session.duration": 5.0}
    path = make(tmp_path)
    without, along = (in_real_time(path, settings, renews) for renews in (False, True))
    for name in start:
        np.testing.assert_array_equal(without.log[name], along.log[name])
    hows = {error["how"] for error in without.summary["estimated_error"].values()}
    assert not any(how.startswith("sensitivities along the way") for how in hows)
