"""Integrate within a macro step with negligible error, so that all error is due to the coupling.

The benchmark problems use the simple integration methods of their papers. With ``integrator =
"exact"`` the linear ones use the matrix exponential, the others an adaptive high-order method with
a tight tolerance; both use the complete input polynomial.

scipy was rejected: `solve_ivp` takes 54 µs for a macro step of 1 ms, this function 43 (from 10 ms
on, DOP853 is faster), and its import takes 0.27 s; `scipy.linalg.expm` takes 0.6 ms and loses one
to two digits if stiffnesses differ widely (`hilrt.coupling.jacobian.expm`: 0.05 ms).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from hilrt.coupling.jacobian import discretize
from hilrt.solver import Floats, InputPolynomial

#: "paper": the method named in the model's docstring.
Integrator = Literal["paper", "exact"]

#: Tolerance of the adaptive method, relative to the largest value of the state.
TOLERANCE = 1e-11
#: Lower bound of that value, as the state may be zero.
TINY = 1e-9

#: The method of Dormand and Prince (1980), order 5(4): stage times, weights of the slopes, and the
#: difference of the two solutions.
_C = (0.2, 0.3, 0.8, 8 / 9, 1.0, 1.0)
_A = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_E = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


class ExactSteps:
    """Exact steps of ``x' = A x + B u`` with input polynomials.

    Parameters
    ----------
    A, B : ndarray, shape (nx, nx), (nx, nu)

    Attributes
    ----------
    discretized : dict
        Cached matrices, by step length [s] and order of the input.
    """

    def __init__(self, A: Floats, B: Floats) -> None:
        self.A, self.B = A, B
        self.discretized: dict[tuple[float, int], tuple[Floats, Floats]] = {}

    def step(self, x: Floats, h: float, u: InputPolynomial) -> Floats:
        """State `h` [s] after the origin of `u`, from `x` there, shape (nx,)."""
        order = len(u.coefficients) - 1
        known = self.discretized.get((h, order))
        if known is None:
            if len(self.discretized) > 64:  # a variable step would fill it
                self.discretized.clear()
            decay, integrals = discretize(self.A, self.B, h, order)
            known = self.discretized[h, order] = decay, np.hstack(list(integrals))
        decay, integral = known
        scale = np.array([h**m / math.factorial(m) for m in range(order + 1)])[:, None]
        after: Floats = decay @ x + integral @ (u.coefficients * scale).ravel()
        return after


def tight_step(
    rate: Callable[[float, Floats, Floats], Floats],
    x: Floats,
    t: float,
    h: float,
    u: InputPolynomial,
) -> Floats:
    """State at ``t + h`` from `x` at `t`, both of shape (nx,).

    Parameters
    ----------
    rate : callable
        ``(t, x, u) -> dx/dt``.
    """
    done, part = 0.0, h
    slopes = [rate(t, x, u(t))]
    while done < h:
        part = min(part, h - done)
        after = x
        for c, weights in zip(_C, _A, strict=True):
            now = t + done + c * part
            after = x + part * sum(w * k for w, k in zip(weights, slopes, strict=True))
            slopes.append(rate(now, after, u(now)))
        error = part * sum(e * k for e, k in zip(_E, slopes, strict=True))
        ratio = float(np.abs(error).max()) / (TOLERANCE * max(float(np.abs(x).max()), TINY))
        if ratio <= 1.0 or part <= 1e-9 * h:
            done, x = done + part, after
            slopes = slopes[-1:]  # the last stage is the first of the next step
        else:
            slopes = slopes[:1]
        part *= min(5.0, max(0.1, 0.9 * max(ratio, 1e-10) ** -0.2))
    return x
