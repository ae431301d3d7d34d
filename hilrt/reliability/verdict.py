"""What a session's flags come to in the end: how far its results can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hilrt.reliability.causes import CAUSES
from hilrt.reliability.flags import FlagTotal

#: Missed ticks per step from which a session is unreliable. Skipped ticks raise no flag.
MISSED_SHARE = 0.2


class Verdict(NamedTuple):
    """``good``, ``degraded`` or ``unreliable``, and why."""

    word: str
    reasons: list[str]


def verdict(
    totals: Mapping[str, FlagTotal],
    time_s: float,
    fault: str | None,
    missed: int = 0,
    steps: int = 0,
    unrecorded: int = 0,
) -> Verdict:
    """How far the session's results can be trusted, from the time spent under each cause.

    Parameters
    ----------
    totals : mapping of str to FlagTotal
        Of the causes at the end of the session.
    time_s : float
        Session time, s.
    fault : str or None
        Why the session ended early, if it did by a fault.
    missed, steps : int
        Ticks missed, in real time, and steps made.
    unrecorded : int
        Steps that are missing in the log: nothing of them can be looked at again.
    """
    word, reasons = "good", []
    if fault:
        word, reasons = "unreliable", [f"ended by a fault: {fault}"]
    mostly_missed = missed > MISSED_SHARE * max(steps, 1)
    for cause, total in totals.items():
        if mostly_missed and cause == "deadline_missed":
            continue  # its reason follows, with the skipped ticks
        share = total.seconds / time_s if time_s > 0 else 0.0
        limits = CAUSES[cause]
        if share <= limits.degraded:
            continue
        reasons.append(f"{cause}: {limits.text}, {share:.1%} of the time")
        if share > limits.unreliable:
            word = "unreliable"
        elif word == "good":
            word = "degraded"
    if mostly_missed:
        word = "unreliable"
        reasons.append(
            f"deadline_missed: {missed:,} ticks in {steps:,} steps, those skipped included"
        )
    if unrecorded:
        word = "degraded" if word == "good" else word
        reasons.append(f"recording: {unrecorded:,} of {steps:,} steps are not in the log")
    return Verdict(word, reasons)
