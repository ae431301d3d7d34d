"""The CAN frames of a log: count, cycle time and errors of every message; load of the buses."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hilrt.errors import RecordError
from hilrt.logs.log_file import LogFile
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.solver import Floats

if TYPE_CHECKING:
    from hilrt.analyze.can_names import BusNames  # cantools is an extra

#: A frame counts as late after more than this many cycle times.
LATE_CYCLES = 1.5
#: Maximum number of frames counted, so that the page of a log of days takes less than a minute.
MAX_FRAMES = 4_000_000
#: Maximum number of intervals of the load over time, and their shortest length, ns.
MAX_BINS = 600
SHORTEST_BIN_NS = 10_000_000
#: Plain numbers, because flag operators would take longer than the rest of a frame's processing.
_EXTENDED, _REMOTE, _ERROR, _FD, _SWITCH, _SENT = map(
    int,
    (
        FrameFlag.EXTENDED,
        FrameFlag.REMOTE,
        FrameFlag.ERROR,
        FrameFlag.FD,
        FrameFlag.BIT_RATE_SWITCH,
        FrameFlag.SENT,
    ),
)


@dataclass
class MessageTraffic:
    """Frames of one message in one direction.

    Attributes
    ----------
    bus, name : str
        `name` is empty if no database of the log contains it.
    identifier : int
    extended, sent : bool
        Whether it was sent, by the gateway.
    cycle_s : float or None
        Cycle time in the database or the session file, s.
    times_ns : array of int
        Times of the frames, ns.
    checksum, counter, lost : int or None
        Numbers of frames with a wrong checksum, with a counter that did not continue, and missing
        according to the counter; None if the message has no such check.
    """

    bus: str
    name: str
    identifier: int
    extended: bool
    sent: bool
    cycle_s: float | None = None
    times_ns: array[int] = field(default_factory=lambda: array("q"))
    checksum: int | None = None
    counter: int | None = None
    lost: int | None = None

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.times_ns)

    def intervals_s(self) -> Floats:
        """Intervals between successive frames, s."""
        return np.diff(np.array(self.times_ns, dtype=np.int64)).astype(np.float64) * 1e-9

    @property
    def nominal_s(self) -> float | None:
        """Cycle time in the database, otherwise the median interval, s; None for a single frame."""
        if self.cycle_s:
            return self.cycle_s
        intervals = self.intervals_s()
        return float(np.median(intervals)) if len(intervals) else None

    @property
    def late(self) -> int:
        """Number of frames that arrived after more than `LATE_CYCLES` cycle times."""
        nominal = self.nominal_s
        return 0 if nominal is None else int((self.intervals_s() > LATE_CYCLES * nominal).sum())

    def quantiles_s(self) -> dict[str, float] | None:
        """Minimum, p1, p50, p99 and maximum of the intervals, s, by name; None without any."""
        intervals = self.intervals_s()
        if not len(intervals):
            return None
        shares = {"min": 0.0, "p1": 1.0, "p50": 50.0, "p99": 99.0, "max": 100.0}
        found = np.percentile(intervals, list(shares.values())).tolist()
        return dict(zip(shares, found, strict=True))

    def as_json(self) -> dict[str, Any]:
        """Content of the report's JSON file."""
        return {
            "bus": self.bus,
            "message": self.name,
            "id": f"0x{self.identifier:X}",
            "sent": self.sent,
            "frames": self.frames,
            "cycle_s": self.cycle_s,
            "interval_s": self.quantiles_s(),
            "late": self.late,
            "bad_checksum": self.checksum,
            "bad_counter": self.counter,
            "lost": self.lost,
        }


class BusLoad(NamedTuple):
    """Load of a bus over time, without stuff bits.

    Attributes
    ----------
    t : ndarray, shape (n,)
        Start of the intervals, session time, s.
    width_s : float
        Length of an interval, s.
    load : ndarray, shape (n,)
        Share of the time in %, or kbit/s if the log lacks the bit rate.
    unit : str
    errors : int
        Error frames.
    """

    t: Floats
    width_s: float
    load: Floats
    unit: str
    errors: int


@dataclass
class CanTraffic:
    """All frames of a log.

    Attributes
    ----------
    messages : list of MessageTraffic
        By bus, name and identifier.
    buses : dict of str to BusLoad
    whole : bool
        Whether all frames were counted, not just the first `MAX_FRAMES`.
    """

    messages: list[MessageTraffic]
    buses: dict[str, BusLoad]
    whole: bool = True


class _Bus:
    """One bus while its frames are read."""

    def __init__(self, names: BusNames, bins: int) -> None:
        self.names = names
        self.bits: tuple[Floats, Floats] = (
            np.zeros(bins),
            np.zeros(bins),
        )  # at the nominal rate, and at that of the data
        self.errors = 0
        self.messages: dict[tuple[int, int], MessageTraffic] = {}


class _TrafficCounter:
    """Counter of frames.

    Parameters
    ----------
    settings, attachments : mapping
        Sources of names, cycle times and checks in the log.
    start_ns, end_ns : int
        Time over which the load is computed, session time, ns.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        attachments: Mapping[str, bytes],
        start_ns: int,
        end_ns: int,
    ) -> None:
        self._settings, self._attachments, self._start_ns = settings, attachments, start_ns
        span = max(end_ns - start_ns, 1)
        self.width_ns = max(SHORTEST_BIN_NS, -(-span // MAX_BINS))
        self._bins = span // self.width_ns + 1
        self.buses: dict[str, _Bus] = {}

    def count(self, frame: LoggedFrame, t_ns: int) -> None:
        """Count a frame at session time `t_ns`, ns."""
        bus = self.buses.get(frame.bus)
        if bus is None:
            try:
                from hilrt.analyze.can_names import names_of
            except ImportError as error:
                raise RecordError(
                    f"the log's CAN frames need {error.name}; install hilrt[can]"
                ) from None
            names = names_of(frame.bus, self._settings, self._attachments)
            bus = self.buses[frame.bus] = _Bus(names, self._bins)
        if frame.flags & _ERROR:
            bus.errors += 1
            return
        place = (t_ns - self._start_ns) // self.width_ns
        if 0 <= place < self._bins:
            nominal, data = frame_bits(frame)
            bus.bits[0][place] += nominal
            bus.bits[1][place] += data
        extended, sent = frame.flags & _EXTENDED, frame.flags & _SENT
        key = frame.identifier | extended << 31, sent
        message = bus.messages.get(key)
        if message is None:
            name, cycle_s = bus.names.of(key[0], sent=bool(sent))
            message = bus.messages[key] = MessageTraffic(
                frame.bus, name, frame.identifier, bool(extended), bool(sent), cycle_s
            )
        message.times_ns.append(t_ns)
        if not sent and not frame.flags & _REMOTE:
            bus.names.check(key[0], frame.data, t_ns)

    def load(self, bus: _Bus) -> BusLoad:
        """The load of a bus."""
        width_s, rates = self.width_ns * 1e-9, bus.names.bit_rates
        start_s = self._start_ns * 1e-9
        t: Floats = np.array([start_s + i * width_s for i in range(self._bins)])
        nominal, data = bus.bits
        load: Floats = nominal + data
        scale, unit = 1e-3 / width_s, "kbit/s"
        if rates is not None:
            load = nominal / rates[0] + data / rates[1]
            scale, unit = 100.0 / width_s, "%"
        np.multiply(load, scale, out=load)
        return BusLoad(t, width_s, load, unit, bus.errors)


def frame_bits(frame: LoggedFrame) -> tuple[int, int]:
    """Bits of a frame at the nominal rate and at that of its data, including the interframe space.

    ISO 11898-1: without stuff bits, but with the fixed ones of CAN FD.
    """
    extended = bool(frame.flags & _EXTENDED)
    size = len(frame.data)
    if not frame.flags & _FD:
        return (67 if extended else 47) + 8 * size, 0
    head, data = (49 if extended else 30), 8 * size + (32 if size <= 16 else 37)
    return (head, data) if frame.flags & _SWITCH else (head + data, 0)


def read_traffic(
    file: Path,
    metadata: Mapping[str, str],
    settings: Mapping[str, Any],
    attachments: Mapping[str, bytes],
    span_ns: tuple[int, int],
) -> CanTraffic | None:
    """Count the CAN frames of a log; None if it has none.

    Parameters
    ----------
    file : Path
    metadata, settings, attachments : mapping
        Those of the log.
    span_ns : (int, int)
        Session time of its first and last row, ns; the same for a log without rows.
    """
    log, epoch_ns = LogFile(file), int(metadata.get("epoch_ns") or 0)
    counter, whole = None, True
    if span_ns[0] >= span_ns[1]:
        times = [frame.time_ns for frame in LogFile(file).frames()]
        span_ns = (min(times) - epoch_ns, max(times) - epoch_ns) if times else (0, 1)
    for number, frame in enumerate(log.frames()):
        if number >= MAX_FRAMES:
            whole = False
            break
        if counter is None:
            counter = _TrafficCounter(settings, attachments, *span_ns)
        counter.count(frame, frame.time_ns - epoch_ns)
    if counter is None:
        return None
    messages = [message for bus in counter.buses.values() for message in bus.messages.values()]
    for bus in counter.buses.values():
        for key, message in bus.messages.items():
            if not message.sent and (stats := bus.names.stats(key[0])) is not None:
                guards = bus.names.guards(key[0])
                message.checksum = stats.checksum_errors if guards.checksum else None
                message.counter = stats.repeated + stats.out_of_order if guards.counter else None
                message.lost = stats.lost if guards.counter else None
    messages.sort(key=lambda m: (m.bus, m.sent, not m.name, m.name, m.identifier))
    return CanTraffic(
        messages, {name: counter.load(bus) for name, bus in counter.buses.items()}, whole
    )
