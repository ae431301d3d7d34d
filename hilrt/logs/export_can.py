"""CAN frames of a log to BLF (by python-can), ASC, TRC or candump's format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from hilrt.can import can
from hilrt.logs.frame_text import NOT_RECORDED, FrameWriter, TimesFromStart
from hilrt.logs.source import Exported, Source
from hilrt.logs.source_can import to_message
from hilrt.record.logged_frame import LoggedFrame

#: Larger numbers, as in ``bench2026``, are no channel; MF4 has a byte for them.
_MOST = 254


class BusNumbers:
    """Gives each bus a number of its own.

    A bus that is called by a number keeps it, others get the number at the end of their name if it
    is free (``can1`` is 1), else the smallest free one. So do those of a number above 254.

    Parameters
    ----------
    first : int
        Smallest number.
    """

    def __init__(self, first: int = 0) -> None:
        self._first = first
        self._numbers: dict[str, int] = {}
        self._taken: dict[int, str] = {}

    def number(self, bus: str) -> int:
        """Number of a bus."""
        known = self._numbers.get(bus)
        if known is not None:
            return known
        digits = re.search(r"(?<!\d)\d{1,9}$", bus)  # a longer number is none that fits
        wanted = self._first if digits is None else int(digits[0])
        if wanted > _MOST:
            wanted = self._first
        while wanted in self._taken:
            wanted += 1
        self._numbers[bus] = wanted
        self._taken[wanted] = bus
        return wanted

    def notes(self, count_from: int = 0) -> list[str]:
        """Which of several buses is which channel, where their names do not say it.

        Formats whose channels count from 1 have number 0 as channel 1: `count_from`.
        """
        numbers = self._numbers
        if len(numbers) < 2 or all(bus == str(number) for bus, number in numbers.items()):
            return []
        named = ", ".join(f"{bus or 'unnamed'}: {n + count_from}" for bus, n in numbers.items())
        return [f"names of the buses; they are the channels {named}"]


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
