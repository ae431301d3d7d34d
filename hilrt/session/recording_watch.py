"""Check the disk space before a recording, and its progress during the session."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from hilrt.errors import ConfigError
from hilrt.monitor.session_state import SessionState
from hilrt.record.feed import ProgressReceiver
from hilrt.record.recorder import LARGEST, PERIOD_S, CappedLogs
from hilrt.record.recorder_feed import RecorderFeed
from hilrt.session.event_log import EventLog
from hilrt.timing.monotonic import monotonic_ns

#: Free space below which a recording does not begin, bytes.
ROOM_TO_BEGIN = 48 << 20
#: Free space below which a required recording ends while its log can still be closed, bytes.
ROOM_TO_END = 16 << 20
#: Session time for which there must be space, s. Missing space for the rest is only reported, as a
#: session may end early, and the log's growth is monitored.
FIRST_S = 60.0
#: Size of a row in the file per byte of its values; 0.32 to 0.58 in the supplied sessions.
PACKED = 0.5
#: A recorder is reported if it writes nothing for this long although rows are waiting, ns.
STALL_NS = 3_000_000_000
#: Interval of checks of the recorder's progress, s.
CHECK_S = 0.5
#: Session time after which the log's growth is used to predict its size, s.
KNOWN_AFTER_S = 10.0


class RowsToCome(NamedTuple):
    """Expected rows of a recording: number of `signals`, time between two rows, duration, s."""

    signals: int
    step: float
    duration: float

    def size(self, seconds: float) -> int:
        """Approximate size of the log after a session time, bytes."""
        rows = min(seconds, self.duration) / self.step
        return round(8 * PACKED * self.signals * rows)

    def __str__(self) -> str:
        return f"{self.signals} signals every {1e3 * self.step:g} ms"


def require_room(folder: Path) -> None:
    """Raise `ConfigError` if the disk has no room for any recording."""
    free = shutil.disk_usage(folder).free
    if free < ROOM_TO_BEGIN:
        raise ConfigError(
            f"folder {folder}: {megabytes(free)} are free, and a recording needs at least "
            f"{megabytes(ROOM_TO_BEGIN)}; choose another folder, or free some space"
        )


def compare_room(folder: Path, rows: RowsToCome) -> str:
    """Warning about missing space for these rows; empty if there is enough.

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
            f"{megabytes(first)}; choose another folder, or free some space"
        )
    whole = rows.size(rows.duration)
    if room < whole:
        return (
            f"{megabytes(free)} are free, and the {rows.duration:g} s of the session need about "
            f"{megabytes(whole)} ({rows}); free some space, or record around triggers"
        )
    return ""


def megabytes(size: int) -> str:
    """Format a size."""
    return f"{size / 1e6:,.0f} MB"


class LogsWatch:
    """Limiter of processes' logs without a recorder, which reports each log once.

    Parameters
    ----------
    folder : Path
        Folder of the logs, ``NAME.log`` each.
    events : EventLog
        Receives the events.
    """

    def __init__(self, folder: Path, events: EventLog) -> None:
        self._logs, self._events = CappedLogs(folder), events
        self._reported: set[str] = set()

    async def run(self) -> None:
        """Check repeatedly until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            self.check()

    def check(self) -> None:
        """Shorten files that are too large."""
        self._logs.check()
        self.report(self._logs.left_out)

    def report(self, names: Iterable[str]) -> None:
        """Report logs that were shortened."""
        for name in sorted(set(names) - self._reported):
            self._reported.add(name)
            text = (
                f"logs/{name}.log grew above {megabytes(LARGEST)}, and its middle is left out; "
                f"let {name} print less"
            )
            self._events.warn_of_recorder(text, "log_cut")


class RecordingWatch:
    """Monitor of the recorder's progress, which reports each problem once.

    Parameters
    ----------
    receiver : ProgressReceiver
    feed : RecorderFeed
        Destination of the session's rows.
    events : EventLog
        Receives the events.
    logs : LogsWatch
        Limits the logs once the recorder has ended.
    duration : float
        Duration of the session, s.
    end : callable
        Called with a reason to end the session, if the recording is required.
    """

    def __init__(
        self,
        receiver: ProgressReceiver,
        feed: RecorderFeed,
        events: EventLog,
        logs: LogsWatch,
        duration: float,
        end: Callable[[str], None],
    ) -> None:
        self._receiver, self._feed, self._events, self._logs = receiver, feed, events, logs
        self._duration, self._end = duration, end
        self._heard_ns = monotonic_ns()
        self._reported: set[str] = set()

    async def run(self, now_ns: Callable[[], int]) -> None:
        """Check repeatedly until cancelled; `now_ns` returns the session time, ns."""
        while True:
            await asyncio.sleep(CHECK_S)
            self.check(now_ns() * 1e-9, monotonic_ns())

    def check(self, t: float, clock_ns: int) -> None:
        """Check the reports up to session time `t` [s]; `clock_ns` is the monotonic clock."""
        newest = self._receiver.newest
        if self._receiver.poll():
            self._heard_ns = clock_ns
            newest = self._receiver.newest
            self._feed.unwritten.written(newest.events)
            self._check_disk(t, newest.size, newest.free)
            self._logs.report(newest.cut)
        waiting = self._feed.rows - newest.rows
        if not self._feed.recorder_runs():  # its end has been reported
            self._logs.check()
            return
        if clock_ns - self._heard_ns > STALL_NS and waiting > 0:
            self._report(
                "stall",
                f"has written nothing for {(clock_ns - self._heard_ns) * 1e-9:.0f} s, and "
                f"{waiting} steps wait for it; check disk and load",
                "recorder_behind",
            )

    def _check_disk(self, t: float, size: int, free: int) -> None:
        if free < ROOM_TO_END:
            self._end(f"the disk of the recording is full: {megabytes(free)} are free")
            self._report("full", f"the disk is full: {megabytes(free)} are free", "disk_full")
        elif t > KNOWN_AFTER_S:
            left = t * (free - ROOM_TO_END) / max(size, 1)
            if left < self._duration - t:
                self._report(
                    "soon full",
                    f"the disk will be full in {left / 60.0:.0f} min of session time, before the "
                    "session's end; free some space",
                    "disk_full",
                )

    def _report(self, what: str, text: str, cause: str) -> None:
        if what in self._reported or self._events.state is SessionState.FAULT:
            return
        self._reported.add(what)
        self._events.warn_of_recorder(text, cause)
