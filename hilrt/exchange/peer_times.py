"""Response times of a remote solver: computing, transmission, waiting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hilrt.compilation.compiled import compiled
from hilrt.timing.count_times import count_us
from hilrt.timing.histogram import Distribution, Quantiles


@dataclass(frozen=True)
class PeerTimes:
    """Distributions over all replies of one solver in a session.

    Attributes
    ----------
    compute : Distribution
        Time reported by the solver.
    wire : Distribution
        Transmission. As fast as possible: the round trip less the computing time. In real time: the
        way to the solver, by its own clock, because the master does not observe when a reply
        arrives.
    wait : Distribution
        Time that the master waited for the reply, as fast as possible; 0 if it had arrived before.
    """

    compute: Distribution
    wire: Distribution
    wait: Distribution

    def summary(self) -> dict[str, Quantiles | None]:
        """Quantiles for summaries, µs; None if nothing was measured."""
        named = {
            "compute_us": self.compute,
            "wire_us": self.wire,
            "collect_wait_us": self.wait,
        }
        return {key: d.quantiles() if d.n else None for key, d in named.items()}


@compiled
def count_answer(
    compute_us: float,
    round_trip_us: float,
    way_us: float,
    waited: float,
    counts: NDArray[np.int64],
    longest_ns: NDArray[np.int64],
) -> float:
    """Count the times of one reply, and return the time on the wire [µs]; NaN if unknown.

    Parameters
    ----------
    compute_us, round_trip_us, way_us : float
        As for `SampleSink.put`.
    waited : float
        How long the master had waited when it arrived [s]; NaN in real time, without waiting.
    counts, longest_ns : ndarray of int, shape (3, BINS), (3,)
        Histograms of the solver; changed in place.
    """
    wire, wait = way_us, waited * 1e6
    if not np.isnan(waited):
        wait = max(0.0, wait)
        # If a reply arrived before the master polled, its round trip is unknown.
        wire = round_trip_us - compute_us if wait > 0.0 else np.nan
    count_us(compute_us, 0, counts, longest_ns)
    count_us(wire, 1, counts, longest_ns)
    count_us(wait, 2, counts, longest_ns)
    return wire


def peer_times(counts: NDArray[np.int64], longest_ns: NDArray[np.int64]) -> PeerTimes:
    """Distributions of the counts by `count_answer` for one solver."""
    found = zip(counts.tolist(), longest_ns.tolist(), strict=True)
    return PeerTimes(*(Distribution(counts, max_ns) for counts, max_ns in found))
