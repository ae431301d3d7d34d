"""CAN frames of a log to BLF, ASC, TRC or candump's format, written by python-can."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hilrt.can import can
from hilrt.logs.exported import Exported
from hilrt.logs.source import Source
from hilrt.logs.source_can import to_message


def export_can(
    source: Source, wanted: Collection[str] | None, span: tuple[int, int], out: Path
) -> Exported:
    """All frames between the times, in the order of the log."""
    result = Exported(out)
    epoch = source.epoch_ns
    numbers: dict[str, int] = {}  # of buses that have none in their name; candump keeps names
    with can.Logger(out) as logger:
        for frame in source.frames():
            epoch = epoch or frame.time_ns
            if span[0] <= frame.time_ns - epoch <= span[1]:
                message = to_message(frame)
                if out.suffix != ".log" and can.util.channel2int(message.channel) is None:
                    message.channel = numbers.setdefault(frame.bus, len(numbers))
                logger.on_message_received(message)
                result.frames += 1
    if not result.frames:
        raise source.fail(
            "holds no CAN frames in this time; sessions record them where a gateway owns a bus, "
            "imports of CAN logs always"
        )
    if len(numbers) > 1:
        named = ", ".join(f"{bus or 'without a name'}: {n + 1}" for bus, n in numbers.items())
        result.notes.append(f"names of the buses; they are the channels {named}")
    return result
