"""Floods of connections to a ZeroMQ socket: bounded, paused, without effect on those that stand."""

import contextlib
import socket
import time

import pytest
import zmq

from hilrt.peers.transport.connection_limiter import MAX_PER_POLL, PAUSE_NS, ConnectionLimiter

DEADLINE_S = 10.0
#: What waits in a pair of sockets within a process whose bounds nobody has set.
EVENTS_BY_DEFAULT = 2000


class Watched:
    """A ROUTER with its limiter, whose clock stands still until a test moves it."""

    def __init__(self):
        self.now = 10 * PAUSE_NS
        self.context = zmq.Context()
        self.router = self.context.socket(zmq.ROUTER)
        self.limiter = ConnectionLimiter(self.context, self.router, lambda: self.now)
        self.router.bind("tcp://127.0.0.1:*")
        self.limiter.bound()
        self.address = self.router.get_string(zmq.LAST_ENDPOINT)
        self.where = ("127.0.0.1", int(self.address.rpartition(":")[2]))

    def poll_until(self, condition):
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline
            self.limiter.poll()

    def close(self):
        self.limiter.close()
        self.router.close(0)
        self.context.term()


@pytest.fixture
def watched():
    with contextlib.closing(Watched()) as made:
        yield made


@pytest.fixture
def dealer(watched):
    """A connection that stands."""
    with watched.context.socket(zmq.DEALER) as made:
        made.linger = 0
        made.connect(watched.address)
        made.send(b"here")
        watched.router.recv_multipart()
        yield made


def test_more_connections_than_allowed_end_in_a_pause(watched, dealer):
    watched.limiter.limit = 3
    with contextlib.ExitStack() as strangers:
        for _ in range(3):
            strangers.enter_context(socket.create_connection(watched.where))
        watched.poll_until(lambda: not watched.limiter.accepting)
        assert watched.limiter.open == 4
        watched.now += 2 * PAUSE_NS
        watched.limiter.poll()
        assert not watched.limiter.accepting  # they still stand
    watched.poll_until(lambda: watched.limiter.open == 1)
    watched.now += PAUSE_NS
    watched.limiter.poll()
    assert watched.limiter.accepting
    dealer.send(b"still here")
    assert watched.router.recv_multipart()[1] == b"still here"


def test_more_in_a_second_than_allowed_do_so_too(watched):
    watched.limiter.limit = 3
    for _ in range(4):
        socket.create_connection(watched.where).close()
        watched.limiter.poll()
    watched.poll_until(lambda: not watched.limiter.accepting)
    watched.poll_until(lambda: watched.limiter.open == 0)
    watched.now += PAUSE_NS
    watched.limiter.poll()
    assert watched.limiter.accepting
    socket.create_connection(watched.where, timeout=DEADLINE_S).close()


def test_events_that_wait_pause_connections_and_stop_no_message(watched, dealer):
    watched.limiter.limit, polls = 100_000, 0
    while watched.limiter.accepting:  # ZeroMQ accepts one after the other, in its own time
        flood(watched, dealer)
        watched.limiter.poll()  # until there are more than one poll handles
        polls += 1
    assert watched.limiter.open <= polls * MAX_PER_POLL


def test_events_that_are_not_looked_at_stop_no_message(watched, dealer):
    """Between two polls a session may be held up; ZeroMQ's thread must not wait for the second.

    With the bounds that sockets have by default it did, after a thousand refused connections.
    """
    watched.limiter.limit, full_polls = 100_000, 0
    for _ in range(EVENTS_BY_DEFAULT // 50):  # of each connection two events, at least
        flood(watched, dealer)
    watched.limiter.poll()
    while not watched.limiter.accepting:  # it took as many as one look may, and more wait
        watched.now, full_polls = watched.now + PAUSE_NS, full_polls + 1
        watched.limiter.poll()
    assert full_polls * MAX_PER_POLL > EVENTS_BY_DEFAULT  # none was lost
    watched.poll_until(lambda: watched.limiter.open == 1)


def flood(watched, dealer):
    """Fifty connections of strangers, which fit into the listener's queue, and a message after."""
    for _ in range(50):
        with socket.create_connection(watched.where) as stranger:
            stranger.sendall(bytes(64))
    dealer.send(b"still here")
    assert watched.router.poll(DEADLINE_S * 1000)
    assert watched.router.recv_multipart()[1] == b"still here"
