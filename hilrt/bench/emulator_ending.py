"""When the process of an emulated bench ends that was asked to."""

from __future__ import annotations

import math


class EmulatorEnding:
    """When a bench that was asked to end does so.

    It goes on while enable is requested and demands still come, because it is being brought
    down: at most `LIMIT_S`. In any case it publishes for `LINGER_S` more, so that the gateway sees
    that it is disabled. A second request ends it at once; several within `ONE_S` are one, because
    the kernel sends the signal of a parent's death anew for each of its threads.
    """

    SILENCE_S = 0.5
    LIMIT_S = 10.0
    LINGER_S = 0.2
    ONE_S = 0.25

    def __init__(self) -> None:
        self.requests = 0
        self._first = 0  # requests that count as the first one
        self._since: float | None = None
        self._held_at = -math.inf

    def request(self, *_: object) -> None:
        """Ask for the end; a signal handler."""
        self.requests += 1

    def due(self, now: float, requested: bool, heard_at: float) -> bool:
        """Whether the process ends now [s].

        Parameters
        ----------
        now : float
            s.
        requested : bool
            Whether enable is requested.
        heard_at : float
            When a demand last came, s.
        """
        if not self.requests:
            return False
        if self._since is None:
            self._since = self._held_at = now
        if now - self._since < self.ONE_S:
            self._first = self.requests
        elif self.requests > self._first:
            return True
        if requested and now - heard_at <= self.SILENCE_S:
            self._held_at = now
        return now - self._held_at >= self.LINGER_S or now - self._since >= self.LIMIT_S
