"""Reception before the tick: receive samples that arrive while the master sleeps at once.

Every message received at the tick delays it. On a slow two-core host, in runs alternating
within an hour, the demonstration missed 11.6 and 24.8 % of its ticks when it received only at the
tick, and 0.15 to 0.7 % when it also received before (`tools/benchmarks/bench_session.py`).
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Protocol

#: Time limit of a reception that cannot be skipped (at the tick, in the slack, before a frame is
#: due), ns; it applies after every peer was served once.
LOOK_NS = 100_000
#: After this many fruitless receptions in one sleep, the descriptor is ignored until the tick.
FRUITLESS = 3
#: Assumed duration of a reception before one has been measured, ns.
FIRST_LOOK_NS = 30_000
#: Share of a step before the tick in which the spin polls the descriptor continuously. Earlier, the
#: spin polls only occasionally: a poll takes 1 to 2 us, so polling takes less than that share.
POLLED = 0.2
#: Interval of these occasional polls, as a share of a step.
POLL_EVERY = 0.025
#: Upper bound of the assumed usual duration, as a share of a step.
LONGEST_LOOK = 0.125


class EarlyReceiver(Protocol):
    """Interface of a receiver of early messages, which `hilrt.exchange.exchange.Exchange` has."""

    def fileno(self) -> int | None:
        """Descriptor that becomes readable when something arrives; None if nothing can."""

    def receive_early(self, until_ns: int, *, first: bool) -> int:
        """Receive messages; stop by `until_ns` on the clock.

        `first` marks the first call in a sleep. Returns the number of messages.
        """


class EarlyReception:
    """Receptions during one sleep, each limited in time; called by `Clock.sleep_until`.

    Parameters
    ----------
    receiver : EarlyReceiver
    step_ns : int
        Macro step on the clock, ns.
    now_ns : callable
        Reading of the clock, ns.

    Attributes
    ----------
    fd : int or None
        Descriptor to wait for together with the timer.
    usual_ns : int
        Running estimate of how long a reception with messages takes, ns; it rises fast and falls
        slowly.
    polls_from_ns : int
        Reading of the clock from which a spin polls continuously, ns.
    """

    def __init__(self, receiver: EarlyReceiver, step_ns: int, now_ns: Callable[[], int]) -> None:
        self._receiver, self._now_ns = receiver, now_ns
        self._longest_ns = round(LONGEST_LOOK * step_ns)
        self._polled_ns, self._poll_every_ns = round(POLLED * step_ns), round(POLL_EVERY * step_ns)
        self.usual_ns = min(FIRST_LOOK_NS, self._longest_ns)
        self.fd = receiver.fileno()
        self._poll = None
        if self.fd is not None and hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(self.fd, select.POLLIN)
        self._target_ns = self.polls_from_ns = self._next_poll_ns = self._fruitless = 0
        self._first = True

    def begin(self, target_ns: int) -> None:
        """Prepare for a sleep until the tick at `target_ns` on the clock."""
        self._target_ns = target_ns
        self.polls_from_ns = target_ns - self._polled_ns
        self._next_poll_ns = self._fruitless = 0
        self._first = True

    @property
    def watches(self) -> bool:
        """Whether to wait for the descriptor in this sleep."""
        return self._poll is not None and self._fruitless < FRUITLESS

    def poll(self, now_ns: int) -> None:
        """Receive if the descriptor is readable; a spin calls this repeatedly.

        Before `polls_from_ns` it polls only every `POLL_EVERY` of a step.
        """
        if now_ns < self._next_poll_ns or self._poll is None or self._fruitless >= FRUITLESS:
            return
        if now_ns < self.polls_from_ns:
            self._next_poll_ns = now_ns + self._poll_every_ns
        if self._poll.poll(0):
            self.receive()

    def receive_by(self, by_ns: int) -> None:
        """Receive messages if that usually ends by `by_ns`."""
        if self._now_ns() + self.usual_ns <= by_ns:
            self.receive()

    def receive(self) -> None:
        """Receive messages, at most until the tick.

        This includes a message shortly before the tick: the cut would receive it later, and take
        longer.
        """
        begun_ns = self._now_ns()
        first, self._first = self._first, False
        if self._receiver.receive_early(self._target_ns, first=first):
            self._add(self._now_ns() - begun_ns)
        elif not first:
            self._fruitless += 1

    def _add(self, took_ns: int) -> None:
        """Update the usual duration; an outlier counts as at most twice the estimate."""
        usual_ns = self.usual_ns
        if took_ns > usual_ns:
            self.usual_ns = min(took_ns, 2 * usual_ns, self._longest_ns)
        else:
            self.usual_ns -= (usual_ns - took_ns) >> 3
