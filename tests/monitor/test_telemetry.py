"""Watching never touches the session."""

import msgspec
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from hilrt.monitor.telemetry import (
    BondStatus,
    PeerStatus,
    Percentiles,
    RaisedFlag,
    Status,
    Telemetry,
    decode,
    encode,
)

NAMES = st.text(max_size=8)
NUMBERS = st.floats(allow_nan=False)


@given(
    values=st.dictionaries(NAMES, NUMBERS, max_size=4),
    flags=st.lists(st.builds(RaisedFlag, NAMES, NAMES), max_size=3),
    bonds=st.dictionaries(
        NAMES, st.builds(BondStatus, NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=2
    ),
    peers=st.dictionaries(
        NAMES, st.builds(PeerStatus, st.integers(0, 9), st.integers(0, 9), NUMBERS), max_size=2
    ),
    lateness=st.none() | st.builds(Percentiles, NUMBERS, NUMBERS, NUMBERS),
)
def test_round_trip(values, flags, bonds, peers, lateness):
    status = Status(
        session="s",
        state="RUNNING",
        t=1.5,
        values=values,
        flags=flags,
        bonds=bonds,
        peers=peers,
        lateness_us=lateness,
    )
    assert decode(encode(status)) == status


@given(st.binary(max_size=60))
def test_nonsense_is_refused(frame):
    with pytest.raises(msgspec.MsgspecError):
        decode(b"\xc1" + frame)


def test_watcher_gets_what_is_published():
    telemetry = Telemetry("tcp://127.0.0.1:*")
    context = zmq.Context()
    watcher = context.socket(zmq.SUB)
    watcher.setsockopt(zmq.SUBSCRIBE, b"")
    watcher.connect(telemetry.address)
    for tick in range(500):
        telemetry.publish(Status(session="s", state="RUNNING", tick=tick))
        if watcher.poll(20):
            break
    assert decode(watcher.recv()).session == "s"
    telemetry.close()
    context.destroy(linger=0)


def test_watcher_that_never_reads_costs_nothing():
    """The queue is bounded; more than it holds is dropped, without waiting."""
    telemetry = Telemetry("tcp://127.0.0.1:*")
    context = zmq.Context()
    watcher = context.socket(zmq.SUB)
    watcher.rcvhwm = 1
    watcher.setsockopt(zmq.SUBSCRIBE, b"")
    watcher.connect(telemetry.address)
    while not watcher.poll(20):
        telemetry.publish(Status(session="s", state="RUNNING"))
    heavy = Status(session="s", state="RUNNING", message="x" * 100_000)
    for _ in range(500):
        telemetry.publish(heavy)
    received = 0
    while watcher.poll(200):
        watcher.recv()
        received += 1
    assert received < 500
    context.destroy(linger=0)
    telemetry.close()
