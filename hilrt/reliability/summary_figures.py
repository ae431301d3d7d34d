"""Figures of a session in the layout of `summary.json`.

A session and an evaluation of a log's rows both call these functions, so that each key has a single
definition; a test compares the two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from hilrt.reliability.flags import FlagTotal
from hilrt.reliability.verdict import SessionCourse, verdict
from hilrt.solver import Floats
from hilrt.timing.histogram import Quantiles


class StepLengths(NamedTuple):
    """First, shortest and longest macro step, ns."""

    first_ns: int
    shortest_ns: int
    longest_ns: int


def session_figures(
    session: str, course: SessionCourse, lengths: StepLengths, totals: Mapping[str, FlagTotal]
) -> dict[str, Any]:
    """Name, duration, steps and flags of a session.

    Parameters
    ----------
    session : str
        Its name.
    course : SessionCourse
    lengths : StepLengths
    totals : mapping of str to FlagTotal
        By cause.
    """
    mean = course.time_s / course.steps if course.steps else 0.0
    return {
        "session": session,
        "steps": course.steps,
        "time_s": course.time_s,
        "step_size_s": {
            "first": lengths.first_ns / 1e9,
            "min": lengths.shortest_ns / 1e9,
            "mean": mean,
            "max": lengths.longest_ns / 1e9,
        },
        "flags": flag_figures(totals),
    }


def flag_figures(totals: Mapping[str, FlagTotal]) -> dict[str, dict[str, float]]:
    """Causes with active flags, with their number and duration."""
    return {cause: _flag(total) for cause, total in totals.items() if total.raised}


def judged(course: SessionCourse, totals: Mapping[str, FlagTotal]) -> dict[str, Any]:
    """Verdict, its reasons, and whether it rests on a lack of evidence alone."""
    word, reasons, lacking = verdict(totals, course)
    return {"verdict": word, "reasons": reasons, "evidence_lacking": lacking}


def _flag(total: FlagTotal) -> dict[str, float]:
    """Duration and number of a cause's flags, and the affected steps, where known."""
    found: dict[str, float] = {"count": total.raised, "seconds": total.seconds}
    if not math.isnan(total.worst_second):
        found |= {"affected_s": total.affected_s, "worst_second": total.worst_second}
    return found


def order_figures(low: int, mean: float, high: int) -> dict[str, float]:
    """Lowest, mean and highest order of extrapolation in force."""
    return {"min": low, "mean": mean, "max": high}


def defect_figures(rms: float, largest: float) -> dict[str, float]:
    """RMS and largest value of a defect or a disturbance, in the port's unit."""
    return {"rms": rms, "max": largest}


def port_figures(
    last: float,
    connection_defect: tuple[float, float] | None = None,
    output_defect: tuple[float, float] | None = None,
    outside: float | None = None,
) -> dict[str, Any]:
    """Last value, defects and range of a port; None where unknown.

    Parameters
    ----------
    last : float
        Its newest value, in its unit.
    connection_defect, output_defect : pair of float, optional
        RMS and largest value, in its unit.
    outside : float, optional
        Number of samples outside the declared range.
    """
    return {
        "connection_defect": connection_defect and defect_figures(*connection_defect),
        "output_defect": output_defect and defect_figures(*output_defect),
        "out_of_range": None if outside is None else round(outside),
        "last": float(last) if math.isfinite(last) else None,
    }


def peer_figures(late: float, rejoined: float | None) -> dict[str, int | None]:
    """Ticks without the sample that was due, and returns after a loss; None where unknown."""
    return {"late": round(late), "rejoined": None if rejoined is None else round(rejoined)}


def timing_figures(
    lateness: tuple[Quantiles, tuple[Floats, list[int]]] | None, slowest: list[dict[str, Any]]
) -> dict[str, Any]:
    """Lateness, its histogram and the slowest ticks; None without a real-time pace.

    `lateness` are quantiles, us, and edges, us, with counts of the histogram.
    """
    if lateness is None:
        return {"lateness_us": None, "lateness_histogram": None, "slowest_ticks": []}
    quantiles, (edges, counts) = lateness
    return {
        "lateness_us": quantiles,
        "lateness_histogram": {"edges_us": edges.tolist(), "counts": counts},
        "slowest_ticks": slowest,
    }


def bond_figures(energies_j: Mapping[str, float], capped: float, points: float) -> dict[str, Any]:
    """Energies of a bond by kind, J, and the share of its points at which the cap acted.

    Parameters
    ----------
    energies_j : mapping of str to float
        Such as ``"residual"``; see docs/summary.md.
    capped, points : float
        Numbers of points; NaN for `capped` if unknown.
    """
    found = {f"{kind}_energy_j": float(energy) for kind, energy in energies_j.items()}
    if not math.isnan(capped):
        found["cap_share"] = float(capped / max(points, 1.0))
    return found
