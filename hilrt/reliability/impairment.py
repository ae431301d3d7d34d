"""Whether a session is impaired: a bench gives no usable samples, or an alarm says so."""

from __future__ import annotations

from collections.abc import Callable, Collection

from hilrt.reliability.alarms import AlarmNames
from hilrt.reliability.flags import FlagChange

#: How long nothing may speak for it before the session is no longer impaired.
RECOVER_NS = 1_000_000_000


class Impairment:
    """Follows the flags that impair a session.

    Parameters
    ----------
    benches : collection of str
        Subsystems whose late samples count.
    alarms : AlarmNames

    Attributes
    ----------
    on_change : callable, optional
        Told whether the session is impaired from now on, and why.
    """

    def __init__(self, benches: Collection[str], alarms: AlarmNames) -> None:
        self.on_change: Callable[[bool, str], None] | None = None
        self._benches, self._alarms = benches, alarms
        self._reasons: set[str] = set()
        self._impaired = False
        self._calm_since = 0

    def note(self, change: FlagChange) -> None:
        """Take in a flag that was raised or cleared."""
        if change.cause == "sample_late" and change.where in self._benches:
            reason = f"samples of {change.where} are late"
        elif change.cause == "out_of_range" and change.where.partition(".")[0] in self._benches:
            reason = f"{change.where} is outside its declared range"
        elif change.cause == "alarm" and self._alarms.degrades(change.where):
            reason = f"alarm {change.where}"
        else:
            return
        if change.raised:
            self._reasons.add(reason)
        else:
            self._reasons.discard(reason)

    def look(self, t_ns: int) -> None:
        """Update the state at session time `t_ns`, ns; once per tick."""
        if self._reasons:
            self._calm_since = t_ns
        waiting = self._impaired and t_ns - self._calm_since < RECOVER_NS
        impaired = bool(self._reasons) or waiting
        if impaired != self._impaired and self.on_change is not None:
            self._impaired = impaired
            self.on_change(impaired, "; ".join(sorted(self._reasons)) or "everything is back")
