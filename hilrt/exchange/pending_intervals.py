"""Intervals that a late solver has yet to be sent, for ``late.steps = "catch_up"``.

Every interval keeps its own input polynomial, so that the solver gets, late, what it would have got
in time, in steps of its own length. Ticks that the master itself left out have no polynomial: the
present one covers them, in steps of that length, too.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from hilrt.solver import Floats, InputPolynomial


class Interval(NamedTuple):
    """What `Link.dispatch` is given, and where it ends in session time, ns."""

    tick: int
    t: float
    h: float
    coefficients: Floats
    end_ns: int


class PendingIntervals:
    """Intervals of one solver, oldest first.

    Attributes
    ----------
    waiting : deque of Interval
        Not sent yet.
    end_ns : int
        Where the newest interval, sent or not, ends in session time, ns.
    """

    def __init__(self) -> None:
        self.waiting: deque[Interval] = deque()
        self.end_ns = 0

    def add(
        self, tick: int, t: float, h: float, coefficients: Floats, end_ns: int, own_ns: int
    ) -> None:
        """Enter the interval from `t` on, of length `h` [s], in steps of `own_ns`.

        `coefficients`, shape (order + 1, n_inputs), are about `t` and stay the caller's.
        """
        steps = max(1, round((end_ns - self.end_ns) / own_ns))
        if steps == 1:
            self.waiting.append(Interval(tick, t, h, coefficients.copy(), end_ns))
        else:
            inputs = InputPolynomial(t, coefficients)
            for i in range(steps):
                piece_end_ns = end_ns - (steps - 1 - i) * own_ns
                piece_t = t if i == 0 else (piece_end_ns - own_ns) / 1e9
                piece = np.array([inputs.derivative(piece_t, m) for m in range(len(coefficients))])
                length = piece_end_ns / 1e9 - piece_t if i == 0 else own_ns / 1e9
                self.waiting.append(Interval(tick, piece_t, length, piece, piece_end_ns))
        self.end_ns = end_ns

    def restart(self, at_ns: int) -> None:
        """Forget what waits: the solver starts anew at `at_ns`."""
        self.waiting.clear()
        self.end_ns = at_ns
