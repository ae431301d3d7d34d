"""View of a session on a terminal until it ends, as a live panel or as lines, with keys.

The panel needs a terminal that is large enough. Elsewhere (a pipe, a log file, a small window) a
line is printed every two seconds and when the state changes, except for changes between RUNNING
and IMPAIRED. Without a terminal that line includes the events since the previous one. Keys work in
both modes, and a terminal may change its size.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from typing import Protocol

from rich.console import Console, ConsoleDimensions
from rich.live import Live

from hilrt.monitor.operator_commands import CommandClient
from hilrt.monitor.operator_keys import OperatorKeys, typing
from hilrt.monitor.panel import (
    Traces,
    closing_line,
    event_line,
    gathered,
    live_view,
    plain_line,
)
from hilrt.monitor.telemetry import EventStatus, Status
from hilrt.wording import kind_of

#: Silence after which a session counts as ended, and after which its status is old, s.
SILENCE_S, NO_DATA_S = 30.0, 3.0
POLL_MS = 100
PLAIN_PERIOD_S = 2.0
MIN_WIDTH, MIN_HEIGHT = 80, 16
#: Minimum width of a terminal for small plots, columns.
PLOT_WIDTH = 96
#: Maximum number of events at the end of a line if there is no terminal.
MAX_SHOWN = 5
FINAL_STATES = {"STOPPED", "FAULT"}
#: States of the loop; a session may change between them many times per second.
LOOP_STATES = {"RUNNING", "IMPAIRED"}
_CLEAR_LINE = "\r\x1b[K"


class StatusSource(Protocol):
    """Source of the statuses that are shown, and destination of commands.

    `silent` ends the view, `age` is the time since the newest status [s], and `types` says whether
    this process reads keys.
    """

    status: Status | None
    stop: bool
    silent: bool
    key: str
    types: bool

    @property
    def age(self) -> float:
        """Time since the session's last message, s."""

    def poll(self, wait_ms: int) -> bool:
        """Wait at most `wait_ms` [ms] for a status; return whether there is a new one."""

    def client(self) -> CommandClient | None:
        """Client for commands; None if the session accepts none."""

    def events(self) -> list[EventStatus]:
        """Newest events, the newest last."""


class Screen:
    """The content of the terminal.

    Parameters
    ----------
    source : StatusSource
    console : rich.console.Console
    typed : callable, optional
        Returns the keys typed since its last call.
    plain : bool
        Print lines even on a terminal that has room for the panel.
    clock : callable
        Monotonic time, s.
    """

    def __init__(
        self,
        source: StatusSource,
        console: Console,
        typed: Callable[[], str] | None,
        plain: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._console, self._typed, self._clock = source, console, typed, clock
        self._moves = console.is_terminal and not console.is_dumb_terminal
        self._plain = plain or not self._moves
        self._keys: OperatorKeys | None = None
        self._traces = Traces()
        self._live: Live | None = None
        self._size: ConsoleDimensions = console.size
        self._printed_at, self._printed = -math.inf, ""
        self._events: list[EventStatus] = []
        self._unprinted: list[EventStatus] = []  # not yet shown in a line
        self._kinds: set[tuple[str, ...]] = set()  # of events that had a line of their own
        self._state, self._stretches, self._reason = "", 0, ""  # impaired since the last line
        self._line = self._shown_line = ""

    def turn(self) -> bool:
        """Process typed keys; return whether the display must be redrawn."""
        line, self._line = self._line, self._type()
        return line != self._line or self._console.size != self._size or self._silent_s > 0.0

    def show(self) -> None:
        """Show the newest status as a panel or a line, by the terminal's size."""
        status, size = self._source.status, self._console.size
        if size != self._size:  # a panel drawn for another size cannot be overwritten
            self._size = size
            had_panel = self._live is not None
            self.close()
            if had_panel:
                self._console.clear()
        if status is None:
            return
        if self._plain or size.width < MIN_WIDTH or size.height < MIN_HEIGHT:
            self._print(status)
            return
        self._traces.add(status)
        if self._live is None:
            self._erase_line()
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        traces = self._traces if size.width >= PLOT_WIDTH else None
        view = live_view(
            status,
            self._line,
            traces,
            height=size.height - 1,
            events=self._source.events(),
            silent_s=self._silent_s,
        )
        self._live.update(view, refresh=True)

    def close(self) -> None:
        """Remove the panel and restore the cursor."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        else:
            self._erase_line()

    @property
    def _silent_s(self) -> float:
        """Time since the session's last message, s; 0 while that is short."""
        age = self._source.age
        ended = self._source.status is not None and self._source.status.state in FINAL_STATES
        return age if age > NO_DATA_S and not ended else 0.0

    def _type(self) -> str:
        """Process typed keys; return the line below the session, if keys are enabled."""
        client = self._source.client() if self._typed is not None else None
        if client is None or self._typed is None:
            return ""
        self._keys = self._keys or OperatorKeys(client, self._source.key)
        self._keys.type(self._typed(), self._source.status)
        self._keys.show_replies()
        return self._keys.line

    def _print(self, status: Status) -> None:
        """Print events, the keys' line, and the status every two seconds and at changes of state.

        Short impaired stretches are only counted in the next line. Without a terminal, events are
        appended to the next line. On a terminal, an event is printed at once; later ones that
        differ from it only in numbers share a line, with their count.
        """
        now, silent_s = self._clock(), self._silent_s
        self._count_stretches(status)
        loops = status.state in LOOP_STATES
        word = f"{'RUNNING' if loops else status.state} {silent_s > 0.0}"
        news = added(self._events, status.events)
        self._events = status.events
        self._unprinted += [event for event in news if not is_stretch(event.text)]
        lines: list[str] = []
        due = now - self._printed_at >= PLAIN_PERIOD_S or word != self._printed
        if self._moves:
            news_lines = gathered(self._unprinted) if due else self._first_of_kind()
            lines = [f"{status.session}: {line}" for line in news_lines]
            if due:
                self._kinds = {_kind(event) for event in self._unprinted}
                self._unprinted = []
        if due:
            if status.message:  # the line contains it already
                lines = [line for line in lines if not line.endswith(status.message)]
            suffix = self._stretches_in_words(status) + self._events_in_words(status.message)
            lines.append(plain_line(status, silent_s) + suffix)
            self._printed_at, self._printed = now, word
        if lines:
            self._erase_line()
        for line in lines:
            self._console.print(line, soft_wrap=True, highlight=False, markup=False)
        self._print_keys()

    def _first_of_kind(self) -> list[str]:
        """Events of kinds without a recent line; the others wait to be counted in a later one."""
        waiting, lines = [], []
        for event in self._unprinted:
            if _kind(event) in self._kinds:
                waiting.append(event)
            else:
                self._kinds.add(_kind(event))
                lines.append(event_line(event.t, event.text))
        self._unprinted = waiting
        return lines

    def _count_stretches(self, status: Status) -> None:
        if status.state == "IMPAIRED" and self._state != "IMPAIRED":
            self._stretches += 1
            self._reason = status.message
        self._state = status.state

    def _stretches_in_words(self, status: Status) -> str:
        """`` | impaired 3 times: …``; empty for one that lasts, which the line shows anyway."""
        count, self._stretches = self._stretches, 0
        if count == 0 or (count == 1 and status.state == "IMPAIRED"):
            return ""
        times = "once" if count == 1 else f"{count} times"
        return f" | impaired {times}: {self._reason}"

    def _events_in_words(self, message: str) -> str:
        """`` | 0.4 s  engine: …; 2 more``: the oldest events, but not the line's own message."""
        kinds, self._unprinted = gathered(self._unprinted), []
        events = [one for one in kinds if not message or not one.endswith(message)]
        if len(events) > MAX_SHOWN:
            events[MAX_SHOWN:] = [f"{len(events) - MAX_SHOWN} more"]
        return f" | {'; '.join(events)}" if events else ""

    def _print_keys(self) -> None:
        if self._moves:
            if self._line != self._shown_line:
                self._console.file.write(_CLEAR_LINE + self._line[: self._console.width - 1])
                self._console.file.flush()
                self._shown_line = self._line
        elif self._line != self._shown_line and not (self._keys is not None and self._keys.editing):
            self._console.print(self._line, soft_wrap=True, highlight=False, markup=False)
            self._shown_line = self._line

    def _erase_line(self) -> None:
        if self._moves and self._shown_line:
            self._console.file.write(_CLEAR_LINE)
            self._console.file.flush()
            self._shown_line = ""


def added(before: list[EventStatus], now: list[EventStatus]) -> list[EventStatus]:
    """Entries added to a bounded list of events, which drops its oldest."""
    overlaps = range(min(len(before), len(now)), -1, -1)
    kept = next(k for k in overlaps if before[len(before) - k :] == now[:k])
    return now[kept:]


def _kind(event: EventStatus) -> tuple[str, ...]:
    return kind_of("", "", "", event.text)


def is_stretch(text: str) -> bool:
    """Whether an event is the beginning or the end of an impaired stretch."""
    return "RUNNING -> IMPAIRED: " in text or "IMPAIRED -> RUNNING: " in text


def watch(source: StatusSource, show: Callable[[], None], turn: Callable[[], bool]) -> None:
    """Call `show` at every new status until the session ends or is silent.

    `turn` is called ten times a second and returns whether the display must be redrawn.
    """
    while not source.stop and not source.silent:
        news = source.poll(POLL_MS)
        if turn() or news:
            show()
        if news and source.status is not None and source.status.state.upper() in FINAL_STATES:
            return


def run(
    source: StatusSource, console: Console, plain: bool = False, print_end: bool = False
) -> None:
    """Show the session until it ends; with `print_end`, print how it ended."""
    with contextlib.ExitStack() as stack:
        typed = stack.enter_context(typing()) if source.types else None
        screen = Screen(source, console, typed, plain)
        stack.callback(screen.close)
        watch(source, screen.show, screen.turn)
    status = source.status
    if status is None:
        return
    if source.silent:
        last = f"silent for {SILENCE_S:g} s; the view ends"
        console.print(f"{status.session}: {last}", highlight=False, markup=False)
    elif print_end and status.state in FINAL_STATES:
        console.print(closing_line(status), soft_wrap=True, highlight=False, markup=False)
