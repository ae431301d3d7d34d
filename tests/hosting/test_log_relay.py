"""Warnings of a solver process reach the session's log, and none is lost silently."""

import logging

import pytest

from hilrt.hosting.solver_process import KEPT, PAUSE_S, LogRelay


class Sent:
    """Keeps what is sent."""

    def __init__(self):
        self.events = []

    def send(self, event):
        self.events.append((event.level, event.cause, event.text))


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def relay(clock):
    handler, logger = LogRelay(lambda: clock[0]), logging.getLogger("hilrt.tested")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_warnings_and_errors_are_told_once(relay):
    log, peer = logging.getLogger("hilrt.tested"), Sent()
    log.info("nothing much")
    assert not relay.is_due
    log.warning("step size is %g", 0.1)
    log.error("singular")
    assert relay.is_due
    for _ in range(2):
        relay.send(peer)
    assert peer.events == [("warning", "log", "step size is 0.1"), ("error", "log", "singular")]
    assert not relay.is_due


def test_it_is_due_once_a_second(relay, clock):
    log, peer = logging.getLogger("hilrt.tested"), Sent()
    log.warning("first")
    relay.send(peer)
    log.warning("second")
    assert not relay.is_due
    clock[0] += PAUSE_S
    assert relay.is_due


def test_more_than_is_kept_is_counted(relay):
    log, peer = logging.getLogger("hilrt.tested"), Sent()
    for i in range(KEPT + 3):
        log.warning("message %d", i)
    relay.send(peer)
    assert len(peer.events) == KEPT + 1
    assert peer.events[-1][2].startswith("3 more messages")
    relay.send(peer)
    assert len(peer.events) == KEPT + 1
