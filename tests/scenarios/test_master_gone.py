"""The master dies or freezes: the gateway brings the bench down by itself."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

import hilrt
from tests.scenarios.sessions import (
    LINUX,
    TIMEOUT,
    Frame,
    Listener,
    Run,
    assert_brought_down,
    engine_run,
    until,
)

pytestmark = LINUX

#: As CALM sets it, s.
MASTER_TIMEOUT = 1.0
#: What a busy machine may add, s; less than CALM's `idle_timeout`.
GRACE = 8.0
#: Time after which the driving vehicle has the pedal down, s.
A_WHILE = 1.0


def first_ramp(frames: list[Frame], since: float) -> float:
    """When the pedal began its way down without stopping again, s since 1970."""
    frames = [frame for frame in frames if frame.t >= since]
    turn = max(i for i in range(1, len(frames)) if frames[i - 1]["Pedal"] > frames[i]["Pedal"] > 0)
    while turn > 1 and frames[turn - 1]["Pedal"] > frames[turn]["Pedal"]:
        turn -= 1
    return frames[turn].t


def test_master_is_killed(tmp_path: Path) -> None:
    with Listener() as listener, engine_run(tmp_path, listener, true_start=True) as run:
        run.until_running()
        time.sleep(A_WHILE)
        assert len(run.children()) == 4
        killed = time.time()
        os.kill(run.pid, signal.SIGKILL)
        assert run.process.wait(TIMEOUT) == -signal.SIGKILL
        run.until_nothing_left()
        assert_brought_down(listener, killed)
        pedal = listener.frames("EngineDemand")
        assert first_ramp(pedal, killed) - killed < MASTER_TIMEOUT + GRACE
        log = hilrt.load_log(run.folder)
        assert log.t[-1] > 0.5 * A_WHILE
        assert np.isfinite(log["engine.speed_demand:sent"]).all()
        assert any(event.cause == "master_lost" for event in log.events)
        written = (run.folder / "logs" / "engine.log").read_text()
        assert "has ended" in written
        assert "bench secured: " in written
        bench = listener.newest("EngineSlow")
        assert bench is not None
        assert bench["Enabled"] == 0


HANGS = """
import ctypes
import pathlib
import hilrt

class Mass(hilrt.Solver):
    outputs = (hilrt.Port("x"),)

    def initialize(self, t0, u0):
        return hilrt.Sample([0.0])

    def advance(self, t, h, u):
        lock, library = ctypes.create_string_buffer(64), ctypes.PyDLL(None)  # keeps Python locked
        pathlib.Path("hangs").touch()
        while True:
            library.pthread_mutex_lock(lock)
"""


def test_master_is_killed_while_the_model_of_a_group_hangs(tmp_path: Path) -> None:
    """In a lock, outside Python: the host cannot handle a signal."""
    builder = hilrt.SessionBuilder("hangs", duration=1.0, step=0.01, pace="asap")
    builder.set("record", report=False)
    spawn = ["hilrt", "solver", "--group", "hangs.toml"]
    builder.group("chain", "masses:Mass", 2, adapter="zeromq", spawn=spawn)
    (tmp_path / "hangs.toml").write_text(builder.text(), encoding="utf-8")
    (tmp_path / "masses.py").write_text(HANGS, encoding="utf-8")
    run = Run(tmp_path / "hangs.toml", tmp_path / "runs")
    try:
        run.until((tmp_path / "hangs").exists, "the hanging step")
        os.kill(run.pid, signal.SIGKILL)
        assert run.process.wait(TIMEOUT) == -signal.SIGKILL
        run.until_nothing_left()
        written = (run.folder / "logs" / "chain.log").read_text()
        assert "masses.py" in written
        assert "in advance" in written
    finally:
        run.clean_up()


def test_master_is_stopped_and_continued(tmp_path: Path) -> None:
    with Listener() as listener, engine_run(tmp_path, listener) as run:
        run.until_running()
        time.sleep(A_WHILE)
        stopped = time.time()
        os.kill(run.pid, signal.SIGSTOP)
        until(lambda: not listener.enable_requested(), "withdrawal while the master is stopped")
        time.sleep(0.2)  # the frames that repeat it
        assert_brought_down(listener, stopped)
        began = first_ramp(listener.frames("EngineDemand"), stopped) - stopped
        # From the master's last tick on, which may have been some time before it was stopped.
        assert 0.5 * MASTER_TIMEOUT < began < MASTER_TIMEOUT + GRACE
        assert {"solver", "gateway", "emulate"} <= run.children().keys()
        os.kill(run.pid, signal.SIGCONT)
        continued = time.time()
        assert run.wait() == 3
        assert "'engine'" in run.stderr
        assert "has not advanced" in run.stderr
        assert "Traceback" not in run.stderr
        assert not [f for f in listener.frames("DynoDemand", continued) if f["Enable"]]
        log = hilrt.load_log(run.folder)
        assert not log.truncated
        assert any(event.cause == "master_silent" for event in log.events)
