"""Set-points of a bench on their way to the demand, limited in value, rate and jerk."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hilrt.coupling.ramp import Bounds, approach

# Plain floats, not arrays: a bench has a handful of inputs, and at 1 kHz each numpy call on so few
# values costs more than all of them together in Python.
Values = Sequence[float]


@dataclass(frozen=True)
class SetPointLimits:
    """Bounds of the inputs, one value each, in the inputs' units.

    Parameters
    ----------
    names : sequence of str
        The inputs, for texts.
    minimum, maximum : sequence of float
        Bounds of the value; finite.
    max_rate : sequence of float
        Largest rate of change, unit/s; finite and positive.
    safe : sequence of float
        Where the safe profile ends, within the bounds.
    max_jerk : sequence of float
        Largest change of the rate, unit/s², infinite for none; empty: none for all.
    values : mapping of int to sequence of float
        Of inputs that are enumerations, by index: the only values that they take as a target.
    """

    names: Sequence[str]
    minimum: Values
    maximum: Values
    max_rate: Values
    safe: Values
    max_jerk: Values = ()
    values: Mapping[int, Values] = field(default_factory=dict)

    def clip(self, u: Values) -> list[float]:
        """Finite values `u` brought within the bounds."""
        return [
            min(max(v, low), high)
            for v, low, high in zip(u, self.minimum, self.maximum, strict=True)
        ]


class RampedSetPoints:
    """Set-points sent to the bench, and their targets; they start at rest at the safe values.

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
        Where they are to go, within the bounds.
    """

    def __init__(self, limits: SetPointLimits, cycle: float) -> None:
        self.limits = limits
        self.sent = list(limits.safe)
        self.target = list(limits.safe)
        self._rate = [0.0] * len(self.sent)
        self._fresh = False  # demands that nothing has been made of yet
        self._aimed = list(self.sent)  # the target of the move before
        self._took = 0.0  # and how long that was, s
        self._jerk = list(limits.max_jerk) or [math.inf] * len(self.sent)
        # Limitation that the jitter of one cycle explains is not counted.
        self._behind = [rate * cycle for rate in limits.max_rate]

    def rest_at(self, realised: Values) -> None:
        """Begin where the bench is; at the safe value if that is not known (NaN)."""
        pairs = zip(realised, self.limits.safe, strict=True)
        self.sent = self.limits.clip([r if math.isfinite(r) else s for r, s in pairs])
        self._rate = [0.0] * len(self.sent)

    def demand(self, u: Values) -> list[int]:
        """Take finite demands; the inputs whose demand is out of bounds."""
        self.target, self._fresh = self.limits.clip(u), True
        beyond = [i for i, value in enumerate(u) if value != self.target[i]]
        for i, allowed in self.limits.values.items():
            target = self.target[i]
            self.target[i] = min(allowed, key=lambda value: abs(value - target))
        return beyond

    def hold(self) -> None:
        """Go no further than now."""
        self.target = list(self.sent)

    @property
    def arrived(self) -> bool:
        """Whether they are where they are to go."""
        return self.sent == self.target

    def stay(self, elapsed: float) -> None:
        """Let `elapsed` [s] pass without a move."""
        self._fresh = False
        self._aimed, self._took = list(self.target), elapsed

    def move(self, elapsed: float, *, follows: bool) -> list[int]:
        """Go towards the target, in `elapsed` [s], as fast as rate and jerk allow.

        Parameters
        ----------
        elapsed : float
        follows : bool
            Whether demands are to come in every cycle, so that one may be late.

        Returns
        -------
        list of int
            Inputs that stay behind their target.
        """
        if follows and not self._fresh:
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
                    self._aimed[i],
                    elapsed,
                    0.5 * (elapsed + self._took),
                    Bounds(limits.minimum[i], limits.maximum[i], limits.max_rate[i], self._jerk[i]),
                )
                if abs(target - sent[i]) > self._behind[i]:
                    behind.append(i)
            self.sent = sent
        self.stay(elapsed)
        return behind

    def _wait(self) -> None:
        """While demands are late, an input that cannot stop where it should brakes and stays there.

        Going back to where it should have stopped would only lead it farther from the next demand.
        It brakes with half of its jerk: `rate` is the mean of the step before, and seen from there
        again in every cycle, the point of rest moves on as much as the braking curve allows.
        """
        for i, (rate, jerk) in enumerate(zip(self._rate, self._jerk, strict=True)):
            if math.isinf(jerk):
                continue
            rest = self.sent[i] + rate * abs(rate) / (2.0 * jerk)
            if (rest - self.target[i]) * rate > 0.0:
                rest = min(max(rest, self.limits.minimum[i]), self.limits.maximum[i])
                self.target[i] = self._aimed[i] = rest
