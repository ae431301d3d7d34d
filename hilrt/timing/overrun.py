"""Overrun policies: handling of ticks that passed unserved (``pacing.overrun``).

Such ticks count as missed and are never run late. `SkipTicks` skips them and keeps the grid;
`StretchGrid` shifts the grid by the overrun and skips none; `EndSession` ends the session.
`SkipLateStarts` also skips a tick that could only begin too late: it would miss its deadline and
delay the next one. A tick that is merely late is no overrun.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from hilrt.errors import SessionFault
from hilrt.timing.grid import Grid

#: Longest time skipped at once, ns: a long stall then has a row in the log every second.
LONGEST_SKIP_NS = 1_000_000_000
#: `SkipLateStarts` skips a tick that would begin later than this share of the step.
LATEST_START = 0.5


class Overrun(abc.ABC):
    """Overrun policy. `t_ns` is session time, `now_ns` a reading of the clock, both ns.

    Parameters
    ----------
    on_missed : callable
        Called with the number of ticks skipped.

    Attributes
    ----------
    grid : Grid
        The points of the session on the clock.
    overran : bool
        Whether ticks have passed between the last two communication points.
    """

    def __init__(self, on_missed: Callable[[int], None]) -> None:
        self.grid = Grid(0, 1)
        self.overran = False
        self._on_missed = on_missed
        self._end_ns = 0

    def begin(self, grid: Grid, end_ns: int) -> None:
        """Start on `grid`; ticks beyond `end_ns` are never skipped."""
        self.grid, self._end_ns, self.overran = grid, end_ns, False

    def wake(self, t_ns: int, now_ns: int) -> int:
        """Communication point to continue with after waking at `now_ns` for `t_ns`."""
        return t_ns

    def after_step(self, t_ns: int, now_ns: int) -> int:
        """Communication point after a step to `t_ns` that was finished at `now_ns`."""
        passed = self._passed(t_ns, now_ns)
        self.overran = passed > 0
        return self._resolve(passed, t_ns, now_ns) if self.overran else t_ns

    def _passed(self, t_ns: int, now_ns: int) -> int:
        """Number of ticks, from the one at `t_ns` on, whose whole step has passed."""
        return self.grid.index(now_ns) - t_ns // self.grid.step_ns

    @abc.abstractmethod
    def _resolve(self, passed: int, t_ns: int, now_ns: int) -> int:
        """Communication point after `passed` ticks, the first of them at `t_ns`."""


class SkipTicks(Overrun):
    """Policy that skips ticks and keeps the grid."""

    def _resolve(self, passed: int, t_ns: int, now_ns: int) -> int:
        step_ns = self.grid.step_ns
        end_ns = min(self._end_ns, t_ns + LONGEST_SKIP_NS)
        later_ns = max(min(t_ns + passed * step_ns, end_ns), t_ns)
        self._on_missed((later_ns - t_ns) // step_ns)
        return later_ns


class SkipLateStarts(SkipTicks):
    """Policy that, in addition, skips a tick that could only begin later than `LATEST_START`.

    Not for sessions of several rates: a subsystem due at every tenth tick would lose all ten.
    """

    def __init__(self, on_missed: Callable[[int], None]) -> None:
        super().__init__(on_missed)
        self._woke_late = False

    def begin(self, grid: Grid, end_ns: int) -> None:
        """See `Overrun.begin`."""
        super().begin(grid, end_ns)
        self._woke_late = False
        self._latest_start_ns = round(LATEST_START * grid.step_ns / grid.pace)
        #: Offset on the clock reading that gives the target of the latest tick that may begin, ns.
        self._ahead_ns = round((1 - LATEST_START) * grid.step_ns / grid.pace) - 1

    def wake(self, t_ns: int, now_ns: int) -> int:
        """See `Overrun.wake`; if the clock is always late, ticks run late."""
        was_late = self._woke_late
        self._woke_late = now_ns - self.grid.clock_ns(t_ns) > self._latest_start_ns
        if not self._woke_late or was_late or self.overran:
            return t_ns
        later_ns = self._resolve(self._passed(t_ns, now_ns), t_ns, now_ns)
        self.overran = later_ns > t_ns
        return later_ns

    def _passed(self, t_ns: int, now_ns: int) -> int:
        return super()._passed(t_ns, now_ns + self._ahead_ns)


class StretchGrid(Overrun):
    """Policy that shifts the grid by the overrun and skips no tick.

    Parameters
    ----------
    on_missed : callable
    on_shift : callable
        Called with the shift of the grid on the clock, ns.
    """

    def __init__(self, on_missed: Callable[[int], None], on_shift: Callable[[int], None]) -> None:
        super().__init__(on_missed)
        self._on_shift = on_shift

    def _resolve(self, passed: int, t_ns: int, now_ns: int) -> int:
        behind_ns = now_ns - self.grid.clock_ns(t_ns)
        self.grid = replace(self.grid, epoch_ns=self.grid.epoch_ns + behind_ns)
        self._on_missed(passed)
        self._on_shift(behind_ns)
        return t_ns


class EndSession(Overrun):
    """Policy that ends the session: `SessionFault`."""

    def _resolve(self, passed: int, t_ns: int, now_ns: int) -> int:
        behind_ns = now_ns - self.grid.clock_ns(t_ns)
        raise SessionFault(
            f"overrun: the macro step at t = {t_ns * 1e-9:g} s is {behind_ns * 1e-6:.1f} ms "
            'behind the clock and master.pacing.overrun is "stop"; see the slowest ticks in '
            "summary.json for the subsystems that were late"
        )


def overrun_policy(
    name: Literal["skip", "stretch", "stop"],
    *,
    one_rate: bool,
    on_missed: Callable[[int], None],
    on_shift: Callable[[int], None],
) -> Overrun:
    """Return the policy of that name; `one_rate`: every subsystem is due at every tick."""
    if name == "skip":
        return SkipLateStarts(on_missed) if one_rate else SkipTicks(on_missed)
    return StretchGrid(on_missed, on_shift) if name == "stretch" else EndSession(on_missed)
