"""Ctrl-C and SIGTERM at every stage of a session's life: benches down, files closed, status 130."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hilrt
from tests.fmu.build import mass, needs_compiler
from tests.scenarios.sessions import (
    CALM,
    LINUX,
    REPORT,
    Listener,
    Run,
    assert_brought_down,
    driving,
    engine_run,
    engine_session,
    sets,
)

pytestmark = LINUX

#: Time after which the driving vehicle has the pedal down, s.
A_WHILE = 0.5


@pytest.mark.parametrize(
    ("number", "times", "name"), [(signal.SIGINT, 8, "Ctrl-C"), (signal.SIGTERM, 1, "SIGTERM")]
)
def test_while_running(tmp_path: Path, number: int, times: int, name: str) -> None:
    """Impatience, Ctrl-C again and again, does not cut the safe profile short."""
    with Listener() as listener, engine_run(tmp_path, listener, REPORT, true_start=True) as run:
        run.until_running()
        time.sleep(A_WHILE)
        interrupted = time.time()
        for _ in range(times):
            run.signal(number)
            time.sleep(0.03)
        assert run.wait() == 130, run.stderr
        assert "Traceback" not in run.stderr
        assert_brought_down(listener, interrupted)
        log = hilrt.load_log(run.folder)
        assert not log.truncated
        assert any("-> SAFE" in event.text and name in event.text for event in log.events)
        assert (run.folder / "summary.json").is_file()
        assert (run.folder / "report.html").is_file()


def test_in_the_stop_sequence(tmp_path: Path) -> None:
    """What is left of it is not waited for: the safe profile follows at once."""
    speed = 10.0  # below idle: nothing else asks for it
    session = engine_session(tmp_path / "configs")
    step = f'ramp={{"engine.speed_demand"={speed}}}\nwait="engine.speed"\nmax=-1.0\ntimeout=600.0'
    session.write_text(f"{session.read_text()}\n[[stop]]\n{step}\n")
    with Listener() as listener, contextlib.ExitStack() as stack:
        given = sets(*CALM, f"subsystems.engine.bus={listener.table}", driving())
        run = Run(session, tmp_path / "runs", "--duration", "0.5", *given)
        stack.callback(run.clean_up)

        def arrived() -> bool:
            frame = listener.newest("DynoDemand")
            return frame is not None and frame["Enable"] == 1 and frame["Speed"] == speed

        run.until(arrived, "the stop sequence")
        interrupted = time.time()
        run.signal(signal.SIGTERM)
        assert run.wait() == 130, run.stderr
        assert "Traceback" not in run.stderr
        assert_brought_down(listener, interrupted)
        events = [event.text for event in hilrt.load_log(run.folder).events]
        assert any("-> SAFE" in text and "SIGTERM" in text for text in events), events


def test_while_connecting(tmp_path: Path) -> None:
    """Before all peers are there; the vehicle never comes."""
    never = f'subsystems.vehicle.spawn=["{sys.executable}", "-c", "import time; time.sleep(600)"]'
    with Listener() as listener, engine_run(tmp_path, listener, never) as run:
        run.until(lambda: listener.newest("EngineFast"), "the bench's first frame")
        run.signal(signal.SIGINT)
        assert run.wait() == 130
        assert "Traceback" not in run.stderr
        assert not listener.frames("DynoDemand")


def test_right_after_the_start(tmp_path: Path) -> None:
    with Listener() as listener, engine_run(tmp_path, listener, true_start=True) as run:
        run.until(run.children, "the first process")
        run.signal(signal.SIGINT)
        assert run.wait() == 130
        assert "Traceback" not in run.stderr


def test_while_arming(tmp_path: Path) -> None:
    """The bench is enabled when the operator says so, and not before."""
    with Listener() as listener, engine_run(tmp_path, listener, "session.arm=manual") as run:
        run.until(lambda: "hilrt.cli.recorder_process" in run.children(), "the recorder's start")
        time.sleep(A_WHILE)
        assert not listener.frames("DynoDemand")
        run.press_enter()
        run.until(listener.enable_requested, "the request to enable")
        assert not list(run.out.glob("*/session.mcap"))
        run.signal(signal.SIGINT)
        assert run.wait() == 130
        assert "Traceback" not in run.stderr
        last = listener.frames("DynoDemand")[-1]
        assert (last["Enable"], last["Speed"]) == (0, 0.0)


@needs_compiler
def test_fmus_as_fast_as_possible(tmp_path: Path) -> None:
    """It is noticed between two steps, and the log is whole."""
    tmp_path.joinpath("mass.toml").write_text(
        '[session]\nname = "mass"\nduration = 1e5\npace = "asap"\n[master]\nstep = 1e-3\n'
        f'[subsystems.mass]\nadapter = "fmu"\nfmu = "{mass(2)}"\n'
        "params = { v = 1.0, F = 0.0, x2 = 0.0, v2 = 0.0 }\n"
    )
    run = Run(tmp_path / "mass.toml", tmp_path / "runs")
    try:
        run.until_running()
        time.sleep(A_WHILE)
        run.signal(signal.SIGINT)
        assert run.wait() == 130, run.stderr
    finally:
        run.clean_up()
    assert "Traceback" not in run.stderr
    log = hilrt.load_log(run.folder)
    assert not log.truncated
    assert len(log.t) > 1000
    np.testing.assert_allclose(np.diff(log.t), 1e-3, atol=1e-9)
