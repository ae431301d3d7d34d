"""The gateway's side of recording frames: batches straight to the recorder's process.

Handing frames over appends them to a list; every `BATCH_NS` the list leaves as one message. Nothing
waits for the recorder: a batch that does not fit into the bounded queue is dropped and counted, and
the recorder notes the gap from the number of the next one.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec
import zmq

from hilrt.files.formats import decode_by
from hilrt.isolation.temporary_folder import connect
from hilrt.record import logged_frame
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.timing.monotonic import monotonic_ns

#: Where gateways hand their frames to the recorder: an endpoint that the session gives them.
VARIABLE = "HILRT_FRAMES"

#: Identifier with the three highest bits as in Linux's ``struct can_frame``, data, time of
#: reception on the system's clock [ns; 0: not known], and whether it is of CAN FD.
RawFrame = tuple[int, bytes, int, bool]
EXTENDED = 1 << 31
REMOTE = 1 << 30
ERROR = 1 << 29


class Pass(NamedTuple):
    """Frames that the gateway handled at one time.

    `sent` tells them from received ones; `mono_ns` and `real_ns` are its monotonic and its system's
    clock then, ns. A frame's age is `real_ns` less its own time.
    """

    sent: bool
    mono_ns: int
    real_ns: int
    frames: Sequence[RawFrame]


class FrameBatch(msgspec.Struct, array_like=True):
    """Consecutive frames of one bus; `first` is the number of frames before them."""

    bus: str
    first: int
    passes: list[Pass]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(FrameBatch)


def encode(
    bus: str, first: int, passes: Sequence[tuple[bool, int, int, Sequence[RawFrame]]]
) -> bytes:
    """Message of a `FrameBatch`, of plain tuples: they cost the gateway a third of named ones."""
    return _encoder.encode((bus, first, passes))


def decode(data: bytes) -> FrameBatch:
    """Batch in a message; `msgspec.MsgspecError` for anything else."""
    batch: FrameBatch = decode_by(_decoder, data)
    return batch


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
        """Send available messages, without waiting."""
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


#: A frame's own time is believed if it is at most that much older than its reading, ns.
MAX_AGE_NS = 60_000_000_000
_STANDARD_MASK, _EXTENDED_MASK = 0x7FF, 0x1FFFFFFF


class Taken(NamedTuple):
    """Frames of one batch.

    Attributes
    ----------
    bus : str
    records : list of (int, bytes)
        Session time [ns] and record of each frame; those before session time 0 are left out.
    lost : int
        Frames missing before them.
    since_ns, until_ns : int
        Session times between which those are missing, ns.
    """

    bus: str
    records: list[tuple[int, bytes]]
    lost: int
    since_ns: int
    until_ns: int


class FrameIntake:
    """Takes the batches of all gateways.

    Parameters
    ----------
    buses : sequence of str
        Names that are expected.
    clock : SessionClock
    """

    def __init__(self, buses: Sequence[str], clock: SessionClock) -> None:
        self._buses = frozenset(buses)
        self._clock = clock
        self._next: dict[str, int] = {}  # by bus; unknown until the first batch
        self._last_ns: dict[str, int] = {}

    def take(self, data: bytes) -> Taken:
        """Records of a batch.

        Raises
        ------
        ValueError
            If it is none, or of a bus that is not expected (also `msgspec.MsgspecError`).
        """
        batch = decode(data)
        bus = batch.bus
        if bus not in self._buses:
            raise ValueError(f"frames of a bus {bus!r} that the session does not have")
        lost = max(0, batch.first - self._next.get(bus, batch.first))
        self._next[bus] = batch.first + sum(len(one.frames) for one in batch.passes)
        records = [item for one in batch.passes for item in self._records(bus, one)]
        since = self._last_ns.get(bus, 0)
        until = records[0][0] if records else since
        if records:
            self._last_ns[bus] = records[-1][0]
        return Taken(bus, records, lost, since, max(since, until))

    def _records(self, bus: str, one: Pass) -> Iterator[tuple[int, bytes]]:
        direction = int(FrameFlag.SENT) if one.sent else 0
        for raw in one.frames:
            stamp = raw[2]
            age = one.real_ns - stamp if stamp else 0
            received = one.mono_ns - (age if 0 <= age <= MAX_AGE_NS else 0)
            t_ns = self._clock.session_ns(received)
            if t_ns >= 0:
                yield t_ns, logged_frame.encode(_frame(bus, raw, direction))


def _frame(bus: str, raw: RawFrame, direction: int) -> LoggedFrame:
    can_id, data, _, fd = raw
    flags = direction
    wide = can_id & (EXTENDED | ERROR)  # the classes of an error take more than eleven bits
    if can_id & EXTENDED:
        flags |= FrameFlag.EXTENDED
    if can_id & ERROR:
        flags |= FrameFlag.ERROR
    length = len(data)
    if can_id & REMOTE:
        flags |= FrameFlag.REMOTE
        data = b""
    if fd:
        # The gateway sends CAN FD with it; of a received frame it is not known.
        flags |= FrameFlag.FD | (FrameFlag.BIT_RATE_SWITCH if direction else 0)
    identifier = can_id & (_EXTENDED_MASK if wide else _STANDARD_MASK)
    return LoggedFrame(0, bus, identifier, int(flags), length, data)


class SessionClock:
    """Maps clock readings to session time, ns.

    Parameters
    ----------
    epoch_ns : int
        Reading at session time 0.
    """

    def __init__(self, epoch_ns: int) -> None:
        self._epoch_ns = self._before_ns = epoch_ns
        self._since_ns = -(1 << 62)

    def stretched(self, since_ns: int, shift_ns: int) -> None:
        """The grid was shifted by `shift_ns` at that reading: session time stood still."""
        self._before_ns, self._since_ns = self._epoch_ns, since_ns
        self._epoch_ns += shift_ns

    def session_ns(self, reading_ns: int) -> int:
        """Session time at a reading of the clock."""
        if reading_ns < self._since_ns:
            return reading_ns - self._before_ns
        return max(reading_ns - self._epoch_ns, self._since_ns - self._before_ns)
