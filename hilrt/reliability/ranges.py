"""Declared ranges of a session's outputs as text, and their consequences between ticks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilrt.errors import SessionFault
from hilrt.solver import Floats
from hilrt.tables.given import StepInput
from hilrt.tables.network import Network
from hilrt.tables.plan import RANGE_SAFE, RANGE_USE, Plan
from hilrt.tables.ports import Bools
from hilrt.tables.state import State

#: Remedy for a value that is not used.
REMEDY = 'check the sensor, correct the range, or set out_of_range = "use" for it'


@dataclass(frozen=True)
class Ranges:
    """Ranges of the outputs, as used by `hilrt.reliability.guard`.

    Attributes
    ----------
    network : Network
    plan : Plan
    """

    network: Network
    plan: Plan

    def outside(self, y: Floats) -> Bools:
        """Mark values of `y`, shape (ny,), that are outside; NaN always is."""
        low, high = self.plan.outputs["low"], self.plan.outputs["high"]
        declared = np.isfinite(low) | np.isfinite(high)
        found: Bools = declared & ~((low <= y) & (y <= high))
        return found

    def withheld(self, y: Floats) -> Bools:
        """Mark values of `y`, shape (ny,), that are not used."""
        found: Bools = self.outside(y) & (self.plan.outputs["range_policy"] != RANGE_USE)
        return found

    def brings_down(self, y: Floats) -> list[str]:
        """Texts about values that trigger the safe profile at once."""
        at_once = self.outside(y) & (self.plan.outputs["range_policy"] == RANGE_SAFE)
        return [self.text(i, float(y[i])) for i in _rows(at_once)]

    def refuse(self, y: Floats) -> None:
        """Raise `SessionFault` if a value of `y`, shape (ny,), forbids arming the session.

        Before the first tick there is no earlier value to hold.
        """
        if texts := [self.text(i, float(y[i])) for i in _rows(self.withheld(y))]:
            raise SessionFault(f"before the first tick: {'; '.join(texts)}; {REMEDY}")

    def ending(self, state: State, given: StepInput) -> list[str]:
        """Text about the samples that ended the session."""
        found = []
        for i in _rows(state.outputs["value_fault"] != 0):
            out, value = state.outputs[i], float(state.outputs["newest"][i])
            misses = self.plan.subsystems[self.plan.outputs[i].subsystem].max_misses
            if out.withheld and self.plan.outputs[i].range_policy == RANGE_SAFE:
                why = 'its out_of_range is "safe"'
            else:
                points = out.unusable_points
                why = f"no usable sample for {points} ticks, late.max_misses is {misses}"
                why += f"; {REMEDY}" if out.withheld else ""
            found.append(f"{self.text(i, value)} ({why})")
        return found

    def text(self, i: int, value: float) -> str:
        """A value of output `i` as text, with its declared range."""
        outputs = self.network.outputs
        ports = outputs.ports.values()
        low, high = next((p.min, p.max) for part, p in ports if part.start <= i < part.stop)
        text = f"{outputs.names[i]} = {value:.6g} {outputs.units[i]}".rstrip()
        bounds = [f"below {low:g}"] if value < low else []
        bounds += [f"above {high:g}"] if value > high else []
        text += f" is {bounds[0] if bounds else 'not a finite number'}"
        if np.isfinite(low) and np.isfinite(high):
            return f"{text}: its declared range is {low:g} to {high:g}"
        return text + (", a declared limit" if bounds else "")


def _rows(marked: Bools) -> list[int]:
    rows: list[int] = np.flatnonzero(marked).tolist()
    return rows
