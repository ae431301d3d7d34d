"""A session's place on the host: processors, clock, priorities."""

from __future__ import annotations

from collections.abc import Iterable

from hilrt.config.structs import Pacing
from hilrt.timing.clock import MAX_SPIN_NS, WallClock, measure_spin_ns
from hilrt.timing.host import (
    available_cpus,
    give_idle_priority,
    move_other_threads,
    other_cpus,
    set_affinity,
)
from hilrt.timing.realtime import enter_real_time, leave_real_time
from hilrt.timing.scheduler_slice import request_short_slice, request_usual_slice

#: Share of the macro step that `pacing.spin = "auto"` may busy-wait.
LONGEST_SPIN = 0.7
#: The same with a real-time priority: the kernel stops a process that never sleeps for 50 ms.
LONGEST_SPIN_REAL_TIME = 0.3


class TimingSetup:
    """``[master.pacing]`` put into effect, and undone.

    Parameters
    ----------
    pacing : Pacing
    step : float
        Base macro step, s.
    real_time : bool
        Without it there is no clock.

    Attributes
    ----------
    cpus_for_children : list of int
        Processors that the master leaves to the processes it starts.
    clock : WallClock or None
        Made by `take_place`.
    """

    def __init__(self, pacing: Pacing, step: float, real_time: bool) -> None:
        self.cpus_for_children = other_cpus(pacing.affinity)
        self.clock: WallClock | None = None
        self._pacing, self._step, self._real_time = pacing, step, real_time
        self._allowed = available_cpus()

    def shorten_slices(self) -> None:
        """Short scheduler slices for this process and those that it starts from now on."""
        if self._real_time:
            request_short_slice()

    async def take_place(self) -> list[str]:
        """Go to the master's processors and measure their timer; what did not take effect."""
        problem = set_affinity(self._pacing.affinity)
        if self._pacing.affinity:
            move_other_threads(self.cpus_for_children)
        if self._real_time:
            self.clock = await self._make_clock()
        return [problem] if problem else []

    async def _make_clock(self) -> WallClock:
        if self._pacing.spin != "auto":
            return WallClock(round(self._pacing.spin * 1e3))
        share = LONGEST_SPIN_REAL_TIME if self._pacing.priority else LONGEST_SPIN
        longest_ns = min(MAX_SPIN_NS, round(share * self._step * 1e9))
        return WallClock(min(await measure_spin_ns(), longest_ns), longest_ns)

    def give_idle_priority(self, processes: Iterable[int]) -> None:
        """Keep `processes` that can wait from delaying a tick: they run when no other does."""
        if self.clock is not None:
            for pid in processes:
                give_idle_priority(pid, self.cpus_for_children)

    def enter_real_time(self) -> list[str]:
        """Priority and memory; what this host refuses."""
        if self.clock is None:
            return []
        return enter_real_time(self._pacing, self.clock.spin_ns * 1e-9 / self._step)

    def release(self) -> None:
        """Undo everything: the program that ran the session may go on."""
        if self.clock is not None:
            self.clock.close()
            leave_real_time()
        if self._real_time:
            request_usual_slice()
        if self._pacing.affinity:
            set_affinity(self._allowed)
            move_other_threads(self._allowed)
