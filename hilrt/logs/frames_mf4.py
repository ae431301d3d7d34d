"""CAN frames of ASAM bus logging in MF4 files, thousands at a time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np

from hilrt.logs.frame_text import length_of
from hilrt.record.logged_frame import FrameFlag, LoggedFrame

#: Records that are read at once.
ROWS = 16384
#: Structures of ASAM bus logging to the kind of frame that they hold.
KINDS = {
    "CAN_DataFrame": FrameFlag(0),
    "CAN_RemoteFrame": FrameFlag.REMOTE,
    "CAN_ErrorFrame": FrameFlag.ERROR,
}
#: Fields that say what kind of frame it is.
FLAG_FIELDS = (
    ("IDE", FrameFlag.EXTENDED),
    ("EDL", FrameFlag.FD),
    ("BRS", FrameFlag.BIT_RATE_SWITCH),
    ("ESI", FrameFlag.ERROR_STATE),
)
#: What only frames of CAN FD have, and that they are such.
_OF_FD = np.uint8(FrameFlag.FD | FrameFlag.BIT_RATE_SWITCH | FrameFlag.ERROR_STATE)
_IDENTIFIER = 0x1FFFFFFF
_LONG = 1 << 31


def frames_of(mdf: Any, epoch_ns: int) -> Iterator[LoggedFrame]:
    """Frames of all groups, in the order of time.

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
    for offset in range(0, mdf.groups[index].channel_group.cycles_nr, ROWS):
        read = mdf.get(kind, index, record_offset=offset, record_count=ROWS, raw=False)
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
    """Whether frames were sent by the recorder; some tools write it in words."""
    return direction == b"Tx" if direction.dtype.kind == "S" else direction != 0
