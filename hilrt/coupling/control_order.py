"""Order control by scaled derivative norms (METHODS section 7, paper 000 section 5.2).

While the terms ``SDN(j) = ‖H^j d^j P^j/dt^j‖`` of the inputs' extrapolation polynomials fall with
j, one degree more makes extrapolation better; where they do not, a signal is too fast for its
samples, and a lower degree is safer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hilrt.solver import Floats

#: So many failed steps in a row bring the order to at most 1, and to 0.
FAILURES_TO_ONE, FAILURES_TO_ZERO = 3, 5


class OrderState(NamedTuple):
    """`order` in force, and steps in a row that failed, or succeeded with it at no shorter step."""

    order: int
    failures: int = 0
    successes: int = 0


def scaled_derivative_norms(differences: Floats, weight: Floats, h: float) -> list[float]:
    """``SDN(1) … SDN(n)`` of the inputs: WRMS norms of ``H^j j! u[t_0 … t_j]``.

    Parameters
    ----------
    differences : ndarray, shape (n, nu)
        Divided differences of order 1 … n of the inputs.
    weight : ndarray, shape (nu,)
        Weight of each input, in its unit.
    h : float
        Macro step, s.
    """
    mean = np.square(differences / weight).mean(axis=1)
    return [
        math.factorial(j) * h**j * math.sqrt(square) for j, square in enumerate(mean.tolist(), 1)
    ]


def next_order(
    state: OrderState,
    norms: Sequence[float],
    *,
    failed: bool,
    reduced: bool,
    minimum: int,
    maximum: int,
) -> OrderState:
    """Order of the next step.

    Parameters
    ----------
    norms : sequence of float
        ``SDN(1) …``, as far as the samples suffice; an order is not raised without
        ``SDN(order + 2)``.
    failed, reduced : bool
        Whether the step that ended failed its error test, and was shorter than the one before.
    minimum, maximum : int
        Bounds of the order.
    """
    k = state.order
    failures = state.failures + 1 if failed else 0
    successes = 0 if failed or reduced else state.successes + 1
    new = _lowered(k, norms)
    if failures > FAILURES_TO_ZERO:
        new = 0
    elif failures > FAILURES_TO_ONE:
        new = min(new, 1)
    if successes > k and len(norms) >= k + 2:
        new = _reconsidered(k, norms, new)
    new = min(max(new, minimum), maximum)
    return OrderState(new, failures, successes if new == k else 0)


def _lowered(k: int, norms: Sequence[float]) -> int:
    """`k`, or one less where the terms grow."""
    if len(norms) < k + 1:
        return k
    if k == 1 and norms[0] <= 0.5 * norms[1]:
        return 0
    if k > 1 and max(norms[k - 1], norms[k - 2]) <= norms[k]:
        return k - 1
    return k


def _reconsidered(k: int, norms: Sequence[float], new: int) -> int:
    """What follows after more than `k` steps in peace: `new`, or one more or less than `k`."""
    if k == 0:
        return 1 if norms[1] < 0.5 * norms[0] else new
    if norms[k - 1] <= min(norms[k], norms[k + 1]):
        return k - 1
    if norms[k + 1] < norms[k]:
        return k + 1
    return new
