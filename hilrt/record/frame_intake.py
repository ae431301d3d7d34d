"""Batches of frames from the gateways to records of the log, with what is missing among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hilrt.record import logged_frame
from hilrt.record.frame_batch import ERROR, EXTENDED, REMOTE, Pass, RawFrame, decode
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.record.session_clock import SessionClock

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
