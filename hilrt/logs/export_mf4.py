"""Logs to MF4: one channel group per topic with a time channel of its own, and bus logging."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
from asammdf import MDF
from asammdf import Signal as MdfSignal
from asammdf import Source as MdfSource
from asammdf.blocks import v4_constants as v4c

from hilrt.logs.columns import between
from hilrt.logs.export_csv import wanted_topics
from hilrt.logs.exported import Exported
from hilrt.logs.source import Source
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.record.messages import Signal
from hilrt.record.reader import Block
from hilrt.version import VERSION

#: Frames that are handed over at once.
FRAMES = 8192
#: Longest data of a frame that the file can hold, bytes.
DATA_BYTES = 64
_FRAME = np.dtype(
    [
        ("CAN_DataFrame.BusChannel", "<u1"),
        ("CAN_DataFrame.ID", "<u4"),
        ("CAN_DataFrame.IDE", "<u1"),
        ("CAN_DataFrame.DLC", "<u1"),
        ("CAN_DataFrame.DataLength", "<u1"),
        ("CAN_DataFrame.DataBytes", "(64,)u1"),
        ("CAN_DataFrame.Dir", "<u1"),
        ("CAN_DataFrame.EDL", "<u1"),
        ("CAN_DataFrame.BRS", "<u1"),
        ("CAN_DataFrame.ESI", "<u1"),
    ]
)


def export_mf4(
    source: Source, wanted: Collection[str] | None, span: tuple[int, int], out: Path
) -> Exported:
    """Signals, frames, attachments and facts of a source as one MF4 file."""
    topics = wanted_topics(source.topics(), wanted)
    result = Exported(out, signals=sum(len(topic.signals) for topic in topics))
    mdf: Any = MDF(version="4.10")
    try:
        mdf.header.abs_time = source.epoch_ns
        mdf.header.time_flags = 0  # UTC
        groups: dict[str, int] = {}
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
            raise source.fail("holds neither signals nor CAN frames in this time")
        facts = [f"{key}: {text}" for key, text in source.metadata().items()]
        mdf.header.comment = "\n".join([f"written by hilrt {VERSION}", *facts])
        mdf.header.abs_time = source.epoch_ns
        mdf.save(out, overwrite=True, compression=2)
    finally:
        mdf.close()
    return result


def _add(mdf: Any, groups: dict[str, int], block: Block) -> None:
    topic = block.channel.topic
    times = block.times_ns / 1e9
    columns = [np.ascontiguousarray(column) for column in block.values.T]
    if topic in groups:
        mdf.extend(groups[topic], [(times, None), *((column, None) for column in columns)])
        return
    signals = [
        MdfSignal(
            samples=column,
            timestamps=times,
            name=signal.name,
            unit=signal.unit,
            comment=signal.comment,
            source=_origin(signal),
        )
        for column, signal in zip(columns, block.channel.signals, strict=True)
    ]
    groups[topic] = mdf.append(signals, acq_name=topic, comment=topic, common_timebase=True)


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
    """Data frames as ASAM bus logging; others are counted."""
    buses: dict[str, int] = {}
    others, group = 0, -1
    for batch in _batches(source, span):
        data = [frame for frame in batch if not frame.flags & (FrameFlag.ERROR | FrameFlag.REMOTE)]
        others += len(batch) - len(data)
        if not data:
            continue
        times = np.array([frame.time_ns - source.epoch_ns for frame in data]) / 1e9
        samples = _records(data, buses)
        if group < 0:
            bus = MdfSource(
                name="CAN", path="CAN", comment="", source_type=v4c.SOURCE_BUS,
                bus_type=v4c.BUS_TYPE_CAN,
            )  # fmt: skip
            signal = MdfSignal(samples, times, name="CAN_DataFrame", source=bus)
            group = mdf.append(signal, acq_name="CAN", acq_source=bus, comment="CAN")
            mdf.groups[group].channel_group.flags |= (
                v4c.FLAG_CG_BUS_EVENT | v4c.FLAG_CG_PLAIN_BUS_EVENT
            )
        else:
            mdf.extend(group, [(times, None), (samples, None)])
        result.frames += len(data)
    if others:
        result.notes.append(f"{others} remote and error frames; BLF and ASC keep them")


def _batches(source: Source, span: tuple[int, int]) -> Iterator[list[LoggedFrame]]:
    batch: list[LoggedFrame] = []
    for frame in source.frames():
        source.epoch_ns = source.epoch_ns or frame.time_ns
        if span[0] <= frame.time_ns - source.epoch_ns <= span[1]:
            batch.append(frame)
        if len(batch) == FRAMES:
            yield batch
            batch = []
    if batch:
        yield batch


def _records(frames: list[LoggedFrame], buses: dict[str, int]) -> np.ndarray[Any, Any]:
    """The frames as the structure that ASAM bus logging prescribes."""
    found = np.zeros(len(frames), _FRAME)
    for record, frame in zip(found, frames, strict=True):
        number = int(frame.bus) if frame.bus.isdecimal() else None
        record["CAN_DataFrame.BusChannel"] = (
            buses.setdefault(frame.bus, len(buses) + 1) if number is None else number
        )
        record["CAN_DataFrame.ID"] = frame.identifier
        record["CAN_DataFrame.IDE"] = bool(frame.flags & FrameFlag.EXTENDED)
        record["CAN_DataFrame.DLC"] = _dlc(frame.dlc)
        record["CAN_DataFrame.DataLength"] = len(frame.data)
        record["CAN_DataFrame.DataBytes"][: len(frame.data)] = np.frombuffer(frame.data, np.uint8)
        record["CAN_DataFrame.Dir"] = bool(frame.flags & FrameFlag.SENT)
        record["CAN_DataFrame.EDL"] = bool(frame.flags & FrameFlag.FD)
        record["CAN_DataFrame.BRS"] = bool(frame.flags & FrameFlag.BIT_RATE_SWITCH)
        record["CAN_DataFrame.ESI"] = bool(frame.flags & FrameFlag.ERROR_STATE)
    return found


def _dlc(length: int) -> int:
    """Data length code of a number of bytes."""
    return length if length <= 8 else 9 + sum(length > n for n in (12, 16, 20, 24, 32, 48))
