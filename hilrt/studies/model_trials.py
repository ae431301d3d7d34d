"""Runs of a session's models with different settings, and their errors against an ideal run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from hilrt.solver import Floats
from hilrt.studies.axes import Settings
from hilrt.studies.first_step import FirstStep

#: Steps tested in each decade.
SERIES: Final = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
#: Lower bound of a signal's scale, relative to its root mean square.
LEAST_SCALE: Final = 0.05


class ModelTrial(NamedTuple):
    """A run of the models.

    Attributes
    ----------
    signals : mapping of str to (times, values)
        Coupling signals, arrays of shape (n,): s, and the signal's unit.
    step_s : float
        Computing time of a macro step, including the models, s.
    fault : str
        Reason why the run did not reach its end; empty if it did.
    growth : float
        Rate by which its exchange makes errors grow with the stiffest responses seen, 1/s; NaN if
        unknown.
    """

    signals: Mapping[str, tuple[Floats, Floats]]
    step_s: float
    fault: str = ""
    growth: float = math.nan


#: Runs the models with settings; with True ideally: outputs without delay, measured without noise.
Run = Callable[[Settings, bool], ModelTrial]


@dataclass(frozen=True)
class IdealRun:
    """Signals of the models with practically continuous coupling.

    Attributes
    ----------
    courses : dict of str to function
        Functions from times, s, to values.
    scales : dict of str to float
        Variation of each signal.
    step_s : float
        Step at which it was run, s.
    share : float
        Possible error, relative to the target.
    """

    courses: dict[str, Any]
    scales: dict[str, float]
    step_s: float
    share: float


def reference_of(trial: ModelTrial, step: float) -> IdealRun:
    """Interpolate a run's signals: piecewise cubic, monotone (Fritsch and Butland, 1984)."""
    from scipy.interpolate import PchipInterpolator

    courses, scales = {}, {}
    for name, (times, values) in trial.signals.items():
        last = np.flatnonzero(np.diff(times, append=math.inf) > 0.0)
        courses[name] = PchipInterpolator(times[last], values[last])
        size = float(np.sqrt(np.mean(values**2)))
        scales[name] = max(float(values.std()), LEAST_SCALE * size, 1e-300)
    return IdealRun(courses, scales, step, math.nan)


def errors_of(trial: ModelTrial, reference: IdealRun) -> dict[str, float]:
    """Root mean square error of every signal, relative to its variation."""
    found = {}
    for name, course in reference.courses.items():
        times, values = trial.signals[name]
        within = np.clip(times, course.x[0], course.x[-1])
        with np.errstate(all="ignore"):
            error = float(np.sqrt(np.mean((values - course(within)) ** 2)))
        found[name] = error / reference.scales[name] if math.isfinite(error) else math.inf
    return found


def first_step_of(reference: IdealRun, target: Callable[[str], float], longest: float) -> FirstStep:
    """First step of a variable step, at most `longest` [s], if its tolerances do not determine it.

    Before there are two samples every input is held: the step ends when a signal of the ideal run
    has first moved by its target, relative to its variation.
    """
    found, by = longest, ""
    for name, course in reference.courses.items():
        start, allowed = float(course(course.x[0])), target(name) * reference.scales[name]
        levels = (start - allowed, start + allowed)
        roots = np.concatenate([course.solve(level, extrapolate=False) for level in levels])
        moved = float(np.min(roots[np.isfinite(roots)], initial=math.inf) - course.x[0])
        if moved < found:
            found, by = moved, name
    return FirstStep(max(float(f"{found:.2g}"), 1e-9), by)


def ladder(shortest: float, longest: float) -> list[float]:
    """Steps with one or two digits between two bounds, s; the bound if there is none."""
    decades = range(-9, math.ceil(math.log10(longest)) + 1)
    steps = [float(f"{digits}e{decade}") for decade in decades for digits in SERIES]
    found = [step for step in steps if max(shortest, 1e-6) <= step <= longest]
    return found or [whole_ns(longest)]


def whole_ns(step: float) -> float:
    """Round a step [s] to whole nanoseconds, as sessions do."""
    return round(step, 9)
