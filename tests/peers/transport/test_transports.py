"""One contract for every transport: a server of the master and clients of its peers."""

import contextlib
import os
import socket
import sys
import time
from types import SimpleNamespace

import pytest
import zmq

from hilrt.errors import ConfigError, ProtocolError
from hilrt.peers.transport import local
from hilrt.peers.transport.local import LocalServer
from hilrt.peers.transport.zeromq_sockets import Dealer, Router
from hilrt.peers.wire import MAX_MESSAGE_BYTES

DEADLINE_S = 10.0
ADDRESS = f"tcp://127.0.0.1:{os.getpid()}"  # only a name here: nothing is bound to it


def taken(server, count=1):
    """The next messages, with their connections' keys."""
    found = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {found}"
        found += server.receive()
    return found


def refused(server):
    """Connections that are refused within a while."""
    found = []
    deadline = time.monotonic() + DEADLINE_S
    while not found:
        assert time.monotonic() < deadline, "none is refused"
        list(server.receive())
        found += server.poll()
    return found


def sent_until_refused(send):
    """How many messages a queue takes."""
    for count in range(1_000_000):
        try:
            send(b"x" * 1000)
        except BlockingIOError:
            return count
    raise AssertionError("it has no bound")


def ask_until_refused(server, key):
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        list(server.receive())
        with contextlib.suppress(BlockingIOError):  # the end is known later than the queue is full
            server.send(key, b"still there?")
        time.sleep(1e-3)


class TransportContract:
    """A subclass gives the fixture `server`, and `client`, which makes one to it."""

    @pytest.fixture
    def connect(self, server):
        """Makes clients, and closes them at the end."""
        with contextlib.ExitStack() as clients:

            def connect():
                client = self.client(server)
                clients.callback(client.close, 0)
                return client

            yield connect

    def key(self, server, client, text=b"hello"):
        """The key of a client's connection."""
        client.send(text)
        [(key, message)] = taken(server)
        assert message == text
        return key

    def test_messages_keep_their_order_and_their_ends(self, server, connect):
        client = connect()
        texts = [b"%d" % i * (i + 1) for i in range(100)]
        for text in texts:
            client.send(text)
        messages = taken(server, len(texts))
        assert [message for _, message in messages] == texts
        key = messages[0][0]
        for text in texts:
            server.send(key, text)
        assert [client.receive(1000) for _ in texts] == texts

    def test_connections_are_told_apart(self, server, connect):
        clients = [connect() for _ in range(5)]
        keys = [self.key(server, client, b"%d" % i) for i, client in enumerate(clients)]
        assert len(set(keys)) == 5
        for i, key in enumerate(keys):
            server.send(key, b"to %d" % i)
        assert [client.receive(1000) for client in clients] == [b"to %d" % i for i in range(5)]

    def test_nothing_is_waited_for_unless_asked(self, server, connect):
        client = connect()
        self.key(server, client)
        assert not server.waiting()
        assert list(server.receive()) == []
        assert client.receive(0) is None
        assert client.receive(1) is None
        assert not client.broken

    def test_the_descriptor_tells_of_a_message(self, server, connect):
        client = connect()
        self.key(server, client)
        client.send(b"news")
        deadline = time.monotonic() + DEADLINE_S
        while not server.waiting():
            assert time.monotonic() < deadline
        assert server.fileno() >= 0
        assert [message for _, message in server.receive()] == [b"news"]

    def test_a_peer_that_does_not_read_has_a_bounded_queue(self, server, connect):
        client = connect()
        key = self.key(server, client)
        assert sent_until_refused(lambda data: server.send(key, data)) > 100
        while client.receive(100):
            pass
        server.send(key, b"again")
        assert client.receive(1000) == b"again"

    def test_a_master_that_does_not_read_has_a_bounded_queue(self, server, connect):
        client = connect()
        self.key(server, client)
        assert sent_until_refused(client.send) > 100

    def test_the_last_message_comes_before_the_connection_is_gone(self, server, connect):
        client = connect()
        key = self.key(server, client)
        server.send(key, b"unread")  # a close with something unread resets a connection
        client.send(b"last words")
        client.close(1000)
        messages = [(key, b"last words")]
        assert taken(server)[:1] == messages
        with pytest.raises(BrokenPipeError):
            ask_until_refused(server, key)

    def test_an_ended_connection_is_not_heard_again(self, server, connect):
        client, other = connect(), connect()
        key = self.key(server, client)
        server.end(key)
        with contextlib.suppress(OSError):
            client.send(b"too late")
        with pytest.raises(BrokenPipeError):
            ask_until_refused(server, key)
        assert self.key(server, other) != key

    def test_the_sender_is_known(self, server, connect):
        self.key(server, connect())
        origin = server.origin()
        assert origin.local
        assert origin.names is None
        assert origin.pid in (0, os.getpid())
        assert ("127.0.0.1" if origin.pid == 0 else str(os.getpid())) in origin.where

    def test_connections_that_are_not_expected_do_not_end_those_that_stand(self, server, connect):
        client = connect()
        key = self.key(server, client)
        server.expect(False, 1)
        client.send(b"still there")
        assert taken(server) == [(key, b"still there")]
        server.expect(True, 1)
        server.send(key, b"you too")
        assert client.receive(1000) == b"you too"

    def test_closing_twice_does_no_harm(self, server, connect):
        client, other = connect(), connect()
        client.close(0)
        client.close(0)
        other.send(b"still there")
        assert b"still there" in [message for _, message in taken(server)]

    def test_a_server_that_is_closed_expects_nobody(self, server):
        assert self.listens(server)
        server.close(0)
        server.expect(False, 0)
        server.expect(True, 1)
        assert not self.listens(server)


class TestRouter(TransportContract):
    @pytest.fixture
    def server(self):
        server = Router("tcp://127.0.0.1:*")
        yield server
        server.close(0)

    def client(self, server):
        return Dealer(server.address)

    def listens(self, server):
        host, port = server.address.removeprefix("tcp://").split(":")
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection((host, int(port)), DEADLINE_S).close()
            return True
        return False

    def test_more_than_one_frame_is_no_message(self, server, connect):
        client = connect()
        client.pollable.send_multipart([b"two", b"frames"])
        [(_, error)] = taken(server)
        assert isinstance(error, ProtocolError)
        assert "more than one frame" in str(error)

    def test_a_routing_id_of_its_own_could_be_anothers(self, server):
        context = zmq.Context()
        with context.socket(zmq.DEALER) as dealer:
            dealer.linger, dealer.routing_id = 0, b"vehicle"
            dealer.connect(server.address)
            dealer.send(b"hello")
            [(_, error)] = taken(server)
        context.term()
        assert "leave it unset" in str(error)

    def test_a_descriptor_that_is_anothers_by_now_is_left_alone(self, server, connect):
        """The stranger has closed its connection, and something else got the number."""
        key = self.key(server, connect())
        near, far = socket.socketpair()
        with near, far:
            number = near.fileno()
            said = {zmq.SRCFD: number, "Peer-Address": "127.0.0.1"}
            server._newest = SimpleNamespace(get=said.__getitem__)
            server.end(key)
            near.send(b"still open")
            assert far.recv(100) == b"still open"

    def test_what_is_too_large_is_not_read(self, server, connect):
        """Its connection ends; one that is only a little too large is told of."""
        client, other = connect(), connect()
        client.send(b"x" * (MAX_MESSAGE_BYTES + 1))
        [(_, error)] = taken(server)
        assert error.kind == "oversized"
        client.send(b"x" * (2 * MAX_MESSAGE_BYTES + 1))
        self.key(server, other)
        assert not server.waiting()

    @pytest.mark.skipif(sys.platform != "linux", reason="the kernel's filter is Linux's")
    def test_where_none_is_expected_none_is_accepted(self, server, connect):
        self.key(server, connect())
        server.expect(False, 1)
        port = int(server.address.rpartition(":")[2])
        with socket.socket() as stranger:
            stranger.settimeout(0.05)
            with pytest.raises(TimeoutError):
                stranger.connect(("127.0.0.1", port))
        server.expect(True, 1)
        self.key(server, connect())

    def test_an_address_that_is_taken(self, server):
        with pytest.raises(ConfigError, match="choose a free address"):
            Router(server.address)


@pytest.mark.skipif(not local.available(), reason="this system has no such sockets")
class TestLocal(TransportContract):
    @pytest.fixture
    def server(self):
        server = LocalServer(ADDRESS)
        yield server
        server.close(0)

    def listens(self, server):
        client = local.connect(ADDRESS)
        if client is not None:
            client.close(0)
        return client is not None

    def client(self, server):
        client = local.connect(ADDRESS)
        assert client is not None
        return client

    def test_the_server_tells_of_the_end_of_a_connection(self, server, connect):
        client = connect()
        key = self.key(server, client)
        client.close(0)
        [(again, error)] = taken(server)
        assert again is key
        assert isinstance(error, BrokenPipeError)
        assert not server.waiting()

    def test_a_client_tells_of_the_end_of_the_master_after_its_last_message(self, server, connect):
        client = connect()
        server.send(self.key(server, client), b"last words")
        client.send(b"never read")
        server.close(0)
        assert client.receive(1000) == b"last words"
        assert not client.broken
        assert client.receive(1000) is None
        assert client.broken
        with pytest.raises(BrokenPipeError):
            client.send(b"too late")

    def test_a_message_that_is_too_large_is_seen_to_be(self, server, connect, monkeypatch):
        monkeypatch.setattr(local, "BUFFER_BYTES", 1000)
        small = LocalServer(ADDRESS + " small")
        client = local.connect(ADDRESS + " small")
        client.send(b"x" * 2000)
        assert [len(message) for _, message in taken(small)] == [1000]
        client.close(0)
        small.close(0)

    def test_a_name_that_is_taken(self, server):
        with pytest.raises(OSError, match="in use"):
            LocalServer(ADDRESS)

    def test_no_master_is_there(self):
        assert local.connect(ADDRESS + " free") is None

    def test_connections_are_bounded(self, server, connect, monkeypatch):
        monkeypatch.setattr(local, "SPARE_CONNECTIONS", 1)
        server.expect(True, 1)
        for _ in range(2):
            self.key(server, connect())
        third = connect()
        [error] = refused(server)
        assert "more than 2 connections" in str(error)
        assert third.receive(1000) is None
        assert third.broken

    def test_a_flood_of_connections_is_taken_in_little_by_little(self, server, connect):
        first = connect()
        self.key(server, first)
        for _ in range(3 * local.MAX_ACCEPTED):
            connect()
        first.send(b"in time")
        assert [message for _, message in server.receive()] == [b"in time"]
        assert len(server.connections) <= 1 + local.MAX_ACCEPTED
        server.expect(False, 1)
        list(server.receive())
        before = len(server.connections)
        server.poll()
        assert len(server.connections) == before + local.MAX_ACCEPTED

    def test_another_user_is_not_let_in_and_not_trusted(self, server, connect, monkeypatch):
        monkeypatch.setattr(local, "ROOT", -1)
        connect()
        monkeypatch.setattr(os, "geteuid", lambda: 123456)
        [error] = refused(server)
        assert "another user" in str(error)
        assert local.connect(ADDRESS) is None


def test_only_linux_has_the_short_way(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert not local.available()
    assert local.connect(ADDRESS) is None
