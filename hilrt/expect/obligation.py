"""Evaluation of a formula at one time: the outermost operator of an expectation.

Its window may be unbounded, so it accumulates instead of storing samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hilrt.expect.formula import Atom, Formula, HoldsUntil, Junction, Window
from hilrt.expect.robustness import Accumulator, Robustness, SlidingWindow, combine, joined, nothing


class Stream:
    """Robustness of a formula with bounded windows, sample by sample.

    Parameters
    ----------
    formula : Formula
        Without `HoldsUntil`.
    numbers : dict of Atom to int
        Index of each comparison's margins in the argument of `take`.
    """

    def __init__(self, formula: Formula, numbers: dict[Atom, int]) -> None:
        self._node = _node(formula, numbers)

    def take(self, margins: Sequence[Robustness]) -> Robustness:
        """Add samples; return the robustness at those that can be decided now."""
        return self._node.take(margins)

    def finish(self) -> Robustness:
        """Robustness at the remaining samples, after the last one."""
        return self._node.finish()


class _Comparison:
    def __init__(self, number: int) -> None:
        self._number = number

    def take(self, margins: Sequence[Robustness]) -> Robustness:
        return margins[self._number]

    def finish(self) -> Robustness:
        return nothing()


class _Junction:
    """Stream of a junction, whose parts are decided at different times; early ones are kept."""

    def __init__(self, parts: Sequence[_Node], least: bool) -> None:
        self._parts, self._least = parts, least
        self._waiting = [nothing() for _ in parts]

    def take(self, margins: Sequence[Robustness]) -> Robustness:
        return self._combine([part.take(margins) for part in self._parts])

    def finish(self) -> Robustness:
        return self._combine([part.finish() for part in self._parts])

    def _combine(self, blocks: Sequence[Robustness]) -> Robustness:
        waiting = [joined(pair) for pair in zip(self._waiting, blocks, strict=True)]
        ready = min(len(one.t_ns) for one in waiting)
        self._waiting = [one.part(slice(ready, None)) for one in waiting]
        return combine([one.part(slice(0, ready)) for one in waiting], self._least)


class _Window:
    def __init__(self, part: _Node, window: SlidingWindow) -> None:
        self._part, self._window = part, window

    def take(self, margins: Sequence[Robustness]) -> Robustness:
        return self._window.take(self._part.take(margins))

    def finish(self) -> Robustness:
        late = self._window.take(self._part.finish())
        return joined([late, self._window.finish()])


_Node = _Comparison | _Junction | _Window


def _node(formula: Formula, numbers: dict[Atom, int]) -> _Node:
    match formula:
        case Atom():
            return _Comparison(numbers[formula])
        case Junction():
            return _Junction([_node(part, numbers) for part in formula.parts], formula.all)
        case Window():
            assert formula.end_ns is not None
            window = SlidingWindow(formula.always, formula.begin_ns, formula.end_ns)
            return _Window(_node(formula.part, numbers), window)
        case HoldsUntil():
            raise TypeError("until must be outermost")


class Obligation:
    """Formula that must hold at one time.

    Parameters
    ----------
    formula : Formula
        Everything below its outermost operator has bounded windows.
    numbers : dict of Atom to int
        Index of each comparison's margins in the argument of `take`.
    at_ns : int
        The time, ns.
    last_ns : int or None
        End of an unbounded window; None: the last sample.

    Attributes
    ----------
    found : Accumulator
        Result so far.
    complete : bool
        Whether further samples cannot change the result.
    """

    def __init__(
        self, formula: Formula, numbers: dict[Atom, int], at_ns: int, last_ns: int | None
    ) -> None:
        if not isinstance(formula, (Window, HoldsUntil)):
            formula = Window(True, formula, 0, 0)
        self._until = isinstance(formula, HoldsUntil)
        self._part = Stream(formula.part, numbers)
        self._goal = Stream(formula.goal, numbers) if isinstance(formula, HoldsUntil) else None
        least = isinstance(formula, Window) and formula.always
        self.found = Accumulator(least)
        self.complete = False
        self.at_ns, self._begin_ns = at_ns, at_ns + formula.begin_ns
        ends = at_ns + formula.end_ns if formula.end_ns is not None else last_ns
        self._bounded, self._end_ns = formula.end_ns is not None, ends
        self._waiting = [nothing(), nothing()]
        self._before = Accumulator(least=True)  # of "until": the part so far

    def take(self, margins: Sequence[Robustness]) -> None:
        """Add samples; those before its time are ignored."""
        goal = None if self._goal is None else self._goal.take(margins)
        self._add(self._part.take(margins), goal)

    def finish(self) -> None:
        """Finish after the last sample.

        Within "always", samples whose own windows extend beyond the end are left out, because they
        cannot be judged: the last sample would leave every "always, within 2 s" undecided.
        """
        part = self._part.finish()
        if self.found.least and self._goal is None:
            part = part.part(~cut_off(part))
        self._add(part, None if self._goal is None else self._goal.finish())

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the robustness for any further samples."""
        found = self.found
        if self.complete:
            return found.low, found.high
        if self._until:
            return found.low, max(found.high, self._before.high)
        return (-math.inf, found.high) if found.least else (found.low, math.inf)

    def end(self) -> tuple[float, float]:
        """Bounds of the robustness if no more samples follow."""
        found = self.found
        if found.count == 0 or (self._bounded and not self.complete):
            return self.bounds
        return found.low, found.high

    def _add(self, part: Robustness, goal: Robustness | None) -> None:
        if goal is None:
            times = part.t_ns
        else:
            part, goal = self._aligned(part, goal)
            times = part.t_ns
        if self.complete or not len(times):
            return
        first = int(np.searchsorted(times, self.at_ns))
        last = len(times)
        if self._end_ns is not None:
            last = int(np.searchsorted(times, self._end_ns, "right"))
            self.complete = bool(times[-1] >= self._end_ns)
        part = part.part(slice(first, last))
        if goal is not None:
            part = self._reached(part, goal.part(slice(first, last)))
        self.found.add(part.part(part.t_ns >= self._begin_ns))

    def _aligned(self, *blocks: Robustness) -> list[Robustness]:
        """Return the samples for which all parts have results; keep the rest for the next call."""
        pairs = zip(self._waiting, blocks, strict=True)
        waiting = [joined(pair) for pair in pairs]
        ready = min(len(one.t_ns) for one in waiting)
        self._waiting = [one.part(slice(ready, None)) for one in waiting]
        return [one.part(slice(0, ready)) for one in waiting]

    def _reached(self, part: Robustness, goal: Robustness) -> Robustness:
        """Robustness of "goal at this sample, and part at every sample before", at each sample."""
        before = self._before
        n = len(part.t_ns)
        if n == 0:
            return part
        columns = []
        carried = (before.value, before.low, before.high, before.at_ns, before.atom, before.error)
        for column, first in zip(part[1:], carried, strict=True):
            columns.append(np.concatenate([[first], column[:-1]]))
        shifted = Robustness(part.t_ns, *columns)
        running = least_running(shifted)
        before.add(part)
        return combine([goal, running], least=True)


def cut_off(block: Robustness) -> NDArray[np.bool_]:
    """Mark samples judged at the end whose result missing data could change, shape (n,)."""
    open_ended = np.isinf(block.low) | np.isinf(block.high)
    undecided: NDArray[np.bool_] = (block.low < 0.0) & (block.high >= 0.0) & open_ended
    return undecided


def least_running(block: Robustness) -> Robustness:
    """Running minimum, at each sample."""
    value = np.where(np.isnan(block.value), np.inf, block.value)
    least = np.minimum.accumulate(value)
    new = np.concatenate([[True], value[1:] < least[:-1]])
    chosen = np.maximum.accumulate(np.where(new, np.arange(len(value)), 0))
    picked = block.part(chosen)
    return picked._replace(
        t_ns=block.t_ns,
        low=np.minimum.accumulate(block.low),
        high=np.minimum.accumulate(block.high),
    )
