"""What a replay needs beside the rows: the state once a second, changes, renewed Jacobians."""

from __future__ import annotations

import msgspec

from hilrt.record.feed import Feed
from hilrt.record.messages import ADJUSTMENTS, JACOBIANS, SNAPSHOTS
from hilrt.step.changes import Changes
from hilrt.step.numerics import Numerics
from hilrt.step_log.snapshot import StateBytes

#: Session time between two snapshots, ns.
EVERY_NS = 1_000_000_000


class Snapshots:
    """Records the state once a second, so that a replay can start there, and what was changed.

    Parameters
    ----------
    feed : Feed
    numerics : Numerics
    changes : Changes
        Their names.
    """

    def __init__(self, feed: Feed, numerics: Numerics, changes: Changes) -> None:
        self._feed, self._given, self._changes = feed, numerics.given, changes
        self._state = StateBytes(numerics.state)
        session = numerics.given.session
        self._changed, self._renewed = session["changes"], session["renewed"]
        self._next_ns = EVERY_NS

    def look(self, t_ns: int) -> None:
        """Look at the step at `t_ns`, before its row is committed."""
        row, given = self._feed.rows, self._given
        if self._changed[0]:
            for change in self._changes.recorded(given):
                self._feed.aside(ADJUSTMENTS, row, t_ns, msgspec.msgpack.encode(change))
        if self._renewed[0]:
            self._feed.aside(JACOBIANS, row, t_ns, msgspec.msgpack.encode(given.gamma.tolist()))
        if t_ns >= self._next_ns:
            self._next_ns = t_ns - t_ns % EVERY_NS + EVERY_NS
            self._feed.aside(SNAPSHOTS, row + 1, t_ns, self._state.encode())
