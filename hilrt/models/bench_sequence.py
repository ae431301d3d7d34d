"""Sequence control of an emulated bench: enable handshake, watchdog of the demands, faults."""

from __future__ import annotations

import math
from enum import IntEnum

STARTING_S = 0.15
READY_S = 0.05
DEMAND_TIMEOUT_S = 0.1
#: Time between two cycles above which the bench's process counts as suspended.
ABSENT_S = 0.02

#: Fault causes common to all benches, followed by a bench's own ones.
NO_FAULT = 0
DEMAND_LOST = 1


class BenchState(IntEnum):
    """State of a bench, as reported in its messages."""

    OFF = 0
    STARTING = 1
    READY = 2
    ENABLED = 3
    FAULT = 4


class Demand:
    """Watchdog on the counter of a demand message; `moved_at` is the time of its last change, s."""

    def __init__(self) -> None:
        self.alive: float | None = None
        self.moved_at = -math.inf

    def update(self, alive: float, now: float) -> None:
        """Process the counter of a message received by `now` [s]."""
        if alive != self.alive:
            self.alive = alive
            self.moved_at = now


class BenchSequence:
    """OFF, STARTING, READY, ENABLED while enabling is requested; FAULT until it is withdrawn.

    Attributes
    ----------
    state : BenchState
    fault : int
        Cause of FAULT: `NO_FAULT`, `DEMAND_LOST` or one of the bench's own causes.
    """

    def __init__(self) -> None:
        self.state = BenchState.OFF
        self.fault = NO_FAULT
        self._entered = 0.0
        self._now = 0.0
        self._excused_until = 0.0

    @property
    def enabled(self) -> bool:
        """Whether the bench follows its set-points."""
        return self.state is BenchState.ENABLED

    def measure(self) -> dict[str, float]:
        """Signals of the sequence control that every bench measures."""
        signals = {"Enabled": self.enabled, "State": self.state, "FaultCause": self.fault}
        return {name: float(value) for name, value in signals.items()}

    def advance(self, now: float, *, requested: bool, demand_age: float, trip: int) -> bool:
        """Run one cycle, ending at `now` [s]; True if the bench becomes enabled in it.

        Parameters
        ----------
        requested : bool
            Whether enable is requested.
        demand_age : float
            Time since the demands last moved, s.
        trip : int
            The bench's own cause for a fault, or `NO_FAULT`.
        """
        state, since = self.state, now - self._entered
        if now - self._now > ABSENT_S:
            # A suspended emulator has missed demands that a real bench would have received, so it
            # waits for new ones before it trips on their age.
            self._excused_until = now + DEMAND_TIMEOUT_S
        self._now = now
        fresh = demand_age <= DEMAND_TIMEOUT_S
        if state is BenchState.OFF:
            if requested and fresh:
                self._enter(BenchState.STARTING, now)
        elif state is BenchState.FAULT:
            if not requested:
                self._enter(BenchState.OFF, now)
        elif not fresh and now >= self._excused_until:
            self._enter(BenchState.FAULT, now, DEMAND_LOST)
        elif trip:
            self._enter(BenchState.FAULT, now, trip)
        elif not requested:
            self._enter(BenchState.OFF, now)
        elif state is BenchState.STARTING and since >= STARTING_S:
            self._enter(BenchState.READY, now)
        elif state is BenchState.READY and since >= READY_S:
            self._enter(BenchState.ENABLED, now)
            return True
        return False

    def _enter(self, state: BenchState, now: float, fault: int = NO_FAULT) -> None:
        self.state, self.fault, self._entered = state, fault, now
