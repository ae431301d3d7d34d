"""Inboxes of arriving samples, and the compiled cut, the only writer of `StepInput`.

A connection only puts decoded samples into the rows of its subsystem as they arrive. A solver's
sample, with the end of its interval in `CHANNELS.answer_ns`, waits for the cut at or after that
end. A bench's samples are merged signal by signal: each signal keeps the newest value whose time of
validity is known. Once per tick, `cut` decides which samples are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hilrt.compilation.compiled import bound, compiled
from hilrt.errors import SolverError
from hilrt.exchange.channel_table import update_channels
from hilrt.exchange.peer_times import PeerTimes, count_answer, peer_times
from hilrt.expressions.evaluate import evaluate
from hilrt.solver import Floats, Sample
from hilrt.tables.channels import ChannelRow, ExchangeRow, InboxRow, InboxTables
from hilrt.tables.given import GivenInput, GivenOutput, GivenSubsystem, StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table, as_bytes, numbers, table
from hilrt.tables.state import State
from hilrt.timing.histogram import BINS

#: Fields of `InboxRow` that are 0 if no sample waits.
WAITING: Final = (
    *("samples", "has_middle", "derivatives", "has_realised", "event", "clock_known", "timed"),
)
#: Fields of `InboxRow` for samples from another process.
TIMED: Final = ("round_trip_us", "way_us")
#: Parts of a sample: times of validity, outputs within the step, measured inputs, uncertainty.
TIMES, INSIDE, REALISED, CLOCK = (1 << k for k in range(4))


@compiled
def cut(
    inboxes: InboxTables, given: StepInput, tick: int, t_ns: int, elapsed_ns: int, rest_ns: int
) -> int:
    """Fill the step input of a communication point.

    Parameters
    ----------
    inboxes : InboxTables
    given : StepInput
    tick, t_ns : int
        Number and session time [ns] of the point.
    elapsed_ns, rest_ns : int
        Time since the point before, and `StepInput.rest`, ns.

    Returns
    -------
    int
        First subsystem that exceeded its limit of consecutive missed ticks; -1 if none.
    """
    accept(inboxes, given, t_ns)
    inboxes.exchange[0].open = 0
    session = given.session[0]
    session.tick, session.t, session.elapsed = tick, t_ns / 1e9, elapsed_ns / 1e9
    session.rest = rest_ns / 1e9
    channels, subsystems = inboxes.channels, given.subsystems
    regular, lost = update_channels(channels, subsystems, tick, t_ns, elapsed_ns / 1e9)
    session.regular = regular
    return lost


@compiled
def accept(inboxes: InboxTables, given: StepInput, t_ns: int) -> None:
    """Move waiting samples valid by `t_ns` into the step input; the first one clears it."""
    if inboxes.exchange[0].open == 0:
        _begin(inboxes, given)
    for s in range(len(inboxes.channels)):
        channel, inbox, row = inboxes.channels[s], inboxes.subsystems[s], given.subsystems[s]
        # The sample of a longer step waits for the step's end.
        if channel.answered == 0 or (channel.physical == 0 and channel.answer_ns > t_ns):
            continue
        end = channel.answer_ns / 1e9
        if channel.physical != 0:
            channel.newest = inbox.newest
            if inbox.clock_known != 0:
                row.clock_error = inbox.clock_error
        else:
            row.reached, row.covered = end, end - channel.newest
            channel.newest, channel.busy = end, 0
        if inbox.event != 0:
            row.event = 1
        _note_times(inboxes, row, s)
        if inbox.has_middle != 0 and given.session[0].has_middle == 0:
            given.session[0].has_middle = 1
            for i in range(len(given.outputs)):
                given.outputs[i].y_mid = given.outputs[i].y_mean = np.nan
        for i in range(inbox.outputs_begin, inbox.outputs_end):
            arrived, output = inboxes.outputs[i], given.outputs[i]
            if arrived.fresh != 0:
                arrived.fresh, output.fresh = 0, 1
                output.y = arrived.y
                output.t_valid = end if np.isnan(arrived.t_valid) else arrived.t_valid
            if inbox.has_middle != 0:
                output.y_mid, output.y_mean = arrived.y_mid, arrived.y_mean
            for m in range(inbox.derivatives):
                output.dy[m] = arrived.dy[m]
        if inbox.has_realised != 0:
            for i in range(inbox.inputs_begin, inbox.inputs_end):
                given.inputs[i].realised = inboxes.inputs[i].realised
        channel.answered = 0
        inbox.samples = inbox.has_middle = inbox.derivatives = inbox.has_realised = 0
        inbox.event = inbox.clock_known = inbox.timed = 0


@compiled
def _begin(inboxes: InboxTables, given: StepInput) -> None:
    """Begin an interval without samples."""
    inboxes.exchange[0].open, given.session[0].has_middle = 1, 0
    for i in range(len(given.outputs)):
        given.outputs[i].fresh = 0
    for s in range(len(given.subsystems)):
        given.subsystems[s].event = given.subsystems[s].rejoined = 0


@compiled
def _note_times(inboxes: InboxTables, row: GivenSubsystem, s: int) -> None:
    """Count an accepted sample and its times; record whether it readmits subsystem `s`."""
    channel, inbox, exchange = inboxes.channels[s], inboxes.subsystems[s], inboxes.exchange[0]
    exchange.taken += inbox.samples
    channel.compute_us = inbox.compute_us
    if channel.restarting != 0:
        row.rejoined = row.event = 1
        channel.restarting = 0
        channel.rejoined += 1
    elif inbox.timed != 0:
        waited = inbox.t_arrived - exchange.waits_from
        times = inbox.compute_us, inbox.round_trip_us, inbox.way_us, waited
        channel.wire_us = count_answer(*times, inboxes.counts[s], inboxes.longest_ns[s])


@compiled
def put(
    inboxes: InboxTables,
    s: int,
    parts: int,
    derivatives: int,
    t_arrived: float,
    compute_us: float,
    event_t: float,
    uncertainty: float,
) -> None:
    """Merge the arriving sample of subsystem `s` into its inbox.

    Parameters
    ----------
    inboxes : InboxTables
        The first rows of its `arriving` and `measured` hold the sample.
    s : int
    parts : int
        Sum of `TIMES`, `INSIDE`, `REALISED` and `CLOCK`: parts that the sample has.
    derivatives : int
        Number of time derivatives that it has.
    t_arrived, compute_us : float
        Session time [s]; computing time [µs].
    event_t : float
        Session time of a discontinuity, s; NaN without one.
    uncertainty : float
        Uncertainty of a bench's clock, s; used with `CLOCK`.
    """
    channel, inbox = inboxes.channels[s], inboxes.subsystems[s]
    begin, n = inbox.outputs_begin, inbox.outputs_end - inbox.outputs_begin
    latest = math.inf
    if channel.physical != 0:
        latest = _note_validity(inboxes, s, parts, t_arrived, uncertainty)
    for i in range(n):
        arrived, output = inboxes.arriving[i], inboxes.outputs[begin + i]
        if parts & TIMES == 0:
            output.t_valid = t_arrived if channel.physical != 0 else np.nan
        elif np.isnan(arrived.t_valid):
            continue  # an earlier sample may have a value
        else:
            output.t_valid = latest if arrived.t_valid > latest else arrived.t_valid
        output.y, output.fresh = arrived.y, 1
    if parts & INSIDE != 0:
        inbox.has_middle = 1
        for i in range(n):
            output = inboxes.outputs[begin + i]
            output.y_mid, output.y_mean = inboxes.arriving[i].y_mid, inboxes.arriving[i].y_mean
    if derivatives > 0:
        inbox.derivatives = max(inbox.derivatives, derivatives)
        for i in range(n):
            for m in range(derivatives):
                inboxes.outputs[begin + i].dy[m] = inboxes.arriving[i].dy[m]
    if parts & REALISED != 0:
        inbox.has_realised = 1
        for i in range(inbox.inputs_end - inbox.inputs_begin):
            inboxes.inputs[inbox.inputs_begin + i].realised = inboxes.measured[i].realised
    if not np.isnan(event_t):
        if inbox.event == 0 or event_t < inbox.event_t:
            inbox.event_t = event_t
        inbox.event = 1
    inbox.compute_us, inbox.t_arrived = compute_us, t_arrived
    inbox.samples += 1
    channel.answered = 1


@compiled
def _note_validity(
    inboxes: InboxTables, s: int, parts: int, t_arrived: float, uncertainty: float
) -> float:
    """Store when a bench's newest value is valid, and its clock's error.

    Return the upper limit of times of validity: finite if they are further ahead of the arrival
    than the clock's uncertainty explains.
    """
    inbox, latest, ahead = inboxes.subsystems[s], math.inf, 0.0
    known = uncertainty if parts & CLOCK != 0 else 0.0
    n = inbox.outputs_end - inbox.outputs_begin
    newest = t_arrived
    if parts & TIMES != 0 and n > 0:
        newest = inbox.newest
        for i in range(n):
            if inboxes.arriving[i].t_valid > newest:
                newest = inboxes.arriving[i].t_valid
        if newest > t_arrived and not newest - t_arrived <= known:
            ahead = newest - t_arrived
            latest = newest = t_arrived
    inbox.newest = newest
    if parts & CLOCK != 0 or ahead > 0.0:
        inbox.clock_known = 1
        inbox.clock_error = ahead if ahead > known else known
    return latest


class Inbox:
    """Destination of the samples of one subsystem.

    Parameters
    ----------
    name : str
    s : int
        Number of the subsystem.
    inboxes : InboxTables
    merge : callable
        `put`, bound to them.
    ending : dict of int to str
        Number and reason of each subsystem whose simulation ends with the waiting sample.
    """

    __slots__ = (
        *("_answered", "_dy", "_ending", "_fresh", "_merge", "_name", "_realised", "_row", "_s"),
        *("_shape", "_t_valid", "_y", "_y_mean", "_y_mid"),
    )

    def __init__(
        self,
        name: str,
        s: int,
        inboxes: InboxTables,
        merge: Callable[..., None],
        ending: dict[int, str],
    ) -> None:
        self._name, self._s, self._merge, self._ending = name, s, merge, ending
        rows = inboxes.subsystems
        self._row = {field: numbers(rows[field][s : s + 1]) for field in (*WAITING, *TIMED)}
        self._answered = numbers(inboxes.channels["answered"][s : s + 1])
        begin, end = int(rows["outputs_begin"][s]), int(rows["outputs_end"][s])
        self._shape, self._fresh = (end - begin,), inboxes.outputs["fresh"][begin:end]
        # Filling a view takes half the time of assigning to part of an array.
        arriving = inboxes.arriving[: end - begin]
        self._y, self._t_valid = arriving["y"], arriving["t_valid"]
        self._y_mid, self._y_mean = arriving["y_mid"], arriving["y_mean"]
        self._dy = arriving["dy"].T
        inputs = int(rows["inputs_end"][s] - rows["inputs_begin"][s])
        self._realised = inboxes.measured["realised"][:inputs]

    def put(
        self,
        sample: Sample,
        t_arrived: float,
        *,
        uncertainty: float | None = None,
        round_trip_us: float | None = None,
        way_us: float = math.nan,
    ) -> None:
        """See `hilrt.link.SampleSink.put`."""
        y, parts, derivatives = sample.y, 0, 0
        if y.shape != self._shape:
            raise SolverError(
                f"subsystem {self._name!r}: {y.shape} outputs arrived, "
                f"{self._shape[0]} were announced"
            )
        self._y[...] = y
        if sample.t_valid is not None:
            parts = TIMES
            self._t_valid[...] = sample.t_valid
        if sample.y_mid is not None or sample.y_mean is not None:
            parts += INSIDE
            self._y_mid[...] = math.nan if sample.y_mid is None else sample.y_mid
            self._y_mean[...] = math.nan if sample.y_mean is None else sample.y_mean
        if sample.dy is not None:
            derivatives = min(len(sample.dy), len(self._dy))
            self._dy[:derivatives] = sample.dy[:derivatives]
        if sample.realised is not None:
            parts += REALISED
            self._realised[...] = sample.realised
        if uncertainty is not None:
            parts += CLOCK
        if round_trip_us is not None:
            row = self._row
            row["timed"][0], row["round_trip_us"][0], row["way_us"][0] = 1, round_trip_us, way_us
        if sample.ended:
            self._ending[self._s] = sample.ended
        self._merge(
            self._s,
            parts,
            derivatives,
            t_arrived,
            sample.compute_us,
            math.nan if sample.event_t is None else sample.event_t,
            0.0 if uncertainty is None else uncertainty,
        )

    def discard(self) -> None:
        """Empty the inbox: the step was undone, or the subsystem restarts."""
        for field in WAITING:
            self._row[field][0] = 0
        self._fresh.fill(0)
        self._answered[0] = 0
        self._ending.pop(self._s, None)


class Inboxes:
    """The inboxes of all subsystems, and the compiled functions that empty them.

    Parameters
    ----------
    names : sequence of str
        The subsystems.
    slices : sequence of (slice, slice)
        Outputs and inputs of each.
    channels : table, one record of `CHANNELS` per subsystem
    given : StepInput
        Only the two functions write samples into it.

    Attributes
    ----------
    of : list of Inbox
        By subsystem.
    cut, accept : callable
        The functions of these names, bound to these tables.
    """

    def __init__(
        self,
        names: Sequence[str],
        slices: Sequence[tuple[slice, slice]],
        channels: Table[ChannelRow],
        given: StepInput,
    ) -> None:
        n = len(names)
        rows = table(InboxRow, n)
        for row, (outputs, inputs) in zip(rows, slices, strict=True):
            row.outputs_begin, row.outputs_end = outputs.start, outputs.stop
            row.inputs_begin, row.inputs_end = inputs.start, inputs.stop
        self._tables = InboxTables(
            table(ExchangeRow, 1),
            channels,
            rows,
            table(GivenOutput, len(given.outputs)),
            table(GivenInput, len(given.inputs)),
            table(GivenOutput, max((y.stop - y.start for y, _ in slices), default=0)),
            table(GivenInput, max((u.stop - u.start for _, u in slices), default=0)),
            np.zeros((n, 3, BINS), np.int64),
            np.zeros((n, 3), np.int64),
        )
        self._names, self._ending = names, dict[int, str]()
        self._exchange = self._tables.exchange
        self._exchange["waits_from"] = math.nan
        merge = bound(put, self._tables, numbers=(0, 0, 0, 0.0, 0.0, 0.0, 0.0))
        self.of = [
            Inbox(name, s, self._tables, merge, self._ending) for s, name in enumerate(names)
        ]
        tables = self._tables, given
        self.cut: Callable[[int, int, int, int], int] = bound(cut, *tables, numbers=(0, 0, 0, 0))
        self.accept: Callable[[int], None] = bound(accept, *tables, numbers=(0,))

    def begin(self, samples: Sequence[Sample]) -> None:
        """Accept the initialized samples, at session time 0 s."""
        for inbox, sample in zip(self.of, samples, strict=True):
            inbox.put(sample, 0.0)
        self._tables.subsystems["compute_us"] = 0.0  # no step has been made
        self._ending.clear()
        self.accept(0)

    @property
    def taken(self) -> int:
        """Samples accepted so far."""
        return int(self._exchange["taken"][0])

    def wait_from(self, t: float) -> None:
        """Record that the master waits for samples from `t` on, session time in s."""
        self._exchange["waits_from"] = t

    def times_of(self, s: int) -> PeerTimes:
        """Response times of subsystem number `s`."""
        return peer_times(self._tables.counts[s], self._tables.longest_ns[s])

    def new_ends(self) -> dict[str, str]:
        """Subsystems whose last sample was accepted since the last call, with the reasons."""
        if not self._ending:  # called at every tick, and a view of a field takes 6 us
            return {}
        found = [s for s in self._ending if not self._tables.channels["answered"][s]]
        return {self._names[s]: self._ending.pop(s) for s in found}

    def waiting(self) -> Floats:
        """Values of all waiting outputs, shape (ny,)."""
        values: Floats = self._tables.outputs["y"].copy()
        return values

    def first_event(self, among: NDArray[np.bool_]) -> float:
        """First discontinuity in waiting samples, session time in s; infinite if none."""
        rows = self._tables.subsystems
        reported = (self._tables.channels["answered"] != 0) & (rows["event"] != 0) & among
        return float(rows["event_t"][reported].min(initial=math.inf))


class WaitingChannels:
    """Calculated channels for waiting samples, computed in advance without changing the state.

    Parameters
    ----------
    plan : Plan
    state : State
        At the communication point before the samples.
    """

    def __init__(self, plan: Plan, state: State) -> None:
        self._state = state
        self._registers, self._memory = state.registers.copy(), state.memory.copy()
        self._read = plan.readings["output"]
        self._outputs, self._found = plan.calculated["output"], plan.calculated["register"]
        self._evaluate = bound(
            evaluate,
            plan.operations,
            plan.lookup_points,
            self._registers,
            self._memory,
            numbers=(0.0,),
        )

    def fill(self, y: Floats, t: float) -> None:
        """Compute the channels in `y`, shape (ny,), from its other values at `t` [s]."""
        if not len(self._outputs):
            return
        registers = self._registers
        as_bytes(registers)[...] = as_bytes(self._state.registers)
        as_bytes(self._memory)[...] = as_bytes(self._state.memory)
        registers["value"][: len(self._read)] = y[self._read]
        registers["t"][: len(self._read)] = t
        self._evaluate(t)
        y[self._outputs] = registers["value"][self._found]
