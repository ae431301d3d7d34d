"""The gateway's side of recording frames: cheap, bounded, and honest about what it drops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from hilrt.record import frame_feed
from hilrt.record.frame_feed import FrameBatch, FrameFeed, decode

MS = 1_000_000
FRAME = (0x100, b"12345678", 0, False)


class Rig:
    """A feed, a clock to turn, and a recorder's socket."""

    def __init__(self, address: str) -> None:
        self.now = 10**12
        self.address = address
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.feed = FrameFeed(address, "engine", lambda: self.now, self.context)
        self.socket: zmq.Socket[bytes] = self.context.socket(zmq.PULL)

    def listen(self) -> None:
        self.socket.bind(self.address)

    def batch(self) -> FrameBatch:
        assert self.socket.poll(5000)
        return decode(self.socket.recv())


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig("inproc://frames")
    yield rig
    rig.feed.close()
    rig.socket.close()
    rig.context.term()


def test_a_batch_leaves_every_so_often_and_numbers_its_frames(rig: Rig) -> None:
    rig.listen()
    rig.feed.received([FRAME, FRAME])
    rig.feed.sent([FRAME])
    rig.feed.keep()
    assert not rig.socket.poll(0)
    rig.now += 20 * MS
    rig.feed.keep()
    first = rig.batch()
    assert (first.bus, first.first) == ("engine", 0)
    assert [one.sent for one in first.passes] == [False, True]
    assert first.passes[0].mono_ns == 10**12
    assert list(first.passes[0].frames) == [FRAME, FRAME]
    rig.now += 20 * MS
    rig.feed.keep()  # nothing to say
    assert not rig.socket.poll(0)
    rig.feed.sent([FRAME])
    rig.feed.flush()
    assert rig.batch().first == 3


def test_a_flood_does_not_wait_for_the_clock(rig: Rig) -> None:
    rig.listen()
    for _ in range(frame_feed.BATCH_FRAMES):
        rig.feed.sent([FRAME])
    assert len(rig.batch().passes) == frame_feed.BATCH_FRAMES


def test_without_a_recorder_the_queue_is_bounded_and_losses_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_feed, "QUEUE_BATCHES", 4)
    rig = Rig(f"ipc://{tmp_path}/frames")
    for _ in range(10):
        rig.feed.received([FRAME])
        rig.feed.flush()
    assert rig.feed.frames == 10
    assert rig.feed.dropped == 6
    rig.listen()
    firsts = [rig.batch().first for _ in range(4)]
    assert firsts == [0, 1, 2, 3]
    rig.feed.close()  # an empty batch tells how many there were
    last = rig.batch()
    assert (last.first, last.passes) == (10, [])
    rig.socket.close()
    rig.context.term()
