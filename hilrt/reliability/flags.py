"""Reliability: flags with causes, hysteresis and the session's verdict (METHODS section 9).

Every check is a ratio "measure over threshold" of one thing (an output, an input, a bond, a
subsystem, the session) and one cause. All checks stand in one flat array, so that a step costs a
handful of vector operations. A flag is raised as soon as its ratio reaches 1, so that a spike
shows; it clears when the ratio has stayed below one half for `clear_time`, so that noise does not
chatter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hilrt.reliability.measures import measure, measure_at_bonds, raise_and_clear
from hilrt.solver import Floats
from hilrt.tables.network import Bools, Ints, Network

if TYPE_CHECKING:
    from hilrt.step.plan import Plan
    from hilrt.step.step_state import StepInput, StepState

#: Causes that are measured at every tick of every session, in the order of `measure_always`.
ALWAYS: Final = (
    *("connection_defect", "input_limited", "sample_implausible", "alarm"),
    *("sample_late", "rejoined", "clock_uncertain", "event_inside_step"),
    *("step_minimum", "deadline_missed"),
)
#: Causes that are measured at every tick of every session with bonds, in the order of
#: `measure_bond_causes`.
OF_BONDS: Final = (
    *("power_residual", "tracking_error", "energy_drift"),
    *("correction_capped", "correction_shadow"),
)
#: Causes whose thresholds are relative to a running scale.
RELATIVE: Final = (
    "connection_defect",
    "output_defect",
    "power_residual",
    "energy_drift",
    "tracking_error",
)


@dataclass(frozen=True)
class Checks:
    """Which checks a session has.

    Attributes
    ----------
    causes : list of str
        Causes in the order of `groups`.
    groups : list of slice
        The checks of each cause in the flat array.
    where : list of str
        What each check watches, for people.
    """

    causes: list[str]
    groups: list[slice]
    where: list[str]

    @cached_property
    def used(self) -> Ints:
        """Causes that have anything to watch."""
        return np.array([c for c, g in enumerate(self.groups) if g.stop > g.start], dtype=np.intp)

    @cached_property
    def first(self) -> Ints:
        """First check of each used cause."""
        return np.array([self.groups[c].start for c in self.used], dtype=np.intp)

    @cached_property
    def always(self) -> Ints:
        """First check of each of the causes `ALWAYS`."""
        return self._starts(ALWAYS)

    @cached_property
    def of_bonds(self) -> Ints:
        """First check of each of the causes `OF_BONDS`."""
        return self._starts(OF_BONDS)

    def _starts(self, causes: Sequence[str]) -> Ints:
        starts = [self.groups[self.causes.index(cause)].start for cause in causes]
        return np.array(starts, dtype=np.intp)

    def __len__(self) -> int:
        return len(self.where)

    def cause_of(self, check: int) -> int:
        """Index of the cause that a check belongs to."""
        return next(c for c, group in enumerate(self.groups) if group.start <= check < group.stop)


def build_checks(
    network: Network, tests_errors: bool = False, alarms: Sequence[str] = (), acting: bool = True
) -> Checks:
    """All checks that the topology has something to watch for.

    Parameters
    ----------
    tests_errors : bool
        Whether the errors of the inputs are estimated.
    alarms : sequence of str
        Names of the alarms.
    acting : bool
        Corrections act; otherwise they are only computed.
    """
    bonds = [bond.name for bond in network.bonds.tables]
    watched = {
        "sample_late": network.subsystems,
        "rejoined": network.subsystems,
        "sample_implausible": network.outputs.names,
        "connection_defect": network.inputs.names,
        "output_defect": network.outputs.names,
        "error_estimate": _estimates(network, acting) if tests_errors else [],
        "power_residual": bonds,
        "energy_drift": bonds,
        "tracking_error": bonds,
        "correction_capped": bonds,
        "correction_shadow": bonds,
        "model_untrusted": network.outputs.names,
        "event_inside_step": network.subsystems,
        "input_limited": network.inputs.names,
        "step_minimum": ["session"],
        "deadline_missed": ["session"],
        "clock_uncertain": network.subsystems,
        "alarm": list(alarms),
    }
    groups: list[slice] = []
    where: list[str] = []
    for names in watched.values():
        groups.append(slice(len(where), len(where) + len(names)))
        where += names
    return Checks(list(watched), groups, where)


def _estimates(network: Network, acting: bool) -> list[str]:
    """Inputs whose error is estimated, with what the estimate is worth."""
    through = network.feedthrough.any(axis=1)
    if acting:  # with its feedthrough known, an output is as if evaluated with the true inputs
        through &= ~network.corrected_efforts("feedthrough")
    marked = ((network.L != 0.0) & through).any(axis=1)
    return [
        f"{name} (indicator)" if mark else name
        for name, mark in zip(network.inputs.names, marked, strict=True)
    ]


class FlagChange(NamedTuple):
    """A flag that was raised or cleared at session time `t` [s]."""

    t: float
    cause: str
    where: str
    raised: bool


@dataclass(slots=True)
class Monitor:
    """State of all flags; `update` is the reliability stage of the slack.

    Attributes
    ----------
    ratio, last_high : ndarray, shape (n checks,)
        Measure over threshold, and when it was last at or above one half [s].
    active : ndarray of bool, shape (n checks,)
    any_active : ndarray of bool, shape (n causes,)
    count, seconds : ndarray, shape (n causes,)
        How often a flag of the cause was raised, and how long any of them was up, s.
    magnitude, scale, peak : ndarray, shape (nu + ny + nb,)
        Of the inputs, the outputs and the bonds' transmitted power: the present magnitude, the
        running scale (a decaying peak) and the highest so far (a floor for the scale).
    drift, carried, low, high : ndarray, shape (nb,)
        Energy that the interfaces have made and no correction took out; energy that the bonds have
        carried, and its least and largest value so far, J.
    moved : ndarray of int, shape (n checks,)
        Scratch: checks whose flag has just moved.
    changes : list of FlagChange
        Since the list was last emptied.
    """

    checks: Checks
    part: dict[str, Floats]
    ratio: Floats
    last_high: Floats
    active: Bools
    any_active: Bools
    count: Ints
    seconds: Floats
    magnitude: Floats
    scale: Floats
    peak: Floats
    drift: Floats
    carried: Floats
    low: Floats
    high: Floats
    moved: Ints
    changes: list[FlagChange] = field(default_factory=list)

    @classmethod
    def start(cls, checks: Checks, y0: Floats, u0: Floats, n_bonds: int) -> Monitor:
        """No flag raised; scales start from the initial values."""
        n, causes = len(checks), len(checks.causes)
        ratio = np.zeros(n)
        groups = zip(checks.causes, checks.groups, strict=True)
        magnitude = np.abs(np.concatenate((u0, y0, np.zeros(n_bonds))))
        return cls(
            checks=checks,
            part={cause: ratio[group] for cause, group in groups},
            ratio=ratio,
            last_high=np.full(n, -np.inf),
            active=np.zeros(n, dtype=bool),
            any_active=np.zeros(causes, dtype=bool),
            count=np.zeros(causes, dtype=np.intp),
            seconds=np.zeros(causes),
            magnitude=magnitude,
            scale=magnitude.copy(),
            peak=magnitude.copy(),
            drift=np.zeros(n_bonds),
            carried=np.zeros(n_bonds),
            low=np.zeros(n_bonds),
            high=np.zeros(n_bonds),
            moved=np.zeros(n, dtype=np.intp),
        )

    def update(self, plan: Plan, state: StepState, given: StepInput) -> None:
        """Measure all ratios and move the flags (called once per tick)."""
        limits, part = plan.reliability, self.part
        keep = math.exp(-given.elapsed / limits.scale_time)
        measure(self, plan, state, given, keep, plan.at_minimum(state.h_next))
        if given.has_middle:
            nu, ny = len(state.u_defect), len(state.y)
            y_scale = self.scale[nu : nu + ny]
            np.divide(state.y_defect, y_scale * limits.output_defect, out=part["output_defect"])
        if plan.controls.tests:
            np.multiply(state.control.ratio, state.control.failed, out=part["error_estimate"])
        if state.model is not None:
            part["model_untrusted"][:] = state.model.untrusted()
        if len(self.drift):
            shares = plan.spurious_shares(part["model_untrusted"], given.apply)
            measure_at_bonds(self, plan, state, given, shares)
        if given.t < limits.warm_up:
            for cause in RELATIVE:
                part[cause][:] = 0.0
        self._move_flags(given.t, given.elapsed, limits.clear_time)

    def _move_flags(self, t: float, elapsed: float, clear_time: float) -> None:
        moved = raise_and_clear(self, t, elapsed, clear_time)
        if moved:
            self.note_changes(t, moved)

    def note_changes(self, t: float, moved: int) -> None:
        """Note that the flags of the first checks in `moved` have moved at `t` [s]."""
        for i in self.moved[:moved].tolist():
            self._note_change(t, i)

    def _note_change(self, t: float, i: int) -> None:
        c, raised = self.checks.cause_of(i), bool(self.active[i])
        self.count[c] += raised
        cause, where = self.checks.causes[c], self.checks.where[i]
        self.changes.append(FlagChange(t, cause, where, raised))

    def active_flags(self) -> list[tuple[str, str]]:
        """Flags that are up, as (cause, where)."""
        checks = self.checks
        return [
            (checks.causes[checks.cause_of(int(i))], checks.where[i])
            for i in np.flatnonzero(self.active)
        ]
