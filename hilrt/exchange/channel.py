"""The queue and link of one subsystem."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hilrt.exchange.channel_table import ChannelTable
from hilrt.exchange.peer_times import AnswerTimes
from hilrt.exchange.pending_intervals import PendingIntervals
from hilrt.exchange.step_input_writer import StepInputWriter
from hilrt.link import Arrival, Link
from hilrt.peers.remote_link import RemoteLink
from hilrt.solver import Floats, Sample


class Channel:
    """Moves samples from one link, and inputs to it; its numbers are a row of the `ChannelTable`.

    Parameters
    ----------
    s : int
        Number of the subsystem.
    link : Link
    table : ChannelTable
    inputs : slice
        Of the session's inputs.
    sent : ndarray, shape (order + 1, n_inputs)
        View of the polynomials that leave the master.
    catches_up : bool
        The subsystem gets what it missed in steps of its own length, not merged into one.

    Attributes
    ----------
    remote : RemoteLink or None
        The link, if the subsystem is in another process.
    every : int
        Base steps between its communication points.
    arrivals : list of Arrival
        Samples that no cut has taken in.
    ended : str
        Why the subsystem's simulation has ended with the newest sample taken in; empty if not.
    pending : PendingIntervals or None
        Intervals that a solver that catches up has yet to be sent.
    """

    __slots__ = (
        *("arrivals", "ended", "every", "inputs", "link", "pending", "physical", "remote", "s"),
        *("sent", "_restarting", "_table"),
    )

    def __init__(
        self,
        s: int,
        link: Link,
        table: ChannelTable,
        inputs: slice,
        sent: Floats,
        catches_up: bool,
    ) -> None:
        self.s, self.link, self.inputs, self.sent = s, link, inputs, sent
        self.physical, self.every = link.physical, int(table.rows["every"][s])
        self.remote = link if isinstance(link, RemoteLink) else None
        self.arrivals: list[Arrival] = []
        self.ended = ""
        self.pending = PendingIntervals() if catches_up else None
        self._table, self._restarting = table, False

    # --- samples ------------------------------------------------------------------------------

    def receive(self) -> bool:
        """Take what the link has; whether there was any. `PeerLost` if the subsystem is gone."""
        arrivals = self.link.take()
        return bool(arrivals) and self._keep(arrivals)

    def compute(self) -> bool:
        """As `receive`; a subsystem in this process makes its step now if it has not yet."""
        arrivals = self.link.poll()
        return bool(arrivals) and self._keep(arrivals)

    def _keep(self, arrivals: Sequence[Arrival]) -> bool:
        self.arrivals.extend(arrivals)
        self._table.answered[self.s] = 1
        return True

    def drop_arrivals(self) -> None:
        """Forget what has arrived."""
        self.arrivals.clear()
        self._table.answered[self.s] = 0

    def begin(self, sample: Sample, t0: float, given: StepInputWriter) -> None:
        """Enter the initialized sample, at `t0` [s]."""
        self._table.newest[self.s] = self._table.cut["reached"][self.s] = t0
        given.take(self.s, sample, t0)

    def take_in(self, t_ns: int, given: StepInputWriter, times: AnswerTimes) -> int:
        """Enter what has arrived and is valid by `t_ns`; how many samples that was."""
        n = len(self.arrivals)
        if self.physical:
            for _, sample, t_arrived in self.arrivals:
                self._take_measured(sample, t_arrived, given)
            self.drop_arrivals()
            return n
        for _, sample, t_arrived in self.arrivals:
            end = self._table.take_answer(self.s, t_ns, sample.compute_us)
            if math.isnan(end):  # the answer to a longer step waits for its time
                return 0
            given.take(self.s, sample, end)
            self.ended = sample.ended
            if self._restarting:
                self._restarting = False
                given.rejoin(self.s)
                self._table.rejoined[self.s] += 1
            elif (link := self.remote) is not None:
                times.keep(self.s, sample.compute_us, link.round_trip_us, link.way_us, t_arrived)
        self.arrivals.clear()
        return n

    def _take_measured(self, sample: Sample, t_arrived: float, given: StepInputWriter) -> None:
        """Enter a bench's sample, which is valid when it arrived if it says nothing else.

        What is said to be valid later than that by more than the clock is uncertain shows how far
        the bench's clock is off: polynomials through values of the future would go astray.
        """
        table, s, remote = self._table, self.s, self.remote
        uncertainty = 0.0 if remote is None else remote.peer.clock.uncertainty  # NaN: not known yet
        newest, ahead = t_arrived, 0.0
        if sample.t_valid is not None and len(sample.t_valid):
            newest = float(np.fmax.reduce(sample.t_valid, initial=float(table.newest[s])))
            ahead = newest - t_arrived
            if ahead > 0.0 and not ahead <= uncertainty:
                sample.t_valid = np.minimum(sample.t_valid, t_arrived)
                newest = t_arrived
            else:
                ahead = 0.0
        given.take(s, sample, t_arrived)
        table.newest[s], table.compute_us[s] = newest, sample.compute_us
        if remote is not None or ahead > 0.0:
            given.clock_error(s, max(uncertainty, ahead))

    def first_event(self) -> float:
        """Session time of the first discontinuity that the arrivals tell of, s; else infinite.

        Only of one to which the subsystem can go back.
        """
        if not self.link.can_go_back:
            return math.inf
        times = (arrival.sample.event_t for arrival in self.arrivals)
        return min((t for t in times if t is not None), default=math.inf)

    # --- inputs -------------------------------------------------------------------------------

    def add_pending(
        self, tick: int, t: float, h: float, coefficients: Floats, end_ns: int, own_ns: int
    ) -> None:
        """Enter the interval from `t` to `end_ns`, of length `h` [s], in steps of `own_ns`."""
        assert self.pending is not None
        self.pending.add(tick, t, h, coefficients, end_ns, own_ns)
        self._table.pending_end_ns[self.s] = self.pending.end_ns

    def send_pending(self) -> None:
        """Send the next interval of a solver that catches up, if it has answered the last one."""
        if self.pending is None or not self.pending.waiting or self._table.busy[self.s]:
            return
        interval = self.pending.waiting.popleft()
        if not self.link.absent:
            self.link.dispatch(interval.tick, interval.t, interval.h, interval.coefficients)
        self._owe(interval.end_ns)

    def compute_pending(self) -> None:
        """Have a subsystem in this process make all steps that it is behind; the last one counts.

        The master has left ticks out.
        """
        while self.pending is not None and self.pending.waiting:
            self.drop_arrivals()
            table, s = self._table, self.s
            table.newest[s], table.busy[s] = float(table.answer_ns[s]) * 1e-9, 0
            self.send_pending()
            self.compute()

    def go_back(self, tick: int, t_ns: int, length_ns: int) -> None:
        """Have the subsystem end its last step at `t_ns` instead, after `length_ns`."""
        self.drop_arrivals()
        self._owe(t_ns)
        if self.pending is not None:
            self.pending.end_ns = self._table.pending_end_ns[self.s] = t_ns
        self.link.go_back(tick, length_ns * 1e-9)

    @property
    def has_returned(self) -> bool:
        """Whether a subsystem that was lost is connected again, and waits for `restart`."""
        return self.remote is not None and self.remote.returned

    def restart(self, t0_ns: int, u0: Floats) -> None:
        """Have a subsystem that came back begin anew, at `t0_ns`; it is late until it answers."""
        assert self.remote is not None
        self.remote.initialize_again(t0_ns * 1e-9, u0)
        self._restarting = True
        self.drop_arrivals()
        if self.pending is not None:
            self.pending.restart(t0_ns)
            self._table.pending_end_ns[self.s] = t0_ns
        self._owe(t0_ns)

    def _owe(self, end_ns: int) -> None:
        """The subsystem has an interval that it has yet to answer."""
        self._table.busy[self.s], self._table.answer_ns[self.s] = 1, end_ns
