"""What the master does while it busy-waits for a tick: take what arrives, and draft the step.

At the tick itself only what came in the last few microseconds is left to be taken in, by code that
is still in the processor's caches. With a latch even that is left for the next tick: the inputs
leave in time whatever arrives at the last moment.
"""

from __future__ import annotations

from hilrt.draft import WINDOW, Draft
from hilrt.exchange.exchange import Exchange
from hilrt.timing.clock import WallClock, monotonic_ns

#: Another look at the links begins only if this many times its usual duration is left until the
#: tick, or the latch.
MARGIN = 1.5
#: A latch chosen by itself leaves that many times what a draft usually takes.
LATCH = 1.6
#: A look that took longer was held up by something else, ns.
STALL_NS = 200_000


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
    latch_ns : int, optional
        Nothing is taken in within this time before the tick, ns; None: so that a draft still fits.

    Attributes
    ----------
    look_ns : int
        Running mean of a look's duration, ns.
    """

    def __init__(
        self,
        clock: WallClock,
        exchange: Exchange,
        draft: Draft | None,
        longest_ns: int,
        latch_ns: int | None = 0,
    ) -> None:
        self.look_ns = 0
        self._clock, self._exchange, self._draft = clock, exchange, draft
        self._longest = longest_ns if draft is not None else 0
        self._auto = latch_ns is None and draft is not None
        self._latch = latch_ns or 0
        clock.early_ns = self._longest
        clock.before_spin = self

    def __call__(self, target_ns: int) -> None:
        """Look for arrivals until the latch, and draft the step anew when one has changed it."""
        draft, looked = self._draft, False
        if draft is not None:
            if self._auto:
                self._latch = round(LATCH * draft.took_ns)
            early_ns = self._latch + round(WINDOW * draft.took_ns)
            self._clock.early_ns = min(early_ns, self._longest)
        latch_ns = target_ns - self._latch
        begun = monotonic_ns()
        while begun < target_ns:
            # Who wakes late looks all the same, and at once: at the tick it would take as long.
            looking = not looked or begun + MARGIN * self.look_ns < latch_ns
            # What a draft takes should not depend on what has arrived: after a look, nothing has.
            more = looking or not self._latch
            if looked and draft is not None and draft.wanted(target_ns - begun, more):
                draft.make()
                begun = monotonic_ns()
            elif looking:
                self._exchange.prefetch()
                now = monotonic_ns()
                self.look_ns += (min(now - begun, STALL_NS) - self.look_ns) >> 3
                begun, looked = now, True
            else:
                break
        # Whoever woke after the tick, or was held up, takes then what has arrived.
        self._exchange.latched = looked and begun < target_ns + self._latch and self._latch > 0
