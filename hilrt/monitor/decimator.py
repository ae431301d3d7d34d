"""Reduces rows to their smallest, largest and last value per interval, so that spikes survive."""

from __future__ import annotations

import numpy as np

from hilrt.solver import Floats


class Decimator:
    """Sums up rows until `take` is called.

    Parameters
    ----------
    width : int
        Signals in a row.

    Attributes
    ----------
    rows : int
        Rows since the last `take`.
    t_from, t_until : float
        Session times of the first and the last of them, s.
    minimum, maximum : ndarray, shape (width,)
        Over these rows; NaN where no value was finite.
    last : ndarray, shape (width,)
        Newest value that was not NaN, of any interval.
    """

    def __init__(self, width: int) -> None:
        self.rows = 0
        self.t_from = self.t_until = 0.0
        self.minimum: Floats = np.full(width, np.nan)
        self.maximum: Floats = np.full(width, np.nan)
        self.last: Floats = np.full(width, np.nan)

    def add(self, t: Floats, block: Floats) -> None:
        """Take rows, shape (n, width), at session times `t` [s], shape (n,)."""
        if not len(t):
            return
        if self.rows == 0:
            self.t_from = float(t[0])
            self.minimum = np.fmin.reduce(block, axis=0)
            self.maximum = np.fmax.reduce(block, axis=0)
        else:
            np.fmin(self.minimum, np.fmin.reduce(block, axis=0), out=self.minimum)
            np.fmax(self.maximum, np.fmax.reduce(block, axis=0), out=self.maximum)
        self.t_until = float(t[-1])
        self.rows += len(t)
        known = ~np.isnan(block)
        newest = len(t) - 1 - np.argmax(known[::-1], axis=0)
        values = np.take_along_axis(block, newest[None, :], axis=0)[0]
        np.copyto(self.last, values, where=known.any(axis=0))

    def restart(self) -> None:
        """Begin the next interval."""
        self.rows = 0
