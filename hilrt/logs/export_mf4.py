"""Export of logs to MF4: a channel group with its own time per topic, and bus logging."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import md5
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from asammdf import MDF
from asammdf import Signal as MdfSignal
from asammdf import Source as MdfSource
from asammdf.blocks import v4_constants as v4c

from hilrt.logs.columns import between
from hilrt.logs.export_can import BusNumbers
from hilrt.logs.export_csv import wanted_topics
from hilrt.logs.frame_text import code_of
from hilrt.logs.source import Exported, Source
from hilrt.logs.source_mf4 import FLAG_FIELDS, KINDS
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.record.messages import Signal
from hilrt.record.reader import Block
from hilrt.solver import Floats
from hilrt.version import VERSION

#: Frames passed to asammdf at once.
FRAMES = 8192
#: Longest data of a frame that the file can hold, bytes.
DATA_BYTES = 64
#: Kinds of frames without message data.
_OTHER_KINDS = FrameFlag.ERROR | FrameFlag.REMOTE
_FIELDS = [
    ("BusChannel", "<u1"),
    ("ID", "<u4"),
    ("IDE", "<u1"),
    ("DLC", "<u1"),
    ("DataLength", "<u1"),
    ("DataBytes", f"({DATA_BYTES},)u1"),
    ("Dir", "<u1"),
    ("EDL", "<u1"),
    ("BRS", "<u1"),
    ("ESI", "<u1"),
]


def export_mf4(
    source: Source, wanted: Collection[str] | None, span: tuple[int, int], out: Path
) -> Exported:
    """Write a source's signals, frames, attachments and metadata to one MF4 file."""
    topics = wanted_topics(source.topics(), wanted)
    result = Exported(out, signals=sum(len(topic.signals) for topic in topics))
    mdf: Any = MDF(version="4.10")
    try:
        mdf.header.time_flags = 0  # UTC
        groups: dict[str, _HeldGroup] = {}
        for block in between(source.blocks(wanted), *span):
            _add(mdf, groups, block)
            result.rows += len(block.times_ns)
        if wanted is None:
            _add_frames(mdf, source, span, result)
            for attachment in source.attachments():
                mdf.attach(
                    attachment.data,
                    file_name=attachment.name,
                    hash_sum=md5(attachment.data, usedforsecurity=False).digest(),
                    mime=attachment.media_type,
                )
        if not result.rows and not result.frames:
            raise source.fail("has neither signals nor CAN frames in this time")
        facts = [f"{key}: {text}" for key, text in source.metadata().items()]
        mdf.header.comment = "\n".join([f"written by hilrt {VERSION}", *facts])
        mdf.header.abs_time = source.epoch_ns or 0
        mdf.save(out, overwrite=True, compression=2)
    finally:
        mdf.close()
    return result


class _HeldGroup(NamedTuple):
    """Channel group, with the newest value of each of its signals."""

    number: int
    last: Floats


def _add(mdf: Any, groups: dict[str, _HeldGroup], block: Block) -> None:
    """Append rows; a missing value is replaced by the previous one, marked as invalid."""
    topic, times = block.channel.topic, block.times_ns / 1e9
    held = groups[topic].last if topic in groups else np.full(block.values.shape[1], np.nan)
    invalid = np.isnan(block.values)
    columns = [hold(column, before) for column, before in zip(block.values.T, held, strict=True)]
    held[:] = [
        column[-1] if len(column) else before for column, before in zip(columns, held, strict=True)
    ]
    if topic in groups:
        masked = zip(columns, np.ascontiguousarray(invalid.T), strict=True)
        mdf.extend(groups[topic].number, [(times, None), *masked])
        return
    signals = [
        MdfSignal(
            samples=column,
            timestamps=times,
            name=signal.name,
            unit=signal.unit,
            comment=signal.comment,
            source=_origin(signal),
            invalidation_bits=bits,
        )
        for column, bits, signal in zip(
            columns, np.ascontiguousarray(invalid.T), block.channel.signals, strict=True
        )
    ]
    number = mdf.append(signals, acq_name=topic, comment=topic, common_timebase=True)
    groups[topic] = _HeldGroup(number, held)


def hold(values: Floats, before: float) -> Floats:
    """Replace each NaN by the value before it; `before` is the last value of the previous block."""
    known = ~np.isnan(values)
    newest = np.maximum.accumulate(np.where(known, np.arange(len(values)), -1))
    held: Floats = np.where(newest >= 0, values[newest], before)
    return held


def _origin(signal: Signal) -> Any:
    if not signal.source:
        return None
    return MdfSource(
        name=signal.source,
        path=signal.source,
        comment="",
        source_type=v4c.SOURCE_OTHER,
        bus_type=v4c.BUS_TYPE_NONE,
    )


# -- bus logging ---------------------------------------------------------------------------------


def _add_frames(mdf: Any, source: Source, span: tuple[int, int], result: Exported) -> None:
    """Add frames as ASAM bus logging, with one group per kind of frame."""
    buses = BusNumbers(first=1)
    groups: dict[str, int] = {}
    for batch in _batches(source, span):
        for kind, flag in KINDS.items():
            frames = [frame for frame in batch if frame.flags & _OTHER_KINDS == flag]
            if frames:
                times = np.array([source.since_start(frame) for frame in frames]) / 1e9
                _append(mdf, groups, kind, times, _records(frames, kind, buses))
                result.frames += len(frames)
    result.notes += buses.notes()


def _append(
    mdf: Any,
    groups: dict[str, int],
    kind: str,
    times: np.ndarray[Any, Any],
    samples: np.ndarray[Any, Any],
) -> None:
    if kind in groups:
        mdf.extend(groups[kind], [(times, None), (samples, None)])
        return
    bus = MdfSource(
        name="CAN", path="CAN", comment="", source_type=v4c.SOURCE_BUS, bus_type=v4c.BUS_TYPE_CAN
    )
    signal = MdfSignal(samples, times, name=kind, source=bus)
    groups[kind] = group = mdf.append(signal, acq_name="CAN", acq_source=bus, comment=kind)
    mdf.groups[group].channel_group.flags |= v4c.FLAG_CG_BUS_EVENT | v4c.FLAG_CG_PLAIN_BUS_EVENT


def _batches(source: Source, span: tuple[int, int]) -> Iterator[list[LoggedFrame]]:
    batch: list[LoggedFrame] = []
    for frame in source.frames():
        if span[0] <= source.since_start(frame) <= span[1]:
            batch.append(frame)
        if len(batch) == FRAMES:
            yield batch
            batch = []
    if batch:
        yield batch


def _records(frames: list[LoggedFrame], kind: str, buses: BusNumbers) -> np.ndarray[Any, Any]:
    """Convert frames to the structure of ASAM bus logging."""
    found = np.zeros(len(frames), np.dtype([(f"{kind}.{name}", code) for name, code in _FIELDS]))
    for record, frame in zip(found, frames, strict=True):
        record[f"{kind}.BusChannel"] = buses.number(frame.bus)
        record[f"{kind}.ID"] = frame.identifier
        record[f"{kind}.DLC"] = code_of(frame.dlc) if frame.flags & FrameFlag.FD else frame.dlc
        record[f"{kind}.DataLength"] = len(frame.data)
        record[f"{kind}.DataBytes"][: len(frame.data)] = np.frombuffer(frame.data, np.uint8)
        record[f"{kind}.Dir"] = bool(frame.flags & FrameFlag.SENT)
        for name, flag in FLAG_FIELDS:
            record[f"{kind}.{name}"] = bool(frame.flags & flag)
    return found
