"""A server of commands that is killed or stands still costs one test, and says so."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.scenarios import fork_server
from tests.scenarios.conftest import time_limit
from tests.scenarios.fork_server import Forked, ForkServer, ForkServerLost, start_hilrt
from tests.scenarios.sessions import LINUX, TIMEOUT, until

pytestmark = LINUX


@pytest.fixture(autouse=True)
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ForkServer]]:
    """Those of this test, which load nothing."""
    started: list[ForkServer] = []

    def start() -> ForkServer:
        if not started or started[-1].ended:
            started.append(ForkServer(loads=False))
        return started[-1]

    start.cache_clear = lambda: None
    monkeypatch.setattr(fork_server, "_server", start)
    yield started
    started[-1].close()


def start(*arguments: str) -> Forked:
    command = start_hilrt(arguments, 1, 2, os.environ)
    assert command.stdin is not None
    command.stdin.close()
    return command


def waiting() -> Forked:
    """A command that does not end by itself."""
    words = ("--connect", "tcp://127.0.0.1:1", "--name", "m")
    return start("solver", "hilrt.models.two_mass:Mass1", *words)


def test_a_command_has_its_status(servers: list[ForkServer]) -> None:
    assert start("--version").wait(TIMEOUT) == 0
    assert start("no-such-command").wait(TIMEOUT) == 2
    command = waiting()
    assert command.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        command.wait(0.01)
    command.kill()
    assert command.wait(TIMEOUT) == -signal.SIGKILL
    assert len(servers) == 1


def test_a_killed_one_is_replaced_and_what_it_started_is_ended(servers: list[ForkServer]) -> None:
    command = waiting()
    os.kill(servers[0].pid, signal.SIGKILL)
    with pytest.raises(ForkServerLost, match="has ended; its exit status is -9"):
        command.wait(TIMEOUT)
    assert command.poll() == -signal.SIGKILL
    until(lambda: not os.path.exists(f"/proc/{command.pid}"), "end of the command")
    assert start("--version").wait(TIMEOUT) == 0
    assert len(servers) == 2


def test_one_that_stands_still_is_killed_and_replaced(
    servers: list[ForkServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = waiting()
    os.kill(servers[0].pid, signal.SIGSTOP)
    monkeypatch.setattr(fork_server, "ANSWER_TIMEOUT", 0.05)
    with pytest.raises(ForkServerLost, match=r"has not answered for .* it is killed"):
        start("--version")
    with pytest.raises(ForkServerLost, match="has ended"):
        command.wait(TIMEOUT)
    monkeypatch.setattr(fork_server, "ANSWER_TIMEOUT", TIMEOUT)
    assert start("--version").wait(TIMEOUT) == 0
    assert len(servers) == 2


def test_a_test_that_waits_for_ever_fails_with_the_place(capfd: pytest.CaptureFixture[str]) -> None:
    start("--version").wait(TIMEOUT)
    with pytest.raises(pytest.fail.Exception, match="not done within"), time_limit(0.05):
        time.sleep(TIMEOUT)
    assert "in test_a_test_that_waits_for_ever" in capfd.readouterr().err
