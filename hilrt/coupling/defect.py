"""Connection and output defects of the interval that ended (METHODS section 6, paper 003)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilrt.compiled import compiled
from hilrt.coupling.polynomial import rms_difference
from hilrt.solver import Floats
from hilrt.tables.network import Bools, Ints


def connection_defect(
    sent: Floats, sent_t0: Floats, measured: Floats, t: float, h: float, rms: Floats
) -> None:
    """RMS over ``[t - h, t]`` of the input as sent minus the input as it turned out, into `rms`.

    Parameters
    ----------
    sent, sent_t0 : ndarray, shape (order + 1, nu), (nu,)
        Taylor coefficients of the polynomials that left the master for the interval, each about
        its own start [s].
    measured : ndarray, shape (order + 1, nu)
        The same of ``L ỹ`` through the outputs now known, of the connections' own order, about `t`.
    t, h : float
        End and length of the interval, s.
    rms : ndarray, shape (nu,)
        Overwritten, in the inputs' units.
    """
    rms_difference(sent, sent_t0, measured, t, h, rms)


_ORDERS = np.arange(16)
_FACTOR = 2.0 ** (_ORDERS + 1) / np.sqrt(2.0 * _ORDERS + 3.0)


def output_defect(middle: Floats, expected: Floats, order: Ints) -> Floats:
    """RMS over the interval of the output defect, shape (ny,); NaN where `middle` is.

    The defect is ``Δ ((t - τ) / (h/2))**(n + 1)`` with Δ the true minus the Taylor value in the
    middle of the interval; its RMS is ``|Δ| 2**(n + 1) / sqrt(2 n + 3)``.

    Parameters
    ----------
    middle : ndarray, shape (ny,)
        Outputs in the middle of the interval.
    expected : ndarray, shape (ny,)
        What the outputs' Taylor polynomials of degree `order` (ny,), about the interval's end,
        give there.
    """
    rms: Floats = np.abs(middle - expected) * _FACTOR[order]
    return rms


@dataclass(slots=True)
class DefectTotals:
    """Defects over a run: ``∫ δ² dt`` and the largest RMS of a step, of inputs and outputs.

    `u_square`, `u_max` have shape (nu,), `y_square`, `y_max`, `y_known` shape (ny,); `y_known`
    says whether an output's defect was ever known.
    """

    u_square: Floats
    u_max: Floats
    y_square: Floats
    y_max: Floats
    y_known: Bools

    @classmethod
    def start(cls, n_inputs: int, n_outputs: int) -> DefectTotals:
        """Nothing yet."""
        u, y = np.zeros(n_inputs), np.zeros(n_outputs)
        return cls(u, u.copy(), y, y.copy(), np.zeros(n_outputs, dtype=bool))

    def add_inputs(self, u_defect: Floats, h: float) -> None:
        """Add a step of length `h` [s] with the RMS defects `u_defect`, shape (nu,)."""
        add(u_defect, h, self.u_square, self.u_max)

    def add_outputs(self, y_defect: Floats, h: Floats) -> None:
        """Add steps of lengths `h` (ny,) [s] with RMS defects `y_defect` (ny,); NaN is unknown."""
        known = np.isfinite(y_defect)
        np.add(self.y_square, y_defect * y_defect * h, out=self.y_square, where=known)
        np.maximum(self.y_max, y_defect, out=self.y_max, where=known)
        self.y_known |= known


@compiled
def add(defect: Floats, h: float, square: Floats, largest: Floats) -> None:
    """Add a step of length `h` [s] to the sum of squares over time, and to the largest, (n,)."""
    for i in range(len(defect)):
        square[i] += defect[i] * defect[i] * h
        largest[i] = max(largest[i], defect[i])
