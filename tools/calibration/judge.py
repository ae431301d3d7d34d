"""Verdict on a recorded line with other constants than the product's."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from hilrt.reliability import calibrated
from hilrt.reliability.estimates import BondError, Estimate, make_estimate
from hilrt.reliability.flags import FlagTotal
from hilrt.reliability.verdict import SessionCourse, verdict
from tools.calibration.figures import Line


class Constants(NamedTuple):
    """Figures of `hilrt.reliability.calibrated`, by kind of estimate.

    Attributes
    ----------
    low, high : dict of str to float
        Factors from an estimate to the ends of its interval.
    good : dict of str to float
        Estimates, relative to a signal's variation, up to which a session may be good.
    unreliable : dict of str to float
        Estimates above which it is unreliable.
    """

    low: Mapping[str, float]
    high: Mapping[str, float]
    good: Mapping[str, float]
    unreliable: Mapping[str, float]


@contextmanager
def in_force(constants: Constants) -> Iterator[None]:
    """Use these constants in the product within the context."""
    places = calibrated.LOW, calibrated.HIGH, calibrated.GOOD, calibrated.UNRELIABLE
    before = [dict(place) for place in places]
    try:
        for place, values in zip(places, constants, strict=True):
            place.update(values)
        yield
    finally:
        for place, values in zip(places, before, strict=True):
            place.clear()
            place.update(values)


def spread_of(line: Line, name: str) -> float:
    """Variation of a signal as seen by the session."""
    spread = line["said"]["ports"][name].get("spread") or {}
    return max(spread.get("std") or 0.0, 0.05 * (spread.get("rms") or 0.0))


def judged(line: Line, constants: Constants) -> Line:
    """Return the line with intervals and verdict from other constants."""
    said, told = line["said"], {}
    errors: dict[str, Estimate] = {}
    with in_force(constants):
        for name, estimate in (said.get("estimated_error") or {}).items():
            value = math.nan if estimate["value"] is None else estimate["value"]
            spread = spread_of(line, name)
            errors[name] = make_estimate(estimate["unit"], value, spread, estimate["how"])
            told[name] = errors[name].as_json()
    bonds = {
        name: BondError(bond["interface_energy_j"] or 0.0, bond["carried_energy_j"] or 0.0)
        for name, bond in said["bonds"].items()
    }
    totals = {
        cause: FlagTotal(
            flag["count"], flag["seconds"] or 0.0, flag["affected_s"] or 0.0, flag["worst_second"]
        )
        for cause, flag in said["flags"].items()
    }
    missed = said["missed_ticks"] if line["settings"]["pace"] == "clock" else 0
    course = SessionCourse(
        said["time_s"], said["fault"], missed, said["steps"], errors=errors, bonds=bonds
    )
    with in_force(constants):
        found = verdict(totals, course)
    return line | {
        "said": said | {"verdict": found.word, "reasons": found.reasons, "estimated_error": told}
    }
