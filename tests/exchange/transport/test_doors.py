"""One contract for every transport: a door of the master's and lines of its peers."""

import contextlib
import os
import sys
import time

import pytest

from hilrt.errors import ConfigError, ProtocolError
from hilrt.exchange.transport import local
from hilrt.exchange.transport.local import LocalDoor
from hilrt.exchange.transport.zeromq import Dealer, Router

DEADLINE_S = 10.0
ADDRESS = f"tcp://127.0.0.1:{os.getpid()}"  # only a name here: nothing is bound to it


def taken(door, count=1):
    """The next messages, with their connections' keys."""
    found = []
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {found}"
        found += door.take()
    return found


def sent_until_refused(send):
    """How many messages a queue takes."""
    for count in range(1_000_000):
        try:
            send(b"x" * 1000)
        except BlockingIOError:
            return count
    raise AssertionError("it has no bound")


def ask_until_refused(door, key):
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        list(door.take())
        door.send(key, b"anybody there?")


class DoorContract:
    """A subclass gives the fixture `door`, and `line`, which makes one to it."""

    @pytest.fixture
    def connect(self, door):
        """Makes lines, and closes them at the end."""
        with contextlib.ExitStack() as lines:

            def connect():
                line = self.line(door)
                lines.callback(line.close, 0)
                return line

            yield connect

    def key(self, door, line, text=b"hello"):
        """The key of a line's connection."""
        line.send(text)
        [(key, message)] = taken(door)
        assert message == text
        return key

    def test_messages_keep_their_order_and_their_ends(self, door, connect):
        line = connect()
        texts = [b"%d" % i * (i + 1) for i in range(100)]
        for text in texts:
            line.send(text)
        messages = taken(door, len(texts))
        assert [message for _, message in messages] == texts
        key = messages[0][0]
        for text in texts:
            door.send(key, text)
        assert [line.receive(1000) for _ in texts] == texts

    def test_connections_are_told_apart(self, door, connect):
        lines = [connect() for _ in range(5)]
        keys = [self.key(door, line, b"%d" % i) for i, line in enumerate(lines)]
        assert len(set(keys)) == 5
        for i, key in enumerate(keys):
            door.send(key, b"to %d" % i)
        assert [line.receive(1000) for line in lines] == [b"to %d" % i for i in range(5)]

    def test_nothing_is_waited_for_unless_asked(self, door, connect):
        line = connect()
        self.key(door, line)
        assert not door.waiting()
        assert list(door.take()) == []
        assert line.receive(0) is None
        assert line.receive(1) is None
        assert not line.broken

    def test_the_descriptor_tells_of_a_message(self, door, connect):
        line = connect()
        self.key(door, line)
        line.send(b"news")
        deadline = time.monotonic() + DEADLINE_S
        while not door.waiting():
            assert time.monotonic() < deadline
        assert door.fileno() >= 0
        assert [message for _, message in door.take()] == [b"news"]

    def test_a_peer_that_does_not_read_has_a_bounded_queue(self, door, connect):
        line = connect()
        key = self.key(door, line)
        assert sent_until_refused(lambda data: door.send(key, data)) > 100
        while line.receive(100):
            pass
        door.send(key, b"again")
        assert line.receive(1000) == b"again"

    def test_a_master_that_does_not_read_has_a_bounded_queue(self, door, connect):
        line = connect()
        self.key(door, line)
        assert sent_until_refused(line.send) > 100

    def test_last_words_come_before_the_connection_is_gone(self, door, connect):
        line = connect()
        key = self.key(door, line)
        door.send(key, b"unread")  # a close with something unread resets a connection
        line.send(b"last words")
        line.close(1000)
        messages = [(key, b"last words")]
        assert taken(door)[:1] == messages
        with pytest.raises(BrokenPipeError):
            ask_until_refused(door, key)

    def test_closing_twice_does_no_harm(self, door, connect):
        line, other = connect(), connect()
        line.close(0)
        line.close(0)
        other.send(b"still there")
        assert b"still there" in [message for _, message in taken(door)]


class TestRouter(DoorContract):
    @pytest.fixture
    def door(self):
        door = Router("tcp://127.0.0.1:*")
        yield door
        door.close(0)

    def line(self, door):
        return Dealer(door.address)

    def test_more_than_one_frame_is_no_message(self, door, connect):
        line = connect()
        line.pollable.send_multipart([b"two", b"frames"])
        [(_, error)] = taken(door)
        assert isinstance(error, ProtocolError)
        assert "more than one frame" in str(error)

    def test_an_address_that_is_taken(self, door):
        with pytest.raises(ConfigError, match="choose a free address"):
            Router(door.address)


@pytest.mark.skipif(not local.available(), reason="this system has no such sockets")
class TestLocal(DoorContract):
    @pytest.fixture
    def door(self):
        door = LocalDoor(ADDRESS)
        yield door
        door.close(0)

    def line(self, door):
        line = local.connect(ADDRESS)
        assert line is not None
        return line

    def test_the_door_tells_of_the_end_of_a_connection(self, door, connect):
        line = connect()
        key = self.key(door, line)
        line.close(0)
        [(again, error)] = taken(door)
        assert again is key
        assert isinstance(error, BrokenPipeError)
        assert not door.waiting()

    def test_a_line_tells_of_the_end_of_the_master_after_its_last_words(self, door, connect):
        line = connect()
        door.send(self.key(door, line), b"last words")
        line.send(b"never read")
        door.close(0)
        assert line.receive(1000) == b"last words"
        assert not line.broken
        assert line.receive(1000) is None
        assert line.broken
        with pytest.raises(BrokenPipeError):
            line.send(b"too late")

    def test_a_message_that_is_too_large_is_seen_to_be(self, door, connect, monkeypatch):
        monkeypatch.setattr(local, "_BUFFER_BYTES", 1000)
        small = LocalDoor(ADDRESS + " small")
        line = local.connect(ADDRESS + " small")
        line.send(b"x" * 2000)
        assert [len(message) for _, message in taken(small)] == [1000]
        line.close(0)
        small.close(0)

    def test_a_name_that_is_taken(self, door):
        with pytest.raises(OSError, match="in use"):
            LocalDoor(ADDRESS)

    def test_nobody_is_there(self):
        assert local.connect(ADDRESS + " nobody") is None

    def test_connections_are_bounded(self, door, connect, monkeypatch):
        monkeypatch.setattr(local, "MAX_CONNECTIONS", 2)
        for _ in range(2):
            self.key(door, connect())
        third = connect()
        [(_, error)] = taken(door)
        assert "more than 2 connections" in str(error)
        assert third.receive(1000) is None
        assert third.broken

    def test_another_user_is_not_let_in_and_not_trusted(self, door, connect, monkeypatch):
        monkeypatch.setattr(local, "_ROOT", -1)
        connect()
        monkeypatch.setattr(os, "geteuid", lambda: 123456)
        [(_, error)] = taken(door)
        assert "another user" in str(error)
        assert local.connect(ADDRESS) is None


def test_only_linux_has_the_short_way(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    assert not local.available()
    assert local.connect(ADDRESS) is None
