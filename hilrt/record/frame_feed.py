"""Recording of CAN frames: gateways send them in batches directly to the recorder's process.

A gateway appends frames to a list, which is sent as one message every `BATCH_NS`. It never waits
for the recorder: a batch that does not fit into the bounded queue is dropped and counted, and the
recorder detects the gap from the number of the next one.
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

#: Environment variable with the endpoint for frames, which the session gives to gateways.
VARIABLE = "HILRT_FRAMES"

#: Identifier with the three highest bits as in Linux's ``struct can_frame``, data, time of
#: reception on the system's clock [ns; 0: unknown], and whether it is a CAN FD frame.
RawFrame = tuple[int, bytes, int, bool]
EXTENDED = 1 << 31
REMOTE = 1 << 30
ERROR = 1 << 29


class Pass(NamedTuple):
    """Frames that the gateway handled at one time.

    `sent` distinguishes sent from received frames; `mono_ns` and `real_ns` are the monotonic and
    the system clock at that time, ns. A frame's age is `real_ns` minus its own time.
    """

    sent: bool
    mono_ns: int
    real_ns: int
    frames: Sequence[RawFrame]


class FrameBatch(msgspec.Struct, array_like=True):
    """Consecutive frames of one bus; `first` is the number of earlier frames."""

    bus: str
    first: int
    passes: list[Pass]


_decoder = msgspec.msgpack.Decoder(FrameBatch)


def encode(
    bus: str, first: int, passes: Sequence[tuple[bool, int, int, Sequence[RawFrame]]]
) -> bytes:
    """Encode a `FrameBatch` from plain tuples, which take a third of the time of named tuples."""
    return msgspec.msgpack.encode((bus, first, passes))


def decode(data: bytes) -> FrameBatch:
    """Decode the batch in a message; `msgspec.MsgspecError` for anything else."""
    return decode_by(_decoder, data)


#: Interval between batches, ns, and maximum frames in one.
BATCH_NS = 20_000_000
BATCH_FRAMES = 512
#: Maximum batches queued for the recorder: ten seconds, some megabytes on a full bus.
QUEUE_BATCHES = 512
#: Time limit for sending the last batch, ms.
LINGER_MS = 200

_NOBLOCK = int(zmq.NOBLOCK)


class FrameFeed:
    """Sender of a bus's frames to the recorder.

    Parameters
    ----------
    address : str
        Address at which the recorder receives them.
    bus : str
        Name of the bus in the log.
    clock : callable
        Monotonic clock, ns.
    context : zmq.Context, optional
        Context whose thread sends the batches; default: one of its own.

    Attributes
    ----------
    frames : int
        Frames so far, recorded or not.
    dropped : int
        Frames for which the queue had no room.
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
        """Add frames just read from the bus, at least one."""
        self._add((False, self._clock(), time.time_ns(), frames))

    def sent(self, frames: Sequence[RawFrame]) -> None:
        """Add frames just sent, at least one."""
        self._add((True, self._clock(), 0, frames))

    def _add(self, batch: tuple[bool, int, int, Sequence[RawFrame]]) -> None:
        self._passes.append(batch)
        self._waiting += len(batch[-1])
        if self._waiting >= BATCH_FRAMES:
            self.flush()

    def keep(self) -> None:
        """Send a batch if it is due; to be called often."""
        if self._waiting and self._clock() - self._flushed_ns >= BATCH_NS:
            self.flush()

    def flush(self) -> None:
        """Send the frames so far, without waiting."""
        self._flushed_ns = self._clock()
        batch = encode(self._bus, self.frames, self._passes)
        self.frames += self._waiting
        try:
            self._socket.send(batch, _NOBLOCK)
        except zmq.ZMQError:
            self.dropped += self._waiting
        self._passes, self._waiting = [], 0

    def close(self) -> None:
        """Send the rest; if frames were lost, an empty batch reports the number of all frames."""
        if self._waiting:
            self.flush()
        if self.dropped and self._socket.poll(LINGER_MS, zmq.POLLOUT):
            self.flush()
        with contextlib.suppress(zmq.ZMQError):
            self._socket.close()
        if not self._shares:
            self._context.term()


#: Maximum age of a frame when it is read, by its own time, for that time to be trusted, ns.
MAX_AGE_NS = 60_000_000_000
_STANDARD_MASK, _EXTENDED_MASK = 0x7FF, 0x1FFFFFFF


class Taken(NamedTuple):
    """Frames of one received batch.

    Attributes
    ----------
    bus : str
    records : list of (int, bytes)
        Session time [ns] and record of each frame; frames before session time 0 are left out.
    lost : int
        Number of frames missing before this batch.
    since_ns, until_ns : int
        Session times between which the frames are missing, ns.
    """

    bus: str
    records: list[tuple[int, bytes]]
    lost: int
    since_ns: int
    until_ns: int


class FrameIntake:
    """Receiver of the batches of all gateways.

    Parameters
    ----------
    buses : sequence of str
        Names of the buses expected.
    clock : SessionClock
    """

    def __init__(self, buses: Sequence[str], clock: SessionClock) -> None:
        self._buses = frozenset(buses)
        self._clock = clock
        self._next: dict[str, int] = {}  # next frame number by bus; unknown until the first batch
        self._last_ns: dict[str, int] = {}

    def take(self, data: bytes) -> Taken:
        """Decode a batch, and detect frames missing before it.

        Raises
        ------
        ValueError
            If it is not a batch, or of an unexpected bus (also `msgspec.MsgspecError`).
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
    wide = can_id & (EXTENDED | ERROR)  # an error class has more than eleven bits
    if can_id & EXTENDED:
        flags |= FrameFlag.EXTENDED
    if can_id & ERROR:
        flags |= FrameFlag.ERROR
    length = len(data)
    if can_id & REMOTE:
        flags |= FrameFlag.REMOTE
        data = b""
    if fd:
        # Gateways send CAN FD with bit rate switching; for a received frame it is unknown.
        flags |= FrameFlag.FD | (FrameFlag.BIT_RATE_SWITCH if direction else 0)
    identifier = can_id & (_EXTENDED_MASK if wide else _STANDARD_MASK)
    return LoggedFrame(0, bus, identifier, int(flags), length, data)


class SessionClock:
    """Conversion of clock readings to session time, ns.

    Parameters
    ----------
    epoch_ns : int
        Reading at session time 0.
    """

    def __init__(self, epoch_ns: int) -> None:
        self._epoch_ns = self._before_ns = epoch_ns
        self._since_ns = -(1 << 62)

    def stretched(self, since_ns: int, shift_ns: int) -> None:
        """Record a shift of the grid by `shift_ns`, during which session time stopped."""
        self._before_ns, self._since_ns = self._epoch_ns, since_ns
        self._epoch_ns += shift_ns

    def session_ns(self, reading_ns: int) -> int:
        """Session time at a reading of the clock."""
        if reading_ns < self._since_ns:
            return reading_ns - self._before_ns
        return max(reading_ns - self._epoch_ns, self._since_ns - self._before_ns)
