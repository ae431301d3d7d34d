"""Robustness of a formula at consecutive samples, with its bounds.

Robustness is the signed distance to the limit (Fainekos and Pappas 2009; Donzé and Maler 2010):
comparisons give their margin, "all" and "always" the least, "any" and "eventually" the greatest.
Here it has bounds, to which the same operators are applied: `low` and `high` enclose its possible
values, given the errors of the signals, unknown samples, and future samples (Deshmukh et al.
2017).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hilrt.solver import Floats

Ints = NDArray[np.int64]
#: Smallest positive number. The margin of a strict comparison of two equal numbers is its negative,
#: because a margin of 0 satisfies a limit: ``<=`` allows a value at its limit, ``<`` does not.
TINY = 5e-324


class Robustness(NamedTuple):
    """Robustness at n samples.

    Attributes
    ----------
    t_ns : ndarray, shape (n,)
        Times of the samples, ns.
    value : ndarray, shape (n,)
        Robustness; NaN if nothing is known.
    low, high : ndarray, shape (n,)
        Bounds of the robustness.
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
        """Robustness at the chosen samples."""
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
        NaN if unknown; any value is then possible.
    error : ndarray, shape (n,)
        Estimated error of the margin; NaN if unknown.
    number : int
        Number of the comparison.
    raw_limit : bool
        Whether a violation of the limit counts regardless of the error, because the value was
        really measured on a bench.
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
    """Robustness at no samples."""
    numbers, floats = np.empty(0, np.int64), np.empty(0)
    return Robustness(numbers, floats, floats, floats, numbers, numbers, floats)


def joined(blocks: Sequence[Robustness]) -> Robustness:
    """Concatenate blocks."""
    if len(blocks) == 1:
        return blocks[0]
    return Robustness(*(np.concatenate(columns) for columns in zip(*blocks, strict=True)))


def least_index(values: Floats, axis: int | None = None) -> Ints:
    """Index of the least value, the first if several are equal; NaN is ignored."""
    return np.asarray(np.argmin(np.where(np.isnan(values), np.inf, values), axis), np.int64)


def combine(parts: Sequence[Robustness], least: bool) -> Robustness:
    """Least (or greatest) of several parts at each sample; the parts have the same times."""
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


T = TypeVar("T")
#: Time of the deciding sample, number of its comparison, error of its margin.
Decides = tuple[int, int, float]


class _Extremes(Generic[T]):
    """Running minimum over the newest samples; the first if several are equal."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, float, T]] = deque()

    def push(self, t_ns: int, value: float, more: T) -> None:
        kept = self._kept
        while kept and kept[-1][1] > value:
            kept.pop()
        kept.append((t_ns, value, more))

    def least(self, since_ns: int) -> tuple[int, float, T] | None:
        """Least sample from `since_ns` on; None if there is none."""
        kept = self._kept
        while kept and kept[0][0] < since_ns:
            kept.popleft()
        return kept[0] if kept else None


class SlidingWindow:
    """Robustness of "always" or "eventually" in a bounded window, sample by sample.

    Parameters
    ----------
    always : bool
        Whether the least value counts, otherwise the greatest.
    begin_ns, end_ns : int
        Window relative to each sample, never before it; both ends are included.
    """

    def __init__(self, always: bool, begin_ns: int, end_ns: int) -> None:
        self._sign = 1.0 if always else -1.0
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._value: _Extremes[Decides] = _Extremes()
        self._low: _Extremes[None] = _Extremes()
        self._high: _Extremes[None] = _Extremes()
        #: Samples that no window has reached yet: value, low and high, multiplied by the sign.
        self._ahead: deque[tuple[int, float, float, float, Decides]] = deque()
        #: Samples whose window has not passed yet.
        self._open: deque[tuple[int, int]] = deque()
        self._newest_ns = 0

    def take(self, block: Robustness) -> Robustness:
        """Add samples; return the robustness at those whose window has passed."""
        if not len(block.t_ns):
            return nothing()
        signed = (self._sign * column for column in (block.value, block.low, block.high))
        times, atom = block.t_ns.tolist(), block.atom.tolist()
        decides = zip(block.at_ns.tolist(), atom, block.error.tolist(), strict=True)
        self._ahead.extend(zip(times, *(s.tolist() for s in signed), decides, strict=True))
        self._open.extend(zip(times, atom, strict=True))
        self._newest_ns = times[-1]
        return self._decided(ended=False)

    def finish(self) -> Robustness:
        """Robustness at the remaining samples, whose windows extend beyond the end."""
        return self._decided(ended=True)

    def _decided(self, ended: bool) -> Robustness:
        found = []
        waiting, newest_ns = self._open, self._newest_ns
        while waiting and (ended or waiting[0][0] + self._end_ns <= newest_ns):
            t_ns, atom = waiting.popleft()
            self._enter(t_ns + self._end_ns)
            found.append(self._at(t_ns, atom, cut=t_ns + self._end_ns > newest_ns))
        if not found:
            return nothing()
        columns = [np.array(column) for column in zip(*found, strict=True)]
        for i in (1, 2, 3):
            columns[i] = columns[i] * self._sign
        return Robustness(*columns)

    def _enter(self, until_ns: int) -> None:
        ahead = self._ahead
        while ahead and ahead[0][0] <= until_ns:
            t_ns, value, low, high, decides = ahead.popleft()
            if not math.isnan(value):
                self._value.push(t_ns, value, decides)
            self._low.push(t_ns, low, None)
            self._high.push(t_ns, high, None)

    def _at(
        self, t_ns: int, atom: int, cut: bool
    ) -> tuple[int, float, float, float, int, int, float]:
        """Row of `Robustness`, multiplied by the sign; `cut`: the window extends beyond the end."""
        since_ns = t_ns + self._begin_ns
        value = self._value.least(since_ns)
        low, high = self._low.least(since_ns), self._high.least(since_ns)
        unknown = -math.inf * self._sign, math.inf * self._sign
        if low is None or high is None:  # no sample in the window
            return t_ns, math.nan, *unknown, t_ns, atom, math.nan
        bounds = [low[1], high[1]]
        if cut:  # missing samples could be less (or greater, by the sign)
            bounds[0 if self._sign > 0.0 else 1] = -math.inf
        if value is None:
            return t_ns, math.nan, bounds[0], bounds[1], t_ns, atom, math.nan
        _, least, (at_ns, decides, error) = value
        return t_ns, least, bounds[0], bounds[1], at_ns, decides, error


class Accumulator:
    """Least (or greatest) value so far, with its bounds and the deciding sample.

    Parameters
    ----------
    least : bool

    Attributes
    ----------
    least : bool
    value, error : float
        Value and error of the deciding sample; NaN: unknown.
    at_ns, atom : int
        Time of the deciding sample, and its comparison; -1: unknown.
    low, high : float
        Bounds of the robustness of the samples so far; an unknown error of a margin counts as none.
    sure : float
        Least `high` (greatest `low`) of the samples with a known error; once it is below 0 (at
        least 0), further samples cannot change the result.
    count : int
        Number of samples so far.
    """

    def __init__(self, least: bool) -> None:
        self.least = least
        self.value = self.error = math.nan
        self.at_ns = self.atom = -1
        self.low = self.high = self.sure = math.inf if least else -math.inf
        self.count = 0

    def add(self, block: Robustness) -> None:
        """Add samples."""
        if not len(block.t_ns):
            return
        self.count += len(block.t_ns)
        sign = 1.0 if self.least else -1.0
        i = int(least_index(sign * block.value))
        value = float(block.value[i])
        if not math.isnan(value) and not sign * value >= sign * self.value:
            self.value, self.error = value, float(block.error[i])
            self.at_ns, self.atom = int(block.at_ns[i]), int(block.atom[i])
        known = ~np.isnan(block.error)
        if self.least:
            self.low = min(self.low, float(block.low.min()))
            self.high = min(self.high, float(block.high.min()))
            self.sure = float(np.min(block.high[known], initial=self.sure))
        else:
            self.low = max(self.low, float(block.low.max()))
            self.high = max(self.high, float(block.high.max()))
            self.sure = float(np.max(block.low[known], initial=self.sure))
