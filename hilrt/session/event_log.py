"""Events of a session: state changes, notes and the package's own log records.

Events from before the log is opened are kept, and become its first ones. The live view shows state
changes at once.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from hilrt.files.text import write_whole
from hilrt.monitor.session_state import SessionState
from hilrt.monitor.status import StatusPublisher
from hilrt.record.feed import Feed
from hilrt.record.messages import Level
from hilrt.wording import event_text


class Note(NamedTuple):
    """An event for the log."""

    level: Level
    cause: str
    source: str
    text: str
    wall_s: float = 0.0


class EventLog:
    """The session's state, and its events.

    Parameters
    ----------
    publisher : StatusPublisher
        Informs the live views.
    """

    def __init__(self, publisher: StatusPublisher) -> None:
        self.publisher = publisher
        self.state = SessionState.CONFIGURED
        #: Called when the state, or the reason for waiting, has changed.
        self.on_change: Callable[[], None] | None = None
        #: Texts on how columns of stimuli are interpolated.
        self.columns: list[str] = []
        self.alarms = publisher.alarms
        self._kept: list[Note] = []
        self._feed: Feed | None = None
        self._now_ns: Callable[[], int] = lambda: 0

    def go(self, state: SessionState, cause: str, level: Level = "info") -> None:
        """Change the state, and log the transition with its cause."""
        text = f"{self.state} -> {state}: {cause}"
        self.state = state
        self.note(level, "session", text)
        self.publisher.announce(str(state), cause)
        self.changed()

    def changed(self) -> None:
        """Notify the program that operates the session, if there is one."""
        if self.on_change is not None:
            self.on_change()

    def impaired(self, impaired: bool, cause: str) -> None:
        """Change the state when the loop starts or stops running impaired."""
        if impaired:
            self.go(SessionState.IMPAIRED, cause, "warning")
        else:
            self.go(SessionState.RUNNING, cause)

    def acknowledge(self, alarm: str, who: str) -> bool:
        """Record and show an operator's acknowledgement; False if no such alarm was raised."""
        known = self.alarms.acknowledge(alarm, who, self._now_ns() * 1e-9)
        self.publisher.repeat()
        return known

    def note_column(self, text: str) -> None:
        """Record how a column of a stimulus is interpolated, for log and summary."""
        self.columns.append(text)
        self.note("info", "stimuli", text)

    def note(self, level: Level, source: str, text: str, cause: str = "session") -> None:
        """Record an event at the current time."""
        self.publisher.remember(self._now_ns() * 1e-9, event_text(source, text))
        if self._feed is None:
            self._kept.append(Note(level, cause, source, text, time.time()))
        else:
            self._feed.event(self._now_ns(), level, cause, source, text)

    def open(self, feed: Feed, now_ns: Callable[[], int]) -> None:
        """Write into the log from now on; `now_ns` returns the session time, ns."""
        self._feed, self._now_ns = feed, now_ns
        feed.on_first_loss = self._losing
        for note in self._kept:
            feed.event(0, note.level, note.cause, note.source, note.text)
        self._kept.clear()

    def warn_of_recorder(self, text: str, cause: str) -> None:
        """Record and show a problem of the recording at once."""
        self.note("warning", "recorder", text, cause)
        self.publisher.announce(str(self.state), f"recorder: {text}")

    def _losing(self) -> None:
        text = "does not keep up: steps are missing in the log; check disk and load"
        self.warn_of_recorder(text, "recorder_behind")

    def unlogged(self) -> list[str]:
        """Warnings that are in no log, because none was opened."""
        return [
            note.text if note.cause == "log" else f"{note.source}: {note.text}"
            for note in self._kept
            if note.level != "info" and note.cause != "session"
        ]

    def keep(self, path: Path) -> list[str]:
        """Write events to a file if no log was opened; return problems."""
        if not self._kept:
            return []
        lines = []
        for note in self._kept:
            when = (
                datetime.fromtimestamp(note.wall_s).astimezone().isoformat(timespec="milliseconds")
            )
            lines.append(f"{when} {note.level} {note.cause} {note.source}: {note.text}\n")
        try:
            write_whole(path, "".join(lines))
        except OSError as error:
            return [f"{path}: cannot be written: {error.strerror}"]
        return []

    @contextlib.contextmanager
    def take_log_records(self) -> Iterator[None]:
        """Turn the package's log messages into events, instead of printing over the live view."""
        events = self

        class ToEvents(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                level: Level = "error" if record.levelno >= logging.ERROR else "warning"
                events.note(level, record.name, record.getMessage(), "log")

        logger, handler = logging.getLogger("hilrt"), ToEvents(logging.WARNING)
        logger.addHandler(handler)
        propagated, logger.propagate = logger.propagate, False
        try:
            yield
        finally:
            logger.propagate = propagated
            logger.removeHandler(handler)
