"""Something in a session breaks: it ends in the safe state, says why, and leaves nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hilrt
from tests.scenarios.sessions import (
    LINUX,
    REPORT,
    SHORT_STOP,
    TIMEOUT,
    Listener,
    assert_brought_down,
    assert_fault,
    assert_ramped,
    engine_run,
)

pytestmark = LINUX

FAILING = '''
from hilrt.models.vehicle import Vehicle


class Failing(Vehicle):
    """Runs out of fuel soon."""

    def advance(self, t, h, u):
        if t > 0.5:
            raise RuntimeError("the tank is empty")
        return super().advance(t, h, u)
'''
OTHER_CLOCK = """
import sys
import time
from pathlib import Path

if "gateway" in sys.orig_argv:
    Path("clock_is_off").touch()
    true, began = time.monotonic_ns, time.monotonic_ns()
    time.monotonic_ns = lambda: true() + 5_000_000_000 + (true() - began) // 5000
"""
#: Time after which the driving vehicle has the pedal down, s.
A_WHILE = 0.5


def test_solver_is_killed(tmp_path: Path) -> None:
    with Listener() as listener, engine_run(tmp_path, listener, REPORT, true_start=True) as run:
        run.until_running()
        time.sleep(A_WHILE)
        killed = time.time()
        os.kill(run.children()["solver"], signal.SIGKILL)
        assert_fault(run, "'vehicle'", "SIGKILL")
        assert_brought_down(listener, killed)
        assert (run.folder / "report.html").is_file()


def test_solver_stalls_for_ever(tmp_path: Path) -> None:
    """After `max_misses` ticks on the late policy the bench is brought down."""
    misses = "subsystems.vehicle.late.max_misses=60"
    with Listener() as listener, engine_run(tmp_path, listener, misses) as run:
        run.until_running()
        time.sleep(A_WHILE)
        stalled = time.time()
        os.kill(run.children()["solver"], signal.SIGSTOP)
        assert_fault(run, "'vehicle'", "no sample for 61 ticks", "late.max_misses")
        assert "did not end" not in run.stderr  # it is let go on, else it could not
        assert_brought_down(listener, stalled)
        log = hilrt.load_log(run.folder)
        assert log["vehicle:late"][-60:].all()
        assert not log["engine:late"][-60:].all()  # the bench was heard all the time


def test_a_second_session_on_the_bus_is_refused(tmp_path: Path) -> None:
    with Listener() as listener, engine_run(tmp_path / "first", listener) as run:
        run.until_running()
        with engine_run(tmp_path / "second", listener) as second:
            assert second.wait() == 3
            assert "'engine'" in second.stderr
            # Gateway and emulator both refuse; the first that ends is named, with what it heard.
            sent = "DynoDemand|EngineDemand|EngineFast|EngineSlow"
            assert re.search(f"another node already sends ({sent}),", second.stderr)
            assert "Traceback" not in second.stderr
        assert not run.ended()
        run.signal(signal.SIGINT)
        assert run.wait() == 130, run.stderr
        assert_ramped(listener.frames("DynoDemand"), "Speed")  # nobody interfered


def test_a_gateway_with_another_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5 s ahead, and gaining 200 ppm: its samples are as old as with the master's clock."""
    (tmp_path / "sitecustomize.py").write_text(OTHER_CLOCK)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Listener() as listener, engine_run(tmp_path, listener, duration=2.0) as run:
        assert run.wait() == 0, run.stderr
        log = hilrt.load_log(run.folder)
        assert (tmp_path / "configs" / "clock_is_off").exists()
        assert np.nanmedian(log["engine:clock_error"]) < 0.1
        assert -0.1 < np.median(log["engine:age"]) < 0.2
        assert np.diff(log["engine.speed:t_valid"][np.isfinite(log["engine.speed"])]).min() > 0.0
        assert_brought_down(listener, listener.frames("EngineDemand")[-200].t)


def test_solver_raises(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "failing.py").write_text(FAILING)
    spawn = 'subsystems.vehicle.spawn=["hilrt", "solver", "failing:Failing"]'
    with Listener() as listener, engine_run(tmp_path, listener, spawn) as run:
        run.until_running()
        began = time.time()
        assert_fault(run, "'vehicle'", "the tank is empty")
        assert_brought_down(listener, began)


def test_bench_goes_silent(tmp_path: Path) -> None:
    """A bench that was there before the session and freezes."""
    with Listener() as listener:
        command = [sys.executable, "-m", "hilrt", "emulate", "engine"]
        command += ["--bus", f"{listener.arguments},hop_limit=0"]
        database = Path(__file__).parents[2] / "bench_configs" / "engine_bench.dbc"
        bench = subprocess.Popen([*command, "--database", str(database)])
        try:
            with engine_run(tmp_path, listener, bench_of_its_own=True) as run:
                run.until_running()
                time.sleep(A_WHILE)
                assert "emulate" not in run.children()
                bench.send_signal(signal.SIGSTOP)
                assert_fault(run, "'engine'", "silent", "no new frame of Engine")
                last_heard = listener.frames("EngineFast")[-1].t
                assert_brought_down(listener, last_heard)
                late = [e for e in hilrt.load_log(run.folder).events if e.cause == "bench_silent"]
                *warnings, last = (event.level for event in late)  # a busy machine adds some
                assert (set(warnings), last) == ({"warning"}, "error")
            assert bench.poll() is None  # it is not the session's to end
        finally:
            bench.kill()
            bench.wait(TIMEOUT)


def test_the_processor_of_gateway_and_bench_stands_still(tmp_path: Path) -> None:
    """Longer than either would wait for the other, and then they go on as if nothing had been."""
    with Listener() as listener, engine_run(tmp_path, listener, duration=2.5) as run:
        run.until_running()
        time.sleep(A_WHILE)
        held_up = [run.children()[name] for name in ("emulate", "gateway")]
        for pid in held_up:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(1.3)  # the bench would be silent after 1 s, and the demands lost after 0.1 s
        for pid in held_up:
            os.kill(pid, signal.SIGCONT)
        assert run.wait() == 0, run.stderr
        events = [event.cause for event in hilrt.load_log(run.folder).events]
        assert "gateway_absent" in events
        assert_ramped(listener.frames("DynoDemand"), "Speed")


def test_gateway_is_killed(tmp_path: Path) -> None:
    """The last guard left is the bench's own: it falls back when no demands come."""
    with Listener() as listener, engine_run(tmp_path, listener) as run:
        run.until_running()
        time.sleep(A_WHILE)
        os.kill(run.children()["gateway"], signal.SIGKILL)
        assert_fault(run, "'engine'", "SIGKILL")
        last = listener.newest("DynoDemand")
        assert last is not None
        assert last["Enable"] == 1
        bench = [f for f in listener.frames("EngineSlow") if f.t > last.t]
        assert bench[-1]["Enabled"] == 0
        assert bench[-1]["FaultCause"] == 1  # DEMAND_LOST


def test_gateway_stands_still_when_the_session_ends(tmp_path: Path) -> None:
    """Nobody can say that its bench is at rest: that is no end in order."""
    waits = (
        "subsystems.engine.late.max_misses=1000000",
        "subsystems.engine.safe_profile.step_timeout=0.5",
    )
    with (
        Listener() as listener,
        engine_run(tmp_path, listener, *waits, duration=1.0, stop_timeout=SHORT_STOP) as run,
    ):
        run.until_running()
        os.kill(run.children()["gateway"], signal.SIGSTOP)
        assert_fault(run, "bench engine was NOT brought to rest", "did not confirm")
        bench = listener.newest("EngineSlow")
        assert bench is not None
        assert bench["Enabled"] == 0  # its own guard, again


def test_recorder_is_killed(tmp_path: Path) -> None:
    """Where the log may be lost, the session goes on, and says what it lost."""
    may_be_lost = "record.required=false"
    with Listener() as listener, engine_run(tmp_path, listener, may_be_lost, duration=2.0) as run:
        run.until_running()
        time.sleep(A_WHILE)
        os.kill(run.children()["hilrt.cli.recorder_process"], signal.SIGKILL)
        assert run.wait() == 5, run.stderr  # finished, with less than was asked for
        assert "recorder" in run.stderr
        assert "SIGKILL" in run.stderr
        assert "Traceback" not in run.stderr
        summary = json.loads((run.folder / "summary.json").read_text())
        assert summary["recorder"]["dropped_rows"] > 0
        lost = [event["text"] for event in summary["recorder"]["lost_events"]]
        assert any("was ended by SIGKILL" in text for text in lost)
        assert any("RUNNING -> STOPPING" in text or "-> STOPPED" in text for text in lost)
        assert summary["verdict"] != "good"
        assert any("steps are not in the log" in reason for reason in summary["reasons"])
        assert hilrt.load_log(run.folder).truncated
        assert_brought_down(listener, listener.frames("EngineDemand")[-200].t)


@pytest.mark.parametrize("role", ["solver", "gateway"])
def test_subsystem_dies_before_the_start(tmp_path: Path, role: str) -> None:
    with Listener() as listener, engine_run(tmp_path, listener) as run:
        pid = run.until(lambda: run.children().get(role), f"{role} is started")
        os.kill(pid, signal.SIGKILL)
        assert run.wait() == 3
        name = {"solver": "'vehicle'", "gateway": "'engine'"}[role]
        assert name in run.stderr
        assert "SIGKILL" in run.stderr
        assert "Traceback" not in run.stderr
