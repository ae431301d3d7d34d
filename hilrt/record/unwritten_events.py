"""Events that a recorder has not told of as written: what is left of them if it never does."""

from __future__ import annotations

from collections import deque
from itertools import islice

from hilrt.record.messages import RecordEvent

#: Events that are kept; older ones are counted.
KEPT = 500
#: Characters of a text that are kept.
TEXT = 500


class UnwrittenEvents:
    """The newest events that are not known to be in the log.

    The recorder writes those that are sent in their order, so that their number says which ones.
    """

    def __init__(self) -> None:
        self._sent: deque[RecordEvent] = deque(maxlen=KEPT)
        self._refused: deque[RecordEvent] = deque(maxlen=KEPT)
        self._number = self._written = 0

    def __len__(self) -> int:
        """How many sent ones are not known to be written, also of those no longer kept."""
        return self._number - self._written

    def send(self, event: RecordEvent) -> None:
        """An event is to be sent."""
        self._sent.append(event)
        self._number += 1

    def refuse(self, event: RecordEvent) -> None:
        """An event will not be sent: too many wait."""
        self._refused.append(event)

    def written(self, number: int) -> None:
        """So many of those sent are in the log."""
        for _ in range(len(self._sent) - max(0, self._number - number)):
            self._sent.popleft()
        self._written = max(self._written, min(number, self._number))

    def lost(self, *, failed: bool) -> list[dict[str, object]]:
        """The newest ones that are not in the log, in their order; `failed`: nor those sent."""
        events = [*self._refused, *(self._sent if failed else ())]
        events.sort(key=lambda event: event.t_ns)
        return [_entry(event) for event in islice(events, max(0, len(events) - KEPT), None)]


def _entry(event: RecordEvent) -> dict[str, object]:
    return {
        "t": event.t_ns * 1e-9,
        "level": event.level,
        "cause": event.cause,
        "source": event.source,
        "text": event.text[:TEXT],
    }
