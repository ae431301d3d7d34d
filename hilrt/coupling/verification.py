"""What is known of a bond's correction by another way than the one that it came from.

A given D, a solver's Jacobian and a μ are statements about a subsystem. Where it can be tried out,
the effort's answer to the inputs is known independently of them, and with it what the correction
should have added at every tick.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hilrt.solver import Floats
from hilrt.tables.ports import Bools

#: Share of an entry of a Jacobian by which it may differ from the one found independently, and
#: share of the largest change of its output, by any input, below which a difference is that of
#: the trial.
TOLERANCE: Final = 0.2
SMALL: Final = 0.01


class Verification(NamedTuple):
    """Of all bonds, before the first tick.

    Attributes
    ----------
    states : list of int
        By bond: `UNVERIFIED`, `VERIFIED` or `WRONG` of `hilrt.tables.plan`.
    sensitivities : list of (int, int, float)
        Element, input, and the direct answer of the element's effort to the input, where it was
        found independently.
    """

    states: list[int]
    sensitivities: list[tuple[int, int, float]]


def contradicts(used: Floats, found: Floats, scales: Floats | None = None) -> Bools:
    """Entries in which a Jacobian in use differs from the one found independently.

    Parameters
    ----------
    used, found : ndarray, shape (..., ny, nu)
    scales : ndarray, shape (nu,), optional
        Magnitudes of the inputs, in their units: of entries with different units, those are
        compared that an output changes by. Without it, all count as 1.

    Returns
    -------
    ndarray of bool, of that shape
    """
    weights = np.ones(found.shape[-1]) if scales is None else scales
    used, found = used * weights, found * weights
    largest = np.abs(found).max(axis=-1, keepdims=True, initial=0.0)
    wrong: Bools = np.abs(used - found) > TOLERANCE * np.abs(found) + SMALL * largest
    return wrong
