"""What the master hands rows and events to: a recorder, memory, or nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from hilrt.record.messages import Level, Topic
from hilrt.solver import Floats


class Feed:
    """Takes a session's rows and events. This one counts them, and keeps none.

    Parameters
    ----------
    topics : sequence of Topic
        What a row holds: the topics' signals one after the other.

    Attributes
    ----------
    records : bool
        Whether rows are kept: else none need be filled.
    row : ndarray, shape (n_signals,)
        The caller fills it in place before each `commit`; values stay until overwritten.
    rows, events : int
        Rows and events taken.
    dropped, events_dropped, asides_dropped : int
        Rows, events, and data beside the rows, that were lost.
    lost_events : list of dict
        The newest events that were lost, once that is known.
    on_first_loss : callable, optional
        Called when the first rows are lost.
    max_gap_ns : float
        Session time without a row, ns, after which `on_gap` is called with what is lost, in words.
    on_gap : callable, optional
    """

    records = False
    on_first_loss: Callable[[], None] | None = None
    max_gap_ns = math.inf
    on_gap: Callable[[str], None] | None = None

    def __init__(self, topics: Sequence[Topic]) -> None:
        self.topics = [topic for topic in topics if topic.signals]
        self.row: Floats = np.full(sum(len(topic.signals) for topic in self.topics), np.nan)
        self.rows = self.events = 0
        self.dropped = self.events_dropped = self.asides_dropped = 0
        self.lost_events: list[dict[str, object]] = []

    def commit(self, t_ns: int) -> None:
        """Take `row` at session time `t_ns`, ns."""
        self.rows += 1

    def flush(self) -> None:
        """Hand over what is waiting, without blocking."""

    def event(self, t_ns: int, level: Level, cause: str, source: str, text: str) -> None:
        """Note something that happened at session time `t_ns` [ns]."""
        self.events += 1

    def aside(self, topic: str, row: int, t_ns: int, data: bytes) -> None:
        """Take `data` on a topic of `ASIDES`: how things stand before the row number `row`."""

    def stretched(self, since_ns: int, shift_ns: int) -> None:
        """The grid was shifted by `shift_ns` at the reading `since_ns` of the monotonic clock."""

    def losses(self) -> list[str]:
        """What was lost, for people; empty if nothing was."""
        lost = (
            (self.dropped, f"of {self.rows} steps are not in the log"),
            (self.events_dropped, "events are not in the log: summary.json has the newest"),
            (self.asides_dropped, "snapshots are not in the log: a replay cannot start there"),
        )
        return [f"recorder: did not follow: {n} {text}" for n, text in lost if n]

    def close(self) -> None:
        """Release what it holds."""
