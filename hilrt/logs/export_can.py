"""CAN frames of a log to BLF (by python-can), ASC, TRC or candump's format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from hilrt.can import can
from hilrt.logs.bus_numbers import BusNumbers
from hilrt.logs.exported import Exported
from hilrt.logs.frame_text import NOT_RECORDED, FrameWriter, TimesFromStart
from hilrt.logs.source import Source
from hilrt.logs.source_library import to_message
from hilrt.record.logged_frame import LoggedFrame

#: BLF has no date before 1990; times before are written as they are, µs since 1970.
_FIRST_DATE_US = 631_152_000_000_000


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
        self._times = TimesFromStart()

    def write(self, frame: LoggedFrame) -> str:
        if not frame.whole:
            return NOT_RECORDED
        if (start_us := self._times.begin(frame.time_ns, _FIRST_DATE_US)) is not None:
            self._library.start_timestamp = start_us / 1e6
        _, left_out = self._times.since(frame.time_ns)
        if left_out:
            frame = frame._replace(time_ns=1000 * (self._times.start_us or 0))
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
