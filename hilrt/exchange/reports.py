"""Reports of subsystems for people: warnings and errors, for the session's log."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hilrt.link import Carrier, Link
from hilrt.peers.wire import Event
from hilrt.sequences.bench import STEP

#: Reports taken at once: a subsystem that sends many costs no ticks.
REPORTS_AT_ONCE = 20


class Reports:
    """Takes what subsystems report.

    Parameters
    ----------
    carrier : Carrier or None
        Lists those that share it, if any do.
    links : sequence of Link
        Of these, all others are asked.

    Attributes
    ----------
    any : bool
        Whether there is anything that may report.
    """

    def __init__(self, carrier: Carrier | None, links: Sequence[Link] = ()) -> None:
        self._reporting = {} if carrier is None else carrier.reporting
        self._local = [link for link in links if link.events is not None and link.carrier is None]
        self.any = carrier is not None or bool(self._local)
        self._last: dict[str, str] = {}
        self._steps: dict[str, str] = {}

    def take(self) -> list[tuple[str, Event]]:
        """Subsystem and report: what has come since the last call, some of it."""
        found: list[tuple[str, Event]] = []
        for link in self._local:
            self._take(link.name, link.events or deque(), found)
        # In an order that does not depend on which process was faster.
        for remote in sorted(self._reporting, key=lambda link: link.name):
            self._take(remote.name, remote.events, found)
            if not remote.events:
                del self._reporting[remote]
        return found

    def _take(self, name: str, events: deque[Event], found: list[tuple[str, Event]]) -> None:
        while events and len(found) < REPORTS_AT_ONCE:
            event = events.popleft()
            found.append((name, event))
            if event.cause == STEP:
                self._steps[name] = event.text
            elif event.level != "info":
                self._last[name] = event.text

    def step_of(self, name: str) -> str:
        """Line and text of the newest step of a sequence, as far as taken; else empty."""
        return self._steps.get(name, "")

    def last_of(self, name: str) -> str:
        """The newest warning or error of a subsystem, as far as taken; empty if there is none."""
        return self._last.get(name, "")
