"""Groups on a Dask cluster whose workers have networks of their own, with TLS and keys."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hilrt
from hilrt.peers.keys import make_keys
from tests.namespaces import HEAD, joined_networks, running, tls_settings
from tests.scenarios.sessions import until

pytest.importorskip("distributed")
PORT, LISTEN = 8786, f"tcp://{HEAD}:5557"
SCHEDULER = f"tls://{HEAD}:{PORT}"
LIMIT_S = 240
MASSES = """
import pathlib
import hilrt

class Mass(hilrt.Solver):
    inputs = (hilrt.Port("left"), hilrt.Port("right"))
    outputs = (hilrt.Port("x"),)

    def __init__(self, x: float = 0.0) -> None:
        self.x, self.v = x, 0.0

    def initialize(self, t0, u0):
        return hilrt.Sample([self.x])

    def advance(self, t, h, u):
        if abs(t - 0.2) < 1e-6:
            pathlib.Path("running").touch()
        left, right = u(t)
        self.v += h * 100.0 * (left + right - 2.0 * self.x)
        self.x += h * self.v
        return hilrt.Sample([self.x])
"""


@pytest.fixture
def networks() -> Iterator[list[str]]:
    with joined_networks() as names:
        yield names


def ring(folder: Path, duration: float = 0.05, hosted: bool = True) -> Path:
    """Session of two groups of three masses each, in processes or in the master's."""
    builder = hilrt.SessionBuilder("ring", duration=duration, step=1e-3, pace="asap")
    if hosted:
        builder.set("master", connect_timeout=60.0, listen=LISTEN, keys="keys")
    builder.set("record", report=False)
    file = folder / ("ring.toml" if hosted else "here.toml")
    for g in range(2):
        spawn = ["hilrt", "solver", "--group", file.name]
        where: dict[str, Any] = {"adapter": "zeromq", "spawn": spawn} if hosted else {}
        names = [f"m{3 * g + i}" for i in range(3)]
        each = {"x": [0.01 * (3 * g + i) for i in range(3)]}
        builder.group(f"g{g}", "masses:Mass", names, each=each, **where)
    for i in range(6):
        right = (i + 1) % 6
        builder.connect(f"m{i}.x", f"m{right}.left").connect(f"m{right}.x", f"m{i}.right")
    file.write_text(builder.text(), encoding="utf-8")
    (folder / "masses.py").write_text(MASSES, encoding="utf-8")
    return file


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, str]:
    """Keys of the cluster, as Dask's settings in the environment."""
    return tls_settings(tmp_path)


@contextlib.contextmanager
def cluster(networks: list[str], folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Scheduler and two workers that take a host each; yields the workers."""
    worker = ["distributed.cli.dask_worker", SCHEDULER, "--nthreads", "1", "--no-dashboard"]
    worker += ["--resources", "hilrt=1", "--no-nanny"]
    scheduler = ["distributed.cli.dask_scheduler", "--host", HEAD, "--port", str(PORT)]
    scheduler += ["--protocol", "tls", "--no-dashboard"]
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(running(name, *command, folder=folder))
            for name, command in zip(networks, [scheduler, worker, worker], strict=True)
        ]
        logs = [folder / f"{name}.txt" for name in networks[1:]]
        until(lambda: all("Registered to" in log.read_text() for log in logs), "workers", LIMIT_S)
        yield started[1:]


def command(networks: list[str], file: Path, out: Path) -> list[str]:
    run = ["ip", "netns", "exec", networks[0], sys.executable, "-m", "hilrt", "run", str(file)]
    return [*run, "--quiet", "--cluster", SCHEDULER, "--folder", str(out)]


def test_groups_on_two_machines_give_the_signals_of_this_one(networks, tls, tmp_path, monkeypatch):
    for name, value in tls.items():
        monkeypatch.setenv(name, value)
    make_keys(tmp_path / "keys", ["g0", "g1"])
    file = ring(tmp_path)
    with cluster(networks, tmp_path):
        done = subprocess.run(
            command(networks, file, tmp_path / "there"),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    placer = (tmp_path / "there" / "logs" / "placer.log").read_text()
    assert done.returncode == 0, done.stderr + placer
    assert "10.231.77.2" in placer
    assert "10.231.77.3" in placer
    there = hilrt.load_log(tmp_path / "there")
    here = hilrt.simulate(ring(tmp_path, hosted=False)).log
    for i in range(6):
        assert np.array_equal(there[f"m{i}.x"], here[f"m{i}.x"])


def test_a_lost_worker_ends_the_session_as_a_lost_peer(networks, tls, tmp_path, monkeypatch):
    for name, value in tls.items():
        monkeypatch.setenv(name, value)
    make_keys(tmp_path / "keys", ["g0", "g1"])
    file, out = ring(tmp_path, duration=60000.0), tmp_path / "there"
    with cluster(networks, tmp_path) as workers:
        pipe = subprocess.PIPE
        run = subprocess.Popen(command(networks, file, out), stdout=pipe, stderr=pipe, text=True)
        deadline = time.monotonic() + LIMIT_S
        while not (tmp_path / "running").exists():
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        os.kill(workers[1].pid, signal.SIGKILL)
        _, errors = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 3, errors
    summary = json.loads((out / "summary.json").read_text())
    assert summary["state"] == "FAULT"
    assert re.search(r"fault: subsystem 'g[01]': .*(connection closed|SIGTERM|silent)", errors)
