"""Sending the intervals of one subsystem to its link."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import numpy as np

from hilrt.exchange.channel_table import ChannelTable
from hilrt.exchange.inbox import Inbox
from hilrt.link import Link
from hilrt.solver import Floats, InputPolynomial

#: Times that differ by less count as equal, s.
SAME_TIME: Final = 0.5e-9


class Channel:
    """Sender of inputs to one link; its numbers are a row of the `ChannelTable`.

    Parameters
    ----------
    s : int
        Number of the subsystem.
    link : Link
    table : ChannelTable
    inbox : Inbox
        Receives the subsystem's samples.
    inputs : slice
        Slice of the session's inputs.
    sent : ndarray, shape (order + 1, n_inputs)
        View of the polynomials that the master sends.
    catches_up : bool
        Whether the subsystem makes up for missed intervals one by one, each with its own length.

    Attributes
    ----------
    every : int
        Base steps between its communication points.
    pending : PendingIntervals or None
        Intervals not yet sent to a solver that catches up.
    """

    __slots__ = ("_table", "every", "inbox", "inputs", "link", "pending", "s", "sent")

    def __init__(
        self,
        s: int,
        link: Link,
        table: ChannelTable,
        inbox: Inbox,
        inputs: slice,
        sent: Floats,
        catches_up: bool,
    ) -> None:
        self.s, self.link, self.inbox, self.inputs, self.sent = s, link, inbox, inputs, sent
        self.every, self._table = int(table.rows["every"][s]), table
        self.pending = PendingIntervals() if catches_up else None
        link.inbox = inbox

    def add_pending(
        self, tick: int, t: float, h: float, coefficients: Floats, end_ns: int, own_ns: int
    ) -> None:
        """Append the interval from `t` to `end_ns`, of length `h` [s], in steps of `own_ns`."""
        assert self.pending is not None
        self.pending.add(tick, t, h, coefficients, end_ns, own_ns)
        self._table.pending_end_ns[self.s] = self.pending.end_ns

    def send_pending(self) -> None:
        """Send a solver that catches up its next interval once the previous one is complete."""
        if self.pending is None or not self.pending.waiting or self._table.busy[self.s]:
            return
        interval, settings = self.pending.waiting.popleft(), self.pending.settings
        while settings and settings[0].t < interval.t + SAME_TIME:
            self.link.set_parameter(settings[0].name, settings.popleft().value)
        self.link.dispatch(interval.tick, interval.t, interval.h, interval.coefficients)
        self._expect_reply(interval.end_ns)

    def set_parameter(self, t: float, name: str, value: float) -> str:
        """Change a parameter from `t` [s] on; return why it is refused, or an empty string.

        A solver that is behind receives the change after its intervals before `t`.
        """
        if self.pending is None or not self.pending.waiting:
            return self.link.set_parameter(name, value)
        self.pending.settings.append(ParameterChange(t, name, value))
        return ""

    def compute_pending(self) -> None:
        """Compute all steps that an in-process subsystem is behind; only the last result is used.

        It falls behind when the master skips ticks.
        """
        while self.pending is not None and self.pending.waiting:
            self.inbox.discard()
            table, s = self._table, self.s
            table.newest[s], table.busy[s] = float(table.answer_ns[s]) / 1e9, 0
            self.send_pending()
            self.link.receive()

    def go_back(self, tick: int, t_ns: int, length_ns: int) -> None:
        """Make the subsystem end its last step at `t_ns` instead, after `length_ns`."""
        self.inbox.discard()
        self._expect_reply(t_ns)
        if self.pending is not None:
            self.pending.end_ns = self._table.pending_end_ns[self.s] = t_ns
        assert self.link.rewinds is not None
        self.link.rewinds.go_back(tick, length_ns / 1e9)

    def repeat(self, t_ns: int, h: float, coefficients: Floats) -> None:
        """Repeat the subsystem's last step, of `h` [s] to `t_ns`, with other inputs."""
        self.inbox.discard()
        self._expect_reply(t_ns)
        assert self.link.repeats is not None
        self.link.repeats.repeat(h, coefficients)
        self.link.receive()

    @property
    def has_returned(self) -> bool:
        """Whether a lost subsystem has reconnected and waits for `restart`."""
        return self.link.returns is not None and self.link.returns.returned

    def restart(self, t0_ns: int, u0: Floats) -> None:
        """Restart a subsystem that reconnected at `t0_ns`; it counts as late until it replies."""
        assert self.link.returns is not None
        self.link.returns.initialize_again(t0_ns / 1e9, u0)
        self._table.rows["restarting"][self.s] = 1
        self.inbox.discard()
        if self.pending is not None:
            for _, name, value in self.pending.settings:
                self.link.set_parameter(name, value)
            self.pending.restart(t0_ns)
            self._table.pending_end_ns[self.s] = t0_ns
        self._expect_reply(t0_ns)

    def _expect_reply(self, end_ns: int) -> None:
        """Record that the subsystem has to reply for an interval."""
        self._table.busy[self.s], self._table.answer_ns[self.s] = 1, end_ns


class Interval(NamedTuple):
    """Arguments of `Link.dispatch`, and the end of the interval in session time, ns."""

    tick: int
    t: float
    h: float
    coefficients: Floats
    end_ns: int


class ParameterChange(NamedTuple):
    """A parameter change from `t` [s] on, for a solver that is behind."""

    t: float
    name: str
    value: float


class PendingIntervals:
    """Intervals not yet sent to a late solver, for ``late.steps = "catch_up"``.

    Every interval keeps its own length and input polynomial, so that the solver makes the same
    steps, only later. Ticks that the master skipped use the current polynomial, in steps of the
    same length.

    Attributes
    ----------
    waiting : deque of Interval
        Not yet sent.
    settings : deque of ParameterChange
        Parameter changes between these intervals.
    end_ns : int
        End of the newest interval, sent or not, in session time, ns.
    """

    def __init__(self) -> None:
        self.waiting: deque[Interval] = deque()
        self.settings: deque[ParameterChange] = deque()
        self.end_ns = 0

    def add(
        self, tick: int, t: float, h: float, coefficients: Floats, end_ns: int, own_ns: int
    ) -> None:
        """Append the interval from `t`, of length `h` [s], in steps of `own_ns`.

        `coefficients`, shape (order + 1, n_inputs), are about `t` and are copied.
        """
        steps = max(1, round((end_ns - self.end_ns) / own_ns))
        if steps == 1:
            self.waiting.append(Interval(tick, t, h, coefficients.copy(), end_ns))
        else:
            inputs = InputPolynomial(t, coefficients)
            for i in range(steps):
                piece_end_ns = end_ns - (steps - 1 - i) * own_ns
                piece_t = t if i == 0 else (piece_end_ns - own_ns) / 1e9
                piece = np.array([inputs.derivative(piece_t, m) for m in range(len(coefficients))])
                length = piece_end_ns / 1e9 - piece_t if i == 0 else own_ns / 1e9
                self.waiting.append(Interval(tick, piece_t, length, piece, piece_end_ns))
        self.end_ns = end_ns

    def restart(self, at_ns: int) -> None:
        """Drop waiting intervals: the solver restarts at `at_ns`."""
        self.waiting.clear()
        self.settings.clear()
        self.end_ns = at_ns
