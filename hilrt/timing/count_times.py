"""Histograms of durations of several kinds, for example a tick's parts, filled by compiled code."""

from __future__ import annotations

from collections.abc import Callable
from math import log10

import numpy as np
from numpy.typing import NDArray

from hilrt.compilation.compiled import compiled, entry_point
from hilrt.solver import Floats
from hilrt.timing.histogram import BINS, LONGEST_NS, PER_DECADE

#: Longer times count as this (11 days), µs.
_MOST_US = 1e12


@compiled
def count_us(
    us: float, kind: int, counts: NDArray[np.int64], longest_ns: NDArray[np.int64]
) -> None:
    """Count one time [µs], as `Distribution.add` does; NaN counts nowhere. See `count_time`."""
    if not np.isnan(us):
        # A peer may report any number, even one too large for an integer.
        count_time(round(min(max(us, 0.0), _MOST_US) * 1e3), kind, counts, longest_ns)


@compiled
def count_time(
    ns: int, kind: int, counts: NDArray[np.int64], longest_ns: NDArray[np.int64]
) -> None:
    """Count one time; `counts` has the shape (kinds, BINS), `longest_ns` (kinds,)."""
    longest_ns[kind] = max(longest_ns[kind], ns)
    if ns >= LONGEST_NS:
        counts[kind, BINS - 1] += 1
    elif ns > 1:
        counts[kind, int(log10(ns) * PER_DECADE)] += 1
    else:
        counts[kind, 0] += 1


@compiled
def count_tick(
    parts_us: Floats,
    counts: NDArray[np.int64],
    longest_ns: NDArray[np.int64],
    target_ns: int,
    begun_ns: int,
    cut_ns: int,
    stepped_ns: int,
    done_ns: int,
    slack_ns: int,
) -> int:
    """Count the durations of a tick's parts, and the time from its beginning to the dispatch.

    Parameters
    ----------
    parts_us : ndarray, shape (5,)
        Set to wake-up, cut, macro step, dispatch, and the slack of the previous tick, or NaN.
    counts, longest_ns : ndarray of int, shape (6, BINS), (6,)
        Histograms and maxima of these parts, in this order, and of the time from `begun_ns` to
        `done_ns`; updated in place.
    target_ns, begun_ns, cut_ns, stepped_ns, done_ns : int
        As in `TickMarks`.
    slack_ns : int
        Negative if there was no previous tick.

    Returns
    -------
    int
        Index of the part, among the first four, that took longest.
    """
    wake_ns = max(begun_ns - target_ns, 0)
    parts = (wake_ns, cut_ns - begun_ns, stepped_ns - cut_ns, done_ns - stepped_ns)
    longest = 0
    for kind in range(len(parts)):
        parts_us[kind] = parts[kind] * 1e-3
        count_time(parts[kind], kind, counts, longest_ns)
        if parts[kind] > parts[longest]:
            longest = kind
    parts_us[4] = slack_ns * 1e-3 if slack_ns >= 0 else np.nan
    if slack_ns >= 0:
        count_time(slack_ns, 4, counts, longest_ns)
    count_time(done_ns - begun_ns, 5, counts, longest_ns)
    return longest


def load_counting() -> None:
    """Load the compiled code, or compile it."""
    count_tick_entry(np.zeros(5), np.zeros((6, BINS), np.int64), np.zeros(6, np.int64))


def count_tick_entry(
    parts_us: Floats, counts: NDArray[np.int64], longest_ns: NDArray[np.int64]
) -> Callable[..., int]:
    """Compile `count_tick` for arrays of these types; calls then skip numba's type dispatch."""
    return entry_point(count_tick, parts_us, counts, longest_ns, *(0,) * 6)
