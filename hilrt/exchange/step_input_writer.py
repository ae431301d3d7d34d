"""Fills the `StepInput` of each cut: the only place of the exchange that knows its fields."""

from __future__ import annotations

import numpy as np

from hilrt.errors import SolverError
from hilrt.exchange.channel_table import Table
from hilrt.solver import Sample
from hilrt.step.step_state import StepInput
from hilrt.tables.network import Network

#: Fields of the table `hilrt.exchange.channel_table.CUT` that are copied at each cut.
_OF_SUBSYSTEMS = ("busy", "late", "due", "reached", "covered", "rejoined")


class StepInputWriter:
    """Writes one `StepInput`, in place.

    Parameters
    ----------
    network : Network
    cut : table
        `ChannelTable.cut`.
    derivatives : int
        Number of output derivatives to keep.

    Attributes
    ----------
    given : StepInput
    """

    def __init__(self, network: Network, cut: Table, derivatives: int) -> None:
        n_outputs, n_inputs = len(network.outputs), len(network.inputs)
        self.given = StepInput.empty(n_outputs, n_inputs, len(cut), derivatives)
        self._names = network.subsystems
        self._rejoined = cut["rejoined"]
        self._copied = [(getattr(self.given, name), cut[name]) for name in _OF_SUBSYSTEMS]
        self._slices = list(zip(network.outputs.slices, network.inputs.slices, strict=True))
        # Views are filled in half the time that parts of an array are assigned to.
        self._views = [
            (self.given.y[part], self.given.t_valid[part], self.given.fresh[part])
            for part in network.outputs.slices
        ]

    def begin(self) -> None:
        """A new interval: nothing has arrived in it."""
        given = self.given
        given.fresh.fill(False)
        given.event.fill(False)
        self._rejoined.fill(0)
        given.has_middle = False

    def take(self, s: int, sample: Sample, t_end: float) -> None:
        """Enter a sample of subsystem `s`; where it says nothing else, it is valid at `t_end` [s].

        Raises
        ------
        SolverError
            If it does not have as many outputs as were announced.
        """
        given = self.given
        part, inputs = self._slices[s]
        y, t_valid, fresh = self._views[s]
        if sample.y.shape != y.shape:
            raise SolverError(
                f"subsystem {self._names[s]!r}: {sample.y.shape} outputs arrived, "
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

    def rejoin(self, s: int) -> None:
        """The newest sample of subsystem `s` is the first one after it was lost."""
        self._rejoined[s] = self.given.event[s] = True

    def clock_error(self, s: int, bound: float) -> None:
        """The clock of bench `s` is known to within `bound` [s]; NaN: not yet."""
        self.given.clock_error[s] = bound

    def finish(self, tick: int, t: float, elapsed: float, rest: float, regular: bool) -> StepInput:
        """Enter what belongs to the communication point, with what the cut has found."""
        given = self.given
        given.tick, given.t, given.elapsed, given.rest = tick, t, elapsed, rest
        given.regular = regular
        for field, found in self._copied:
            field[...] = found
        return given
