"""Fills the `StepInput` of each cut: the only place of the exchange that knows its fields."""

from __future__ import annotations

import numpy as np

from hilrt.errors import SolverError
from hilrt.solver import Sample
from hilrt.tables.given import StepInput
from hilrt.tables.network import Network


class StepInputWriter:
    """Writes one `StepInput`, in place.

    Parameters
    ----------
    network : Network
    given : StepInput
    """

    def __init__(self, network: Network, given: StepInput) -> None:
        self._names = network.subsystems
        self._slices = list(zip(network.outputs.slices, network.inputs.slices, strict=True))
        # Views are filled in half the time that parts of an array are assigned to.
        session, subsystems, outputs = given.session, given.subsystems, given.outputs
        self._tick, self._t, self._elapsed = session["tick"], session["t"], session["elapsed"]
        self._rest, self._regular = session["rest"], session["regular"]
        self._has_middle = session["has_middle"]
        self._event, self._rejoined = subsystems["event"], subsystems["rejoined"]
        self._clock_error = subsystems["clock_error"]
        self._fresh, self._y_mid, self._dy = (outputs[key] for key in ("fresh", "y_mid", "dy"))
        self._realised = given.inputs["realised"]
        self._views = [
            (outputs["y"][part], outputs["t_valid"][part], outputs["fresh"][part])
            for part in network.outputs.slices
        ]

    def begin(self) -> None:
        """A new interval: nothing has arrived in it."""
        self._fresh.fill(0)
        self._event.fill(0)
        self._rejoined.fill(0)
        self._has_middle[0] = 0

    def take(self, s: int, sample: Sample, t_end: float) -> None:
        """Enter a sample of subsystem `s`; where it says nothing else, it is valid at `t_end` [s].

        Raises
        ------
        SolverError
            If it does not have as many outputs as were announced.
        """
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
            fresh.fill(1)
        else:  # an earlier sample in the same cut may have what this one has not
            new = ~np.isnan(sample.t_valid)
            np.copyto(y, sample.y, where=new)
            np.copyto(t_valid, sample.t_valid, where=new)
            fresh |= new
        if sample.y_mid is not None:
            if not self._has_middle[0]:
                self._y_mid.fill(np.nan)
            self._y_mid[part] = sample.y_mid
            self._has_middle[0] = 1
        if sample.dy is not None:
            n = min(len(sample.dy), self._dy.shape[1])
            self._dy[part, :n] = sample.dy[:n].T
        if sample.realised is not None:
            self._realised[inputs] = sample.realised
        if sample.event_t is not None:
            self._event[s] = 1

    def rejoin(self, s: int) -> None:
        """The newest sample of subsystem `s` is the first one after it was lost."""
        self._rejoined[s] = self._event[s] = 1

    def clock_error(self, s: int, bound: float) -> None:
        """The clock of bench `s` is known to within `bound` [s]; NaN: not yet."""
        self._clock_error[s] = bound

    def finish(self, tick: int, t: float, elapsed: float, rest: float, regular: int) -> None:
        """Enter what belongs to the communication point."""
        self._tick[0], self._t[0], self._elapsed[0] = tick, t, elapsed
        self._rest[0], self._regular[0] = rest, regular
