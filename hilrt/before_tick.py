"""What the master does while it busy-waits for a tick: take what arrives, and draft the step.

At the tick itself only what came in the last few microseconds is left to be taken in, by code that
is still in the processor's caches.
"""

from __future__ import annotations

from hilrt.clock import WallClock, monotonic_ns
from hilrt.draft import WINDOW, Draft
from hilrt.exchange import Exchange

#: A look at the links begins only if this many times its usual duration is left until the tick.
MARGIN = 1.5


class BeforeTick:
    """Called by the clock, with the target, when the busy-waiting begins.

    Parameters
    ----------
    clock : WallClock
        Its `early_ns` is set to what drafts need.
    exchange : Exchange
    draft : Draft, optional
    longest_ns : int
        Longest that the clock may wake early for a draft, ns.

    Attributes
    ----------
    look_ns : int
        Running mean of a look's duration, ns.
    """

    def __init__(
        self, clock: WallClock, exchange: Exchange, draft: Draft | None, longest_ns: int
    ) -> None:
        self.look_ns = 0
        self._clock, self._exchange, self._draft = clock, exchange, draft
        self._longest = longest_ns if draft is not None else 0
        clock.early_ns = self._longest
        clock.before_spin = self

    def __call__(self, target_ns: int) -> None:
        """Look for arrivals until the tick, and draft its step anew when one has changed it."""
        draft = self._draft
        if draft is not None:
            self._clock.early_ns = min(round(WINDOW * draft.took_ns), self._longest)
        begun = monotonic_ns()
        while begun + MARGIN * self.look_ns < target_ns:
            if draft is not None and draft.wanted(target_ns - begun):
                draft.make()
                begun = monotonic_ns()
                continue
            self._exchange.prefetch()
            now = monotonic_ns()
            self.look_ns += (now - begun - self.look_ns) >> 3
            begun = now
        self.look_ns -= self.look_ns >> 6  # one slow look must not end them all
