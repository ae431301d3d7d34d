"""Robustness of a formula at every sample, from margins that come in batches.

An operator over time answers for a sample when its window has passed; what its neighbours have
answered meanwhile waits for it. Whatever the batches, the same samples give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from hilrt.expect.formula import Atom, Formula, HoldsUntil, Junction, Window
from hilrt.expect.robustness import Robustness, combine, joined, nothing
from hilrt.expect.sliding import SlidingWindow


class Stream:
    """Robustness of a formula, sample by sample; of the formula every window is bounded.

    Parameters
    ----------
    formula : Formula
        Without `HoldsUntil`.
    numbers : dict of Atom to int
        Where the margins of each comparison stand.
    """

    def __init__(self, formula: Formula, numbers: dict[Atom, int]) -> None:
        self._node = _node(formula, numbers)

    def take(self, margins: Sequence[Robustness]) -> Robustness:
        """Robustness at the samples that can be answered for, after these have come."""
        return self._node.take(margins)

    def finish(self) -> Robustness:
        """Robustness at the samples that are left."""
        return self._node.finish()


class _Comparison:
    def __init__(self, number: int) -> None:
        self._number = number

    def take(self, margins: Sequence[Robustness]) -> Robustness:
        return margins[self._number]

    def finish(self) -> Robustness:
        return nothing()


class _Junction:
    """Parts answer at different times: what is ahead waits."""

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
            raise TypeError("until stands outermost")
