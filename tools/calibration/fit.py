"""Constants of the error estimate, from random sessions, by how an estimate was made.

* `LOW`, `HIGH`: factors from an estimate to the ends of the shortest interval that contains 95 % of
  the ratios of true to estimated error, over all signals, with equal weight for every physical
  group.
* `GOOD`: the largest estimate, relative to the signal's variation, up to which the true error was
  below 5 % often enough, by the sessions' worst signals.
* `UNRELIABLE`: the estimate exceeded by nine of ten sessions with errors above 20 %, but high
  enough that only a few sessions within 5 % exceed it, and at most 20 %, from which the estimate
  itself justifies the verdict.

To validate them, each group is judged with the constants fitted to the others (`left_out`): split
conformal prediction, by groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hilrt.reliability import calibrated
from hilrt.wording import OF_MODEL
from tools.calibration.figures import Line, usable
from tools.calibration.judge import Constants, spread_of
from tools.calibration.runs import read_lines

#: Share of the true errors that an interval must contain.
COVERED = 0.95
#: Minimum share of sessions within 5 % among those with an estimate up to `GOOD`, and maximum share
#: beyond 20 %.
WITHIN, BEYOND = 0.96, 0.01
#: Upper limit of `GOOD`, even if no session of a kind was wrong.
MOST_GOOD = 0.04
#: Share of the sessions beyond 20 % that must have an estimate above `UNRELIABLE`, maximum share of
#: those within 5 % that may have one, and upper limit of `UNRELIABLE`.
CAUGHT, ALARMED = 0.9, 0.015
MOST_UNRELIABLE = 0.2
#: Minimum numbers of signals and of sessions for separate constants of one kind of estimate.
FEWEST = 30
CONSTANTS = Path(__file__).parents[2] / "hilrt" / "reliability" / "calibrated.py"

TEXT = '''"""Constants of the error estimate, from random sessions held against their truth.

``python -m tools.calibration.calibrate_verdict --fit FILE`` makes them; docs/calibration.md says
from which sessions. By how an estimate was made: factors from it to the ends of the interval that
holds 95 % of the true errors.
"""

from __future__ import annotations

from typing import Final

LOW: Final[dict[str, float]] = {{
{low}
}}
HIGH: Final[dict[str, float]] = {{
{high}
}}
#: Estimates, relative to what the signal varies by, up to which
#: nearly all true errors were below 5 %.
GOOD: Final[dict[str, float]] = {{
{good}
}}
#: Estimates, relative to the same, above which hardly any true error was below 5 %.
UNRELIABLE: Final[dict[str, float]] = {{
{unreliable}
}}
'''


class Ratio(NamedTuple):
    """True error of a signal over its estimate."""

    group: str
    how: str
    value: float


class Worst(NamedTuple):
    """Largest estimate of a session, relative to the signal's variation, and the true error."""

    group: str
    how: str
    estimate: float
    true: float


def ratios(lines: Iterable[Line]) -> list[Ratio]:
    """Select signals with a known estimate, in sessions that reached their end."""
    found = []
    for line in lines:
        if line["truth"]["ended"]:
            continue
        estimates = line["said"].get("estimated_error") or {}
        for name, signal in line["truth"]["signals"].items():
            estimate = estimates.get(name)
            if estimate and estimate["value"]:
                value = signal["error"] / estimate["value"]
                found.append(Ratio(line["group"], estimate["how"], value))
    return found


def worst_estimates(lines: Iterable[Line]) -> list[Worst]:
    """Select the sessions that reached their end."""
    found = []
    for line in lines:
        if line["truth"]["ended"]:
            continue
        estimates = line["said"].get("estimated_error") or {}
        known = {n: e for n, e in estimates.items() if e["value"] is not None}
        if not known or len(known) < len(estimates):
            continue
        how = next(iter(known.values()))["how"]
        worst = max(e["value"] / max(spread_of(line, n), 1e-300) for n, e in known.items())
        found.append(Worst(line["group"], how, worst, line["truth"]["error"]))
    return found


def constants(lines: list[Line]) -> Constants:
    """Fit the constants to the lines; kinds with too few lines keep the product's.

    Errors of the subsystems' own integration are not errors of the coupling: they are excluded
    here, but count in the results.
    """
    lines = [line for line in lines if line["settings"]["integrator"] == "exact"]
    low, high, good, unreliable = (
        dict(places)
        for places in (calibrated.LOW, calibrated.HIGH, calibrated.GOOD, calibrated.UNRELIABLE)
    )
    signals, sessions = ratios(lines), worst_estimates(lines)
    for how in fitted_ways(lines):
        of = [r for r in signals if r.how == how]
        if len(of) >= FEWEST:
            low[how], high[how] = shortest_interval(of)
        worst = [w for w in sessions if w.how == how]
        if len(worst) >= FEWEST and how in good:  # else it is never good
            good[how] = min(_largest_good(worst), MOST_GOOD)
            unreliable[how] = unreliable_above(worst)
    return Constants(low, high, good, unreliable)


def fitted_ways(lines: Iterable[Line]) -> list[str]:
    """Kinds of estimates that these sessions can fit: with reference models, only that kind."""
    errors = (e for line in lines for e in (line["said"].get("estimated_error") or {}).values())
    if any(error["how"] == OF_MODEL for error in errors):
        return [OF_MODEL]
    return [how for how in calibrated.LOW if how != OF_MODEL]


def left_out(lines: list[Line]) -> dict[str, Constants]:
    """Constants for every group, fitted to all others."""
    groups = {line["group"] for line in lines}
    return {g: constants([line for line in lines if line["group"] != g]) for g in groups}


def _weights(groups: list[str]) -> np.ndarray:
    """Weights that give every group the same total."""
    return np.array([1.0 / groups.count(g) for g in groups])


def shortest_interval(of: list[Ratio]) -> tuple[float, float]:
    """Ends of the shortest interval that contains `COVERED` of the ratios."""
    values, weight = np.array([r.value for r in of]), _weights([r.group for r in of])
    order = np.argsort(values)
    values, weight = values[order], weight[order]
    reached = np.cumsum(weight) / weight.sum()
    before = reached - weight / weight.sum()
    last = np.searchsorted(reached, before + COVERED - 1e-9)
    first = np.flatnonzero(last < len(values))
    best = first[np.argmin(values[last[first]] - values[first])]
    return float(values[best]), float(values[last[best]])


def _largest_good(of: list[Worst]) -> float:
    """Largest estimate up to which enough sessions were good."""
    of = sorted(of, key=lambda w: w.estimate)
    weight = _weights([w.group for w in of])
    true = np.array([w.true for w in of])
    whole = np.cumsum(weight)
    within = np.cumsum(weight * (true < 0.05)) / whole
    beyond = np.cumsum(weight * (true > 0.2)) / whole
    enough = np.flatnonzero((within >= WITHIN) & (beyond <= BEYOND))
    return of[int(enough[-1])].estimate if len(enough) else 0.0


def unreliable_above(of: list[Worst]) -> float:
    """Estimate above which a session counts as unreliable."""
    caught = _quantile([w for w in of if w.true > 0.2], 1.0 - CAUGHT, MOST_UNRELIABLE)
    alarmed = _quantile([w for w in of if w.true < 0.05], 1.0 - ALARMED, 0.0)
    return min(max(caught, alarmed), MOST_UNRELIABLE)


def _quantile(of: list[Worst], share: float, none: float) -> float:
    """Estimate not exceeded by this share of the sessions; `none` if there are too few."""
    if len(of) < FEWEST:
        return none
    of = sorted(of, key=lambda w: w.estimate)
    reached = np.cumsum(_weights([w.group for w in of]))
    return of[int(np.searchsorted(reached, share * reached[-1] - 1e-9))].estimate


def fit(path: Path) -> str:
    """Write the product's constants; return a description of them."""
    lines = usable(read_lines(path))
    found = constants(lines)

    def rows(values: Mapping[str, float]) -> str:
        return "\n".join(
            f'    "{how}": {value if value > 1e-6 else 0.0:.3g},' for how, value in values.items()
        )

    text = TEXT.format(**{name: rows(values) for name, values in found._asdict().items()})
    CONSTANTS.write_text(text, encoding="utf-8")
    return f"{CONSTANTS}:\n\n{text}"
