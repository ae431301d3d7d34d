"""Renewal of sensitivities in real time, in the solvers' processes between their steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hilrt.config.structs import Session
from hilrt.errors import HilrtError
from hilrt.exchange.sensitivities import SensitivityRenewal
from hilrt.link import Link, TriesInSlack
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.step.observer import Observer, Turn
from hilrt.timing.grid import SlackBudget
from hilrt.timing.monotonic import monotonic_ns


class SlackRenewal(SensitivityRenewal, Observer):
    """Renewal of sensitivities like `SensitivityRenewal`, by trials that delay no tick.

    Each solver is probed about its state after one of its next steps, so that the trials of several
    solvers are a step or two apart. The results are evaluated in the slack of the master if there
    is enough of it. By then they are several steps old, and are used for more. Old sensitivities
    act like a delay, which damps or amplifies the error. They are therefore extrapolated along the
    line through the last two trials, to the middle of the time until the next one, except after a
    large change, which indicates a switch.

    Parameters
    ----------
    numerics, tables, links
        As for `SensitivityRenewal`; links that can be probed have `Link.in_slack`.
    """

    name = "sensitivities"
    #: Session time after which an unfinished trial counts as failed, s.
    PATIENCE_S = 1.0

    def __init__(self, numerics: Numerics, tables: Session, links: Sequence[Link]) -> None:
        super().__init__(numerics, tables, links)
        self._pending: dict[int, TriesInSlack] = {}
        self._began_at, self._t, self._failed = math.nan, 0.0, False
        self._budget = SlackBudget()
        #: Result of the last trial, and the times when it was made, finished and used, s.
        self._found: Floats | None = None
        self._found_at = self._used_at = 0.0

    def stepped(self, turn: Turn) -> None:
        """Store the time; earlier results have been used."""
        self._t = turn.point.t_ns / 1e9
        self._numerics.given.session[0].answers_renewed = 0

    def idle(self, left_ns: float) -> None:
        """Begin a trial that is due, or use a finished one."""
        if math.isnan(self._began_at):
            self._left -= 1
            if self._left < 0 or self._has_moved():
                self._begin_trials()
            return
        for s, link in list(self._pending.items()):
            ended, model = link.trial_result()
            if ended:
                del self._pending[s]
                self._failed |= not self._store(s, model)
        if self._pending and self._t - self._began_at > self.PATIENCE_S:
            for link in self._pending.values():
                link.abandon_trial()
            self._pending, self._failed = {}, True
        if self._pending:
            return
        if self._failed:
            self._end(math.inf)
        elif self._budget.fits(left_ns):
            begun_ns = monotonic_ns()
            self._end(self._extrapolate())
            self._budget.add(monotonic_ns() - begun_ns)

    def _begin_trials(self) -> None:
        self._begin()
        self._began_at, self._failed = self._t, False
        for s in self._tried:
            link = self._links[s].in_slack
            if link is None:
                raise HilrtError(f"{self._links[s].name} is not probed in the slack")
            link.begin_trial(*self._about(s, self._t))
            self._pending[s] = link

    def _extrapolate(self) -> float:
        """Extrapolate the results into the next step's input; return their change."""
        answers, at = self._numerics.given.answers, self._began_at + self._step
        change = self._compare(self._began_at, self._found)
        before, since = self._found, at - self._found_at
        self._found, self._found_at = answers.copy(), at
        ahead = self._t - at + 0.5 * (self._t - self._used_at)
        self._used_at = self._t
        if before is not None and change < self.GREAT and since > 0.0:
            answers[:] += (answers - before) * (ahead / since)
        return change

    def _end(self, change: float) -> None:
        self._conclude(change, self._began_at)
        self._began_at = math.nan
