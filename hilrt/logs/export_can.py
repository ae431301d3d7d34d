"""CAN frames of a log to BLF, ASC, TRC or candump's format, written by python-can."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import can

from hilrt.logs.export_file import Exported
from hilrt.logs.source import Source
from hilrt.logs.source_can import to_message


def export_can(
    source: Source, wanted: Collection[str] | None, span: tuple[int, int], out: Path
) -> Exported:
    """All frames between the times, in the order of the log."""
    result = Exported(out)
    epoch = source.epoch_ns
    with can.Logger(out) as logger:
        for frame in source.frames():
            epoch = epoch or frame.time_ns
            if span[0] <= frame.time_ns - epoch <= span[1]:
                logger.on_message_received(to_message(frame))
                result.frames += 1
    if not result.frames:
        raise source.fail(
            "holds no CAN frames in this time; sessions record them where a gateway owns a bus, "
            "imports of CAN logs always"
        )
    return result
