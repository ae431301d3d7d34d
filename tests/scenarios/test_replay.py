"""A session in real time, with stalls and a bench that dies.

The demands come down although nobody answers, and the session comes out again bit for bit.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import hilrt
from hilrt.replay.replay_log import describe, replay
from tests.scenarios.sessions import (
    LINUX,
    Listener,
    assert_brought_down,
    assert_fault,
    engine_run,
)

pytestmark = LINUX


def test_session_with_stalls_and_a_bench_that_died(tmp_path: Path) -> None:
    with Listener() as listener, engine_run(tmp_path, listener) as run:
        run.until_running()
        children = run.children()
        solver, emulator = children["solver"], children["emulate"]
        for _ in range(5):
            time.sleep(0.25)
            os.kill(solver, signal.SIGSTOP)
            time.sleep(0.06)
            os.kill(solver, signal.SIGCONT)
        time.sleep(0.5)
        killed = time.time()
        os.kill(emulator, signal.SIGKILL)
        assert_fault(run, "'engine'", "silent")
        assert_brought_down(listener, killed)
        log = hilrt.load_log(run.folder)
        late = [event for event in log.events if event.cause == "bench_silent"]
        *warnings, last = (event.level for event in late)  # a busy machine adds some
        assert (set(warnings), last) == ({"warning"}, "error")
        assert any(e.source == "engine.emulator" and "SIGKILL" in e.text for e in log.events)
        assert log["vehicle:late"].any()
        assert log["engine:late"].any()
        outcome = replay(run.folder)
        assert outcome.difference is None, describe(outcome)
        assert (outcome.tolerance, outcome.gaps) == (0.0, [])
        assert outcome.steps == len(log.t)
        assert outcome.snapshots >= 1
