"""Reliability: flags with causes, hysteresis and the session's verdict (METHODS section 9).

Every check is a ratio "measure over threshold" of one thing (an output, an input, a bond, a
subsystem, the session) and one cause. All checks stand in one flat array, so that a step costs a
handful of vector operations. A flag is raised as soon as its ratio reaches 1, so that a spike
shows; it clears when the ratio has stayed below one half for `clear_time`, so that noise does not
chatter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from hilrt.network import Bools, Ints, Network
from hilrt.solver import Floats

if TYPE_CHECKING:
    from hilrt.plan import Plan
    from hilrt.step import StepInput, StepState

#: Share of the running scale's peak below which the scale does not fall.
SCALE_FLOOR = 0.02


class Cause(NamedTuple):
    """Why results are less reliable: in words, and how much of the time makes a verdict."""

    text: str
    degraded: float  #: share of the session's time from which the verdict is "degraded"
    unreliable: float  #: and from which it is "unreliable"


CAUSES: Final[dict[str, Cause]] = {
    "sample_late": Cause("sample late, carried on by extrapolation or hold", 0.005, 0.1),
    "sample_implausible": Cause("value is not a finite number", 0.0, 0.01),
    "connection_defect": Cause("input as sent differs from the output it stands for", 0.05, 0.5),
    "output_defect": Cause("output inside the step differs from its polynomial", 0.05, 0.5),
    "power_residual": Cause("the interface creates or destroys power", 0.05, 0.5),
    "tracking_error": Cause("the bench realises its demand late or imperfectly", 0.2, 0.8),
    "correction_capped": Cause("energy correction at its cap", 0.2, 1.1),
    "correction_shadow": Cause("energy correction computed, not applied", 0.2, 1.1),
    "input_limited": Cause("input limited in value or rate", 0.05, 0.5),
    "step_minimum": Cause("step size at its minimum", 0.05, 0.5),
    "deadline_missed": Cause("inputs not on the wire in time", 0.02, 0.2),
}


@dataclass(frozen=True)
class Checks:
    """Which checks a session has.

    Attributes
    ----------
    causes : list of str
        Causes in the order of `groups`.
    groups : list of slice
        The checks of each cause in the flat array.
    first : ndarray of int, shape (number of causes,)
        Start of each group.
    where : list of str
        What each check watches, for people.
    """

    causes: list[str]
    groups: list[slice]
    first: Ints
    where: list[str]

    def __len__(self) -> int:
        return len(self.where)


def build_checks(network: Network) -> Checks:
    """All checks that the topology has something to watch for."""
    bonds = [bond.name for bond in network.bonds.tables]
    watched = {
        "sample_late": network.subsystems,
        "sample_implausible": network.outputs.names,
        "connection_defect": network.inputs.names,
        "output_defect": network.outputs.names,
        "power_residual": bonds,
        "tracking_error": bonds,
        "correction_capped": bonds,
        "correction_shadow": bonds,
        "input_limited": network.inputs.names,
        "step_minimum": ["session"],
        "deadline_missed": ["session"],
    }
    watched = {cause: names for cause, names in watched.items() if names}
    groups: list[slice] = []
    where: list[str] = []
    for names in watched.values():
        groups.append(slice(len(where), len(where) + len(names)))
        where += names
    first = np.array([group.start for group in groups], dtype=np.intp)
    return Checks(list(watched), groups, first, where)


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
    signal_scale, signal_peak, power_scale, power_peak : ndarray, shape (nu,), (nb,)
        Running scales: decaying peaks, with a floor relative to the highest value so far.
    changes : list of FlagChange
        Since the list was last emptied.
    """

    checks: Checks
    ratio: Floats
    last_high: Floats
    active: Bools
    any_active: Bools
    count: Ints
    seconds: Floats
    signal_scale: Floats
    signal_peak: Floats
    output_scale: Floats
    output_peak: Floats
    power_scale: Floats
    power_peak: Floats
    changes: list[FlagChange] = field(default_factory=list)

    @classmethod
    def start(cls, checks: Checks, y0: Floats, u0: Floats, n_bonds: int) -> Monitor:
        """No flag raised; scales start from the initial values."""
        n, causes = len(checks), len(checks.causes)
        return cls(
            checks=checks,
            ratio=np.zeros(n),
            last_high=np.full(n, -np.inf),
            active=np.zeros(n, dtype=bool),
            any_active=np.zeros(causes, dtype=bool),
            count=np.zeros(causes, dtype=np.intp),
            seconds=np.zeros(causes),
            signal_scale=np.abs(u0),
            signal_peak=np.abs(u0),
            output_scale=np.abs(y0),
            output_peak=np.abs(y0),
            power_scale=np.zeros(n_bonds),
            power_peak=np.zeros(n_bonds),
        )

    def update(self, plan: Plan, state: StepState, given: StepInput) -> None:
        """Measure all ratios and move the flags (called once per tick)."""
        limits, keep = plan.reliability, np.exp(-given.elapsed / plan.reliability.scale_time)
        _follow(self.signal_scale, self.signal_peak, np.abs(state.measured[0]), keep)
        _follow(self.output_scale, self.output_peak, np.abs(state.y), keep)
        _follow(self.power_scale, self.power_peak, np.abs(state.bond_power), keep)
        for cause, group in zip(self.checks.causes, self.checks.groups, strict=True):
            ratio = self.ratio[group]
            match cause:
                case "sample_late":
                    ratio[:] = given.late
                case "sample_implausible":
                    ratio[:] = state.implausible
                case "connection_defect":
                    _relative(state.u_defect, self.signal_scale * limits.connection_defect, ratio)
                case "output_defect":
                    _relative(state.y_defect, self.output_scale * limits.output_defect, ratio)
                case "power_residual":
                    _relative(
                        state.corrected.power, self.power_scale * limits.power_residual, ratio
                    )
                case "tracking_error":
                    _relative(state.tracking, self.power_scale * limits.tracking, ratio)
                case "correction_capped":
                    ratio[:] = state.corrected.capped & plan.energy.active
                case "correction_shadow":
                    ratio[:] = plan.energy.wanted & ~(plan.energy.active & given.apply)
                case "input_limited":
                    ratio[:] = state.limited
                case "step_minimum":
                    ratio[:] = plan.variable_step and state.h_next <= plan.step_control.minimum
                case "deadline_missed":
                    ratio[:] = given.missed
        self._move_flags(given.t, given.elapsed, limits.clear_time)

    def _move_flags(self, t: float, elapsed: float, clear_time: float) -> None:
        np.copyto(self.last_high, t, where=self.ratio >= 0.5)
        active = (self.ratio >= 1.0) | (self.active & (t - self.last_high < clear_time))
        changed = active != self.active
        if changed.any():
            self._note_changes(t, active, np.flatnonzero(changed))
        self.active = active
        self.any_active = np.logical_or.reduceat(active, self.checks.first)
        self.seconds += self.any_active * elapsed

    def _note_changes(self, t: float, active: Bools, changed: Ints) -> None:
        cause_of = np.searchsorted(self.checks.first, changed, side="right") - 1
        for i, c in zip(changed, cause_of, strict=True):
            self.count[c] += int(active[i])
            cause, where = self.checks.causes[c], self.checks.where[i]
            self.changes.append(FlagChange(t, cause, where, bool(active[i])))

    def active_flags(self) -> list[tuple[str, str]]:
        """Flags that are up, as (cause, where)."""
        up = np.flatnonzero(self.active)
        cause_of = np.searchsorted(self.checks.first, up, side="right") - 1
        return [
            (self.checks.causes[c], self.checks.where[i]) for i, c in zip(up, cause_of, strict=True)
        ]


def _follow(scale: Floats, peak: Floats, magnitude: Floats, keep: float) -> None:
    """Let a running scale decay by `keep`, rise with `magnitude`, and stay above its floor."""
    np.maximum(peak, magnitude, out=peak)
    scale *= keep
    np.maximum(scale, magnitude, out=scale)
    np.maximum(scale, SCALE_FLOOR * peak, out=scale)


def _relative(measure: Floats, threshold: Floats, out: Floats) -> None:
    """``|measure| / threshold``; 0 where the measure is unknown or both are 0."""
    out[:] = np.abs(measure) / np.where(threshold > 0.0, threshold, np.inf)
    np.nan_to_num(out, copy=False)


class Verdict(NamedTuple):
    """``good``, ``degraded`` or ``unreliable``, and why."""

    word: str
    reasons: list[str]


def verdict(monitor: Monitor, time_s: float, fault: str | None) -> Verdict:
    """How far the session's results can be trusted, from the time spent under each cause.

    Parameters
    ----------
    monitor : Monitor
        Flags at the end of the session.
    time_s : float
        Session time, s.
    fault : str or None
        Why the session ended early, if it did by a fault.
    """
    word, reasons = "good", []
    if fault:
        word, reasons = "unreliable", [f"ended by a fault: {fault}"]
    for cause, seconds in zip(monitor.checks.causes, monitor.seconds, strict=True):
        share = seconds / time_s if time_s > 0 else 0.0
        limits = CAUSES[cause]
        if share <= limits.degraded:
            continue
        reasons.append(f"{cause}: {limits.text}, {share:.1%} of the time")
        if share > limits.unreliable:
            word = "unreliable"
        elif word == "good":
            word = "degraded"
    return Verdict(word, reasons)
