"""The recorder as a process: a killed master and a killed recorder both leave a readable log."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hilrt.isolation.temporary_folder import LocalAddresses
from hilrt.record.messages import Signal, Topic
from hilrt.record.reader import load_log
from hilrt.record.recorder_feed import RecorderFeed, open_feed_socket
from tests.scenarios.sessions import until

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")

TOPICS = [Topic("outputs", [Signal("a.x", "m"), Signal("a.tick")])]

#: A master that records 1 kHz until it is killed; its recorder connects at the address given to it.
MASTER = """
import sys, time
from pathlib import Path
from hilrt.record.messages import Signal, Topic
from hilrt.record.recorder_feed import RecorderFeed, open_feed_socket
topics = [Topic("outputs", [Signal("a.x", "m"), Signal("a.tick")])]
feed = RecorderFeed(topics, open_feed_socket(sys.argv[2]))
while not feed.ready:
    time.sleep(0.01)
feed.begin(Path(sys.argv[1]), "killed", time.time_ns())
start, k = time.monotonic(), 0
while True:
    feed.row[:] = 0.5 * k, k
    feed.commit(k * 1_000_000)
    k += 1
    if k % 100 == 0:
        print(k, flush=True)
    time.sleep(max(0.0, start + 1e-3 * k - time.monotonic()))
"""


def start_recorder(address):
    command = [sys.executable, "-m", "hilrt.cli.recorder_process", "--connect", address]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def address():
    local = LocalAddresses()
    yield local.get("feed")
    local.close()


@pytest.fixture
def processes():
    started = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=10)


def read_until(stream, count):
    for line in stream:
        if int(line) >= count:
            return
    raise AssertionError("the master ended early")


def test_killed_master_leaves_a_whole_log(tmp_path, processes, address):
    command = [sys.executable, "-c", MASTER, str(tmp_path), address]
    master = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    processes.append(master)
    recorder = start_recorder(address)
    processes.append(recorder)
    read_until(master.stdout, 500)
    master.kill()
    assert recorder.wait(timeout=10) == 0
    log = load_log(tmp_path)
    assert log.truncated == ""
    assert log.events[-1].cause == "master_lost"
    assert len(log.t) >= 500 - 64  # at most one batch was still in the master
    np.testing.assert_array_equal(log["a.tick"], np.arange(len(log.t)))
    np.testing.assert_array_equal(log["a.x"], 0.5 * log["a.tick"])


def test_interrupt_is_left_to_the_master(tmp_path, processes, address):
    feed = RecorderFeed(TOPICS, open_feed_socket(address))
    recorder = start_recorder(address)
    processes.append(recorder)
    until(lambda: feed.ready, "recorder")
    feed.begin(tmp_path, "interrupted", 0)
    wait_for(tmp_path / "session.mcap")
    os.kill(recorder.pid, signal.SIGINT)
    feed.row[:] = 1.0
    feed.commit(0)
    assert feed.end(b"{}")
    assert recorder.wait(timeout=10) == 0
    feed.close()
    assert load_log(tmp_path).metadata["rows"] == "1"


def test_killed_recorder_leaves_what_it_had_flushed(tmp_path, processes, address):
    feed = RecorderFeed(TOPICS, open_feed_socket(address))
    recorder = start_recorder(address)
    processes.append(recorder)
    until(lambda: feed.ready, "recorder")
    feed.begin(tmp_path, "killed", 0)
    for k in range(6400):
        feed.row[:] = k
        feed.commit(k * 1_000_000)
    file = tmp_path / "session.mcap"
    wait_for(file)
    until(lambda: file.stat().st_size and len(load_log(tmp_path).t) >= 64, "rows in the file")
    recorder.kill()
    recorder.wait(timeout=10)
    log = load_log(tmp_path)
    assert log.truncated
    assert len(log.t) >= 64
    np.testing.assert_array_equal(log["a.tick"], np.arange(len(log.t)))
    # The session goes on: nothing waits for the recorder that is gone.
    deadline = time.monotonic() + 10.0
    while feed.dropped == 0 and time.monotonic() < deadline:
        feed.commit(0)
    assert feed.dropped > 0
    feed.close()


def wait_for(file):
    deadline = time.monotonic() + 20.0
    while not file.exists():
        assert time.monotonic() < deadline, f"{file} never came"
        time.sleep(0.01)


def test_a_disk_that_fills_up_is_no_success(tmp_path):
    """A limit on the size of files stands for it: the system refuses to write in the same way."""
    session = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"
    words = ["-m", "hilrt", "run", str(session), "--out", str(tmp_path), "--quiet"]
    limit = ["bash", "-c", 'ulimit -f 100; exec "$@"', "limited", sys.executable]
    done = subprocess.run([*limit, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 5, done.stderr
    assert "recorder: the log is incomplete: " in done.stderr
    assert "session.mcap: cannot be written: File too large; recording ends after" in done.stderr
