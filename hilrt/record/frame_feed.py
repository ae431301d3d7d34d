"""The gateway's side of recording frames: batches straight to the recorder's process.

Handing frames over appends them to a list; every `BATCH_NS` the list leaves as one message. Nothing
waits for the recorder: a batch that does not fit into the bounded queue is dropped and counted, and
the recorder notes the gap from the number of the next one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence

import zmq

from hilrt.isolation.local_sockets import connect
from hilrt.record.frame_batch import RawFrame, encode
from hilrt.timing.monotonic import monotonic_ns

#: How often a batch leaves, ns, and how many frames it holds at most.
BATCH_NS = 20_000_000
BATCH_FRAMES = 512
#: Batches that wait for the recorder: ten seconds, some megabytes on a full bus.
QUEUE_BATCHES = 512
#: How long the last batch may take to leave, ms.
LINGER_MS = 200

_NOBLOCK = int(zmq.NOBLOCK)


class FrameFeed:
    """Hands a bus's frames to the recorder.

    Parameters
    ----------
    address : str
        Where the recorder takes them.
    bus : str
        Name in the log.
    clock : callable
        Monotonic clock, ns.
    context : zmq.Context, optional
        Whose thread moves the batches; one of its own otherwise.

    Attributes
    ----------
    frames : int
        Frames handed over so far, recorded or not.
    dropped : int
        Those that the queue had no room for.
    """

    def __init__(
        self,
        address: str,
        bus: str,
        clock: Callable[[], int] = monotonic_ns,
        context: zmq.Context[zmq.Socket[bytes]] | None = None,
    ) -> None:
        self.frames = 0
        self.dropped = 0
        self._bus = bus
        self._clock = clock
        self._passes: list[tuple[bool, int, int, Sequence[RawFrame]]] = []
        self._waiting = 0
        self._flushed_ns = clock()
        self._shares = context is not None
        self._context = zmq.Context() if context is None else context
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.PUSH)
        self._socket.sndhwm = QUEUE_BATCHES
        self._socket.linger = LINGER_MS
        connect(self._socket, address)

    def received(self, frames: Sequence[RawFrame]) -> None:
        """Take frames that have just been read from the bus, at least one."""
        self._passes.append((False, self._clock(), time.time_ns(), frames))
        self._waiting += len(frames)
        if self._waiting >= BATCH_FRAMES:
            self.flush()

    def sent(self, frames: Sequence[RawFrame]) -> None:
        """Take frames that have just been sent, at least one."""
        self._passes.append((True, self._clock(), 0, frames))
        self._waiting += len(frames)
        if self._waiting >= BATCH_FRAMES:
            self.flush()

    def keep(self) -> None:
        """Let a batch leave if it is time; to be called often."""
        if self._waiting and self._clock() - self._flushed_ns >= BATCH_NS:
            self.flush()

    def flush(self) -> None:
        """Hand over what there is, without waiting."""
        self._flushed_ns = self._clock()
        batch = encode(self._bus, self.frames, self._passes)
        self.frames += self._waiting
        try:
            self._socket.send(batch, _NOBLOCK)
        except zmq.ZMQError:
            self.dropped += self._waiting
        self._passes, self._waiting = [], 0

    def close(self) -> None:
        """Hand over the rest, and tell by an empty batch how many there were, if some were lost."""
        if self._waiting:
            self.flush()
        if self.dropped and self._socket.poll(LINGER_MS, zmq.POLLOUT):
            self.flush()
        with contextlib.suppress(zmq.ZMQError):
            self._socket.close()
        if not self._shares:
            self._context.term()
