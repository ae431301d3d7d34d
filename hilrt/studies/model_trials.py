"""Runs of a session's models at other settings, and their errors against an ideal one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from hilrt.solver import Floats
from hilrt.studies.axes import Settings
from hilrt.studies.first_step import FirstStep

#: Steps that are tried, in decades.
SERIES: Final = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
#: A signal's scale is no less than this share of its root mean square.
LEAST_SCALE: Final = 0.05


class ModelTrial(NamedTuple):
    """A run of the models.

    Attributes
    ----------
    signals : mapping of str to (times, values)
        Coupling signals, arrays of shape (n,): s, and the signal's unit.
    step_s : float
        What a macro step has taken, models included, s.
    fault : str
        Why it did not reach its end; else empty.
    growth : float
        Rate by which its exchange makes errors grow with the stiffest responses seen, 1/s; NaN if
        unknown.
    """

    signals: Mapping[str, tuple[Floats, Floats]]
    step_s: float
    fault: str = ""
    growth: float = math.nan


#: Runs the models at settings; with True ideally: all answers at once, measured without noise.
Run = Callable[[Settings, bool], ModelTrial]


@dataclass(frozen=True)
class IdealRun:
    """Signals of the models coupled as if continuously.

    Attributes
    ----------
    courses : dict of str to function
        From times, s, to values.
    scales : dict of str to float
        Variation of each signal.
    step_s : float
        Step at which it was run, s.
    share : float
        What its error may be, relative to the target.
    """

    courses: dict[str, Any]
    scales: dict[str, float]
    step_s: float
    share: float


class TrialError(NamedTuple):
    """Error of a run: relative to the target, relative to the worst signal's variation.

    `unstable`: errors grow with the stiffest responses seen, although not throughout the run.
    """

    share: float
    error: float
    signal: str
    step_s: float
    unstable: bool = False


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
    """First step of a variable one, at most `longest` [s], where its tolerances do not tell.

    Before there are two samples every input is held: the step ends where a signal of the ideal run
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


def stays(known: Mapping[int, TrialError]) -> bool:
    """Whether an error hardly falls with the step: it is not that of the step."""
    found = [known[place].share for place in sorted(known)]
    return len(found) > 2 and min(found) > 1.0 and found[0] > 0.9 * found[2]


def ladder(shortest: float, longest: float) -> list[float]:
    """Steps with one or two digits between two bounds, s; the bound where there is none."""
    decades = range(-9, math.ceil(math.log10(longest)) + 1)
    steps = [float(f"{digits}e{decade}") for decade in decades for digits in SERIES]
    found = [step for step in steps if max(shortest, 1e-6) <= step <= longest]
    return found or [whole_ns(longest)]


def whole_ns(step: float) -> float:
    """A step as a session takes it."""
    return round(step, 9)
