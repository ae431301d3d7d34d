"""The room on the disk that a recording needs, judged before it begins."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from hilrt.errors import ConfigError

#: With less room a recording is not begun, bytes.
ROOM_TO_BEGIN = 48 << 20
#: With less room a required recording ends, while its log can still be closed, bytes.
ROOM_TO_END = 16 << 20
#: For so much session time there must be room, s; the rest is only told of: a session may be ended
#: before its duration, and its growth is watched.
FIRST_S = 60.0
#: Size of a row in the file per byte of its values: 0.32 to 0.58 in the sessions that come with
#: the program, each of some seconds.
PACKED = 0.5


class RowsToCome(NamedTuple):
    """The rows of a recording: number of `signals`, time between two rows and of all, s."""

    signals: int
    step: float
    duration: float

    def size(self, seconds: float) -> int:
        """About how large the log is after that much session time, bytes."""
        rows = min(seconds, self.duration) / self.step
        return round(8 * PACKED * self.signals * rows)

    def __str__(self) -> str:
        return f"{self.signals} signals every {1e3 * self.step:g} ms"


def require_room(folder: Path) -> None:
    """`ConfigError` if the disk has no room for any recording to begin."""
    free = shutil.disk_usage(folder).free
    if free < ROOM_TO_BEGIN:
        raise ConfigError(
            f"folder {folder}: {megabytes(free)} are free, and a recording needs at least "
            f"{megabytes(ROOM_TO_BEGIN)}; choose another folder, or make room"
        )


def compare_room(folder: Path, rows: RowsToCome) -> str:
    """What is to be told of the room for these rows; empty if there is enough.

    Raises
    ------
    ConfigError
        If there is not enough for the first minute.
    """
    free = shutil.disk_usage(folder).free
    room, first = free - ROOM_TO_END, rows.size(FIRST_S)
    if room < first:
        least = min(FIRST_S, rows.duration)
        raise ConfigError(
            f"folder {folder}: {megabytes(free)} are free, and {least:g} s of {rows} need about "
            f"{megabytes(first)}; choose another folder, or make room"
        )
    whole = rows.size(rows.duration)
    if room < whole:
        return (
            f"{megabytes(free)} are free, and the {rows.duration:g} s of the session need about "
            f"{megabytes(whole)} ({rows}); make room, or record around triggers"
        )
    return ""


def megabytes(size: int) -> str:
    """A size in words."""
    return f"{size / 1e6:,.0f} MB"
