"""Ramped set-points of a bench, limited in value, rate and jerk."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hilrt.coupling.ramp import Bounds, approach

# Plain floats, not arrays: for the few inputs of a bench, one numpy call takes longer than a loop
# in Python, and set-points move at 1 kHz.
Values = Sequence[float]

#: Delay of a set-point up to which it is attributed to transmission, not to limitation, s.
TRANSMISSION_S = 0.01


@dataclass(frozen=True)
class SetPointLimits:
    """Bounds of the inputs, one value each, in the inputs' units.

    Parameters
    ----------
    names : sequence of str
        Names of the inputs, for messages.
    minimum, maximum : sequence of float
        Bounds of the value; finite.
    max_rate : sequence of float
        Largest rate of change, unit/s; finite and positive.
    safe : sequence of float
        Final values of the safe profile, within the bounds.
    max_jerk : sequence of float
        Largest change of the rate, unit/s²; infinite: no limit; empty: no limits at all.
    values : mapping of int to sequence of float
        Permitted targets of the inputs that are enumerations, by index.
    """

    names: Sequence[str]
    minimum: Values
    maximum: Values
    max_rate: Values
    safe: Values
    max_jerk: Values = ()
    values: Mapping[int, Values] = field(default_factory=dict)

    def clip(self, u: Values) -> list[float]:
        """Clip finite values `u` to the bounds."""
        return [
            min(max(v, low), high)
            for v, low, high in zip(u, self.minimum, self.maximum, strict=True)
        ]


class RampedSetPoints:
    """Set-points sent to the bench, and their targets; initially at rest at the safe values.

    Parameters
    ----------
    limits : SetPointLimits
    cycle : float
        Time between two moves, s.

    Attributes
    ----------
    sent : list of float
        Newest set-points, in the inputs' units; a new list after each move.
    target : list of float
        Values to which they move, within the bounds.
    """

    def __init__(self, limits: SetPointLimits, cycle: float) -> None:
        self.limits = limits
        self.sent = list(limits.safe)
        self.target = list(limits.safe)
        self._rate = [0.0] * len(self.sent)
        self._new_demand = False  # whether a demand has arrived since the last move
        self._last_target = list(self.sent)  # target of the previous move
        self._last_elapsed = 0.0  # duration of the previous move, s
        self._jerk = list(limits.max_jerk) or [math.inf] * len(self.sent)
        # Deviations that jitter or transmission explains do not count as limitation: the first
        # set-point of a ramp arrives a few ms late.
        self._behind = [rate * max(cycle, TRANSMISSION_S) for rate in limits.max_rate]

    def rest_at(self, realised: Values) -> None:
        """Start at the bench's measured values, or at the safe value if not measured (NaN)."""
        pairs = zip(realised, self.limits.safe, strict=True)
        self.sent = self.limits.clip([r if math.isfinite(r) else s for r, s in pairs])
        self._rate = [0.0] * len(self.sent)

    def demand(self, u: Values) -> list[int]:
        """Set finite demands; return the inputs whose demand is out of bounds."""
        self.target, self._new_demand = self.limits.clip(u), True
        beyond = [i for i, value in enumerate(u) if value != self.target[i]]
        for i, allowed in self.limits.values.items():
            target = self.target[i]
            self.target[i] = min(allowed, key=lambda value: abs(value - target))
        return beyond

    def hold(self) -> None:
        """Make the current set-points the targets."""
        self.target = list(self.sent)

    @property
    def arrived(self) -> bool:
        """Whether all set-points have reached their targets."""
        return self.sent == self.target

    def stay(self, elapsed: float) -> None:
        """Let `elapsed` [s] pass without a move."""
        self._new_demand = False
        self._last_target, self._last_elapsed = list(self.target), elapsed

    def move(self, elapsed: float, *, follows: bool) -> list[int]:
        """Move towards the targets for `elapsed` [s], as fast as rate and jerk allow.

        Parameters
        ----------
        elapsed : float
            Time since the previous move, s.
        follows : bool
            Whether a demand is expected in every cycle, so that a missing one is late.

        Returns
        -------
        list of int
            Inputs whose limits keep them from following their target.
        """
        if follows and not self._new_demand:
            self._wait()
        behind = []
        if not self.arrived or any(self._rate):
            limits = self.limits
            sent = list(self.sent)
            for i, (value, target) in enumerate(zip(self.sent, self.target, strict=True)):
                sent[i], self._rate[i] = approach(
                    value,
                    self._rate[i],
                    target,
                    self._last_target[i],
                    elapsed,
                    0.5 * (elapsed + self._last_elapsed),
                    Bounds(limits.minimum[i], limits.maximum[i], limits.max_rate[i], self._jerk[i]),
                )
                if abs(target - sent[i]) > self._behind[i]:
                    behind.append(i)
            self.sent = sent
        self.stay(elapsed)
        return behind

    def _wait(self) -> None:
        """Brake inputs that would overshoot while demands are late; target where they stop.

        Returning to the old target would only increase the distance to the next demand. The inputs
        brake with half of their maximum jerk. The stopping point is predicted in every cycle from
        `rate`, the mean over the previous step, and therefore still moves while they brake.
        """
        for i, (rate, jerk) in enumerate(zip(self._rate, self._jerk, strict=True)):
            if math.isinf(jerk):
                continue
            rest = self.sent[i] + rate * abs(rate) / (2.0 * jerk)
            if (rest - self.target[i]) * rate > 0.0:
                rest = min(max(rest, self.limits.minimum[i]), self.limits.maximum[i])
                self.target[i] = self._last_target[i] = rest
