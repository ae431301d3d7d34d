"""Probe a solver in real time, in parts, while it is idle between two steps."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final

from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import StateLost, next_part, renewal, restore
from hilrt.hosting.linearise import unlogged
from hilrt.link import LinearModel
from hilrt.solver import Floats
from hilrt.timing.grid import SlackBudget

log = logging.getLogger("hilrt.solver")


class SlackTrial:
    """A trial about one state of a solver, interleaved with the steps of the session.

    A part begins only if, according to earlier durations of parts and steps, it ends within half of
    the shortest recent time between an answer and the next step.

    Parameters
    ----------
    hosted : HostedSolver
        For which `hilrt.hosting.linear_model.can_be_renewed_in_parts` is true.
    now_ns : callable
        A clock, ns.

    Attributes
    ----------
    found : LinearModel or None
        Result of the last trial.
    """

    #: Share of the shortest idle time that parts may use, and number of idle times considered.
    SHARE: Final = 0.5
    REMEMBERED: Final = 50
    #: Idle times measured before the first part.
    LEAST: Final = 3
    #: Assumed duration of the first part, in steps.
    FIRST: Final = 4
    #: Steps without a part after which a trial is abandoned.
    PATIENCE: Final = 100

    def __init__(
        self, hosted: HostedSolver, now_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._hosted, self._now_ns = hosted, now_ns
        self._idle_ns: deque[int] = deque(maxlen=self.REMEMBERED)
        self._begun_ns = self._answered_ns = self._waited = 0
        self._t = 0.0
        self._asked: tuple[Floats, float] | None = None
        self._parts: Generator[None, None, LinearModel] | None = None
        self._at: Any = None
        self._budget = SlackBudget()
        self.found: LinearModel | None = None

    def begin(self, u: Floats, h: float) -> None:
        """Probe the solver from its next step on, about inputs `u` (nu,), for steps of `h` [s]."""
        self._asked, self._parts, self._waited = (u, h), None, 0
        self._budget = SlackBudget()

    def restart(self) -> None:
        """Restart after the solver has changed, by a parameter or a new start."""
        self._parts = None

    def step_begins(self) -> None:
        """Record that a step was requested."""
        self._begun_ns = self._now_ns()
        if self._answered_ns:
            self._idle_ns.append(self._begun_ns - self._answered_ns)

    def step_ended(self, t: float) -> None:
        """Record that the step to `t` [s] was answered."""
        self._t, self._answered_ns = t, self._now_ns()

    def work(self) -> bool:
        """Run as many parts as time permits; return whether the trial has ended.

        The solver's state is restored; `StateLost` if that fails.
        """
        if self._asked is None or len(self._idle_ns) < self.LEAST:
            return False
        if not self._budget.made:
            self._budget.add(self.FIRST * (self._answered_ns - self._begun_ns))
        until_ns = self._answered_ns + round(self.SHARE * min(self._idle_ns))
        if not self._budget.fits(until_ns - self._now_ns()):
            self._waited += 1
            return self._end(None) if self._waited > self.PATIENCE else False
        self._waited = 0
        try:
            with unlogged():
                present = self._hosted.solver.save_state()
                try:
                    return self._run_parts(until_ns)
                finally:
                    restore(self._hosted, present)
        except StateLost:
            raise
        except (Exception, SystemExit) as error:  # a failed trial must not end the session
            name = type(self._hosted.solver).__name__
            log.debug("%s was not probed at t = %g s: %s", name, self._t, error)
            return self._end(None)

    def _run_parts(self, until_ns: int) -> bool:
        assert self._asked is not None
        begun_ns = self._now_ns()
        if self._parts is None:
            u, h = self._asked
            self._parts = renewal(self._hosted, self._t, u, h)
            self._at = self._hosted.solver.save_state()
        else:
            self._hosted.solver.restore_state(self._at)
        while True:
            found = next_part(self._parts)
            ended_ns = self._now_ns()
            self._budget.add(ended_ns - begun_ns)
            if found is not None:
                return self._end(found)
            if not self._budget.fits(until_ns - ended_ns):
                return False
            begun_ns = ended_ns

    def _end(self, found: LinearModel | None) -> bool:
        self.found, self._asked, self._parts, self._at = found, None, None, None
        return True
