"""Whether a bench follows its set-points after they have been ramped to the first demand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hilrt.bench.guard_states import NS
from hilrt.bench.set_points import RampedSetPoints, Values
from hilrt.config.structs import InputOptions

#: The bench has settled when all inputs have been realised for this long …
SETTLE_NS = NS // 5
#: … and arming goes on without one, with a warning, after this long.
SETTLE_TIMEOUT_NS = 5 * NS


def longest_ramp(inputs: Iterable[InputOptions]) -> float:
    """Longest time that one of `inputs` takes over its whole range, s; 0 if none has bounds."""
    longest = 0.0
    for entry in inputs:
        if entry.min is not None and entry.max is not None and entry.max_rate is not None:
            build_up = 0.0 if entry.max_jerk is None else entry.max_rate / entry.max_jerk
            longest = max(longest, (entry.max - entry.min) / entry.max_rate + build_up)
    return longest


class Settled(NamedTuple):
    """The end of settling; `unrealised` are the inputs that the bench does not follow."""

    unrealised: list[int]


class Settling:
    """Looks at one ramp, from arming on.

    Parameters
    ----------
    tolerance : sequence of float
        Of each input, in its unit.
    """

    def __init__(self, tolerance: Sequence[float]) -> None:
        self._tolerance = tolerance
        self._arrived_at: int | None = None  # the demands
        self._since: int | None = None  # the bench follows all of them

    def look(self, now: int, points: RampedSetPoints, realised: Values) -> Settled | None:
        """What has come of it by `now` [ns]; None while it goes on."""
        if not points.arrived:
            return None
        if self._arrived_at is None:
            self._arrived_at = now
        off = [
            i
            for i, value in enumerate(realised)
            if abs(value - points.target[i]) > self._tolerance[i]  # False for NaN
        ]
        if off:
            self._since = None
            return Settled(off) if now - self._arrived_at >= SETTLE_TIMEOUT_NS else None
        if self._since is None:
            self._since = now
        if now - self._since < SETTLE_NS and any(map(math.isfinite, realised)):
            return None
        return Settled([])
