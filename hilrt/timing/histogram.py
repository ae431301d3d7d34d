"""Distribution of short times at a constant cost per value and constant memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import TypedDict

import numpy as np

from hilrt.solver import Floats

# `hilrt.timing.count_times`, which is compiled, counts in the same bins.
PER_DECADE = 200  # neighbouring bins differ by 1.2 %
_DECADES = 9  # 1 ns to 1 s
LONGEST_NS = 10**_DECADES
#: Number of bins of a `Distribution`.
BINS = PER_DECADE * _DECADES + 1


class Quantiles(TypedDict):
    """Quantiles of a time, µs."""

    p50: float
    p99: float
    p999: float
    p9999: float
    max: float


class Distribution:
    """Logarithmic histogram of times; quantiles are accurate to 1.2 %, the maximum is exact."""

    def __init__(self, counts: list[int] | None = None, max_ns: float = 0) -> None:
        self.counts = [0] * BINS if counts is None else counts
        self.max_ns = max_ns

    @property
    def n(self) -> int:
        """Number of times counted."""
        return sum(self.counts)

    def add(self, ns: int) -> None:
        """Count one time, ns, clipped to 1 ns … 1 s."""
        # Called several times per tick: comparisons are faster than `min` and `max`.
        if ns > self.max_ns:
            self.max_ns = ns
        if ns >= LONGEST_NS:
            self.counts[-1] += 1
        elif ns > 1:
            self.counts[int(log10(ns) * PER_DECADE)] += 1
        else:
            self.counts[0] += 1

    def add_all(self, times_us: Floats) -> None:
        """Count times, shape (n,), in µs; NaN is ignored."""
        ns = np.rint(times_us[~np.isnan(times_us)] * 1e3)
        if not len(ns):
            return
        self.max_ns = max(self.max_ns, float(ns.max()))
        bins = (np.log10(np.clip(ns, 1.0, LONGEST_NS)) * PER_DECADE).astype(np.intp)
        self.counts = (np.bincount(bins, minlength=BINS) + self.counts).tolist()

    def quantile_us(self, q: float) -> float:
        """Quantile `q` in [0, 1], µs; 0 before the first value."""
        counts = np.cumsum(self.counts)
        if counts[-1] == 0:
            return 0.0
        rank = int(np.searchsorted(counts, q * counts[-1]))
        upper_ns: float = 10.0 ** ((rank + 1) / PER_DECADE)
        return min(upper_ns, self.max_ns) * 1e-3

    def quantiles(self) -> Quantiles:
        """Quantiles for summaries, µs."""
        return {
            "p50": self.quantile_us(0.5),
            "p99": self.quantile_us(0.99),
            "p999": self.quantile_us(0.999),
            "p9999": self.quantile_us(0.9999),
            "max": self.max_ns * 1e-3,
        }

    def histogram(self, per_decade: int = 10) -> tuple[Floats, list[int]]:
        """Edges [µs], shape (n + 1,), and counts of a coarser histogram without its empty ends."""
        group = PER_DECADE // per_decade
        counts = np.array(self.counts[:-1]).reshape(-1, group).sum(axis=1)
        counts[-1] += self.counts[-1]
        used = np.flatnonzero(counts)
        if not len(used):
            return np.zeros(0), []
        first, last = int(used[0]), int(used[-1]) + 1
        edges: Floats = 10.0 ** (np.arange(first, last + 1) / per_decade - 3.0)
        return edges, [int(count) for count in counts[first:last]]


class Recent:
    """Quantiles of the counts of a `Distribution` since the last call."""

    def __init__(self) -> None:
        self._seen = np.zeros(BINS, dtype=np.int64)

    def update(self, whole: Distribution, quantiles: Sequence[float]) -> list[float] | None:
        """Quantiles [µs] of new counts, all accurate to 1.2 %; None without new counts."""
        counts = np.cumsum(whole.counts)
        new, self._seen = counts - self._seen, counts
        if new[-1] == 0:
            return None
        ranks = np.searchsorted(new, np.multiply(quantiles, new[-1]))
        upper_ns = np.minimum(10.0 ** ((ranks + 1) / PER_DECADE), whole.max_ns)
        beyond = ranks == len(new) - 1  # in the last bin, which has no upper edge
        return [float(us) for us in np.where(beyond, whole.max_ns, upper_ns) * 1e-3]
