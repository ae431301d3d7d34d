"""Stability of the explicit exchange with responses that trials have shown.

The exchange extrapolates ``u = L y`` from the last samples. With linear subsystems that is a linear
map of their states and the last outputs from one communication point to the next. Errors grow if
the spectral radius of that map is above 1; `hilrt.analyze.propagation` builds the same map from a
session file. A stiff direct feedthrough may be stable with held inputs and unstable with inputs
along a line: for two inertias and a viscous clutch of rate ``a = k H (1/J1 + 1/J2)`` per step, the
limits are a = 1 and a = 0.399.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.coupling.true_inputs import lagrange_basis
from hilrt.solver import Floats

#: Minimum distance from singularity of direct responses in a feedback loop that is solved.
_REGULAR: Final = 1e-9
#: Factor up to which longer steps are examined, their number, and how often the interval to the
#: first unstable one is halved.
FURTHEST: Final = 10.0
_POINTS, _HALVINGS = 9, 4
#: Rows of the largest map whose eigenvalues are computed: a quarter of a second.
_MOST_ROWS: Final = 256
#: Iterations for a spectral radius that need not be exact.
_ITERATIONS: Final = 20


class OpenLoop(NamedTuple):
    """The subsystems side by side, before their inputs are taken from the outputs.

    Attributes
    ----------
    whole : LinearSubsystem
    L : ndarray, shape (nu, ny)
        The connections: ``u = L y``.
    slope : ndarray, shape (nu,)
        Share of an input polynomial's change within a macro step that acts.
    every : int
        Macro steps of the longest communication step. All subsystems are taken to have that one.
    """

    whole: LinearSubsystem
    L: Floats
    slope: Floats
    every: int

    def coupled(self) -> LinearSubsystem | None:
        """Map disturbances of inputs to errors of outputs; None if that is not finite."""
        A, B, C, D = self.whole.A, self.whole.B, self.whole.C, self.whole.D
        through = np.eye(len(self.L)) - self.L @ D
        if abs(np.linalg.det(through)) < _REGULAR:
            return None
        M = np.linalg.inv(through)
        back = M @ self.L @ C
        loop = LinearSubsystem(A + B @ back, B @ M, C + D @ back, D @ M)
        finite = all(np.isfinite(matrix).all() for matrix in (loop.A, loop.B, loop.C, loop.D))
        return loop if finite else None

    def growth(self, step: float, order: int) -> float:
        """Rate by which the exchange makes errors grow beyond the coupled system's own, 1/s.

        It is 0 if errors decay, or grow no faster than in the coupled system itself.

        Parameters
        ----------
        step : float
            Macro step, s.
        order : int
            Order of the extrapolation of all inputs.

        Returns
        -------
        float
            NaN if it is unknown.
        """
        h = step * self.every
        if len(self.whole.A) + (order + 1) * len(self.whole.C) > _MOST_ROWS:
            return math.nan
        try:
            with np.errstate(all="ignore"):
                coupled, matrix = self.coupled(), self._exchange(h, order)
        except ValueError:
            return math.nan
        if coupled is None or not np.isfinite(matrix).all():
            return math.nan
        own = float(np.linalg.eigvals(coupled.A).real.max(initial=0.0))
        radius = float(np.abs(np.linalg.eigvals(matrix)).max(initial=1.0))
        return max(math.log(radius) / h - own, 0.0)

    def longest_stable(self, step: float, order: int, time_s: float) -> float | None:
        """Longest step up to `FURTHEST` times `step` [s] at which errors do not grow.

        Growth less than e-fold in `time_s` [s], or not faster than at `step`, does not count. None
        if it is unknown.
        """
        tolerated = max(self.growth(step, order), 1.0 / time_s)
        if math.isnan(tolerated):
            return None
        low = step
        for high in np.geomspace(step, FURTHEST * step, _POINTS)[1:].tolist():
            if not self.growth(high, order) <= tolerated:
                break
            low = high
        else:
            return low
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            stable = self.growth(middle, order) <= tolerated
            low, high = (middle, high) if stable else (low, middle)
        return low

    def gain(self, step: float) -> float:
        """Amplification around the loops over a macro step of `step` [s], without signs.

        It is found at a small part of the cost of `growth`, and does not depend on units. NaN if it
        is unknown.
        """
        try:
            with np.errstate(all="ignore"):
                around = np.abs(self.L @ self.whole.jacobian(step * self.every, 0)[0])
                found, share = 0.0, np.full(len(around), 1.0 / max(len(around), 1))
                for _ in range(_ITERATIONS):
                    share = share + around @ share  # the shift by 1 leaves no cycle of iterates
                    found = float(share.sum()) - 1.0
                    share /= share.sum()
        except ValueError:
            return math.nan
        return found

    def _exchange(self, h: float, order: int) -> Floats:
        """Map of the states and the last ``order + 1`` outputs over a step of `h` [s]."""
        A, B = self.whole.discretize(h, order)
        C, D = self.whole.C, self.whole.D
        nx, ny = len(A), len(C)
        used = np.where(np.arange(order + 1)[:, None] > 0, self.slope, 1.0)[:, None, :]
        to_x, to_y = B * used, (C @ B + D) * used
        basis = lagrange_basis(-np.arange(order + 1.0))
        found = np.zeros((nx + (order + 1) * ny,) * 2)
        found[:nx, :nx], found[nx : nx + ny, :nx] = A, C @ A
        for j in range(order + 1):
            past = slice(nx + j * ny, nx + (j + 1) * ny)
            found[:nx, past] = np.tensordot(basis[j], to_x, 1) @ self.L
            found[nx : nx + ny, past] = np.tensordot(basis[j], to_y, 1) @ self.L
        kept = np.arange(order * ny)
        found[nx + ny + kept, nx + kept] = 1.0
        return found
