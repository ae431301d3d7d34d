"""Times of several kinds for several things, counted in one compiled call."""

from __future__ import annotations

from math import log10

import numpy as np
from numpy.typing import NDArray

from hilrt.compiled import compiled
from hilrt.solver import Floats
from hilrt.timing.histogram import BINS, LONGEST_NS, PER_DECADE

#: Eleven days: what is longer counts as that.
_MOST_US = 1e12


@compiled
def count_times(times_us: Floats, counts: NDArray[np.int64], longest_ns: NDArray[np.int64]) -> None:
    """Count times of several kinds for several things at once, as `Distribution.add` does.

    Parameters
    ----------
    times_us : ndarray, shape (n, 1 + kinds)
        Number of the thing, and a time of each kind [µs]; NaN where there is none.
    counts, longest_ns : ndarray of int, shape (things, kinds, BINS), (things, kinds)
        Changed in place.
    """
    for row in times_us:
        thing = int(row[0])
        for kind in range(len(row) - 1):
            if np.isnan(row[1 + kind]):
                continue
            # A peer may say anything, and not every number has an integer.
            ns = round(min(max(row[1 + kind], 0.0), _MOST_US) * 1e3)
            longest_ns[thing, kind] = max(longest_ns[thing, kind], ns)
            if ns >= LONGEST_NS:
                counts[thing, kind, BINS - 1] += 1
            elif ns > 1:
                counts[thing, kind, int(log10(ns) * PER_DECADE)] += 1
            else:
                counts[thing, kind, 0] += 1


def load_counting() -> None:
    """Load the compiled code, or compile it."""
    count_times(np.zeros((0, 1)), np.zeros((0, 0, BINS), np.int64), np.zeros((0, 0), np.int64))
