import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from hilrt.config.from_toml import parse_params
from hilrt.errors import ConfigError, HilrtError, PeerLost, SolverError
from hilrt.hosting import solver_process
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.solver_process import MasterGone, serve
from hilrt.peers import wire
from hilrt.peers.hub import Hub
from hilrt.peers.peer import Peer
from hilrt.session.initialization import initialize
from hilrt.session.opening import Connected
from hilrt_adapters.zeromq import ZeroMQLink, ZeroMQOptions
from tests.adapters.link_contract import Reference, arrivals
from tests.collected import dispatch
from tests.stepping import make_session

DEADLINE_S = 10.0
TARGET = "tests.adapters.link_contract:Reference"


def test_parameters_are_toml_or_plain_words():
    given = {
        "n": "3",
        "x": "2.5",
        "on": "true",
        "quoted": '"3"',
        "list": "[1, 2]",
        "word": "wltc_class3b.csv",
        "empty": "",
        "lines": "1\nother = 2",
    }
    assert parse_params(given) == {
        "n": 3,
        "x": 2.5,
        "on": True,
        "quoted": "3",
        "list": [1, 2],
        "word": "wltc_class3b.csv",
        "empty": "",
        "lines": "1\nother = 2",
    }


class FakePeer:
    """Hands out prepared messages; keeps what is sent. Empty lists stand for timeouts."""

    heartbeat_s = 0.2
    heard_ns = 7
    unexpected_messages = 0
    malformed_messages = 0
    lost_reason = None

    def __init__(self, *messages):
        self.messages = list(messages)
        self.sent = []

    def wait(self, timeout):
        if not self.messages:
            self.lost_reason = "the master was silent"
            return []
        return [self.messages.pop(0)]

    def send(self, message):
        self.sent.append(message)

    def master_lost(self):
        return self.lost_reason

    def unexpected(self, message):
        self.unexpected_messages += 1

    def malformed(self, text):
        self.malformed_messages += 1


def advance(tick=0, t=0.0, coefficients=None):
    array = np.zeros((2, 3)) if coefficients is None else coefficients
    return wire.Advance(tick=tick, t=t, h=0.1, coefficients=wire.pack(array))


INITIALIZE = wire.Initialize(t0=0.5, u0=wire.pack(np.array([1.0, 2.0, 3.0])))


def test_from_initialize_to_stop():
    peer = FakePeer(INITIALIZE, advance(4), wire.Heartbeat(sent_ns=1), wire.Stop(reason="done"))
    solver = Reference()
    assert serve(peer, HostedSolver(solver)) == "done"
    initialized, advanced, stopped = peer.sent
    assert initialized == wire.Initialized(y=wire.pack(np.array([1.0, 2.0, 3.0, 0.5])))
    assert advanced.tick == 4
    assert wire.unpack(advanced.y, 4).tolist() == [0.0, 0.0, 0.0, 0.1]
    assert wire.unpack(advanced.dy, -1, 4).shape == (1, 4)
    assert advanced.y_mid is None
    assert stopped == wire.Stopped()
    assert solver.stopped == ["done"]


def test_a_solver_that_fails_tells_the_master_why():
    peer = FakePeer(INITIALIZE, advance(t=7.0))
    with pytest.raises(SolverError, match="asked to fail"):
        serve(peer, HostedSolver(Reference(fail_at=7.0)))
    assert isinstance(peer.sent[-1], wire.Error)
    assert "ZeroDivisionError: asked to fail" in peer.sent[-1].text


def test_wrong_arrays_and_wrong_messages_are_counted_and_dropped():
    peer = FakePeer(
        INITIALIZE,
        advance(coefficients=np.zeros(4)),
        wire.Initialize(t0=0.0, u0=b"123"),
        wire.Arm(u0=b""),
        wire.Stop(reason="done"),
    )
    serve(peer, HostedSolver(Reference()))
    assert (peer.malformed_messages, peer.unexpected_messages) == (2, 1)
    assert [type(message) for message in peer.sent] == [wire.Initialized, wire.Stopped]


def test_a_silent_master_ends_it():
    with pytest.raises(MasterGone, match="silent"):
        serve(FakePeer(INITIALIZE), HostedSolver(Reference()))


def test_an_error_of_the_master_ends_it():
    with pytest.raises(MasterGone, match="out of memory"):
        serve(FakePeer(wire.Error(text="out of memory")), HostedSolver(Reference()))


class Process(threading.Thread):
    """`main` in a thread, where it leaves the signals alone."""

    def __init__(self, monkeypatch, address, params, name="model"):
        super().__init__(daemon=True)
        monkeypatch.setattr("hilrt.hosting.solver_process.end_with_parent", lambda: None)
        self.arguments = (TARGET, address, name, params)
        self.status = None
        self.start()

    def run(self):
        self.status = solver_process.main(*self.arguments)

    def end(self):
        self.join(DEADLINE_S)
        assert not self.is_alive()
        return self.status


@pytest.fixture
def hub():
    hub = Hub("test", connect_timeout=DEADLINE_S)
    yield hub
    hub.close()


@pytest.fixture
def link(hub):
    link = ZeroMQLink("model", ZeroMQOptions(adapter="zeromq"), Path())
    hub.add(link)
    return link


async def test_main_with_a_master(monkeypatch, hub, link):
    process = Process(monkeypatch, hub.address, {"fail_at": "99.0"})
    await link.open()
    assert (await link.initialize(0.25, np.zeros(3))).y.tolist() == [0.0, 0.0, 0.0, 0.25]
    dispatch(link, 1, 0.25, 0.25, np.zeros((1, 3)))
    (arrival,) = await arrivals(link)
    assert arrival.sample.y[3] == 0.5
    await link.stop("done")
    assert process.end() == 0


async def test_main_ends_with_1_when_the_solver_fails(monkeypatch, hub, link, capfd):
    process = Process(monkeypatch, hub.address, {"fail_at": "0.0"})
    await link.open()
    dispatch(link, 1, 0.0, 0.1, np.zeros((1, 3)))
    with pytest.raises(PeerLost, match="asked to fail"):
        await arrivals(link)
    assert process.end() == 1
    assert "asked to fail" in capfd.readouterr().err


def test_main_ends_with_2_for_wrong_arguments(capsys):
    assert solver_process.main("tests.nowhere:X", "tcp://127.0.0.1:1", "model", {}) == 2
    assert "error: there is no module 'tests.nowhere'" in capsys.readouterr().err


async def test_main_ends_with_3_when_it_is_rejected(monkeypatch, hub, link, capfd):
    process = Process(monkeypatch, hub.address, {}, name="modell")
    deadline = time.monotonic() + DEADLINE_S
    while process.is_alive() and time.monotonic() < deadline:
        hub.drain()
        await asyncio.sleep(0.001)
    assert process.end() == 3
    assert "no remote subsystem is called 'modell'" in capfd.readouterr().err


async def test_main_ends_with_3_when_its_ports_do_not_fit(monkeypatch, hub, link, capfd):
    tables = make_session(
        {
            "master": {"step": 1e-3},
            "subsystems": {"model": {}},
            "connections": [{"from": "model.zz", "to": "model.u"}],
        }
    )
    process = Process(monkeypatch, hub.address, {})
    await link.open()
    with pytest.raises(ConfigError, match=r"there is no port 'model\.zz'"):
        await initialize(Connected.of([link], tables))
    assert process.end() == 3
    said = capfd.readouterr().err
    assert "error: the session did not begin: the ports do not fit" in said
    assert "there is no port 'model.zz'" in said


def test_serve_works_with_what_peer_offers():
    """The fake peer of these tests has no method that the real one lacks."""
    for name in ("wait", "send", "master_lost", "unexpected", "malformed"):
        assert callable(getattr(Peer, name))
    assert issubclass(SolverError, HilrtError)


class Destructor:
    """Is interrupted by SIGTERM while it is destroyed."""

    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


def destroy_and_wait():
    thing = Destructor()
    del thing
    threading.Event().wait(DEADLINE_S)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_sigterm_in_a_destructor_is_not_lost(monkeypatch, capfd):
    """Python prints and forgets what is raised there; the process was deaf to SIGTERM then."""
    monkeypatch.setattr(solver_process.sys, "unraisablehook", solver_process._on_unraisable)
    before = signal.signal(signal.SIGTERM, solver_process._on_sigterm)
    try:
        with pytest.raises(solver_process.Terminated):
            destroy_and_wait()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capfd.readouterr().err == ""


ENDED = """
import os, signal
from hilrt.hosting.solver_process import main
from tests.collected import dispatch

status = main("nowhere:Model", "tcp://127.0.0.1:1", "model", {})
os.kill(os.getpid(), signal.SIGTERM)
raise SystemExit(status)
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_sigterm_after_the_end_changes_nothing():
    done = subprocess.run([sys.executable, "-c", ENDED], capture_output=True, text=True, timeout=60)
    assert "Terminated" not in done.stderr
    assert (done.returncode, "nowhere" in done.stderr) == (solver_process.EXIT_CONFIG, True)
