"""State shared by all clients of the page: subscriber, history, client for commands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hilrt.monitor.operator_commands import OperatorCommand, Reply
from hilrt.monitor.stream import Full, Signals, array
from hilrt.monitor.viewer import Viewer
from hilrt.solver import Floats

POLL_MS = 20
#: Maximum commands without a reply.
MAX_OPEN = 100


class SharedSession:
    """History of signals from a `Viewer`, and commands with their replies, for all clients."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.history = SignalHistory()
        viewer.on_signals = self.history.add
        viewer.on_full = self.history.add_full
        self._began_ns = 0
        self._asked: dict[int, Callable[[Reply], None]] = {}

    def poll(self) -> None:
        """Process received messages; called from the server's loop."""
        self.viewer.poll()
        head = self.viewer.head
        if head is not None and head.signals:
            names = [signal.name for signal in head.signals]
            another = self._began_ns and head.epoch_ns != self._began_ns
            if names != self.history.names or another:
                self.history.restart(names, head.rate)
            self._began_ns = head.epoch_ns
        client = self.viewer.client() if self._asked else None
        for number, reply in client.replies() if client is not None else ():
            answered = self._asked.pop(number, None)
            if answered is not None:
                answered(reply)

    def send(self, command: OperatorCommand, answered: Callable[[Reply], None]) -> bool:
        """Send a command; `answered` receives the reply. False if the session accepts none."""
        client = self.viewer.client()
        number = client.send(command) if client is not None else 0
        if number:
            while len(self._asked) >= MAX_OPEN:
                self._asked.pop(next(iter(self._asked)))
            self._asked[number] = answered
        return bool(number)


# Changes of Bokeh models; only values that differ are sent.


def change(model: Any, **values: Any) -> None:
    """Set only those properties of a Bokeh model that differ, so that only they are sent."""
    changed = {key: value for key, value in values.items() if getattr(model, key) != value}
    if changed:
        model.update(**changed)


# Recent values of the signals in bounded memory, shared by all clients of the page.

#: Memory for the history of all signals, bytes, and its longest time span, s.
BUDGET_BYTES = 64 << 20
LONGEST_S = 600.0
#: Messages per second, if the session does not state the rate.
USUAL_RATE = 10.0
#: Samples kept of a signal at full rate.
FULL_SAMPLES = 30_000


class Ring:
    """Newest rows of a growing table, contiguous in memory.

    Parameters
    ----------
    length, width : int
        Rows kept, and columns.

    Attributes
    ----------
    total : int
        Number of rows added so far.
    """

    def __init__(self, length: int, width: int) -> None:
        self.total = 0
        self._length = max(length, 1)
        self._data: Floats = np.full((2 * self._length, width), np.nan)
        self._end = 0

    def add(self, rows: Floats) -> None:
        """Append rows, shape (n, width)."""
        self.total += len(rows)
        rows = rows[-self._length :]
        if self._end + len(rows) > len(self._data):
            kept = min(self._end, self._length)
            self._data[:kept] = self._data[self._end - kept : self._end].copy()
            self._end = kept
        self._data[self._end : self._end + len(rows)] = rows
        self._end += len(rows)

    @property
    def nbytes(self) -> int:
        """Size in memory, bytes."""
        return self._data.nbytes

    def newest(self, n: int) -> Floats:
        """View of the newest rows, at most `n`; valid until the next `add`."""
        n = max(0, min(n, self._length, self._end))
        return self._data[self._end - n : self._end]

    def clear(self) -> None:
        """Discard the rows; `total` continues."""
        self._end = 0

    def since(self, total: int) -> Floats:
        """Rows added after the first `total` rows, if still kept."""
        return self.newest(self.total - total)


class SignalHistory:
    """Decimated signals, and signals requested at full rate.

    Attributes
    ----------
    names : list of str
        Columns of `last`, `low` and `high`.
    t : Ring
        Session time of the end of each interval, s.
    last, low, high : Ring
        Last, smallest and largest value of each signal in each interval.
    lost : int
        Ticks that never reached the stream.
    beginnings : int
        Number of restarts.
    """

    def __init__(self) -> None:
        self.full: dict[str, Ring] = {}
        self.lost = self.beginnings = 0
        self.restart([])

    def restart(self, names: list[str], rate: float = 0.0) -> None:
        """Reset for another session, or at the start of its log; `rate` in messages per second."""
        self.names, self.rate = names, rate
        self.beginnings += 1
        self.column = {name: i for i, name in enumerate(names)}
        longest = math.ceil(LONGEST_S * (rate or USUAL_RATE))
        length = min(longest, BUDGET_BYTES // (48 * max(len(names), 1)))
        self.t = Ring(length, 1)
        self.last, self.low, self.high = (Ring(length, len(names)) for _ in range(3))
        for ring in self.full.values():
            ring.clear()

    def add(self, message: Signals) -> None:
        """Add an interval; one that does not fit the names is ignored.

        If time decreases, another session with the same name and signals has begun.
        """
        last = array(message.last)
        if len(last) != len(self.names):
            return
        newest = self.t.newest(1)
        if len(newest) and message.t_until < newest[0, 0]:
            self.restart(self.names, self.rate)
        self.lost = message.lost
        self.t.add(np.array([[message.t_until]]))
        self.last.add(last[None])
        self.low.add(array(message.minimum)[None])
        self.high.add(array(message.maximum)[None])

    def add_full(self, message: Full) -> None:
        """Add samples of one signal, as columns time and value."""
        ring = self.full.get(message.name)
        if ring is None:
            ring = self.full[message.name] = Ring(FULL_SAMPLES, 2)
        ring.add(np.column_stack((array(message.t), array(message.value))))

    def at_zero(self) -> set[str]:
        """Signals that have always been zero."""
        low, high = (ring.newest(self.t.total) for ring in (self.low, self.high))
        if not len(low):
            return set(self.names)
        moved = np.nan_to_num(np.fmax.reduce(high) - np.fmin.reduce(low)) > 0.0
        moved |= np.nan_to_num(self.last.newest(1)[0]) != 0.0
        return {name for name, moves in zip(self.names, moved, strict=True) if not moves}

    def value(self, name: str) -> float:
        """Newest value of a signal; NaN if there is none."""
        newest = self.last.newest(1)
        if not len(newest) or name not in self.column:
            return float("nan")
        return float(newest[0, self.column[name]])
