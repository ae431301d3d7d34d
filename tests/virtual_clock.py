"""A clock for tests that do not wait."""

from __future__ import annotations

from hilrt.timing.clock import Clock
from hilrt.timing.early_reception import EarlyReception


class VirtualClock(Clock):
    """A clock that stands still between sleeps and jumps to their targets."""

    def __init__(self, start_ns: int = 0) -> None:
        super().__init__()
        self._now = start_ns

    def now_ns(self) -> int:
        """Reading, ns."""
        return self._now

    def advance(self, duration_ns: int) -> None:
        """Advance the time without sleeping, as a computation would."""
        self._now += duration_ns

    async def sleep_until(
        self,
        target_ns: int,
        *,
        stand_still: bool = True,
        reception: EarlyReception | None = None,
    ) -> int:
        """Receive samples once, then jump to `target_ns`; never back."""
        if reception is not None and target_ns > self._now:
            reception.receive_by(target_ns)
        self._now = max(self._now, target_ns)
        await self._turn()
        return self._now
