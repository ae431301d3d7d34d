"""Robustness of a formula at consecutive samples, with what is known of its error.

Robustness is the signed distance to the limit (Fainekos and Pappas 2009; Donzé and Maler 2010):
comparisons give their margin, "all" and "always" the least, "any" and "eventually" the greatest.
Here it comes with bounds, and all three go through the same operators: `low` and `high` enclose
what it can be, given the errors of the signals, samples that are unknown, and samples that are yet
to come (Deshmukh et al. 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.solver import Floats

Ints = NDArray[np.int64]
#: Smallest positive number. The margin of a strict comparison of two equal numbers is minus that,
#: so that 0 counts as kept: with ``<=`` a value at its limit is within it, with ``<`` it is not.
TINY = 5e-324


class Robustness(NamedTuple):
    """At n samples.

    Attributes
    ----------
    t_ns : ndarray, shape (n,)
        Times of the samples, ns.
    value : ndarray, shape (n,)
        Robustness; NaN where nothing is known.
    low, high : ndarray, shape (n,)
        What it lies between.
    at_ns : ndarray, shape (n,)
        Time of the sample that decides `value`, ns.
    atom : ndarray, shape (n,)
        Number of the comparison that decides it.
    error : ndarray, shape (n,)
        Estimated error of that comparison's margin at that sample; NaN: unknown.
    """

    t_ns: Ints
    value: Floats
    low: Floats
    high: Floats
    at_ns: Ints
    atom: Ints
    error: Floats

    def part(self, chosen: slice | Ints | NDArray[np.bool_]) -> Robustness:
        """At some of the samples."""
        return Robustness(
            self.t_ns[chosen],
            self.value[chosen],
            self.low[chosen],
            self.high[chosen],
            self.at_ns[chosen],
            self.atom[chosen],
            self.error[chosen],
        )


def of_samples(
    t_ns: Ints, margin: Floats, error: Floats, number: int, raw_limit: bool = False
) -> Robustness:
    """Robustness of one comparison.

    Parameters
    ----------
    t_ns : ndarray, shape (n,)
        ns
    margin : ndarray, shape (n,)
        NaN where it is unknown; it could then be anything.
    error : ndarray, shape (n,)
        Estimated error of the margin; NaN where it is unknown.
    number : int
        Of the comparison.
    raw_limit : bool
        What was measured on a bench counts as it is where it violates the limit: it has happened,
        whatever has led to it.
    """
    unknown = np.isnan(margin)
    band = np.where(np.isnan(error), 0.0, error)
    low, high = margin - band, margin + band
    if raw_limit:
        violated = margin < 0.0
        high = np.where(violated, margin, high)
        error = np.where(violated, 0.0, error)
    return Robustness(
        t_ns,
        margin,
        np.where(unknown, -np.inf, low),
        np.where(unknown, np.inf, high),
        t_ns,
        np.full(len(t_ns), number, np.int64),
        error,
    )


def nothing() -> Robustness:
    """At no sample."""
    numbers, floats = np.empty(0, np.int64), np.empty(0)
    return Robustness(numbers, floats, floats, floats, numbers, numbers, floats)


def joined(blocks: Sequence[Robustness]) -> Robustness:
    """Blocks one after the other."""
    if len(blocks) == 1:
        return blocks[0]
    return Robustness(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))


def least_index(values: Floats, axis: int | None = None) -> Ints:
    """Where the least value stands, the first of equals; NaN counts for nothing."""
    return np.asarray(np.argmin(np.where(np.isnan(values), np.inf, values), axis), np.int64)


def combine(parts: Sequence[Robustness], least: bool) -> Robustness:
    """The least, or the greatest, of several at each sample; their times are the same."""
    sign = 1.0 if least else -1.0
    values = np.stack([part.value for part in parts])
    chosen = least_index(sign * values, 0)
    extreme = np.minimum if least else np.maximum
    columns = np.arange(values.shape[1])

    def of_chosen(of_parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        picked: NDArray[Any] = np.stack(of_parts)[chosen, columns]
        return picked

    return Robustness(
        parts[0].t_ns,
        of_chosen([part.value for part in parts]),
        extreme.reduce([part.low for part in parts]),
        extreme.reduce([part.high for part in parts]),
        of_chosen([part.at_ns for part in parts]),
        of_chosen([part.atom for part in parts]),
        of_chosen([part.error for part in parts]),
    )
