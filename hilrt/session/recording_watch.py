"""Whether the recording goes on: the recorder's progress and the room on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hilrt.monitor.session_state import SessionState
from hilrt.record.capped_logs import LARGEST
from hilrt.record.feed import ProgressReceiver
from hilrt.record.recorder_feed import RecorderFeed
from hilrt.session.event_log import EventLog
from hilrt.session.recording_room import ROOM_TO_END, megabytes
from hilrt.timing.monotonic import monotonic_ns

#: A recorder that writes nothing for so long, though there is something to write, is told of, ns.
STALL_NS = 3_000_000_000
#: How often the recorder's progress is looked at, s.
LOOK_S = 0.5
#: Session time after which the log's growth says how much room it will need, s.
KNOWN_AFTER_S = 10.0


class RecordingWatch:
    """Looks at the recorder's progress twice a second, and tells what is wrong, once each.

    Parameters
    ----------
    receiver : ProgressReceiver
    feed : RecorderFeed
        Where the session's rows go.
    events : EventLog
        Is told.
    duration : float
        Of the session, s.
    end : callable
        Ends the session for the reason that it is given; where the recording is required.
    """

    def __init__(
        self,
        receiver: ProgressReceiver,
        feed: RecorderFeed,
        events: EventLog,
        duration: float,
        end: Callable[[str], None],
    ) -> None:
        self._receiver, self._feed, self._events = receiver, feed, events
        self._duration, self._end = duration, end
        self._heard_ns = monotonic_ns()
        self._told: set[str] = set()

    async def run(self, now_ns: Callable[[], int]) -> None:
        """Look until cancelled; `now_ns` is session time, ns."""
        while True:
            await asyncio.sleep(LOOK_S)
            self.look(now_ns() * 1e-9, monotonic_ns())

    def look(self, t: float, clock_ns: int) -> None:
        """Judge what has been told by session time `t` [s]; `clock_ns` is the monotonic clock's."""
        newest = self._receiver.newest
        if self._receiver.look():
            self._heard_ns = clock_ns
            newest = self._receiver.newest
            self._feed.unwritten.written(newest.events)
            self._look_at_disk(t, newest.size, newest.free)
            for name in newest.cut:
                self._tell(
                    f"log of {name}",
                    f"logs/{name}.log grew above {megabytes(LARGEST)}, and its middle is left "
                    f"out; let {name} print less",
                    "log_cut",
                )
        waiting = self._feed.rows - newest.rows
        if not self._feed.recorder_runs():
            return  # its end was told of
        if clock_ns - self._heard_ns > STALL_NS and waiting > 0:
            self._tell(
                "stall",
                f"has written nothing for {(clock_ns - self._heard_ns) * 1e-9:.0f} s, and "
                f"{waiting} steps wait for it; look at disk and load",
                "recorder_behind",
            )

    def _look_at_disk(self, t: float, size: int, free: int) -> None:
        if free < ROOM_TO_END:
            self._end(f"the disk of the recording is full: {megabytes(free)} are free")
            self._tell("full", f"the disk is full: {megabytes(free)} are free", "disk_full")
        elif t > KNOWN_AFTER_S:
            left = t * (free - ROOM_TO_END) / max(size, 1)
            if left < self._duration - t:
                self._tell(
                    "soon full",
                    f"the disk will be full in {left / 60.0:.0f} min of session time, before "
                    "the session's end; make room",
                    "disk_full",
                )

    def _tell(self, what: str, text: str, cause: str) -> None:
        if what in self._told or self._events.state is SessionState.FAULT:
            return
        self._told.add(what)
        self._events.warn_of_recorder(text, cause)
