"""Sessions beside the program: started, read, set, waited for and stopped, from two kinds of it."""

import asyncio
import functools
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import hilrt
from hilrt import AsyncLiveSession, LiveSession, RunOptions
from hilrt.errors import CommandRefused, ConfigError, SessionFault
from hilrt.monitor.session_state import SessionState
from hilrt.session.loop_thread import SWITCH_INTERVAL_S, LoopThread

ROOT = Path(__file__).resolve().parents[2]
TWO_MASS = ROOT / "bench_configs" / "two_mass.toml"
LONG = {
    "session.duration": 600.0,
    "session.pace": "realtime",
    "monitor.adjust": {"bonds.spring.cap": {"min": 0.1, "max": 1.0}},
}
SHORT = {"session.duration": 0.01}


@pytest.fixture
def options(tmp_path):
    return RunOptions(folder=tmp_path / "chosen", record=False)


def test_with_blocking_calls(options):
    with LiveSession(TWO_MASS, LONG, options=options) as session:
        assert session.state == "RUNNING"
        assert not session.ended
        session.wait_until(lambda s: s.t > 0.02, timeout=30.0)
        assert {"mass1.force", "mass2.v", "mass2.force:sent", "mass1.x2:sent"} <= {*session.values}
        assert -110.0 < session["mass2.v"] < 110.0
        with pytest.raises(KeyError, match=r"no value 'mass1.forze'; did you mean 'mass1.force'"):
            session["mass1.forze"]
        assert all(len(flag) == 2 for flag in session.flags)
        session.set("bonds.spring.cap", 0.5)
        session.mark("half the cap")
        session.shadow(True)
        with pytest.raises(CommandRefused, match=r"bonds.spring.cap = 2 is outside 0.1 … 1"):
            session.set("bonds.spring.cap", 2.0)
        with pytest.raises(CommandRefused, match="may not be adjusted"):
            session.set("bonds.spring.mu", 0.5)
        with pytest.raises(CommandRefused, match="nothing is waiting to be armed"):
            session.arm()
        with pytest.raises(TimeoutError, match=r"within 0 s"):
            session.wait_until(lambda s: s.t < 0.0, timeout=0.0)
        assert session.folder == options.folder.resolve()
    result = session.wait()
    assert session.ended
    assert (session.state, result.exit_status, result.fault) == (SessionState.STOPPED, 130, None)
    assert result.stopped == "stop by program"
    assert result.summary["time_s"] == session.t
    assert result.folder == options.folder.resolve()


async def test_with_an_event_loop(options):
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    others = asyncio.ensure_future(other())
    async with AsyncLiveSession(TWO_MASS, LONG, options=options) as session:
        before = turns
        await session.wait_until(lambda s: s.t > 0.02)
        assert turns > before, "the caller's loop goes on"
        await session.set("bonds.spring.cap", 0.5)
        await session.mark("half the cap")
        await session.shadow(True)
        with pytest.raises(CommandRefused, match="is outside"):
            await session.set("bonds.spring.cap", 2.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await session.wait()  # which does not end it
        assert session.state == "RUNNING"
        result = await session.stop()
    others.cancel()
    assert (await session.wait(), result.exit_status) == (result, 130)


async def test_a_start_that_is_given_up_ends_the_session(options, monkeypatch):
    session = AsyncLiveSession(TWO_MASS, LONG, options=options)
    monkeypatch.setattr(session, "_changed", lambda: None)
    session._run._on_change = lambda: None  # the first tick is not told
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await session.start()
    assert (await session.wait()).exit_status == 130


def test_one_that_is_over_can_still_be_read(options):
    session = LiveSession(TWO_MASS, SHORT, options=options)
    assert (session.state, session.values, session.flags, session.t) == ("CONFIGURED", {}, [], 0.0)
    with pytest.raises(KeyError, match="none before the first tick"):
        session["mass1.force"]
    with pytest.raises(CommandRefused, match="no folder"):
        _ = session.folder
    with pytest.raises(CommandRefused, match="is not running"):
        session.mark("early")
    for waits in (session.wait, session.stop, lambda: session.wait_until(lambda s: s.t > 1.0)):
        with pytest.raises(CommandRefused, match=r"has not been started; use `with`"):
            waits()
    with session.start():  # which may be called again
        result = session.wait()
    assert session.stop() is result
    assert (result.exit_status, session.t) == (0, 0.01)
    assert session["mass1.force"] == result.summary["ports"]["mass1.force"]["last"]
    for command in (session.safe, lambda: session.set("bonds.spring.cap", 0.5)):
        with pytest.raises(CommandRefused, match="is not running"):
            command()
    with pytest.raises(SessionFault, match="ended before the condition held"):
        session.wait_until(lambda s: False)


def test_what_keeps_it_from_its_first_tick_is_raised(options, tmp_path):
    with pytest.raises(ConfigError, match=r"connections.*order = -1"):
        LiveSession(TWO_MASS, {"connections.0.order": -1}, options=options)
    alarm = '[[alarms]]\nsignal = "mass1.v"\nmax = 50.0\naction = "stop"\n'
    (tmp_path / "alarmed.toml").write_text(TWO_MASS.read_text() + alarm)
    with pytest.raises(SessionFault, match=r"alarm before the first tick: mass1.v above 50"):
        LiveSession(tmp_path / "alarmed.toml", options=options).start()
    with pytest.raises(ConfigError, match=r"chosen: is not empty; choose another"):
        LiveSession(TWO_MASS, SHORT, options=options).start()


def test_an_error_in_the_block_stops_it(options):
    with (
        pytest.raises(ZeroDivisionError),
        LiveSession(TWO_MASS, LONG, options=options) as session,
    ):
        _ = 1 / 0
    assert session.wait().exit_status == 130


PROGRAM = """
import sys
import hilrt
options = hilrt.RunOptions(folder=sys.argv[2], record=False)
overrides = {"session.duration": 600.0, "session.pace": "realtime"}
hilrt.LiveSession(sys.argv[1], overrides, options=options).start()
1 / 0
"""


def test_a_program_that_ends_without_stopping_it_ends_it(tmp_path):
    words = [sys.executable, "-c", PROGRAM, str(TWO_MASS), str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert '"state": "STOPPED"' in (tmp_path / "run" / "summary.json").read_text()


# -- run_session ---------------------------------------------------------------------------------


async def test_run_session_where_an_event_loop_runs(options):
    """As in a notebook: the cell waits, and gets the result."""
    result = hilrt.run_session(str(TWO_MASS), SHORT, options=options)
    assert (result.exit_status, result.summary["steps"]) == (0, 10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_it_in_order_there(options, number, monkeypatch):
    """An event loop takes the first Ctrl-C for itself, and cannot act on it while it waits."""
    before, start = signal.getsignal(number), LoopThread.start

    def start_and_end(thread):
        start(thread)
        threading.Timer(0.1, os.kill, (os.getpid(), number)).start()

    monkeypatch.setattr(LoopThread, "start", start_and_end)
    result = hilrt.run_session(TWO_MASS, LONG, options=options)
    assert result.exit_status == 130
    assert signal.getsignal(number) is before


def test_what_is_no_session_is_said(tmp_path):
    for call in (hilrt.run_session, hilrt.simulate, LiveSession):
        with pytest.raises(ConfigError, match=r"is not a session; give the path of a session file"):
            call(["two_mass.toml"])
        with pytest.raises(ConfigError, match=r"overrides = .* is not a mapping"):
            call(TWO_MASS, ["session.duration=1.0"])
        with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
            call(tmp_path)


def test_the_switch_interval_is_as_before_after_the_last_of_several_threads():
    before, begun, end = sys.getswitchinterval(), threading.Barrier(3), threading.Event()

    async def work(rest):
        await asyncio.to_thread(begun.wait, 30.0)
        await rest()

    async def told():
        await asyncio.to_thread(end.wait, 30.0)

    async def never():  # not in a thread: a loop that ends waits for its threads
        await asyncio.Event().wait()

    first, last = (LoopThread(functools.partial(work, rest), True) for rest in (told, never))
    first.start()
    last.start()
    begun.wait(30.0)
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    end.set()
    first.result()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
    last.cancel()
    with pytest.raises(asyncio.CancelledError):
        last.result()
    assert sys.getswitchinterval() == before
