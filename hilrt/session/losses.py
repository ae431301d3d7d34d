"""What a summary says of what is missing: the steps, or rows of the log.

Apart from `summary`, which imports the numerics: a session must be able to end before these are
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hilrt.timing.host import host_report

FORMAT = "hilrt-summary-1"


def summary_without_steps(session: str, state: str, reason: str) -> dict[str, Any]:
    """What there is to say of a session that ended before its first tick, for the `reason`."""
    host = host_report()
    return {
        "format": FORMAT,
        "session": session,
        "state": state,
        "steps": 0,
        "time_s": 0.0,
        "verdict": "unreliable",
        "reasons": [f"no step was made: {reason}"],
        "versions": host.pop("versions"),
        "host": host,
    }


def add_losses(summary: dict[str, Any], problems: Sequence[str]) -> None:
    """Say in a summary what turned out later to be missing in the log."""
    if problems:
        summary["verdict"] = "degraded" if summary["verdict"] == "good" else summary["verdict"]
        summary["reasons"] = [*summary["reasons"], *problems]
