"""Wrong reference models for the subsystems of drawn sessions that cannot be probed.

The law, fixed before anything was fitted to such sessions: the system is built again from the same
draws, but every drawn number (a mass, a frequency, a damping ratio, a length, a lag, a pressure) is
wrong by its own factor, lognormal with a standard deviation of `SIZE`, from a separate random
stream. A stiffness, which follows from a mass and a frequency, is then wrong by half. Linear pairs
drawn as matrices have wrong modes instead: frequency, damping, and the modes' participation in
input, output and D. The effects of a bench (its own cycle, latencies, noise) are in no model.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from hilrt.coupling.jacobian import LinearSubsystem
from tools.calibration.groups import EVERY
from tools.calibration.law import Draw
from tools.calibration.parts import Part, RestorableSolver
from tools.calibration.systems import MistakenRandom, Random

#: Standard deviation of a factor's logarithm.
SIZE = 0.2
#: Group of the systems that are drawn as matrices.
AS_MATRICES = "random linear"
#: Separates the factors' random numbers from those of the sessions.
STREAM = 24
#: Parts of the next session, by name.
_parts: dict[str, Part] = {}


class Mistaken(RestorableSolver):
    """Reference model of the part with that name."""

    def __init__(self, part: str) -> None:
        super().__init__(_parts[part])


def add_references(draw: Draw, seed: int) -> bool:
    """Add reference models of all parts that cannot be probed; return whether there is one."""
    opaque = [p for p in draw.system.parts if not draw.restorable[p.name]]
    mistakes = np.random.default_rng([seed, draw.number, STREAM])
    _parts.clear()
    if draw.group == AS_MATRICES:
        _parts.update({part.name: _other_modes(part, mistakes) for part in opaque})
    elif opaque:
        random = cast(Random, MistakenRandom(draw.seedling, mistakes, SIZE))
        wrong = {part.name: part for part in EVERY[draw.group](random).parts}
        _parts.update({part.name: wrong[part.name] for part in opaque})
    for name in _parts:
        table: dict[str, Any] = draw.tables["subsystems"][name]
        table["reference_model"] = f"{__name__}:Mistaken"
        table["reference_params"] = {"part": name}
    return bool(_parts)


def _other_modes(part: Part, mistakes: Random) -> Part:
    """The part with wrong modes, without its excitation, which no input affects."""
    assert part.linear is not None
    A, B, C, D = (getattr(part.linear, key) for key in "ABCD")
    n = int(np.flatnonzero(B.any(axis=1))[-1]) + 1  # the states of the sines follow the part's own
    right, modes = np.linalg.eig(A[:n, :n])
    values = right.astype(complex)
    into = np.linalg.solve(modes, B[:n].astype(complex))
    for value in right[right.imag >= 0.0]:
        frequency, damping, gain = (_factor(mistakes) for _ in range(3))
        pair = np.isclose(right, value) | np.isclose(right, np.conj(value))
        into[pair] *= gain
        size, share = abs(value) * frequency, min(-value.real / abs(value) * damping, 1.0)
        swing = size * math.sqrt(1.0 - share * share) if value.imag else 0.0
        share = share if value.imag else 1.0
        values[pair] = -size * share + 1j * np.sign(right[pair].imag) * swing
    return Part(
        part.name, part.inputs, part.outputs, part.x0[:n], part.fastest, part.feedthrough,
        linear=LinearSubsystem(
            (modes @ np.diag(values) @ np.linalg.inv(modes)).real, (modes @ into).real,
            C[:, :n], D * _factor(mistakes),
        ),
    )  # fmt: skip


def _factor(mistakes: Random) -> float:
    return math.exp(SIZE * float(mistakes.normal()))
