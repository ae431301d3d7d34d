"""A session that others watch and operate: what they see and may do when it goes wrong."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import hilrt
from hilrt.monitor.operator_commands import TOKEN_VARIABLE, OperatorCommand
from hilrt.monitor.viewer import Viewer
from hilrt.replay.replay_log import replay
from tests.scenarios.sessions import LINUX, TIMEOUT, Run, sets
from tests.two_masses import CONNECTIONS

pytestmark = LINUX

SESSION = """
[session]
name = "watched"
duration = 600.0
[master]
step = 0.01
connect_timeout = 60.0
pacing = {{ spin = 0.0, affinity = [] }}
[record]
report = false
[monitor]
listen = "tcp://127.0.0.1:{listen}"
commands = "tcp://127.0.0.1:{commands}"
control = ["stop", "answer"]
[subsystems.mass1]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass1"
[subsystems.mass2]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass2"
"""
NEVER = f"""
[subsystems.never]
adapter = "zeromq"
spawn = ["{sys.executable}", "-c", "import time; time.sleep(600)"]
"""


ASKS = """
[subsystems.asks]
adapter = "sequence"
sequence = "asks.py:Asks"
answers = { "go on?" = "no" }
"""
SEQUENCE = """
from hilrt import Port, Sequence

class Asks(Sequence):
    drives = (Port("level"),)

    async def run(self, bench):
        answer = await bench.prompt("coolant warm?", timeout=60.0)
        await bench.step("level", to={"yes": 1.0, "no": 2.0}[answer])
        assert await bench.prompt("go on?", timeout=0.2) == "no"
        await bench.prompt("nobody says", timeout=0.2)
"""


class Watched:
    """Sessions at one address, and who watches them with the token."""

    def __init__(self, folder: Path, listen: int, commands: int) -> None:
        self.folder = folder
        self.text = SESSION.format(listen=listen, commands=commands) + CONNECTIONS
        self.viewer = Viewer(f"tcp://127.0.0.1:{listen}")
        self._runs: list[Run] = []

    def start(self, *overrides: str, more: str = "") -> Run:
        """Run the session, with `more` in its file."""
        path = self.folder / f"session{len(self._runs)}.toml"
        path.write_text(self.text + more, encoding="utf-8")
        out = self.folder / f"runs{len(self._runs)}"
        self._runs.append(Run(path, out, *sets(*overrides)))
        return self._runs[-1]

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Watch until something is seen."""
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            assert time.monotonic() < deadline, f"never seen: {what}"
            self.viewer.poll(20)

    def state(self, *states: str) -> Callable[[], bool]:
        """Whether the session is seen in one of these states."""
        return lambda: self.viewer.status is not None and self.viewer.status.state in states

    def send_stop(self) -> int:
        """Press Stop."""
        return self.send(OperatorCommand(action="stop"))

    def send(self, command: OperatorCommand) -> int:
        """Give a command with the token."""
        client = self.viewer.client()
        assert client is not None
        command.who, command.key = "Ada", "token"
        return client.send(command)

    def close(self) -> None:
        for run in self._runs:
            run.clean_up()
        self.viewer.close()


@pytest.fixture
def watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unused_tcp_port_factory: Callable[[], int]
) -> Iterator[Watched]:
    monkeypatch.setenv(TOKEN_VARIABLE, "token")
    made = Watched(tmp_path, unused_tcp_port_factory(), unused_tcp_port_factory())
    with contextlib.closing(made):
        yield made


def test_frozen_master_is_no_data(watched: Watched) -> None:
    """Although its relay goes on."""
    run = watched.start()
    watched.until(watched.state("RUNNING", "IMPAIRED"), "the session")
    os.kill(run.pid, signal.SIGSTOP)
    try:
        watched.until(lambda: watched.viewer.silent, "silence")
        heard = watched.viewer.received
        watched.until(lambda: watched.viewer.received > heard, "the relay")
        assert watched.viewer.silent
    finally:
        os.kill(run.pid, signal.SIGCONT)
    watched.until(lambda: not watched.viewer.silent, "the session again")
    assert watched.send_stop()
    assert run.wait() == 130


def test_stop_is_not_kept_for_the_next_session(watched: Watched) -> None:
    first = watched.start()
    watched.until(watched.state("RUNNING", "IMPAIRED"), "the first session")
    assert watched.send_stop()
    assert first.wait() == 130
    before = watched.viewer.run
    watched.until(lambda: not watched.send_stop(), "that nobody takes commands")
    second = watched.start("session.name=second", "session.duration=2.0")
    watched.until(lambda: watched.viewer.run != before, "the second session")
    watched.until(watched.state("STOPPED"), "its end")
    assert second.wait() == 0, second.stderr


def test_stop_before_the_first_tick_is_written_down(watched: Watched) -> None:
    run = watched.start(more=NEVER)
    watched.until(watched.state("CONNECTING"), "that it waits for a subsystem")
    watched.until(lambda: watched.viewer.client() is not None, "where commands are accepted")
    watched.until(watched.send_stop, "that commands are accepted")
    assert run.wait() == 130
    events = (run.folder / "events.txt").read_text(encoding="utf-8")
    assert "Ada asked for stop" in events
    assert events.startswith(time.strftime("%Y-"))


def test_a_port_for_watchers_that_is_taken_is_refused(watched: Watched) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        run = watched.start(f'monitor.listen="tcp://127.0.0.1:{port}"', "session.duration=4.0")
        assert run.wait() == 2
    assert f"[monitor] listen = 'tcp://127.0.0.1:{port}'" in run.stderr


def test_cause_of_a_fault_stays_to_the_end(watched: Watched) -> None:
    run = watched.start(more=NEVER)
    watched.until(watched.state("CONNECTING"), "the session")

    def sleeping() -> list[int]:
        return [pid for pid, command in run.alive() if "import time; time.sleep(600)" in command]

    os.kill(run.until(sleeping, "the subsystem that never connects")[0], signal.SIGKILL)
    watched.until(watched.state("FAULT"), "the fault")
    assert watched.viewer.status is not None
    cause = watched.viewer.status.message
    assert "never" in cause
    while not run.ended():
        watched.viewer.poll(20)
        assert watched.viewer.status.message == cause
    assert run.wait() == 3


def test_an_operator_answers_a_prompt_and_the_log_replays(watched: Watched) -> None:
    """After that nobody answers: what is declared counts, and without it the sequence fails."""
    (watched.folder / "asks.py").write_text(SEQUENCE, encoding="utf-8")
    run = watched.start(more=ASKS)
    asked = "the question"
    watched.until(lambda: watched.viewer.status and watched.viewer.status.prompts, asked)
    assert watched.viewer.status is not None
    (prompt,) = watched.viewer.status.prompts
    assert (prompt.sequence, prompt.text, prompt.declared) == ("asks", "coolant warm?", None)
    assert watched.send(OperatorCommand(action="answer", value=prompt.number, text="no"))
    assert run.wait() == 3, run.stderr
    fault = "'nobody says': nobody answered within 0.2 s, and no answer to it is declared"
    assert fault in run.stderr
    assert "(asks.py:" in run.stderr
    log = hilrt.load_log(run.folder)
    told = {event.cause: event for event in log.events if "coolant warm?" in event.text}
    assert told["operator"].text == "Ada: answers 'coolant warm?' of asks: no"
    assert told["prompt"].text == "coolant warm?: no (by Ada)"
    assert told["prompt_asked"].t < told["operator"].t <= told["prompt"].t
    declared = "go on?: no (declared; nobody answered within 0.2 s)"
    assert declared in [event.text for event in log.events if event.cause == "prompt"]
    level = log["asks.level"]  # without a value where the sequence was late
    assert level[np.isfinite(level)][-1] == 2.0
    assert replay(run.folder).identical
