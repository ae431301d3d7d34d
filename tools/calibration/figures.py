"""Statistics of a calibration: verdicts against true errors, coverage, and the goals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from tools.calibration.compare import CLASSES

Line = dict[str, Any]
WORDS = ("good", "unverified", "degraded", "unreliable")
#: Short forms of the words, for narrow tables.
LETTERS = ("g", "v", "d", "u")


def usable(lines: Iterable[Line]) -> list[Line]:
    """Sessions that ran to a result."""
    return [line for line in lines if "error" not in line]


def matrix(lines: list[Line]) -> list[list[int]]:
    """Number of sessions by class of true error and by verdict, shape (4, 4)."""
    counts = [[0] * len(WORDS) for _ in CLASSES]
    for line in lines:
        counts[line["truth"]["class"]][WORDS.index(line["said"]["verdict"])] += 1
    return counts


class Goal(NamedTuple):
    """Required share: among the sessions `of`, those that `hold`; both can be weighted."""

    name: str
    least: float | None
    most: float | None
    of: Callable[[Line], bool]
    hold: Callable[[Line], bool]
    group_least: float | None = None


def _word(line: Line) -> str:
    word: str = line["said"]["verdict"]
    return word


def _error(line: Line) -> float:
    error: float = line["truth"]["error"]
    return error


def verified(line: Line) -> bool:
    """Whether all estimated errors are based on probed sensitivities."""
    estimates = line["said"].get("estimated_error") or {}
    return bool(estimates) and all(
        str(e.get("how")).startswith("sensitivities") for e in estimates.values()
    )


GOALS = (
    Goal("`good`: true error < 5 %", 0.95, None, lambda s: _word(s) == "good",
         lambda s: _error(s) < 0.05, 0.85),
    Goal("> 20 %: called `good`", None, 0.01, lambda s: _error(s) > 0.2,
         lambda s: _word(s) == "good"),
    Goal("> 20 %: called `unreliable`", 0.90, None, lambda s: _error(s) > 0.2,
         lambda s: _word(s) == "unreliable"),
    Goal("< 5 %: called `unreliable`", None, 0.02, lambda s: _error(s) < 0.05,
         lambda s: _word(s) == "unreliable"),
    Goal("< 1 %, sensitivities verified: called `good`", 0.90, None,
         lambda s: _error(s) < 0.01 and verified(s), lambda s: _word(s) == "good"),
)  # fmt: skip


def weights(lines: list[Line]) -> list[float]:
    """Weights that give every class of true error the same total."""
    counts = np.bincount([line["truth"]["class"] for line in lines], minlength=len(CLASSES))
    return [len(lines) / len(CLASSES) / counts[line["truth"]["class"]] for line in lines]


def share(goal: Goal, lines: list[Line], weight: list[float] | None = None) -> float:
    """Share for a goal; NaN if no session belongs to it."""
    counted = weight or [1.0] * len(lines)
    among = [(w, goal.hold(line)) for w, line in zip(counted, lines, strict=True) if goal.of(line)]
    whole = sum(w for w, _ in among)
    return sum(w for w, holds in among if holds) / whole if whole else math.nan


def met(goal: Goal, value: float) -> bool:
    """Whether the share meets the goal."""
    if math.isnan(value):
        return True
    if goal.least is not None:
        return value >= goal.least
    return goal.most is not None and value <= goal.most


class Interval(NamedTuple):
    """Estimated and true error of a signal, relative to the signal's scale."""

    group: str
    how: str
    true: float
    value: float
    low: float
    high: float
    resolution: float

    @property
    def covers(self) -> bool:
        """Whether the true error lies within the interval."""
        return self.low <= self.true <= self.high

    @property
    def width(self) -> float:
        """Width relative to the true error or the resolution, whichever is greater."""
        return (self.high - self.low) / max(self.true, self.resolution, 1e-300)


def intervals(lines: list[Line]) -> list[Interval]:
    """Select signals with a known estimate, in sessions that reached their end."""
    found = []
    for line in lines:
        if line["truth"]["ended"]:
            continue
        estimates = line["said"].get("estimated_error") or {}
        for name, signal in line["truth"]["signals"].items():
            estimate = estimates.get(name)
            if not estimate or estimate["value"] is None or estimate["high"] is None:
                continue
            scale = signal["scale"]
            numbers = (signal["error"], estimate["value"], estimate["low"], estimate["high"])
            resolution = max(signal["resolution"] / scale, LEAST_RESOLUTION)
            true, value, low, high = (number / scale for number in numbers)
            how = estimate["how"]
            found.append(Interval(line["group"], how, true, value, low, high, resolution))
    return found


#: Resolution: the lower limit of errors, relative to a signal's scale.
LEAST_RESOLUTION = 1e-4


def coverage(found: list[Interval]) -> tuple[float, float]:
    """Share of the intervals that cover the true error, and their median width."""
    if not found:
        return math.nan, math.nan
    return (
        float(np.mean([i.covers for i in found])),
        float(np.median([i.width for i in found])),
    )
