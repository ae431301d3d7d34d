"""Consistent start values where outputs and inputs form a feedthrough loop.

Before the first step nothing has moved, so that subsystems can be evaluated more than once at the
same point in time. The unknowns are the inputs of the loop. Newton's method with one difference per
input solves a linear loop in one iteration, whatever its gain; plain substitution needs a gain
below 1.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np

from hilrt.errors import SessionFault
from hilrt.solver import Floats

MAX_ROUNDS = 20
#: Residual at which the loop counts as solved, relative to the inputs or absolute below 1.
TOLERANCE = 1e-9
_DIFFERENCE = 1e-6
#: Condition number above which the differences are useless.
_SINGULAR = 1e9

#: Map the inputs of the loop to the inputs that the connections then compute, both (n,).
Evaluate = Callable[[Floats], Awaitable[Floats]]


async def close_loop(evaluate: Evaluate, u: Floats, names: list[str]) -> Floats:
    """Inputs for which the connections return the same inputs, shape (n,).

    Parameters
    ----------
    evaluate : callable
        Evaluates the subsystems; the last call uses the result.
    u : ndarray, shape (n,)
        Initial guess.
    names : list of str
        Names of the inputs, for the message.

    Raises
    ------
    SessionFault
        If there is no solution nearby.
    """
    residual = await evaluate(u) - u
    for _ in range(MAX_ROUNDS):
        if _small(residual, u):
            return u
        slopes = np.empty((len(u), len(u)))
        for i in range(len(u)):
            change = _DIFFERENCE * max(1.0, abs(float(u[i])))
            moved = u.copy()
            moved[i] += change
            slopes[:, i] = (await evaluate(moved) - moved - residual) / change
        if not np.isfinite(slopes).all() or np.linalg.cond(slopes) > _SINGULAR:
            break
        u = u - np.linalg.solve(slopes, residual)
        if not np.isfinite(u).all():
            break
        residual = await evaluate(u) - u
    if _small(residual, u):
        return u
    worst = ", ".join(names[i] for i in np.argsort(-np.abs(residual))[:3])
    raise SessionFault(
        f"the algebraic loop through {worst} has no consistent start values near those of the "
        "ports; give other start values, or break the loop with a state or a filter"
    )


def _small(residual: Floats, u: Floats) -> bool:
    return bool((np.abs(residual) <= TOLERANCE * np.maximum(1.0, np.abs(u))).all())
