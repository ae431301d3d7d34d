"""The exchange: the cut at the tick, and the fan-out of inputs.

Connections put samples into their subsystem's inbox as they arrive. One compiled cut per tick fills
the step input from them (`hilrt.exchange.inbox`). In real time the master waits for no subsystem:
`receive_early` receives messages while the master sleeps, `cut` uses all samples that have arrived,
and a `Channel` sends the inputs to one subsystem. As fast as possible, `collect` waits, with a
timeout, until every stepped solver that is due has replied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hilrt.errors import ConfigError
from hilrt.exchange.channel import Channel
from hilrt.exchange.channel_table import ChannelTable
from hilrt.exchange.inbox import Inboxes, WaitingChannels
from hilrt.exchange.reports import MissedSamples, Reports
from hilrt.exchange.waiter import Waiter
from hilrt.link import Carrier, Link
from hilrt.solver import Floats, InputPolynomial, Sample
from hilrt.step.numerics import Numerics
from hilrt.tables import state
from hilrt.tables.given import StepInput, empty_input
from hilrt.tables.record import numbers, table
from hilrt.timing.early_reception import LOOK_NS
from hilrt.timing.monotonic import monotonic_ns

#: Initial part of a wait for solvers, as fast as possible, during which the event loop blocks, s.
STANDSTILL_S = 0.001


class Exchange:
    """Transfer of samples from links to a `StepInput`, and of inputs from a `State` to links.

    Parameters
    ----------
    numerics : Numerics
    links : sequence of Link
        In the order of ``network.subsystems``, opened and initialized.
    step : float
        Base macro step, s.
    max_misses : sequence of int
        Consecutive due ticks without a sample after which each subsystem counts as lost.
    catch_up : sequence of bool
        Subsystems that make up for missed steps one by one, not in one merged step.

    Attributes
    ----------
    given : StepInput
        Filled by `cut`, in place.
    channels : table, one record of `CHANNELS` per subsystem
    benches : set of str
        Subsystems that run on their own.
    remote : bool
        Whether any subsystem is in another process.
    slices : list of (slice, slice)
        Outputs and inputs of each subsystem.
    sent : ndarray, shape (order + 1, nu)
        View of the polynomials that were sent; Taylor coefficients.
    reports : Reports
        Messages of the subsystems for users.
    times_of : callable
        Response times of a remote solver, by its number.
    age, compute_us, wire_us : ndarray, shape (n,)
        Fields of `channels`.
    rest_ns : int
        `StepInput.rest` of the next cut, ns.
    ended : dict of str
        Subsystems whose simulation has ended with the sample in this cut, with the reason.
    calculated : WaitingChannels
        Available after `keep_states`.
    """

    def __init__(
        self,
        numerics: Numerics,
        links: Sequence[Link],
        step: float,
        max_misses: Sequence[int],
        catch_up: Sequence[bool] = (),
    ) -> None:
        self.numerics, self.links = numerics, list(links)
        network = self.network = numerics.network
        self.given: StepInput = numerics.given
        self.benches = {link.name for link in links if link.physical}
        late = catch_up or [False] * len(links)
        catches_up = [own and not link.physical for own, link in zip(late, links, strict=True)]
        physical = [link.physical for link in links]
        every = [int(every) for every in network.every]
        outgoing = numerics.state.subsystems
        self._table = ChannelTable(every, physical, catches_up, max_misses, step, outgoing)
        self.channels = self._table.rows
        self.channels["calculated"] = numerics.plan.subsystems["calculated"]
        slices = self.slices = list(zip(network.outputs.slices, network.inputs.slices, strict=True))
        self._inboxes = Inboxes(network.subsystems, slices, self.channels, self.given)
        self.age, self.compute_us = self._table.age, self._table.compute_us
        self.wire_us = self._table.wire_us
        self._view_dispatched()
        self._channels = [
            Channel(s, link, self._table, inbox, part, self.sent[:, part], catches_up[s])
            for s, (link, inbox, (_, part)) in enumerate(
                zip(links, self._inboxes.of, slices, strict=True)
            )
        ]
        self._of_name = {c.link.name: c for c in self._channels}
        self._polled = [c for c in self._channels if c.link.carrier is None]
        self._sent_together = [
            c.link.carrier is not None and c.pending is None for c in self._channels
        ]
        self._local = [c for c in self._polled if c.link.fileno() is None]
        self._catching_up = [c for c in self._channels if c.pending is not None]
        self._goes_back = np.array([link.rewinds is not None for link in links], dtype=bool)
        #: Channels of solvers that returned.
        self._returned: dict[int, Channel] = {}
        #: Shared by all links that have one: one poll of its socket serves them all.
        carriers = (link.carrier for link in links if link.carrier is not None)
        self._carrier: Carrier | None = next(carriers, None)
        self.remote = self._carrier is not None
        self.reports = Reports(self._carrier, self.links)
        self.times_of = self._inboxes.times_of
        self._missed = MissedSamples(self.links, self._table, self.reports)
        numerics.changes.set_parameter = self._set_parameter
        self._refused: dict[int, str] = {}
        self._demanding = [link for link in links if link.demands is not None]
        self._waiter: Waiter | None = None
        self._next_ns = 0
        self.rest_ns = 0
        self.ended: dict[str, str] = {}
        self.calculated: WaitingChannels

    def _view_dispatched(self) -> None:
        """Set views of what the master sends; polynomials of shape (order + 1, nu)."""
        plan, state = self.numerics.plan, self.numerics.state
        coefficients = int(plan.session["coefficients"][0])
        self.sent = state.inputs["polynomial"][:, :coefficients].T
        self._extrapolated = state.inputs["extrapolated"][:, :coefficients].T
        self._driven, self._demanded = plan.drives["input"], state.drives["demanded"]
        self._due = numbers(state.subsystems["dispatch"])
        self._h = numbers(state.subsystems["h"])
        self._t_start = numbers(state.subsystems["t_start"])
        self._tick = numbers(self.given.session["tick"])
        self._moved = numbers(state.session["parameters_moved"])

    def start(self, samples: Sequence[Sample]) -> None:
        """Use the initialized samples as those of tick 0."""
        self._inboxes.begin(samples)

    # --- the cut ------------------------------------------------------------------------------

    @property
    def taken(self) -> int:
        """Samples accepted so far."""
        return self._inboxes.taken

    def cut(self, tick: int, t_ns: int, elapsed_ns: int) -> None:
        """Fill the `StepInput` of this tick with arrived samples.

        Parameters
        ----------
        tick : int
            Number of the communication point.
        t_ns, elapsed_ns : int
            Its session time, and the time since the previous one, ns.

        Raises
        ------
        PeerLost
            If a subsystem is gone or has missed more ticks than its policy allows.
        """
        if self._carrier is not None:
            self._receive(self._carrier.clock() + LOOK_NS)
        for channel in self._polled:
            channel.link.receive()
        lost = self._inboxes.cut(tick, t_ns, elapsed_ns, self.rest_ns)
        self.ended.update(self._inboxes.new_ends())
        for link in self._demanding:
            while link.demands:
                self.numerics.changes.add(*link.demands.popleft())
        if lost >= 0:
            raise self._missed.too_many(lost)

    def _set_parameter(self, name: str, key: str, value: float) -> str:
        t = float(self.given.session["t"][0])
        return self._of_name[name].set_parameter(t, key, value)

    def fileno(self) -> int | None:
        """Descriptor shared by all remote subsystems; None if there are none."""
        return None if self._carrier is None else self._carrier.fileno()

    def receive_early(self, until_ns: int, *, first: bool) -> int:
        """Receive messages for the coming cut, while the master sleeps.

        Never computes a step, sends a heartbeat or accepts a connection.

        Parameters
        ----------
        until_ns : int
            Monotonic clock reading at which to stop, ns.
        first : bool
            First call since the slack: also polls subsystems that do not share the descriptor.

        Returns
        -------
        int
            Messages received.
        """
        messages = self._receive(until_ns)
        if not messages and self._carrier is not None:
            self._carrier.watch_again()
        for channel in self._polled if first else ():
            channel.link.receive()
        return messages

    def _receive(self, until_ns: int | None) -> int:
        """Receive from the carrier until `until_ns`, or everything; return the number of messages.

        Raises
        ------
        PeerLost
            If a subsystem is gone.
        """
        carrier, messages = self._carrier, 0
        if carrier is None:
            return 0
        if until_ns is None:
            carrier.drain()
        else:
            messages = carrier.receive(until_ns)
        for link in list(carrier.changed) if carrier.changed else ():
            link.receive()
            channel = self._of_name[link.name]
            if channel.has_returned:
                self._returned[channel.s] = channel
            del carrier.changed[link]
        return messages

    def receive_reports(self) -> None:
        """Receive all messages of remote subsystems, without a time limit."""
        if self._carrier is not None:
            self._carrier.drain()

    # --- dispatch -----------------------------------------------------------------------------

    def dispatch(self, t_ns: int, h_ns: int) -> None:
        """Send every due subsystem its inputs; the macro step is ``[t_ns, t_ns + h_ns]``."""
        if self._moved[0]:
            self._send_parameters()
        tick, self._next_ns = self._tick[0], t_ns + h_ns
        self._table.note_dispatch(t_ns, h_ns)
        others = []
        for channel, due, t, h in zip(
            self._channels, self._due, self._t_start, self._h, strict=True
        ):
            if not due:
                continue
            if self._sent_together[channel.s]:
                channel.link.dispatch(tick, t, h, channel.sent)
            else:
                others.append((channel, t, h))
        self._flush()
        for channel, t, h in others:
            if channel.pending is None:
                channel.link.dispatch(tick, t, h, channel.sent)
            else:
                own_ns = channel.every * h_ns
                channel.add_pending(tick, t, h, channel.sent, t_ns + own_ns, own_ns)
        self._send_pending()

    def _send_parameters(self) -> None:
        """Send subsystems the parameter values that stimuli have changed at this point."""
        state, changes = self.numerics.state, self.numerics.changes
        for p in np.flatnonzero(state.parameters["moved"]).tolist():
            own, value = self.numerics.parameters[p], float(state.parameters["value"][p])
            refused = self._set_parameter(own.subsystem, own.parameter.name, value)
            if refused and refused != self._refused.get(p):
                text = f"parameter {own.name} = {value:g} of its stimulus is refused: {refused}"
                changes.outcomes.append(("warning", "parameter_refused", own.subsystem, text))
            self._refused[p] = refused

    def run_local(self) -> None:
        """Compute the steps of in-process subsystems now, in the slack, not at the next cut."""
        for channel in self._local:
            channel.link.receive()
            if channel.pending is not None:
                channel.compute_pending()

    def upkeep(self) -> None:
        """Send heartbeats, accept connections and readmit solvers, in the slack."""
        if self._carrier is not None:
            self._carrier.upkeep(self._carrier.clock() + LOOK_NS)
            self.readmit()

    # --- solvers that are behind, or returned ------------------------------------------------

    @property
    def behind(self) -> bool:
        """Whether intervals wait for a solver's reply to the previous one."""
        return any(c.pending is not None and c.pending.waiting for c in self._catching_up)

    async def catch_up(self, until_ns: int) -> None:
        """Send waiting intervals to solvers that are `behind`, as fast as they reply.

        Runs while the master sleeps, until the monotonic clock reads `until_ns`.
        """

        def nothing_new() -> bool:
            before = self.taken
            if monotonic_ns() < until_ns:
                self.send_on()
            return self.taken == before

        waiter = Waiter([] if self._carrier is None else [self._carrier.fileno()])
        try:
            while self.behind and monotonic_ns() < until_ns:
                await waiter.wait(nothing_new)
        finally:
            waiter.close()

    def send_on(self) -> None:
        """Accept samples, and send each solver that has replied its next interval."""
        self._receive(None)
        for channel in self._polled:
            channel.link.receive()
        self._inboxes.accept(self._next_ns)
        self._send_pending()

    def _send_pending(self) -> None:
        """Send each solver that catches up its next interval once the previous one is complete."""
        for channel in self._catching_up:
            channel.send_pending()
        if self._catching_up:
            self._flush()

    def _flush(self) -> None:
        if self._carrier is not None:
            self._carrier.flush()

    def readmit(self) -> None:
        """Initialize reconnected solvers at the next communication point, without waiting.

        They start from the inputs predicted from the newest samples.
        """
        while self._returned:
            _, channel = self._returned.popitem()
            if channel.has_returned:  # and has not been lost again
                net, part, now = self.network, channel.inputs, float(self.given.session["t"][0])
                u0 = InputPolynomial(now, self._extrapolated[:, part])(self._next_ns / 1e9)
                own = (self._driven >= part.start) & (self._driven < part.stop)
                u0[self._driven[own] - part.start] = self._demanded[own]
                channel.restart(self._next_ns, np.clip(u0, net.u_min[part], net.u_max[part]))

    # --- as fast as possible ------------------------------------------------------------------

    def answered(self, t_ns: int) -> bool:
        """Poll, and return whether every stepped solver due by `t_ns` has replied."""
        self._receive(None)
        while (s := self._table.first_outstanding(t_ns)) >= 0:
            channel = self._channels[s]
            if channel.link.carrier is not None:
                return False
            channel.link.receive()
            if not self._table.answered[s]:
                return False
        return True

    async def collect(self, t_ns: int, timeout: float, stopping: Callable[[], bool]) -> None:
        """Wait until `answered` or `stopping`; raise `PeerLost` after `timeout` [s]."""
        if self._carrier is not None:
            self._inboxes.wait_from(self._carrier.session_time())
        if self.answered(t_ns):
            return
        deadline = monotonic_ns() + int(timeout * 1e9)
        while not self.answered(t_ns) and not stopping():
            if monotonic_ns() > deadline:
                missing = self._table.first_outstanding(t_ns)
                raise self._missed.no_answer(missing, t_ns, timeout)
            if self._waiter is None:
                fds = (link.fileno() for link in self.links)
                present = (fd for fd in fds if fd is not None)
                self._waiter = Waiter(present, block_s=STANDSTILL_S)
            self.readmit()
            await self._waiter.wait(lambda: not self.answered(t_ns))

    def reported_event(self) -> float | None:
        """Session time [s] of the first discontinuity in samples that wait for the next cut.

        Considers only subsystems that can go back to it.
        """
        first = self._inboxes.first_event(self._goes_back)
        return first if np.isfinite(first) else None

    def send_back(self, t_ns: int) -> None:
        """Make all subsystems that can go back end their last step at `t_ns` instead.

        The samples of the others wait for the point to which they have stepped.
        """
        length_ns = t_ns - round(float(self.given.session["t"][0]) * 1e9)
        for s in np.flatnonzero(self._goes_back & (self._table.answered != 0)).tolist():
            self._channels[s].go_back(self._tick[0], t_ns, length_ns)

    # --- steps that are repeated -------------------------------------------------------------

    def keep_states(self, setting: str, instead: str) -> None:
        """Make all links keep the state before each step.

        `setting` is the key that requires it, `instead` a setting that does not. Raises
        `ConfigError` if a subsystem cannot repeat a step.
        """
        unable = [link.name for link in self.links if link.repeats is None]
        if unable:
            raise ConfigError(
                f"{setting}: {', '.join(unable)} cannot repeat a step with other inputs; use "
                f"{instead}, or a model in this process that saves and restores its state"
            )
        for link in self.links:
            if link.rewinds is not None:
                link.rewinds.keep_states()
        self.calculated = WaitingChannels(self.numerics.plan, self.numerics.state)

    def waiting_outputs(self, t: float) -> Floats:
        """Outputs that wait for the next cut, at `t` [s], with calculated channels, shape (ny,)."""
        y = self._inboxes.waiting()
        self.calculated.fill(y, t)
        return y

    def repeat(self, t_ns: int, h: float, coefficients: Floats) -> None:
        """Repeat the step of `h` [s] to `t_ns` in all subsystems, with other inputs.

        `coefficients` have the shape of `sent`. All links must have `repeats`.
        """
        for channel in self._channels:
            channel.repeat(t_ns, h, coefficients[:, channel.inputs])

    def parts(self, s: int) -> list[tuple[slice, slice]]:
        """Inputs and outputs of the independent parts of a subsystem, numbered as in the session.

        Parts do not influence each other within a step: the members of a group, for example.
        """
        repeats = self.links[s].repeats
        assert repeats is not None
        outputs, inputs = self.slices[s]
        return [
            (
                slice(inputs.start + u.start, inputs.start + u.stop),
                slice(outputs.start + y.start, outputs.start + y.stop),
            )
            for u, y in repeats.apart
        ]

    def tried(self, s: int, h: float, coefficients: Floats) -> Floats:
        """Outputs of a subsystem at the end of its step if it were made with other inputs."""
        repeats = self.links[s].repeats
        assert repeats is not None
        return repeats.tried(h, coefficients)

    def close(self) -> None:
        """Stop watching the links."""
        if self._waiter is not None:
            self._waiter.close()
            self._waiter = None


def load_channels() -> None:
    """Load or compile the functions of all exchanges."""
    channels = ChannelTable([], [], [], [], 0.0, table(state.SubsystemState, 0))
    Inboxes([], [], channels.rows, empty_input(0, 0, 0))
