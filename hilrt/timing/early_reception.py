"""Receiving before the tick: samples that come while the master sleeps are received at once.

Everything that is received at the tick makes it late. The demonstration on a slow two-core host,
alternating within an hour, missed 11.6 and 24.8 % of its ticks when it received at the tick alone,
and 0.15 to 0.7 % when it also received before (`tools/benchmarks/bench_session.py`).
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Protocol

#: A look that cannot be left out (at the tick, in the slack, before a frame is due) ends after that
#: long, once everybody had a turn, ns.
LOOK_NS = 100_000
#: Looks of one sleep that may find nothing; after that the descriptor is left alone until the tick.
FRUITLESS = 3
#: Assumed duration of a look before one has been measured, ns.
FIRST_LOOK_NS = 30_000
#: Share of a step, before the tick, in which the spin polls the descriptor all the time. A longer
#: spin polls now and then before: a poll takes 1 to 2 us, so that all of it is below that share.
POLLED = 0.2
#: Time between two polls of a spin that is longer, as a share of a step.
POLL_EVERY = 0.025
#: The usual duration is never taken to be longer than this share of a step.
LONGEST_LOOK = 0.125


class EarlyReceiver(Protocol):
    """Interface of the early receiver: `hilrt.exchange.exchange.Exchange`."""

    def fileno(self) -> int | None:
        """Descriptor that becomes readable when something arrives; None if nothing can."""

    def receive_early(self, until_ns: int, *, first: bool) -> int:
        """Receive messages; stop by `until_ns` on the clock.

        `first` marks the first look of a sleep. Returns the number of messages.
        """


class EarlyReception:
    """The looks of one sleep, each bounded in time; `Clock.sleep_until` makes them.

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
        Duration of a look that finds something, by experience: quick to rise, slow to fall, ns.
    polls_from_ns : int
        Reading of the clock from which a spin polls all the time, ns.
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
        """Whether it still makes sense to wait for the descriptor in this sleep."""
        return self._poll is not None and self._fruitless < FRUITLESS

    def poll(self, now_ns: int) -> None:
        """Look if the descriptor is readable; a spin calls it again and again.

        Before `polls_from_ns` it only polls every `POLL_EVERY` of a step.
        """
        if now_ns < self._next_poll_ns or self._poll is None or self._fruitless >= FRUITLESS:
            return
        if now_ns < self.polls_from_ns:
            self._next_poll_ns = now_ns + self._poll_every_ns
        if self._poll.poll(0):
            self.receive()

    def look(self, by_ns: int) -> None:
        """Receive messages if that usually ends by `by_ns`."""
        if self._now_ns() + self.usual_ns <= by_ns:
            self.receive()

    def receive(self) -> None:
        """Receive messages, until the tick at most.

        A message that comes shortly before the tick is not left to it: the cut would receive it
        later, and take longer over it.
        """
        begun_ns = self._now_ns()
        first, self._first = self._first, False
        if self._receiver.receive_early(self._target_ns, first=first):
            self._add(self._now_ns() - begun_ns)
        elif not first:
            self._fruitless += 1

    def _add(self, took_ns: int) -> None:
        """Learn from one look; one that something else held up counts as twice the usual."""
        usual_ns = self.usual_ns
        if took_ns > usual_ns:
            self.usual_ns = min(took_ns, 2 * usual_ns, self._longest_ns)
        else:
            self.usual_ns -= (usual_ns - took_ns) >> 3
