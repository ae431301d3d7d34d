"""Reader of MF4 files: measured channels by group, and frames of bus logging."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from asammdf import MDF

from hilrt.logs.columns import interleave
from hilrt.logs.frame_text import length_of
from hilrt.logs.source import Source
from hilrt.record.logged_frame import LATEST_NS, FrameFlag, LoggedFrame
from hilrt.record.messages import Attachment, Signal, Topic
from hilrt.record.reader import Block, LogChannel

#: Records of bus logging read at once.
FRAME_ROWS = 16384
#: Kind of frame by structure of ASAM bus logging.
KINDS = {
    "CAN_DataFrame": FrameFlag(0),
    "CAN_RemoteFrame": FrameFlag.REMOTE,
    "CAN_ErrorFrame": FrameFlag.ERROR,
}
#: Fields that give the kind of frame.
FLAG_FIELDS = (
    ("IDE", FrameFlag.EXTENDED),
    ("EDL", FrameFlag.FD),
    ("BRS", FrameFlag.BIT_RATE_SWITCH),
    ("ESI", FrameFlag.ERROR_STATE),
)
#: Flags of CAN FD frames only, and the flag for CAN FD.
_OF_FD = np.uint8(FrameFlag.FD | FrameFlag.BIT_RATE_SWITCH | FrameFlag.ERROR_STATE)
_IDENTIFIER = 0x1FFFFFFF
_LONG = 1 << 31


def frames_of(mdf: Any, epoch_ns: int) -> Iterator[LoggedFrame]:
    """Yield frames of all groups, in order of time.

    Parameters
    ----------
    mdf : asammdf.MDF
    epoch_ns : int
        Wall clock at the file's time 0, ns.
    """
    streams = []
    for index, group in enumerate(mdf.groups):
        names = {channel.name for channel in group.channels}
        for kind in KINDS:
            if kind in names and group.channel_group.cycles_nr:
                streams.append(_group(mdf, index, kind, epoch_ns))
    return heapq.merge(*streams, key=lambda frame: frame.time_ns)


def _group(mdf: Any, index: int, kind: str, epoch_ns: int) -> Iterator[LoggedFrame]:
    for offset in range(0, mdf.groups[index].channel_group.cycles_nr, FRAME_ROWS):
        read = mdf.get(kind, index, record_offset=offset, record_count=FRAME_ROWS, raw=False)
        yield from _frames(read, kind, epoch_ns)


def _frames(read: Any, kind: str, epoch_ns: int) -> Iterator[LoggedFrame]:
    names = read.samples.dtype.names
    count = len(read.timestamps)

    def column(field: str) -> Any:
        name = f"{kind}.{field}"
        return read.samples[name] if name in names else np.zeros(count, np.uint32)

    times = (np.rint(read.timestamps * 1e9).astype(np.int64) + epoch_ns).tolist()
    raw_ids = column("ID").astype(np.uint32)
    flags = np.full(count, int(KINDS[kind]), np.uint8)
    for field, flag in FLAG_FIELDS:
        flags |= np.where(column(field) != 0, int(flag), 0).astype(np.uint8)
    is_fd = (flags & FrameFlag.FD != 0) & (kind != "CAN_RemoteFrame")  # CAN FD has no remote frames
    flags = np.where(is_fd, flags, flags & ~_OF_FD).astype(np.uint8)
    if f"{kind}.IDE" not in names:
        flags |= np.where(raw_ids & _LONG, int(FrameFlag.EXTENDED), 0).astype(np.uint8)
    flags |= np.where(_sent(column("Dir")), int(FrameFlag.SENT), 0).astype(np.uint8)
    lengths = column("DataLength").astype(np.int64).tolist()
    buses = [str(bus) for bus in column("BusChannel").tolist()]
    has_data = f"{kind}.DataBytes" in names
    data = column("DataBytes") if has_data else np.zeros((count, 0), np.uint8)
    raw = np.ascontiguousarray(data, np.uint8)
    width = raw.shape[1] if raw.ndim == 2 else 1
    packed = raw.tobytes()
    codes = column("DLC").tolist()
    for i, (at, identifier, bits) in enumerate(
        zip(times, (raw_ids & _IDENTIFIER).tolist(), flags.tolist(), strict=True)
    ):
        length = lengths[i]
        body = packed[i * width : i * width + min(length, width)]
        dlc = len(body)
        if not body and not bits & FrameFlag.ERROR:
            dlc = length_of(codes[i]) if bits & FrameFlag.FD else codes[i]
        yield LoggedFrame(at, buses[i], identifier, bits, dlc, body)


def _sent(direction: Any) -> Any:
    """Whether frames were sent by the recording tool; some tools write this as text."""
    return direction == b"Tx" if direction.dtype.kind == "S" else direction != 0


#: Records of a group of signals read at once.
ROWS = 65536
#: Flag of groups of bus logging.
_BUS_EVENT = 1 << 1


class Mf4Source(Source):
    """MDF file of version 3 or 4; values are physical values, as float64."""

    kind = "MF4"

    def __init__(self, path: Path, label: str = "") -> None:
        super().__init__(path, label)
        try:
            self._mdf: Any = MDF(path)
        except Exception as error:  # asammdf raises various errors
            raise self.fail(f"is not an MDF file: {' '.join(str(error).split())}") from None
        header = self._mdf.header
        exact = getattr(header, "abs_time", None)
        stamp = header.start_time.timestamp()
        # The integer is local time if the file says so; whole seconds then come from the stamp.
        self.epoch_ns = round(stamp) * 10**9 if exact is None else _epoch_ns(exact, stamp)
        if abs(self.epoch_ns) > LATEST_NS:
            raise self.fail(
                f"begins at {stamp:g} s since 1970, which cannot be the time of a recording"
            )
        self._groups: dict[str, tuple[int, list[int], list[Signal]]] | None = None

    def topics(self) -> list[Topic]:
        """Topics, one per channel group; text and arrays are left out and noted."""
        return [Topic(name, signals) for name, (_, _, signals) in self._read_groups().items()]

    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Rows of all groups, interleaved by time."""
        streams = []
        for name, (group, indices, signals) in self._read_groups().items():
            keep = [
                (i, s)
                for i, s in zip(indices, signals, strict=True)
                if wanted is None or s.name in wanted
            ]
            if keep:
                streams.append(self._rows(name, group, keep))
        return interleave(streams)

    def frames(self) -> Iterator[LoggedFrame]:
        """Frames of bus logging."""
        return frames_of(self._mdf, self.epoch_ns or 0)

    def attachments(self) -> list[Attachment]:
        """Embedded files."""
        found = []
        if str(self._mdf.version) < "4":
            return []  # attachments exist since version 4
        for index, entry in enumerate(self._mdf.attachments):
            data, name, _ = self._mdf.extract_attachment(index=index)
            if data:
                found.append(Attachment(Path(str(name)).name, str(entry.mime), bytes(data)))
        return found

    def close(self) -> None:
        """Free the file."""
        self._mdf.close()

    def _read_groups(self) -> dict[str, tuple[int, list[int], list[Signal]]]:
        """Group, channel indices and signals of each topic."""
        if self._groups is not None:
            return self._groups
        self._groups = {}
        taken: set[str] = set()
        for g, group in enumerate(self._mdf.groups):
            count = group.channel_group.cycles_nr
            if not count or getattr(group.channel_group, "flags", 0) & _BUS_EVENT:
                continue
            master = self._mdf.masters_db.get(g)
            indices, signals = [], []
            for i, channel in enumerate(group.channels):
                if i == master:
                    continue
                if not self._is_number(g, i):
                    self.notes.append(f"channel {channel.name!r} has no numbers")
                    continue
                name = _unique(channel.name, taken)
                indices.append(i)
                signals.append(self._signal(g, i, name))
            if signals:
                given = getattr(group.channel_group, "acq_name", "") or f"group_{g}"
                self._groups[_unique(given, set(self._groups))] = (g, indices, signals)
        return self._groups

    def _is_number(self, group: int, index: int) -> bool:
        try:
            samples, _ = self._mdf.get(group=group, index=index, record_count=1, samples_only=True)
        except Exception:  # structures that asammdf cannot return as one channel
            return False
        return samples.ndim == 1 and samples.dtype.kind in "iufb"

    def _signal(self, group: int, index: int, name: str) -> Signal:
        read = self._mdf.get(group=group, index=index, record_count=1)
        source = read.source.name or read.source.path if read.source is not None else ""
        return Signal(name, read.unit or "", source or "", read.comment or "")

    def _rows(self, topic: str, group: int, keep: list[tuple[int, Signal]]) -> Iterator[Block]:
        channel = LogChannel(topic, [signal for _, signal in keep])
        count = self._mdf.groups[group].channel_group.cycles_nr
        for offset in range(0, count, ROWS):
            window: Any = {"record_offset": offset, "record_count": ROWS}
            times = self._mdf.get_master(group, **window)
            columns = []
            for index, signal in keep:
                # Otherwise asammdf would omit rows that are marked as invalid.
                values, invalid = self._mdf.get(
                    group=group,
                    index=index,
                    samples_only=True,
                    ignore_invalidation_bits=True,
                    **window,
                )
                if len(values) != len(times):
                    raise self.fail(
                        f"channel {signal.name!r}: {len(values)} values for {len(times)} times; "
                        "the file is damaged"
                    )
                values = values.astype(np.float64)
                if invalid is not None:
                    values[np.asarray(invalid, bool)] = np.nan
                columns.append(values)
            at = self.nanoseconds(np.asarray(times, np.float64))
            if np.any(np.diff(at) < 0):
                raise self.fail(f"group {topic}: the time decreases; the file is damaged")
            yield Block(channel, at, np.column_stack(columns))


def _epoch_ns(exact: int, stamp: float) -> int:
    """Header time in ns since 1970 (UTC), shifted to the stamp by whole quarters of an hour."""
    quarter = 900 * 10**9
    return exact + round((stamp * 1e9 - exact) / quarter) * quarter


def _unique(name: str, taken: set[str]) -> str:
    chosen, k = name, 2
    while chosen in taken:
        chosen, k = f"{name}#{k}", k + 1
    taken.add(chosen)
    return chosen
