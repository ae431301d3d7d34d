"""Least or greatest robustness over a window that moves along the samples.

A monotonic deque for each of value, low and high holds those samples that may still be the least;
every sample enters and leaves it once (Lemire 2006), whatever the window's length.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Generic, TypeVar

import numpy as np

from hilrt.expect.robustness import Robustness, nothing

T = TypeVar("T")
#: Of the sample that decides: its time, the comparison's number, the margin's error.
Decides = tuple[int, int, float]


class _Extremes(Generic[T]):
    """The least of the newest samples; of equals, the first."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, float, T]] = deque()

    def push(self, t_ns: int, value: float, more: T) -> None:
        kept = self._kept
        while kept and kept[-1][1] > value:
            kept.pop()
        kept.append((t_ns, value, more))

    def least(self, since_ns: int) -> tuple[int, float, T] | None:
        """The least from `since_ns` on; None if there is none."""
        kept = self._kept
        while kept and kept[0][0] < since_ns:
            kept.popleft()
        return kept[0] if kept else None


class SlidingWindow:
    """Robustness of "always" or "eventually" in a bounded window, sample by sample.

    Parameters
    ----------
    always : bool
        The least counts, else the greatest.
    begin_ns, end_ns : int
        The window, relative to each sample, both ends included; not before it.
    """

    def __init__(self, always: bool, begin_ns: int, end_ns: int) -> None:
        self._sign = 1.0 if always else -1.0
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._value: _Extremes[Decides] = _Extremes()
        self._low: _Extremes[None] = _Extremes()
        self._high: _Extremes[None] = _Extremes()
        #: Samples that no window has reached yet: value, low and high with the sign.
        self._ahead: deque[tuple[int, float, float, float, Decides]] = deque()
        #: Samples whose window has not passed yet.
        self._open: deque[tuple[int, int]] = deque()
        self._newest_ns = 0

    def take(self, block: Robustness) -> Robustness:
        """Robustness at the samples whose window has passed, after these have come."""
        if not len(block.t_ns):
            return nothing()
        signed = (self._sign * column for column in (block.value, block.low, block.high))
        times, atom = block.t_ns.tolist(), block.atom.tolist()
        decides = zip(block.at_ns.tolist(), atom, block.error.tolist(), strict=True)
        self._ahead.extend(zip(times, *(s.tolist() for s in signed), decides, strict=True))
        self._open.extend(zip(times, atom, strict=True))
        self._newest_ns = times[-1]
        return self._answer(ended=False)

    def finish(self) -> Robustness:
        """Robustness at the samples that are left: of their windows nothing more comes."""
        return self._answer(ended=True)

    def _answer(self, ended: bool) -> Robustness:
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
        """A row of `Robustness`, with the sign; `cut`: the window reaches beyond the end."""
        since_ns = t_ns + self._begin_ns
        value = self._value.least(since_ns)
        low, high = self._low.least(since_ns), self._high.least(since_ns)
        unknown = -math.inf * self._sign, math.inf * self._sign
        if low is None or high is None:  # no sample is in it
            return t_ns, math.nan, *unknown, t_ns, atom, math.nan
        bounds = [low[1], high[1]]
        if cut:  # what does not come any more could be less, or with the other sign greater
            bounds[0 if self._sign > 0.0 else 1] = -math.inf
        if value is None:
            return t_ns, math.nan, bounds[0], bounds[1], t_ns, atom, math.nan
        _, least, (at_ns, decides, error) = value
        return t_ns, least, bounds[0], bounds[1], at_ns, decides, error
