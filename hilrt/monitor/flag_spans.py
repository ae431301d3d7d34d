"""How often flags were up, and for how long, from the events that tell their changes."""

from __future__ import annotations

from dataclasses import dataclass

from hilrt.monitor.stream import Happening
from hilrt.monitor.telemetry import RaisedFlag


@dataclass(slots=True)
class Spans:
    """Of one flag: first rise [s], number of rises, time up until the last clear [s].

    `since` is the time of its last rise [s] while it is up, else None.
    """

    first: float
    count: int = 0
    seconds: float = 0.0
    since: float | None = None


class FlagSpans:
    """Sums over the changes of all flags that a viewer has heard of; grows with their number."""

    def __init__(self) -> None:
        self._spans: dict[RaisedFlag, Spans] = {}

    def take(self, event: Happening) -> None:
        """Count an event; anything but a change of a flag is ignored."""
        raised = change_of(event)
        if raised is None:
            return
        spans = self._spans.setdefault(RaisedFlag(event.cause, event.source), Spans(event.t))
        if raised:
            spans.count += 1
            spans.since = event.t
        elif spans.since is not None:
            spans.seconds += event.t - spans.since
            spans.since = None

    def of(self, flag: RaisedFlag) -> Spans | None:
        """Sums of a flag; None if no change of it has been heard."""
        return self._spans.get(flag)

    def clear(self) -> None:
        """Begin anew, with another run."""
        self._spans.clear()


def change_of(event: Happening) -> bool | None:
    """Whether an event says that a flag was raised (True) or cleared (False)."""
    if event.text.startswith(f"{event.cause} raised:"):
        return True
    return False if event.text.startswith(f"{event.cause} cleared:") else None
