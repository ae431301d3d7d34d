"""Without keys, on this machine: which processes have the session's token, and get in by it."""

import os
import socket
import tempfile
import threading
import time

import pytest
import zmq

from hilrt.errors import SessionFault
from hilrt.peers import wire
from hilrt.peers.authenticator import (
    TOKEN_VARIABLE,
    SessionToken,
    TokenAuthenticator,
    TokenOfPeer,
    find_token,
)
from hilrt.peers.hub import Hub
from hilrt.peers.peer import Peer
from hilrt.peers.transport.zeromq_sockets import Dealer
from hilrt_adapters.zeromq import ZeroMQLink, ZeroMQOptions

DEADLINE_S = 10.0


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Where temporary folders are."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def make_hub(folder):
    hubs = []

    def make(listen="tcp://127.0.0.1:*", direct=False):
        token = SessionToken()
        hubs.append(Hub("demo", listen, authenticator=TokenAuthenticator(token), direct=direct))
        hubs[-1].add(ZeroMQLink("model", ZeroMQOptions(adapter="zeromq"), folder))
        return hubs[-1], token

    yield make
    for hub in hubs:
        hub.close()


class Attempt(threading.Thread):
    """A peer that tries to connect, in a thread; whether it was welcomed, or why not."""

    def __init__(self, address, timeout=DEADLINE_S):
        super().__init__()
        self.peer, self.timeout, self.said = Peer(address, "model", "solver", (), ()), timeout, ""

    def run(self):
        try:
            self.said = self.peer.connect(self.timeout).session
        except SessionFault as error:
            self.said = str(error)

    def end(self, hub=None):
        while self.is_alive():
            if hub is not None:
                hub.drain()
            time.sleep(0.001)
        self.peer.close()
        return self.said


def attempt(hub, timeout=DEADLINE_S):
    thread = Attempt(hub.address, timeout)
    thread.start()
    return thread.end(hub)


def counted(hub, kind):
    deadline = time.monotonic() + DEADLINE_S
    while not hub.counters["?", kind]:
        assert time.monotonic() < deadline, hub.counters
        hub.drain()
    return True


def test_a_process_of_this_account_finds_the_token_by_itself(make_hub, folder):
    hub, token = make_hub()
    [path] = folder.glob("hilrt_peers_*/127.0.0.1_*")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert path.read_text() == token.text == find_token(hub.address)
    assert attempt(hub) == "demo"
    assert "127.0.0.1 by TCP" in hub.protocol.peers["model"].origin.where
    hub.close()
    assert not [*folder.iterdir()]


def test_a_process_of_the_session_has_it_from_its_environment(make_hub, folder, monkeypatch):
    hub, token = make_hub()
    hub._servers[0]._authenticator.token.remove()
    assert find_token(hub.address) is None
    monkeypatch.setenv(TOKEN_VARIABLE, token.text)
    assert attempt(hub) == "demo"


def test_without_the_token_nothing_is_heard(make_hub, folder, monkeypatch):
    hub, _ = make_hub()
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "elsewhere"))
    said = attempt(hub, 1.0)
    assert "on this machine only processes of its own account" in said
    assert counted(hub, "no_token")
    stranger = Dealer(hub.address, TokenOfPeer("model", "0" * 48))
    stranger.send(wire.encode(wire.Stopped()))
    assert counted(hub, "unknown_token")
    stranger.close(0)
    assert set(hub.counters) == {("?", "no_token"), ("?", "unknown_token")}


@pytest.mark.skipif(os.name != "posix", reason="locks are POSIX's")
def test_the_token_of_a_session_that_was_killed_is_not_believed(folder):
    """A solver that is started before the next session would show them for ever."""
    token = SessionToken()
    token.publish("tcp://127.0.0.1:5555")
    os.close(token._folder._lock)  # as the system does for a process that was killed
    assert find_token("tcp://127.0.0.1:5555") is None
    assert not [*folder.iterdir()]


@pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
def test_a_folder_that_others_may_read_or_write_is_not_believed(make_hub, folder):
    hub, _ = make_hub()
    [path] = folder.glob("hilrt_peers_*")
    path.chmod(0o755)
    assert find_token(hub.address) is None


@pytest.mark.parametrize("direct", [False, True])
def test_a_solver_may_be_there_before_its_master(make_hub, direct):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    early = Attempt(address)
    early.start()
    hub, _ = make_hub(address, direct)
    assert early.end(hub) == "demo"


def test_one_name_for_the_loopback(make_hub):
    hub, token = make_hub()
    assert find_token(hub.address.replace("127.0.0.1", "localhost")) == token.text
    assert find_token("tcp://127.0.0.2:1") is None


def test_a_peer_of_another_language_sets_two_options(make_hub):
    """As docs/protocol.md says."""
    hub, token = make_hub()
    context = zmq.Context()
    with context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.plain_username, dealer.plain_password = b"anything", token.text.encode()
        dealer.connect(hub.address)
        hello = {"version": 1, "role": "solver", "name": "model", "inputs": [], "outputs": []}
        dealer.send(wire.encode(wire.Hello(**hello)))
        while not dealer.poll(1):
            hub.drain()
        assert isinstance(wire.decode_from_master(dealer.recv()), wire.Welcome)
    context.term()
