"""What processes of a session are told, and what is told of the end of one."""

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from hilrt.errors import PeerLost
from hilrt.link import Command
from hilrt.monitor.session_state import SessionState
from hilrt.record import frame_feed
from hilrt.session import processes as session_processes
from hilrt.session.opening import Described
from hilrt.session.placer import GroupHost
from hilrt.session.processes import Processes
from hilrt.session.run import RunOptions
from hilrt.session.session import _ended_by_loss, run_session

linux = pytest.mark.skipif(sys.platform != "linux", reason="placed hosts need Linux")

FILE = SimpleNamespace(folder=Path())


class Started:
    """Takes the place of the children: notes what they were given."""

    def __init__(self):
        self.env = {}

    def start(self, name, argv, *, cwd, affinity, env, inherits):
        self.env[name] = env

    async def start_solvers(self, solvers, *, cwd, affinity):
        self.env.update({one.name: one.env for one in solvers})


def unknown(name, pid, text):
    """No peer has this name."""
    return False


def link(name, buses=()):
    """A link; the recorder takes the frames of its buses."""
    return SimpleNamespace(name=name, buses=buses)


async def test_keys_and_the_way_for_frames_reach_only_what_needs_them(tmp_path):
    links = link("plant"), link("engine", buses=("engine",))
    emulator = Command("engine.emulator", [], connects=False)
    commands = [Command("plant", ["hilrt", "solver"])], [emulator, Command("engine", [])]
    described = Described(FILE, links, commands)
    processes = Processes(tmp_path, None, [], unknown)
    processes.children = started = Started()
    keys = {"HILRT_KEYS": "keys"}
    await processes.start_subsystems(described, (), keys, {frame_feed.VARIABLE: "ipc://frames"})
    assert started.env == {
        "plant": keys,
        "engine.emulator": {},
        "engine": keys | {"HILRT_FRAMES": "ipc://frames"},
    }
    await processes.start_subsystems(described, (), {}, {})  # nothing is recorded
    assert started.env["engine"] == {}


@linux
async def test_any_number_of_groups_reaches_the_placer(tmp_path):
    """More than a pipe takes, on a cluster that does not exist: each is told of."""
    told, all_told = {}, asyncio.Event()

    def tell_peer(name, pid, text):
        told[name] = text
        if len(told) == len(hosts):
            all_told.set()
        return True

    processes = Processes(tmp_path, None, [], tell_peer)
    env = {"HILRT_KEYS": "k" * 200}
    hosts = [GroupHost(f"g{i}", ["hilrt", "solver", "--group", "s.toml"], env) for i in range(400)]
    processes._place("x://nowhere", hosts, tmp_path, ())
    try:
        async with asyncio.timeout(120):
            await all_told.wait()
    finally:
        processes.ending = True
        await processes.children.stop(20)
    assert all(text.startswith("was not started: --cluster x://nowhere") for text in told.values())


async def test_placed_processes_are_told_of_the_end_of_their_placer(tmp_path):
    told, dead, notes = [], Dead(), Notes()
    dead.name = "placer"
    dead.disk.set()

    def tell_peer(name, pid, text):
        told.append(name)
        return False

    processes = Processes(tmp_path, notes, [], tell_peer)
    processes.children = SimpleNamespace(log_dir=tmp_path, start=lambda *args, **kwargs: dead)
    processes._place("local", [GroupHost("left", [], {}), GroupHost("right", [], {})], tmp_path, ())
    processes.children = {"placer": dead}
    processes._ended("placer", 2)
    await processes.report_ends()
    assert told == ["left.placer", "right.placer", "placer"]
    assert notes.texts[0].startswith("the process ended with status 2: cannot be served")


@pytest.mark.parametrize("known", [True, False])
def test_the_end_of_a_placed_process_that_no_subsystem_has_is_told(known, tmp_path):
    notes, warnings = Notes(), []
    processes = Processes(tmp_path, notes, warnings, lambda name, pid, text: known)
    line = json.dumps({"name": "wheels", "pid": 7, "text": "ended with status 2"})
    processes._placed_ended(line)
    assert notes.texts == ([] if known else ["the process ended with status 2"])
    assert warnings == ([] if known else ["wheels: the process ended with status 2"])
    processes.ending = True
    processes._placed_ended(line)
    assert len(notes.texts) == (not known)


class Dead:
    """A child that has ended, whose log is on a disk that answers when `disk` is set."""

    name, pid, returncode, log = "page", 1, 2, Path("logs/page.log")

    def __init__(self):
        self.disk, self.reader = threading.Event(), 0

    def last_words(self):
        self.reader = threading.get_ident()
        self.disk.wait(10.0)
        return "cannot be served"

    def describe_exit(self):
        return "ended with status 2"


class Notes:
    """Takes the place of the event log."""

    state = SessionState.RUNNING

    def __init__(self):
        self.texts = []
        self.publisher = SimpleNamespace(announce=lambda state, text: None)

    def note(self, level, source, text, cause):
        self.texts.append(text)


@pytest.mark.parametrize("answers", [True, False])
async def test_the_loop_does_not_wait_for_the_output_of_a_dead_process(
    answers, tmp_path, monkeypatch
):
    notes, warnings, dead = Notes(), [], Dead()
    processes = Processes(tmp_path, notes, warnings, unknown)
    processes.children = {"page": dead}
    if not answers:
        monkeypatch.setattr(session_processes, "LAST_LINE", 0.0)
    processes._ended("page", 2)
    assert notes.texts == []  # the loop goes on while the disk does not answer
    if answers:
        dead.disk.set()
    await processes.report_ends()
    said = "the process ended with status 2"
    said += ": cannot be served (all of its output: logs/page.log)" if answers else ""
    assert (notes.texts, warnings) == ([said], [f"page: {said}"])
    dead.disk.set()
    assert dead.reader not in (0, threading.get_ident())


async def test_the_end_of_the_relay_says_what_it_means_and_what_is_left(tmp_path):
    notes, warnings, dead = Notes(), [], Dead()
    dead.name = "relay"
    dead.disk.set()
    processes = Processes(tmp_path, notes, warnings, unknown)
    processes.children = {"relay": dead}
    processes._ended("relay", 2)
    await processes.report_ends()
    assert "operators' commands are not received" in notes.texts[0]
    assert "Ctrl-C in the session's terminal ends it" in warnings[0]


async def test_the_fault_of_a_bench_names_the_end_of_its_emulator(tmp_path):
    dead = Dead()
    dead.name = "engine.emulator"
    dead.disk.set()
    processes = Processes(tmp_path, Notes(), [], unknown)
    processes.children = {"engine.emulator": dead}
    processes._ended("engine.emulator", 2)
    await processes.report_ends()
    said = await processes.with_end_of("engine", "the bench is silent")
    assert said.startswith("the bench is silent; its emulator ended with status 2: cannot be")
    assert await processes.with_end_of("other", "the bench is silent") == "the bench is silent"
    assert await processes.with_end_of("engine", said) == said  # once is enough


posix = pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")


@posix
async def test_a_recorder_that_was_stopped_goes_on_to_close_the_log(tmp_path):
    processes = Processes(tmp_path, Notes(), [], unknown)
    processes.ending = True
    child = processes.children.start("recorder", ["sleep", "0.1"])
    os.kill(child.pid, signal.SIGSTOP)
    processes.resume_recorder()
    assert await processes.end(["recorder"]) == []
    assert child.returncode == 0


@posix
async def test_what_the_end_waits_for_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(session_processes, "NOTICE", 0.0)
    monkeypatch.setattr(session_processes, "STOP_TIMEOUT", 0.05)
    processes = Processes(tmp_path, Notes(), [], unknown)
    processes.ending = True
    child = processes.children.start("recorder", ["sleep", "60"])
    await processes.end(["recorder"])
    assert child.returncode is not None
    assert "waiting for recorder, at most 2.1 s more" in capsys.readouterr().err


@posix
@pytest.mark.parametrize("physical", [False, True])
async def test_a_solver_that_was_stopped_is_let_go_on_to_end_and_a_gateway_is_not(
    physical, tmp_path, monkeypatch
):
    monkeypatch.setattr(session_processes, "STOP_TIMEOUT", 0.2 if physical else 20.0)
    plant, command = link("plant"), Command("plant", ["sleep", "60"], connects=False)
    plant.physical = physical
    processes = Processes(tmp_path, Notes(), [], unknown)
    processes.ending = True
    file = SimpleNamespace(folder=tmp_path)
    await processes.start_subsystems(Described(file, (plant,), ([command],)), (), {}, {})
    child = processes.children["plant"]
    os.kill(child.pid, signal.SIGSTOP)
    # Until it stands still it would take a SIGTERM first.
    await asyncio.to_thread(os.waitpid, child.pid, os.WUNTRACED)
    problems = await processes.end([])
    assert problems == (
        ["plant: did not end within 0.2 s of SIGTERM; it was killed"] if physical else []
    )
    assert child.returncode == -(signal.SIGKILL if physical else signal.SIGTERM)


ENDS_EARLY = """
import sys

from hilrt.peers.peer import Peer
from hilrt.solver import Port

connect = sys.argv.index("--connect") + 1
Peer(sys.argv[connect], "ends", "solver", [Port("u")], [Port("y")]).connect()
sys.exit("no licence")
"""
WAITS = """
[session]
name = "waits"
duration = 1.0
pace = "asap"

[master]
step = 0.1
connect_timeout = 100.0

[subsystems.ends]
adapter = "zeromq"
spawn = [{python}, "ends.py"]

[subsystems.waits]
adapter = "zeromq"

[[connections]]
from = "ends.y"
to = "waits.u"
"""


def test_a_process_that_ends_early_ends_the_wait_for_another(tmp_path):
    """It has said hello: nothing else is awaited from it yet."""
    (tmp_path / "ends.py").write_text(ENDS_EARLY, "utf-8")
    path = tmp_path / "waits.toml"
    path.write_text(WAITS.format(python=json.dumps(sys.executable)), "utf-8")
    result = run_session(path, options=RunOptions(folder=tmp_path / "run", record=False))
    assert result.exit_status == 3
    assert result.fault.startswith("subsystem 'ends': its ")
    log = tmp_path / "run" / "logs" / "ends.log"
    assert f"its process ended with status 1: no licence (all of its output: {log})" in result.fault


async def test_a_loss_after_the_start_is_left_to_the_loop():
    hub = SimpleNamespace(epoch_ns=0, on_loss=None)
    with _ended_by_loss(hub):
        hub.epoch_ns = 1
        hub.on_loss(PeerLost("plant", "silent"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    hub.on_loss(PeerLost("plant", "silent"))
    await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0


async def test_a_loss_ends_any_wait_and_leaves_no_cancellation():
    async def wait():
        hub = SimpleNamespace(epoch_ns=0, on_loss=None)
        with _ended_by_loss(hub):
            hub.on_loss(PeerLost("plant", "silent"))
            hub.on_loss(PeerLost("other", "silent, too"))
            await asyncio.Event().wait()

    with pytest.raises(PeerLost, match="'plant': silent"):
        await wait()
    await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0


async def test_an_error_at_the_moment_of_a_loss_is_raised():
    async def fail():
        hub = SimpleNamespace(epoch_ns=0, on_loss=None)
        with _ended_by_loss(hub):
            hub.on_loss(PeerLost("plant", "silent"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
