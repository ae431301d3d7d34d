"""Solvers as processes that stall, are killed and come back, while a session runs in real time.

The session has no bench, so that it can be as long as a busy machine needs it to be.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import zmq

import hilrt
from hilrt.errors import SessionFault
from hilrt.peers.peer import Peer
from tests.scenarios.sessions import LINUX, TIMEOUT, Run
from tests.two_masses import CONNECTIONS

pytestmark = LINUX

STEP = 0.01
SESSION = """
[session]
name = "two-solvers"
duration = 600.0
[master]
step = 0.01
listen = "tcp://127.0.0.1:{port}"
connect_timeout = 60.0
pacing = {{ spin = 0.0 }}
[record]
report = false
[subsystems.mass1]
adapter = "zeromq"
spawn = ["hilrt", "solver", "hilrt.models.two_mass:Mass1", "--param", "m=100.0"]
late = {{ rejoin = true, max_misses = 3000, steps = "catch_up" }}
[subsystems.mass2]
adapter = "zeromq"
spawn = ["hilrt", "solver", "hilrt.models.two_mass:Mass2", "--param", "m=100.0"]
{connections}"""
MARKING = """
from pathlib import Path
from hilrt.models.two_mass import Mass1


class Marking(Mass1):
    def initialize(self, t0, u0):
        Path("initialized").touch()
        return super().initialize(t0, u0)
"""
#: For things to happen in, s.
A_WHILE = 0.4


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    session = tmp_path / "session.toml"
    session.write_text(SESSION.format(port=port, connections=CONNECTIONS))
    run = Run(session, tmp_path / "runs")
    run.address = f"tcp://127.0.0.1:{port}"
    try:
        run.until_running()
        yield run
    finally:
        run.clean_up()


def solver(run: Run, name: str) -> int:
    """Process id of a subsystem's solver."""
    (pid,) = [pid for pid, command in run.alive() if "solver" in command and name in command]
    return pid


def finish(run: Run) -> tuple[hilrt.Log, dict]:
    """Ctrl-C; the log and the summary."""
    run.signal(signal.SIGINT)
    assert run.wait() == 130, run.stderr
    assert "Traceback" not in run.stderr
    summary = msgspec.json.decode((run.folder / "summary.json").read_bytes())
    return hilrt.load_log(run.folder), summary


@contextlib.contextmanager
def started_by_hand(run: Run, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process for "mass1", which leaves a file when it initializes."""
    (folder / "marking.py").write_text(MARKING)
    command = [sys.executable, "-m", "hilrt", "solver", "marking:Marking"]
    command += ["--connect", run.address, "--name", "mass1"]
    process = subprocess.Popen(command, cwd=folder)
    try:
        yield process
    finally:
        process.kill()
        process.wait(TIMEOUT)


def test_a_killed_solver_is_started_again_and_takes_part(run: Run, tmp_path: Path) -> None:
    time.sleep(A_WHILE)
    os.kill(solver(run, "mass1"), signal.SIGKILL)
    with started_by_hand(run, tmp_path) as second:
        run.until(lambda: (tmp_path / "initialized").exists(), "the second one initializes")
        time.sleep(A_WHILE)
        log, summary = finish(run)
        assert second.wait(TIMEOUT) == 0  # stopped in order, like any other
    back = np.flatnonzero(log["mass1:rejoined"])
    assert len(back) == 1
    assert summary["peers"]["mass1"]["rejoined"] == 1
    assert summary["flags"]["rejoined"]["count"] == 1
    assert summary["verdict"] != "good"
    at = {event.cause: event.t for event in log.events if event.source == "mass1"}
    assert at["peer_lost"] < at["peer_back"] <= log.t[back[0]]
    away = (log.t > at["peer_lost"] + STEP) & (np.arange(len(log.t)) < back[0])
    assert log["mass1:late"][away].all()
    assert np.isfinite(log["mass1.force"][back[0] :]).sum() > 1  # it takes part again
    # Meanwhile the other one was not held up, and nobody's inputs left later than else.
    assert np.median(log["mass2:age"][away]) < 1.5 * STEP
    assert np.median(log["master:lateness"][away]) < 2e6 * STEP


def test_a_stall_is_caught_up_with_and_delays_nobody_else(run: Run) -> None:
    time.sleep(A_WHILE)
    pid = solver(run, "mass1")
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.06)
    os.kill(pid, signal.SIGCONT)
    time.sleep(A_WHILE)
    log, summary = finish(run)
    age = log["mass1:age"]
    worst = int(age.argmax())
    assert age[worst] >= 4 * STEP
    # It has caught up, and the other one was not held up: at most a step, which a busy host costs.
    assert age[worst:].min() < 1.5 * STEP
    assert summary["peers"]["mass1"]["rejoined"] == 0
    assert np.median(log["mass2:age"]) < 1.5 * STEP
    # Every step that it took had its own length, whatever was missed.
    assert log["mass1:covered"][1:] == pytest.approx(STEP, abs=1e-9)
    for key in ("compute_us", "wire_us"):
        assert summary["peers"]["mass1"][key]["p99"] > 0.0


def test_strangers_and_second_sessions_are_refused_and_disturb_nobody(
    run: Run, tmp_path: Path
) -> None:
    context = zmq.Context()
    stranger = context.socket(zmq.DEALER)
    stranger.linger = 0
    stranger.connect(run.address)
    for _ in range(20_000):
        with contextlib.suppress(zmq.Again):
            stranger.send(b"\xc1garbage", zmq.NOBLOCK)
    second = Run(run.session, tmp_path / "second")
    try:
        assert second.process.wait(TIMEOUT) == 2
        assert "in use" in second.stderr
        assert "[master] listen" in second.stderr
        assert "Traceback" not in second.stderr
    finally:
        second.clean_up()
    intruder = Peer(run.address, "mass2", "solver", (), ())
    with pytest.raises(SessionFault, match="already connected"):
        intruder.connect(TIMEOUT)
    intruder.close()
    log, _ = finish(run)
    context.destroy()
    assert np.median(log["mass2:age"]) == 0.0
    texts = [event.text for event in log.events if event.level == "warning"]
    assert any("no_token" in text for text in texts)
    takeover, *_ = [event for event in log.events if event.cause == "takeover"]
    assert takeover.source == "mass2"
    assert f"process {os.getpid()} of this account requested the name of" in takeover.text
