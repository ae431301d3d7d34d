"""The safe profile: one input after the other to its safe value, each with a time limit."""

from __future__ import annotations

from collections.abc import Sequence

from hilrt.bench.guard_states import NS, BenchView, GuardSettings
from hilrt.bench.set_points import RampedSetPoints


class SafeProfileRun:
    """One run of the profile.

    Parameters
    ----------
    settings : GuardSettings
        The order of the inputs and the time for each.
    tolerance : sequence of float
        Of each input, in its unit.
    now : int
        When it begins, ns.

    Attributes
    ----------
    given_up : list of int
        Inputs that did not reach their safe value in time; the caller takes and clears them.
    """

    def __init__(self, settings: GuardSettings, tolerance: Sequence[float], now: int) -> None:
        self._settings = settings
        self._tolerance = tolerance
        self._step = 0
        self._since = now  # of the step
        self.given_up: list[int] = []

    def advance(self, now: int, points: RampedSetPoints, bench: BenchView) -> bool:
        """Start the next inputs when the one before has arrived or timed out; True at the end.

        Parameters
        ----------
        now : int
            ns.
        points : RampedSetPoints
            Their targets are set.
        bench : BenchView
        """
        order, safe = self._settings.order, points.limits.safe
        while self._step < len(order):
            i = order[self._step]
            points.target[i] = safe[i]
            arrived = points.sent[i] == safe[i]
            if arrived and bench.overdue < 1.0:  # else blind: only the demand is known
                arrived = not abs(bench.realised[i] - safe[i]) > self._tolerance[i]
            if not arrived and now - self._since < self._settings.step_timeout * NS:
                return False
            if not arrived:
                self.given_up.append(i)
            self._step += 1
            self._since = now
        return True
