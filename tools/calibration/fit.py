"""Constants of the error estimate: factors from it to the ends of an interval that covers.

The true error over the estimate, of every signal of every session, by how the estimate was made;
its quantiles, every physical group counting the same. To judge them, each group gets the constants
of the others (`left_out`): group-wise split conformal prediction.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calibration.figures import Line, usable
from calibration.runs import read_lines

#: Quantiles that the ends of the interval are.
LOW, HIGH = 0.02, 0.975
#: Fewest signals that a way of estimating needs for constants of its own.
FEWEST = 30
CONSTANTS = Path(__file__).parents[2] / "hilrt" / "reliability" / "calibrated.py"

TEXT = '''"""Constants of the error estimate, from random sessions held against their truth.

``python tools/calibrate_verdict.py --fit FILE`` makes them (docs/calibration.md), here from
{sessions:,} sessions. By how an estimate was made: factors from it to the ends of the interval that
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
'''


class Ratio(NamedTuple):
    """True error over the estimate."""

    group: str
    how: str
    value: float


def ratios(lines: Iterable[Line]) -> list[Ratio]:
    """Of all signals with a known estimate, in sessions that were made to their end."""
    found = []
    for line in lines:
        estimates = line["said"].get("estimated_error") or {}
        if line["truth"]["ended"]:
            continue
        for name, signal in line["truth"]["signals"].items():
            estimate = estimates.get(name)
            if estimate and estimate["value"]:
                value = signal["error"] / estimate["value"]
                found.append(Ratio(line["group"], estimate["how"], value))
    return found


def constants(found: list[Ratio]) -> dict[str, tuple[float, float]]:
    """Low and high factor by how an estimate was made."""
    kinds = {}
    for how in sorted({r.how for r in found}):
        of = [r for r in found if r.how == how]
        if len(of) >= FEWEST:
            kinds[how] = (_quantile(of, LOW), _quantile(of, HIGH))
    return kinds


def left_out(found: list[Ratio]) -> dict[str, dict[str, tuple[float, float]]]:
    """For every group the constants from all others."""
    return {g: constants([r for r in found if r.group != g]) for g in {r.group for r in found}}


def _quantile(of: list[Ratio], level: float) -> float:
    """Weighted so that every group counts the same."""
    values = np.array([r.value for r in of])
    groups = [r.group for r in of]
    weight = np.array([1.0 / groups.count(g) for g in groups])
    order = np.argsort(values)
    reached = np.cumsum(weight[order]) / weight.sum()
    return float(values[order][min(int(np.searchsorted(reached, level)), len(values) - 1)])


def with_constants(line: Line, by_how: dict[str, tuple[float, float]]) -> Line:
    """The session's line with intervals by other constants."""
    estimates: dict[str, Any] = line["said"].get("estimated_error") or {}
    changed = {}
    for name, estimate in estimates.items():
        factors = by_how.get(estimate["how"])
        if estimate["value"] is None or factors is None:
            changed[name] = estimate
            continue
        ends = {"low": factors[0] * estimate["value"], "high": factors[1] * estimate["value"]}
        if estimate.get("relative") is not None and estimate["high"]:
            ends["relative"] = estimate["relative"] * ends["high"] / estimate["high"]
        changed[name] = estimate | ends
    return line | {"said": line["said"] | {"estimated_error": changed}}


def fit(path: Path) -> str:
    """Write the product's constants; what they are, in words."""
    lines = usable(read_lines(path))
    by_how = constants(ratios(lines))

    def rows(k: int) -> str:
        return "\n".join(f'    "{how}": {values[k]:.4g},' for how, values in by_how.items())

    text = TEXT.format(sessions=len(lines), low=rows(0), high=rows(1))
    CONSTANTS.write_text(text, encoding="utf-8")
    return f"{CONSTANTS}:\n\n{text}"
