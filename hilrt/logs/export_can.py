"""CAN frames of a log to BLF (by python-can), ASC, TRC or candump's format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from hilrt.can import can
from hilrt.logs.bus_numbers import BusNumbers
from hilrt.logs.exported import Exported
from hilrt.logs.frame_text import EARLIER, NOT_RECORDED, FrameWriter, microseconds
from hilrt.logs.source import Source
from hilrt.logs.source_can import to_message
from hilrt.record.logged_frame import LoggedFrame

#: BLF has no date before 1990; times before are written as they are, s since 1970.
_FIRST_DATE_S = 631_152_000


def export_can(
    source: Source, wanted: Collection[str] | None, span: tuple[int, int], out: Path
) -> Exported:
    """All frames between the times, in the order of the log; what is left out is noted."""
    result = Exported(out)
    named = out.suffix == ".log"
    buses = BusNumbers()
    left_out: Counter[str] = Counter()
    with _writer(out) as writer:
        for frame in source.frames():
            if not span[0] <= source.since_start(frame) <= span[1]:
                continue
            if not named:
                frame = frame._replace(bus=str(buses.number(frame.bus)))
            written = writer.frames
            lost = writer.write(frame)
            result.frames += writer.frames - written
            if lost:
                left_out[lost] += 1
    result.notes += [f"{count} {what}" for what, count in left_out.items()]
    result.notes += buses.notes(count_from=1)
    if left_out and not result.frames:
        raise source.fail(f"holds no frames that the format takes: {'; '.join(result.notes)}")
    if not result.frames:
        raise source.fail(
            "holds no CAN frames in this time; sessions record them where a gateway owns a bus, "
            "imports of CAN logs always"
        )
    return result


class _BlfWriter:
    """python-can's writer, with the start at the whole millisecond before the first frame."""

    def __init__(self, path: Path) -> None:
        self.frames = 0
        self._library = can.BLFWriter(path)
        self._start_us: int | None = None

    def write(self, frame: LoggedFrame) -> str:
        at, left_out = microseconds(frame.time_ns), ""
        if not frame.whole:
            return NOT_RECORDED
        if self._start_us is None:
            dated = at >= _FIRST_DATE_S * 1_000_000
            self._start_us = at // 1000 * 1000 if dated else 0
            self._library.start_timestamp = self._start_us / 1e6
        if at < self._start_us:
            frame, left_out = frame._replace(time_ns=1000 * self._start_us), EARLIER
        self._library.on_message_received(to_message(frame))
        self.frames += 1
        return left_out

    def finish(self) -> None:
        self._library.stop()


@contextmanager
def _writer(out: Path) -> Iterator[FrameWriter]:
    """What writes the format that the suffix says."""
    if out.suffix == ".blf":
        blf = _BlfWriter(out)
        try:
            yield blf
        finally:
            blf.finish()
        return
    with out.open("w", encoding="utf-8", newline="") as file:
        writer: FrameWriter
        if out.suffix == ".asc":
            from hilrt.logs.asc import AscWriter

            writer = AscWriter(file)
        elif out.suffix == ".trc":
            from hilrt.logs.trc import TrcWriter

            writer = TrcWriter(file)
        else:
            from hilrt.logs.candump import CandumpWriter

            writer = CandumpWriter(file)
        yield writer
        writer.finish()
