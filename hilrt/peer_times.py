"""Where the time of a remote solver's answers goes: computing, on the wire, and waited for."""

from __future__ import annotations

import math
from typing import NamedTuple

from hilrt.timing import Distribution, Quantiles


class AnswerTimes(NamedTuple):
    """Of one answer, µs; NaN where unknown."""

    compute: float
    wire: float
    wait: float


class PeerTimes:
    """Distributions over a session's answers of one solver.

    Attributes
    ----------
    compute : Distribution
        What the solver says it took.
    wire : Distribution
        On the wire: as fast as possible the round trip less the computing. In real time the way to
        the solver, by its own clock: the master does not look at the moment an answer arrives.
    wait : Distribution
        How long the master waited for the answer, as fast as possible; 0 if it was there.
    """

    def __init__(self) -> None:
        self.compute, self.wire, self.wait = Distribution(), Distribution(), Distribution()

    def add(self, times: AnswerTimes) -> None:
        """Count one answer."""
        for distribution, us in zip((self.compute, self.wire, self.wait), times, strict=True):
            if not math.isnan(us):
                distribution.add(max(0, round(us * 1e3)))

    def summary(self) -> dict[str, Quantiles | None]:
        """What summaries show, µs; None where nothing was measured."""
        named = {
            "compute_us": self.compute,
            "wire_us": self.wire,
            "collect_wait_us": self.wait,
        }
        return {key: d.quantiles() if d.n else None for key, d in named.items()}
