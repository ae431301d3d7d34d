"""Host processes on a Dask cluster: real workers of this machine, hosts that are small programs."""

import json
import os
import signal
import subprocess
import sys

import pytest

from hilrt.errors import ConfigError
from hilrt.session.placer import choose_workers, refuse_open_cluster
from tests.processes import ended
from tests.scenarios.sessions import until

linux = pytest.mark.skipif(sys.platform != "linux", reason="host processes end with their worker")
DEADLINE_S = 120.0
OPEN = "tcp://192.0.2.1:5555"
STAYS = (
    "import os, pathlib, time; here = pathlib.Path(os.environ['NAME']);"
    "here.with_suffix('.new').write_text(f'{os.getpid()} {os.getppid()}');"
    "here.with_suffix('.new').rename(here); time.sleep(600)"
)
FAILS = "import sys; sys.exit('ValueError: no such mass')"


@pytest.mark.parametrize(
    ("cluster", "problem"),
    [
        ("tcp://192.0.2.7:8786", "start it and its workers with TLS"),
        ("tcp://node1:8786", "start it and its workers with TLS"),
        ("node1:8786", "is not an address of a Dask scheduler"),
        ("ws://127.0.0.1:8786", "is not an address of a Dask scheduler"),
    ],
)
def test_a_scheduler_that_others_reach_needs_tls(cluster, problem, tmp_path):
    with pytest.raises(ConfigError, match=problem):
        refuse_open_cluster(cluster, OPEN)
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"address": cluster}))
    with pytest.raises(ConfigError, match=problem):
        refuse_open_cluster(str(file), OPEN)


def test_tls_and_this_machine_are_accepted(tmp_path):
    refuse_open_cluster("tls://192.0.2.7:8786", OPEN)
    for cluster in ("tcp://127.0.0.1:8786", "local"):
        refuse_open_cluster(cluster, "tcp://127.0.0.1:*")
    with pytest.raises(ConfigError, match="other machines cannot reach it"):
        refuse_open_cluster("tls://192.0.2.7:8786", "tcp://127.0.0.1:*")
    refuse_open_cluster("tls://192.0.2.7:8786")  # a sweep's workers connect to no master
    (tmp_path / "scheduler.json").write_text("{}")
    with pytest.raises(ConfigError, match="is not a scheduler's file"):
        refuse_open_cluster(str(tmp_path / "scheduler.json"), OPEN)


def test_hosts_are_spread_over_the_workers_by_what_they_offer():
    assert sorted(choose_workers({"a": 2.0, "b": 2.0, "c": 0.0}, 2)) == ["a", "b"]
    assert sorted(choose_workers({"a": 1.0, "b": 3.0}, 4)) == ["a", "b", "b", "b"]
    with pytest.raises(ConfigError, match=r"take 1 host processes, the session has 2 groups"):
        choose_workers({"a": 1.0}, 2)


@pytest.fixture
def placed(tmp_path):
    """Start the placer with programs by their names; all of it is ended with the test."""
    started = []

    def start(cluster="local", **programs):
        pipe = subprocess.PIPE
        argv = [sys.executable, "-m", "hilrt.session.placer"]
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True)
        started.append(process)
        lines = [[cluster, len(programs), str(tmp_path), str(tmp_path)]]
        for name, code in programs.items():
            lines.append([name, [sys.executable, "-c", code], {"NAME": name}])
        process.stdin.write("".join(f"{json.dumps(line)}\n" for line in lines))
        process.stdin.flush()
        return process

    yield start
    for process in started:
        process.terminate()
        process.communicate(timeout=DEADLINE_S)


@linux
def test_the_end_of_a_host_is_told_and_the_others_end_with_the_session(placed, tmp_path):
    placer = placed(stays=STAYS, fails=FAILS)
    told = json.loads(placer.stdout.readline())
    assert told["name"] == "fails"
    assert told["text"] == "ended with status 1: ValueError: no such mass"
    assert (tmp_path / "fails.log").read_text() == "ValueError: no such mass\n"
    until((tmp_path / "stays").exists, "a host", DEADLINE_S)
    pid, _ = map(int, (tmp_path / "stays").read_text().split())
    assert not ended(pid)
    placer.terminate()
    assert placer.wait(DEADLINE_S) == 0
    until(lambda: ended(pid), "its end", DEADLINE_S)


@linux
def test_a_host_that_hangs_is_killed_after_the_session_was(placed, tmp_path):
    from distributed import LocalCluster

    hangs = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + STAYS
    own = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "resources": {"hilrt": 1}}
    with LocalCluster(n_workers=1, threads_per_worker=1, **own) as cluster:
        placer = placed(cluster.scheduler_address, stays=hangs)
        until((tmp_path / "stays").exists, "a host", DEADLINE_S)
        pid, worker = map(int, (tmp_path / "stays").read_text().split())
        placer.kill()
        until(lambda: ended(pid), "its end", DEADLINE_S)
        assert not ended(worker)


@linux
def test_a_host_ends_with_its_worker(placed, tmp_path):
    placed(one=STAYS, two=STAYS)
    both = [tmp_path / "one", tmp_path / "two"]
    until(lambda: all(path.exists() for path in both), "both hosts", DEADLINE_S)
    pid, worker = map(int, (tmp_path / "one").read_text().split())
    other, _ = map(int, (tmp_path / "two").read_text().split())
    os.kill(worker, signal.SIGKILL)
    until(lambda: ended(pid), "its end", DEADLINE_S)
    assert not ended(other)
