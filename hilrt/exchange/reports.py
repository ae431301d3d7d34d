"""What subsystems report for people: warnings and errors, for the session's log."""

from __future__ import annotations

from hilrt.peers.hub import Hub
from hilrt.peers.wire import Event

#: Reports taken at once: a subsystem that sends many costs no ticks.
REPORTS_AT_ONCE = 20


class Reports:
    """Takes the reports of a hub's links.

    Parameters
    ----------
    hub : Hub or None
        None if no subsystem is in another process.
    """

    def __init__(self, hub: Hub | None) -> None:
        self._hub = hub
        self._last: dict[str, str] = {}

    def take(self) -> list[tuple[str, Event]]:
        """Subsystem and report: what has come since the last call, some of it."""
        found: list[tuple[str, Event]] = []
        reporting = self._hub.reporting if self._hub is not None else {}
        for link in list(reporting):
            while link.events and len(found) < REPORTS_AT_ONCE:
                event = link.events.popleft()
                found.append((link.name, event))
                if event.level != "info":
                    self._last[link.name] = event.text
            if not link.events:
                del reporting[link]
        return found

    def last_of(self, name: str) -> str:
        """The newest warning or error of a subsystem, as far as taken; empty if there is none."""
        return self._last.get(name, "")
