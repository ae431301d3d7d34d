"""What the master does while it busy-waits for a tick: rehearse, and take what arrives.

At the tick itself only what came in the last few microseconds is left to be taken in, by code that
is still in the processor's caches.
"""

from __future__ import annotations

from hilrt.clock import WallClock, monotonic_ns
from hilrt.exchange import Exchange
from hilrt.rehearsal import Rehearsal

#: Share of the macro step that the wait for a rehearsal may take.
REHEARSAL_SHARE = 0.45
#: A look at the links begins only if this many times its usual duration is left until the tick.
MARGIN = 1.5


class BeforeTick:
    """Called by the clock, with the target, when the busy-waiting begins.

    Parameters
    ----------
    clock : WallClock
        Its `early_ns` is set to what a rehearsal needs.
    exchange : Exchange
    rehearsal : Rehearsal, optional
    step : float
        Macro step, s.

    Attributes
    ----------
    look_ns : int
        Running mean of a look's duration, ns.
    """

    def __init__(
        self, clock: WallClock, exchange: Exchange, rehearsal: Rehearsal | None, step: float
    ) -> None:
        self.look_ns = 0
        self._clock, self._exchange, self._rehearsal = clock, exchange, rehearsal
        self._longest = round(REHEARSAL_SHARE * 1e9 * step) if rehearsal is not None else 0
        clock.early_ns = self._longest
        clock.before_spin = self

    def __call__(self, target_ns: int) -> None:
        """Rehearse the step if there is time, then look for arrivals until the tick."""
        if self._rehearsal is not None:
            self._rehearsal.run(target_ns)
            self._clock.early_ns = min(2 * self._rehearsal.took_ns, self._longest)
        begun = monotonic_ns()
        while begun + MARGIN * self.look_ns < target_ns:
            self._exchange.prefetch()
            now = monotonic_ns()
            self.look_ns += (now - begun - self.look_ns) >> 3
            begun = now
        self.look_ns -= self.look_ns >> 6  # one slow look must not end them all
