"""Random numbers as functions of a counter: the same on every machine, and nothing to carry along.

splitmix64 (Steele, Lea and Flood 2014), whose n-th number follows from n alone.
"""

from __future__ import annotations

import math

import numpy as np

from hilrt.compilation.compiled import compiled

_INCREMENT, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
_11, _27, _30, _31 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31)
_UNIT = 2.0**-53


@compiled
def mix(z: np.uint64) -> np.uint64:
    """The output function of splitmix64."""
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@compiled
def uniform(seed: int, n: int) -> float:
    """Number `n` of the sequence of `seed`, in ``[0, 1)``."""
    start = mix(np.uint64(seed) + _INCREMENT)
    z = mix(start + np.uint64(n + 1) * _INCREMENT)
    return float(np.float64(z >> _11) * _UNIT)


@compiled
def normal(seed: int, n: int) -> float:
    """Number `n` of a sequence of standard normal numbers (Box and Muller 1958)."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(seed, 2 * n)))
    return radius * math.sin(2.0 * math.pi * uniform(seed, 2 * n + 1))
