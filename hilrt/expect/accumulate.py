"""What an expectation comes to: the least or the greatest robustness of all samples so far."""

from __future__ import annotations

import math

import numpy as np

from hilrt.expect.robustness import Robustness, least_index


class Accumulator:
    """The least (or the greatest) so far, with its bounds and the sample that decides.

    Parameters
    ----------
    least : bool

    Attributes
    ----------
    least : bool
    value, error : float
        Of the deciding sample; NaN: unknown.
    at_ns, atom : int
        Its time and its comparison; -1: none is known.
    low, high : float
        What the robustness of the samples so far lies between; where a margin's error is not known,
        as if it had none.
    sure : float
        Of samples with a known error alone, the least `high` (the greatest `low`): a sample below
        0 (from 0 on) decides whatever comes.
    count : int
        Samples so far.
    """

    def __init__(self, least: bool) -> None:
        self.least = least
        self.value = self.error = math.nan
        self.at_ns = self.atom = -1
        self.low = self.high = self.sure = math.inf if least else -math.inf
        self.count = 0

    def add(self, block: Robustness) -> None:
        """Take samples in."""
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
