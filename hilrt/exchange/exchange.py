"""The exchange: the cut at the tick, the fan-out of inputs, and who is late. The only fan-out.

In real time nobody is waited for: `cut` takes what has arrived. As fast as possible, `collect`
waits until every stepped solver that is due has answered, with a timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hilrt.errors import SolverError
from hilrt.exchange.missed_samples import Absences
from hilrt.exchange.peer_times import AnswerTimes
from hilrt.exchange.pending_intervals import Backlog
from hilrt.exchange.rejoin import Returns
from hilrt.exchange.waiter import Doorbell
from hilrt.link import Arrival, Link
from hilrt.peers.remote_link import RemoteLink
from hilrt.solver import Sample
from hilrt.step.step_state import StepInput, StepState
from hilrt.tables.network import Network
from hilrt.timing.clock import monotonic_ns

#: A bench that has not been heard for this many of its intervals is late.
BENCH_PATIENCE = 2.5
#: Beginning of a wait for solvers, as fast as possible, in which the event loop stands still, s.
STANDSTILL_S = 0.001

#: A message, and whom it is for.
Outbound = tuple[RemoteLink, bytes]


class Exchange:
    """Moves samples from the links into a `StepInput`, and inputs from a `StepState` to the links.

    Parameters
    ----------
    network : Network
    links : sequence of Link
        In the order of ``network.subsystems``, opened and initialized.
    step : float
        Base macro step, s.
    max_misses : sequence of int
        Of `Absences`.
    derivatives : int
        Number of output derivatives to keep.
    catch_up : sequence of bool
        Subsystems that get what they missed in steps of their own length, not merged into one.

    Attributes
    ----------
    given : StepInput
        Filled by `cut`, in place.
    benches : set of str
        Subsystems that run by themselves.
    remote : bool
        Whether any subsystem is in another process.
    absences : Absences
        Whose samples are missing, and what the subsystems have told.
    taken : int
        Samples taken in so far.
    rest_ns : int
        `StepInput.rest` of the next cut, ns.
    age, compute_us, wire_us : ndarray, shape (n,)
        Age of the newest sample at the cut [s]; what the subsystem took for its step; and its time
        on the wire (`PeerTimes.wire`), NaN where unknown.
    rejoined : ndarray of int, shape (n,)
        How often each subsystem has come back.
    times : AnswerTimes
        What the remote solvers' answers took.
    """

    def __init__(
        self,
        network: Network,
        links: Sequence[Link],
        step: float,
        max_misses: Sequence[int],
        derivatives: int = 0,
        catch_up: Sequence[bool] = (),
    ) -> None:
        n = len(links)
        self.network = network
        self.links = list(links)
        self.given = StepInput.empty(
            len(network.outputs), len(network.inputs), n, max(derivatives, 0)
        )
        self.absences = Absences(self.links, max_misses)
        self.age = np.zeros(n)
        self.compute_us = np.zeros(n)
        self.rejoined = np.zeros(n, dtype=np.intp)
        self.times = AnswerTimes(n)
        self.wire_us = self.times.wire_us
        # Per subsystem, not per port: plain lists are faster than arrays of a few elements.
        self._physical = [link.physical for link in links]
        self.benches = {link.name for link in links if link.physical}
        self._remote = [link if isinstance(link, RemoteLink) else None for link in links]
        self._every = [int(every) for every in network.every]
        self._slices = list(zip(network.outputs.slices, network.inputs.slices, strict=True))
        # Of `given`: views are filled in half the time that parts of an array are assigned to.
        self._views = [
            (self.given.y[part], self.given.t_valid[part], self.given.fresh[part])
            for part in network.outputs.slices
        ]
        self._missing = [False] * n
        self._patience = [BENCH_PATIENCE * step * every for every in self._every]
        self._newest = [-np.inf] * n
        self._busy = [False] * n
        self._answer_ns = [-1] * n  # where the outstanding advance leads to
        self._parked: list[list[Arrival]] = [[] for _ in links]
        self._backlogs = [
            Backlog() if own and not link.physical else None
            for link, own in zip(links, catch_up or [False] * n, strict=True)
        ]
        self._queues = any(backlog is not None for backlog in self._backlogs)
        self._measured = np.zeros((1, len(network.inputs)))
        self._local = [s for s, link in enumerate(links) if link.fileno() is None]
        self._doorbell: Doorbell | None = None
        self._next_ns = 0
        self.taken = 0
        self.rest_ns = 0
        self._open = True  # `start` puts the first samples in
        hubs = [link.hub for link in self._remote if link is not None]
        self._returns = Returns(network, links)
        self._may_return = bool(self._returns)
        self.remote = bool(hubs)
        #: All remote links share it: one look at its socket serves them all.
        self._hub = hubs[0] if hubs else None

    def start(self, t0: float, samples: Sequence[Sample]) -> None:
        """Take the initialized samples as what tick 0 finds."""
        self.given.reached[:] = t0
        self._newest = [t0] * len(self.links)
        for s, sample in enumerate(samples):
            self._take(s, sample, t0)

    def cut(self, tick: int, t_ns: int, elapsed_ns: int) -> StepInput:
        """Take what has arrived: the `StepInput` of this tick, valid until the next cut.

        Parameters
        ----------
        tick : int
            Number of the communication point.
        t_ns, elapsed_ns : int
            Its session time, and the time since the previous one, ns.

        Raises
        ------
        PeerLost
            If a subsystem is known to be gone or has missed more ticks than its policy allows.
        """
        self._take_arrivals(t_ns)
        self._open = False
        given = self._look(tick, t_ns, elapsed_ns)
        for s, missing in enumerate(self._missing):
            if missing or self.absences.in_a_row[s]:
                due, age = bool(given.due[s]), float(self.age[s])
                self.absences.count(s, due=due, missing=missing, age=age)
        return given

    def _look(self, tick: int, t_ns: int, elapsed_ns: int) -> StepInput:
        """Who is due, who is late, and how old everything is at a communication point."""
        given, t = self.given, t_ns * 1e-9
        given.regular, given.rest = True, self.rest_ns * 1e-9
        given.tick, given.t, given.elapsed = tick, t, elapsed_ns * 1e-9
        for s in range(len(self.links)):
            busy = self._busy[s]
            # Not due: a stepped solver under way beyond this point, having stepped across.
            due = tick % self._every[s] == 0 and not (busy and self._answer_ns[s] > t_ns)
            age = t - self._newest[s]
            if self._physical[s]:
                given.reached[s] = t
                given.covered[s] = given.elapsed
                given.regular &= due
                late = missing = age > self._patience[s]
            else:
                backlog = self._backlogs[s]
                if backlog is None:
                    given.busy[s] = busy
                    missing = due and busy
                    # An answer that came after its tick is there, but still behind by that much.
                    late = due and (missing or self._newest[s] != t)
                else:  # it gets every interval, in its turn
                    given.reached[s] = backlog.end_ns * 1e-9
                    late = missing = due and self._newest[s] != t
                given.regular &= due and not late and not (self._may_return and given.rejoined[s])
            given.due[s] = due
            given.late[s] = late
            self.age[s] = age
            self._missing[s] = missing
        return given

    def _take_arrivals(self, t_ns: int) -> None:
        """Put what has arrived, and is for the cut at `t_ns` [ns], into `given`."""
        if not self._open:  # the first look at a new interval
            self.given.fresh.fill(False)
            self.given.event.fill(False)
            self.given.has_middle = False
            if self._may_return:
                self.given.rejoined.fill(False)
            self._open = True
        if self._hub is not None:
            self._hub.drain()
        for s, link in enumerate(self.links):
            if arrivals := link.take():
                self._parked[s].extend(arrivals)
            if self._parked[s]:
                self._unpark(s, t_ns)

    def _unpark(self, s: int, t_ns: int) -> None:
        """Use what is valid by now; a slow solver's answer may lie in the future."""
        if not self._physical[s] and self._answer_ns[s] > t_ns:
            return
        for _, sample, t_arrived in self._parked[s]:
            self._take(s, sample, t_arrived if self._physical[s] else self._answer_ns[s] * 1e-9)
            link = self._remote[s]
            if s in self._returns.restarted:
                self._returns.restarted.remove(s)
                self.given.rejoined[s] = self.given.event[s] = True
                self.rejoined[s] += 1
            elif link is not None and not self._physical[s]:
                self.times.keep(s, sample.compute_us, link.round_trip_us, link.way_us, t_arrived)
        self._parked[s].clear()

    def _take(self, s: int, sample: Sample, t_end: float) -> None:
        given = self.given
        self.taken += 1
        part, inputs = self._slices[s]
        y, t_valid, fresh = self._views[s]
        if sample.y.shape != y.shape:
            raise SolverError(
                f"subsystem {self.links[s].name!r}: {sample.y.shape} outputs arrived, "
                f"{len(y)} were announced"
            )
        if sample.t_valid is None:
            y[...] = sample.y
            t_valid.fill(t_end)
            fresh.fill(True)
        else:  # an earlier sample in the same cut may have what this one has not
            new = ~np.isnan(sample.t_valid)
            np.copyto(y, sample.y, where=new)
            np.copyto(t_valid, sample.t_valid, where=new)
            fresh |= new
        if sample.y_mid is not None:
            if not given.has_middle:
                given.y_mid[:] = np.nan
            given.y_mid[part] = sample.y_mid
            given.has_middle = True
        if sample.dy is not None and len(given.dy):
            n = min(len(sample.dy), len(given.dy))
            given.dy[:n, part] = sample.dy[:n]
        if sample.realised is not None:
            given.realised[inputs] = sample.realised
        if sample.event_t is not None:
            given.event[s] = True
        self.compute_us[s] = sample.compute_us
        if self._physical[s]:
            newest = np.fmax.reduce(t_valid, initial=self._newest[s]) if len(y) else t_end
            self._newest[s] = float(newest)
        else:
            given.covered[s] = t_end - self._newest[s]
            self._newest[s] = given.reached[s] = t_end
            self._busy[s] = False

    def _encoded(self, state: StepState) -> list[Outbound]:
        """Messages with the inputs of the remote subsystems that are due."""
        if self._hub is None:
            return []
        tick, starts, steps = self.given.tick, state.t_start.tolist(), state.h.tolist()
        found: list[Outbound] = []
        for s, leaves in enumerate(state.dispatch.tolist()):
            remote = self._remote[s]
            if leaves and remote is not None and self._backlogs[s] is None:
                coefficients = state.sent[:, self._slices[s][1]]
                found.append((remote, remote.encoded(tick, starts[s], steps[s], coefficients)))
        return found

    def dispatch(self, state: StepState, t_ns: int, h_ns: int) -> None:
        """Send every due subsystem its inputs; the macro step is ``[t_ns, t_ns + h_ns]``."""
        # First, and together: each message would wake the thread that sends it anew.
        for remote, data in self._encoded(state):
            if not remote.absent:
                remote.send_step(data)
        tick, self._next_ns = self.given.tick, t_ns + h_ns
        if self._may_return:
            self._measured = state.measured
        leaves, starts, steps = state.dispatch.tolist(), state.t_start.tolist(), state.h.tolist()
        for s, link in enumerate(self.links):
            if leaves[s]:
                coefficients = state.sent[:, self._slices[s][1]]
                own_ns, backlog = self._every[s] * h_ns, self._backlogs[s]
                if backlog is not None:
                    backlog.add(tick, starts[s], steps[s], coefficients, t_ns + own_ns, own_ns)
                    continue
                if self._remote[s] is None:
                    link.dispatch(tick, starts[s], steps[s], coefficients)
                if not self._physical[s]:
                    self._busy[s] = True
                    self._answer_ns[s] = t_ns + own_ns
        if self._queues:
            self._send_waiting()  # after all others

    def _send_waiting(self) -> None:
        """Send the next interval to every solver that has one waiting and is not busy."""
        for s, backlog in enumerate(self._backlogs):
            if backlog is None or not backlog.waiting or self._busy[s]:
                continue
            link, interval = self.links[s], backlog.waiting.popleft()
            if not link.absent:
                link.dispatch(interval.tick, interval.t, interval.h, interval.coefficients)
            self._busy[s] = True
            self._answer_ns[s] = interval.end_ns

    @property
    def behind(self) -> bool:
        """Whether intervals wait for a solver to answer the one before."""
        return any(backlog is not None and backlog.waiting for backlog in self._backlogs)

    async def catch_up(self, until_ns: int) -> None:
        """Send solvers that are `behind` what waits as fast as they answer, until `until_ns`.

        A reading of the monotonic clock; for the time in which the master sleeps.
        """

        def nothing_new() -> bool:
            before = self.taken
            if monotonic_ns() < until_ns:
                self.send_on()
            return self.taken == before

        doorbell = Doorbell([] if self._hub is None else [self._hub.fileno()])
        try:
            while self.behind and monotonic_ns() < until_ns:
                await doorbell.wait(nothing_new)
        finally:
            doorbell.close()

    def send_on(self) -> None:
        """Take what has arrived, and send each solver that has answered its next interval."""
        self._take_arrivals(self._next_ns)
        if self._queues:
            self._send_waiting()

    def run_local(self) -> None:
        """Let in-process subsystems compute now, in the slack, instead of at the next cut."""
        for s in self._local:
            self._parked[s].extend(self.links[s].poll())
            backlog = self._backlogs[s]
            while backlog is not None and backlog.waiting:  # the master has left ticks out
                self._parked[s].clear()
                self._newest[s], self._busy[s] = self._answer_ns[s] * 1e-9, False
                self._send_waiting()
                self._parked[s].extend(self.links[s].poll())

    def readmit(self) -> None:
        """Have solvers that came back initialize at the next communication point; never waits."""
        if not self._may_return:
            return
        for s in self._returns.readmit(self._measured, self.given.t, self._next_ns * 1e-9):
            self._parked[s].clear()
            backlog = self._backlogs[s]
            if backlog is not None:
                backlog.restart(self._next_ns)
            self._busy[s] = True
            self._answer_ns[s] = self._next_ns

    def answered(self, t_ns: int) -> bool:
        """Poll; whether every stepped solver that was to reach `t_ns` or less has answered."""
        if self._hub is not None:
            self._hub.drain()
        complete = True
        for s, link in enumerate(self.links):
            if self._owes(s, t_ns):
                self._parked[s].extend(link.take())
                complete &= bool(self._parked[s])
        return complete

    def told_event(self) -> float | None:
        """Session time [s] of the first discontinuity in the answers that wait for the next cut.

        Only of those who can go back to it.
        """
        told = [
            arrival.sample.event_t
            for s, link in enumerate(self.links)
            if link.can_go_back
            for arrival in self._parked[s]
            if arrival.sample.event_t is not None
        ]
        return min(told, default=None)

    def send_back(self, t_ns: int) -> None:
        """Have all that can go back end the step that has been answered at `t_ns` instead.

        The others' answers wait for the point that they have stepped to.
        """
        for s, link in enumerate(self.links):
            if link.can_go_back and self._parked[s]:
                length_ns = t_ns - round(self.given.t * 1e9)
                self._parked[s].clear()
                self._answer_ns[s] = t_ns
                backlog = self._backlogs[s]
                if backlog is not None:
                    backlog.end_ns = t_ns
                link.go_back(self.given.tick, length_ns * 1e-9)

    def _owes(self, s: int, t_ns: int) -> bool:
        """Whether a stepped solver has yet to answer an advance that leads to `t_ns` or before."""
        return self._busy[s] and self._answer_ns[s] <= t_ns and not self._parked[s]

    async def collect(self, t_ns: int, timeout: float, stopping: Callable[[], bool]) -> None:
        """Wait until `answered` or `stopping`; `PeerLost` after `timeout` [s]."""
        if self._hub is not None:
            self.times.waits_from = self._hub.session_time()
        deadline = monotonic_ns() + int(timeout * 1e9)
        while not self.answered(t_ns) and not stopping():
            if monotonic_ns() > deadline:
                self._raise_silent(t_ns, timeout)
            if self._doorbell is None:
                fds = (link.fileno() for link in self.links)
                present = (fd for fd in fds if fd is not None)
                self._doorbell = Doorbell(present, block_s=STANDSTILL_S)
            self.readmit()
            await self._doorbell.wait(lambda: not self.answered(t_ns))

    def close(self) -> None:
        """Stop watching the links."""
        if self._doorbell is not None:
            self._doorbell.close()
            self._doorbell = None

    def _raise_silent(self, t_ns: int, timeout: float) -> None:
        for s in range(len(self.links)):
            if self._owes(s, t_ns):
                raise self.absences.give_up(s, t_ns, timeout)
