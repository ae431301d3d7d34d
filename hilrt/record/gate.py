"""Recording around triggers: rows are buffered until it is known whether to write them.

Rows and CAN frames are kept in bounded buffers. Those around a trigger are released in order; those
older than the time before a trigger are dropped. If the buffer reaches back far enough, a window of
rows begins at a known state, so that a replay can repeat the whole window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.record.messages import RecordEvent, Topic, Trigger
from hilrt.solver import Floats

#: Time kept in addition to the span before a trigger, ns: snapshots are a second apart.
MARGIN_NS = 1_100_000_000
#: Largest sizes of the two buffers, bytes.
ROWS_BYTES = 256 << 20
FRAMES_BYTES = 64 << 20
#: Memory of a frame in addition to its record, bytes.
_FRAME_OVERHEAD = 100
_NEVER = -(1 << 62)


class Rows(NamedTuple):
    """Consecutive rows: number of the first, session times (n,) [ns], values (n, n_signals).

    `opens`: a window begins here; the rows left out before it were not requested.
    """

    first: int
    times: NDArray[np.int64]
    values: Floats
    opens: bool = False

    def part(self, start: int, stop: int | None = None, opens: bool = False) -> Rows:
        """Subset of the rows."""
        chosen = slice(start, stop)
        return Rows(self.first + start, self.times[chosen], self.values[chosen], opens)


class HeldFrame(NamedTuple):
    """Buffered CAN frame: session time [ns], channel of the log, record."""

    t_ns: int
    channel: int
    data: bytes


class Gate:
    """Selection of the rows and frames to be recorded.

    Parameters
    ----------
    trigger : Trigger
    topics : sequence of Topic
        Contents of a row.

    Attributes
    ----------
    shortened : bool
        Whether a buffer was full, so that older rows or frames were dropped too early.
    held_bytes : int
        Size of the buffered rows.
    """

    def __init__(self, trigger: Trigger, topics: Sequence[Topic]) -> None:
        self.shortened = False
        self._trigger = trigger
        columns = {s.name: i for i, s in enumerate(s for topic in topics for s in topic.signals)}
        limits = [limit for limit in trigger.limits if limit.signal in columns]
        index = [columns[limit.signal] for limit in limits]
        self._columns = np.array(index, dtype=np.intp)
        self._above = np.array([np.inf if x.above is None else x.above for x in limits])
        self._below = np.array([-np.inf if x.below is None else x.below for x in limits])
        self._held: deque[Rows] = deque()
        self.held_bytes = 0
        self._snapshots: deque[int] = deque([0])  # the first state is also known
        self._released = 0  # number of the row after the newest one released
        self._moments: list[int] = []  # times of events whose rows have not arrived
        self._active: set[str] = set()  # alarms
        self._windows: deque[tuple[int, int]] = deque()  # newest last, session times [ns]
        self._moved = False  # whether windows changed since frames were checked
        self._reach_ns = trigger.before_ns + MARGIN_NS
        self._newest_ns = _NEVER
        self._frames: deque[HeldFrame] = deque()
        self._frames_bytes = 0

    # -- input -----------------------------------------------------------------------------------

    def rows(self, rows: Rows) -> list[Rows]:
        """Add rows; return those to be written now, in order."""
        self._held.append(rows)
        self.held_bytes += rows.values.nbytes
        self._newest_ns = int(rows.times[-1])
        found = self._release(self._until_ns)
        found += self._open(self._hits(rows))
        self._drop_rows()
        return found

    def event(self, event: RecordEvent) -> None:
        """Process an event; a trigger takes effect with the rows of its time."""
        trigger = self._trigger
        hit = event.level in ("error", "fatal") or event.cause in trigger.causes
        if event.cause == "alarm" and self._is_wanted(event.source):
            hit = True
            if event.level == "warning":
                self._active.add(event.source)
            else:
                self._active.discard(event.source)
        if hit:
            self._moments.append(event.t_ns)

    def snapshot(self, row: int) -> None:
        """Record that there is a snapshot of the state before this row."""
        self._snapshots.append(row)

    def finish(self) -> list[Rows]:
        """Remaining rows to be written for the last events."""
        moments, self._moments = self._moments, []
        return self._open(moments)

    # -- frames -----------------------------------------------------------------------------------

    def covers(self, t_ns: int) -> bool:
        """Whether frames of this session time [ns] are requested, as far as is known."""
        return any(start <= t_ns <= end for start, end in self._windows)

    def hold(self, frame: HeldFrame) -> None:
        """Buffer a frame that is not yet requested; drop the oldest if the buffer is full."""
        self._frames.append(frame)
        self._frames_bytes += len(frame.data) + _FRAME_OVERHEAD
        while self._frames_bytes > FRAMES_BYTES:
            self.shortened = True
            self._drop_frame()

    def frames(self) -> Iterator[HeldFrame]:
        """Yield buffered frames that are now requested; drop those that are too old."""
        if self._moved:
            self._moved = False
            kept, self._frames, self._frames_bytes = self._frames, deque(), 0
            for frame in kept:
                if self.covers(frame.t_ns):
                    yield frame
                elif frame.t_ns > self._until_ns:
                    self.hold(frame)
        newest = max(self._newest_ns, self._frames[-1].t_ns) if self._frames else self._newest_ns
        while self._frames and self._frames[0].t_ns < newest - self._reach_ns:
            self._drop_frame()

    def _drop_frame(self) -> None:
        self._frames_bytes -= len(self._frames.popleft().data) + _FRAME_OVERHEAD

    # -- internals --------------------------------------------------------------------------------

    @property
    def _until_ns(self) -> int:
        return self._windows[-1][1] if self._windows else _NEVER

    def _is_wanted(self, source: str) -> bool:
        """Whether an alarm event's source, which begins with the alarm's name, is a trigger."""
        return any(source.startswith(f"{name}: ") for name in self._trigger.alarms)

    def _hits(self, rows: Rows) -> list[int]:
        """Session times [ns] of triggers up to the newest row."""
        times = rows.times
        due = [t for t in self._moments if t <= times[-1]]
        self._moments = [t for t in self._moments if t > times[-1]]
        if self._active:
            due += times.tolist()
        if len(self._columns):
            values = rows.values[:, self._columns]
            hit = ((values > self._above) | (values < self._below)).any(axis=1)
            due += times[hit].tolist()
        return sorted(due)

    def _open(self, moments: list[int]) -> list[Rows]:
        """Open a window around each moment, or extend the newest one."""
        found: list[Rows] = []
        self._moved |= bool(moments)
        for t_ns in moments:
            start, end = t_ns - self._trigger.before_ns, t_ns + self._trigger.after_ns
            until = self._until_ns
            if self._windows and start <= until:
                if end > until:
                    self._windows[-1] = (self._windows[-1][0], end)
                found += self._release(end)
                continue
            row = self._first_row(start)
            if row is None:  # in the future, or already dropped
                self._windows.append((start, end))
                continue
            opened = self._release(end, row)
            began = int(opened[0].times[0]) if opened else start
            self._windows.append((min(began, start), end))
            found += opened
        return found

    def _first_row(self, start_ns: int) -> int | None:
        """Number of a window's first row, if possible one from which a replay can start.

        That is the row of the newest snapshot before the window, or the row after the previous one.
        """
        for rows in self._held:
            if rows.times[-1] >= start_ns:
                first = rows.first + int(np.searchsorted(rows.times, start_ns))
                oldest = self._held[0].first
                known = [row for row in self._snapshots if row <= first]
                if known and known[-1] >= oldest:
                    return known[-1]
                return oldest if known and oldest == self._released else first
        return None

    def _release(self, until_ns: int, row: int | None = None) -> list[Rows]:
        """Remove and return rows up to a session time; with `row`, a window opens there."""
        found: list[Rows] = []
        while self._held:
            rows = self._held[0]
            start = 0 if row is None else max(0, row - rows.first)
            stop = int(np.searchsorted(rows.times, until_ns, side="right"))
            if stop == 0:
                break
            self._held.popleft()
            self.held_bytes -= rows.values.nbytes
            if start < stop:
                found.append(rows.part(start, stop, opens=row is not None and not found))
                self._released = rows.first + stop
            if stop < len(rows.times):
                rest = rows.part(stop)
                self._held.appendleft(rest)
                self.held_bytes += rest.values.nbytes
                break
        return found

    def _drop_rows(self) -> None:
        """Drop rows that are too old for any window, or exceed the buffer."""
        oldest = self._newest_ns - self._reach_ns
        while self._held and (self._held[0].times[-1] < oldest or self.held_bytes > ROWS_BYTES):
            self.shortened |= self._held[0].times[-1] >= oldest
            self.held_bytes -= self._held.popleft().values.nbytes
        oldest_row = self._held[0].first if self._held else self._released
        while len(self._snapshots) > 1 and self._snapshots[1] <= oldest_row:
            self._snapshots.popleft()
        while len(self._windows) > 1 and self._windows[0][1] < oldest:
            self._windows.popleft()
