"""How a solver's process ends: real processes, a real hub."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hilrt.errors import PeerLost
from hilrt.peers.hub import Hub
from hilrt_adapters.zeromq import ZeroMQLink, ZeroMQOptions
from tests.collected import dispatch

DEADLINE_S = 20.0

MODEL = """
import sys, time
from hilrt import Port, Sample, Solver

class Model(Solver):
    inputs = (Port("u"),)
    outputs = (Port("y"),)
    def initialize(self, t0, u0):
        return Sample([t0])
    def advance(self, t, h, u):
        if t >= 100.0:
            print("computing", flush=True)
            time.sleep(60.0)
        return Sample([1.0 / (10.0 - t)])
    def stop(self, reason):
        print("stopped:", reason, flush=True)
"""


@pytest.fixture
def hub():
    hub = Hub("test", connect_timeout=DEADLINE_S)
    yield hub
    hub.close()


def command(hub, target="model_under_test:Model"):
    connect = ["--connect", hub.address, "--name", "model"]
    return [sys.executable, "-m", "hilrt", "solver", target, *connect]


def start(argv, folder):
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=folder, stdout=pipe, stderr=pipe, text=True)


@pytest.fixture
async def running(hub, tmp_path):
    """An initialized link, and its process."""
    (tmp_path / "model_under_test.py").write_text(MODEL)
    link = ZeroMQLink("model", ZeroMQOptions(adapter="zeromq"), Path())
    hub.add(link)
    process = start(command(hub), tmp_path)
    try:
        await link.open()
        await link.initialize(0.0, np.zeros(1))
        yield link, process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=DEADLINE_S)


async def ended(process):
    deadline = time.monotonic() + DEADLINE_S
    while process.poll() is None:
        assert time.monotonic() < deadline, "it does not end"
        await asyncio.sleep(0.01)
    return process.returncode, process.stdout.read(), process.stderr.read()


async def loss(link):
    deadline = time.monotonic() + DEADLINE_S
    try:
        while time.monotonic() < deadline:
            link.receive()
            await asyncio.sleep(0.005)
    except PeerLost as lost:
        return lost.reason
    raise AssertionError("the peer is not lost")


async def test_stop(running):
    link, process = running
    await link.stop("finished")
    status, out, _ = await ended(process)
    assert (status, out) == (0, "stopped: finished\n")


async def test_sigterm_while_waiting(running):
    link, process = running
    process.send_signal(signal.SIGTERM)
    status, out, _ = await ended(process)
    assert (status, out) == (143, "stopped: SIGTERM\n")
    assert "SIGTERM" in await loss(link)


async def test_sigterm_while_computing_and_sigint_is_ignored(running):
    link, process = running
    dispatch(link, 0, 100.0, 0.1, np.zeros((1, 1)))
    line = await asyncio.to_thread(process.stdout.readline)
    assert line == "computing\n"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    status, out, _ = await ended(process)
    assert (status, out) == (143, "stopped: SIGTERM\n")


async def test_an_exception_of_the_model(running):
    link, process = running
    dispatch(link, 0, 10.0, 0.1, np.zeros((1, 1)))
    reason = await loss(link)
    status, out, err = await ended(process)
    assert status == 1
    assert "ZeroDivisionError" in reason
    assert "model_under_test.py:14)" in reason
    assert "Traceback" in err
    assert out.startswith("stopped: ")


async def test_kill_is_noticed_by_the_closed_connection(running):
    link, process = running
    process.kill()
    assert "connection closed" in await loss(link)


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells a process of its parent's end"
)
async def test_it_ends_with_the_process_that_started_it(hub, tmp_path):
    (tmp_path / "model_under_test.py").write_text(MODEL)
    link = ZeroMQLink("model", ZeroMQOptions(adapter="zeromq"), Path())
    hub.add(link)
    starter = "import subprocess, sys, time\nsubprocess.Popen(sys.argv[1:])\ntime.sleep(60)\n"
    parent = start([sys.executable, "-c", starter, *command(hub)], tmp_path)
    try:
        await link.open()
        parent.kill()
        assert "SIGTERM" in await loss(link)
    finally:
        parent.kill()
        parent.communicate(timeout=DEADLINE_S)
