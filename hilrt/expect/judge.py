"""Evaluation of all expectations of one session or log, from rows to outcomes.

While a session runs, rows are collected into batches, and batches are evaluated one expectation at
a time, as far as the slack of a tick allows. The result depends only on the rows, not on when they
are evaluated. If the slack is so short that the queue reaches `MAX_WAITING`, rows are dropped,
counted and reported; outcomes that depend on them are inconclusive.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from hilrt.expect.case import Case
from hilrt.expect.expectation import Expectation
from hilrt.expect.formula import is_limit
from hilrt.expect.log_signals import LogSignals
from hilrt.expect.outcome import ResultEntry
from hilrt.expect.robustness import Ints
from hilrt.solver import Floats

T = TypeVar("T")
#: Rows per batch. A batch of one expectation takes 0.2 to 0.6 ms, most of it independent of size.
BATCH_ROWS = 64
#: Maximum bytes of queued rows: a minute at 1 kHz for ten expectations with five signals each.
MAX_WAITING: Final = 32 << 20
NO_TIME: Final = "there was no time to check them; `hilrt expect` can do it with the log"
#: Assumed cost of one batch of one expectation before it is measured, ns; and the factor per batch
#: by which the largest measured cost decays.
FIRST_COST_NS = 500_000
FORGETTING = 0.9


class Judge:
    """Evaluation of all expectations of a session or log.

    Parameters
    ----------
    expectations : iterable of Expectation
    signals : LogSignals
    names : sequence of str
        Signals of a row, in order.
    step : float
        Time between two rows, s.
    now_ns : callable, optional
        Clock for the cost of a batch.

    Attributes
    ----------
    on_outcome : callable, optional
        Called with each outcome as soon as it is known.
    on_loss : callable, optional
        Called with a text when rows are lost for the first time.
    lost : int
        Rows dropped because there was no time to judge them and no room to queue them.

    Raises
    ------
    ConfigError
        For unknown signals, and units that do not fit.
    """

    def __init__(
        self,
        expectations: Iterable[Expectation],
        signals: LogSignals,
        names: Sequence[str],
        step: float,
        now_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._signals, self._step, self._now_ns = signals, step, now_ns
        self._index = {name: i for i, name in enumerate(names)}
        self.on_outcome: Callable[[ResultEntry], None] | None = None
        self.on_loss: Callable[[str], None] | None = None
        self.lost = self._waiting = 0
        self._cases: list[_Turn] = []
        #: Cases and measurements, in the order in which they were added.
        self._entries: list[_Turn | ResultEntry] = []
        self._ended = False
        self._columns: list[int] = []
        self._block: Floats = np.empty((BATCH_ROWS, 0))
        self._times = np.empty(BATCH_ROWS, np.int64)
        self._count = 0
        self._todo: deque[_Turn] = deque()
        self._cost_ns = float(FIRST_COST_NS)
        for expectation in expectations:
            self._add(expectation)
        self._choose_columns()

    @property
    def reads(self) -> bool:
        """Whether any expectation still needs rows."""
        return bool(self._columns)

    @property
    def wanted(self) -> list[str]:
        """Signals of a row that an expectation reads, and their errors."""
        return sorted({name for turn in self._cases for name in turn.case.columns})

    def expect(self, expectation: Expectation) -> None:
        """Add an expectation, judged from the next row on; `ConfigError` as for the class."""
        self._close_batch()
        self._add(expectation)
        self._choose_columns()

    def measured(self, outcome: ResultEntry) -> None:
        """Add an outcome that was determined elsewhere."""
        self._entries.append(outcome)
        self._notify(outcome)

    def take(self, t_ns: int, row: Floats) -> None:
        """Queue a row, shape (n_names,), at a session time, ns; the array may be reused."""
        if not self._columns:
            return
        n = self._count
        row.take(self._columns, out=self._block[n])
        self._times[n] = t_ns
        self._count = n + 1
        if self._count == BATCH_ROWS:
            self._close_batch()

    def take_rows(self, t_ns: Ints, rows: Floats) -> None:
        """Judge rows, shape (n, n_names), at session times, ns."""
        for turn in self._cases:
            turn.take(t_ns, rows[:, turn.columns])
            self._update(turn)

    def work(self, time_left_ns: float) -> None:
        """Judge queued rows, as far as there is time."""
        while self._todo and self._cost_ns < time_left_ns:
            begun_ns = self._now_ns()
            self._judge(self._todo.popleft())
            cost_ns = self._now_ns() - begun_ns
            self._cost_ns = max(cost_ns, FORGETTING * self._cost_ns)
            time_left_ns -= cost_ns
        if self._todo:  # one slow batch must not block all later ones
            self._cost_ns *= FORGETTING

    def finish(self) -> list[ResultEntry]:
        """Judge the rest after the last row; return all outcomes, in the order of addition."""
        if not self._ended:
            self._ended = True
            self._judge_all()  # makes room for the last batch
            self._close_batch()
            self._judge_all()
            for turn in self._cases:
                turn.finish()
                self._update(turn)
        return self.outcomes

    def abandon(self, reason: str) -> None:
        """Stop judging, because of a bug; undecided expectations become inconclusive."""
        self._todo.clear()
        self._count = 0
        for turn in self._cases:
            turn.abandon(reason)
            self._update(turn)
        self._ended = True
        text = "all expectations are checked"
        self.measured(
            ResultEntry(name="expectations", result="inconclusive", text=text, reason=reason)
        )

    @property
    def outcomes(self) -> list[ResultEntry]:
        """Outcomes that are known so far."""
        found = (one.outcome if isinstance(one, _Turn) else one for one in self._entries)
        return [outcome for outcome in found if outcome is not None]

    # ----------------------------------------------------------------------------------------------

    def _add(self, expectation: Expectation) -> None:
        case = Case(expectation, self._signals, self._step)
        turn = _Turn(case, [self._index[name] for name in case.columns])
        self._cases.append(turn)
        self._entries.append(turn)

    def _choose_columns(self) -> None:
        """Choose the columns that any expectation needs for the next batches."""
        self._columns = sorted({column for turn in self._cases for column in turn.columns})
        self._block = np.empty((BATCH_ROWS, len(self._columns)))
        place = {column: i for i, column in enumerate(self._columns)}
        for turn in self._cases:
            turn.places = [place[column] for column in turn.columns]

    def _close_batch(self) -> None:
        if not self._count:
            return
        times, block = self._times[: self._count].copy(), self._block[: self._count].copy()
        self._count = 0
        if self._waiting >= MAX_WAITING:
            self._lose(times)
            return
        for turn in self._cases:
            rows = block[:, turn.places]
            turn.waiting.append((times, rows))
            self._waiting += rows.nbytes
            self._todo.append(turn)

    def _lose(self, t_ns: Ints) -> None:
        if not self.lost and self.on_loss is not None:
            self.on_loss(f"rows from {t_ns[0] / 1e9:g} s on: {NO_TIME}")
        self.lost += len(t_ns)
        for turn in self._cases:
            newest = turn.waiting[-1] if turn.waiting else None
            if isinstance(newest, _Gap):
                newest.rows += len(t_ns)
            else:
                turn.waiting.append(_Gap(int(t_ns[0]), len(t_ns)))
                self._todo.append(turn)

    def _judge_all(self) -> None:
        while self._todo:
            self._judge(self._todo.popleft())

    def _judge(self, turn: _Turn) -> None:
        batch = turn.waiting.popleft()
        if isinstance(batch, _Gap):
            turn.lose(batch)
        else:
            self._waiting -= batch[1].nbytes
            turn.take(*batch)
        self._update(turn)

    def _update(self, turn: _Turn) -> None:
        """Report an outcome when it is first known; at the end, update it without a report."""
        if turn.outcome is not None and not self._ended:
            return
        known, turn.outcome = turn.outcome is not None, turn.update()
        if turn.outcome is not None and not known:
            self._notify(turn.outcome)

    def _notify(self, outcome: ResultEntry) -> None:
        if self.on_outcome is not None:
            self.on_outcome(outcome)


@dataclass
class _Gap:
    """Rows that were dropped, from a session time [ns] on."""

    since_ns: int
    rows: int


class _Turn:
    """Case with the batches queued for it.

    A defect of the judge makes the outcome inconclusive, but does not end the session.
    """

    def __init__(self, case: Case, columns: list[int]) -> None:
        self.case, self.columns = case, columns
        self.places: list[int] = []
        self.waiting: deque[tuple[Ints, Floats] | _Gap] = deque()
        self.outcome: ResultEntry | None = None
        self._defect, self._lost = "", _Gap(0, 0)
        self._final = False

    def take(self, t_ns: Ints, rows: Floats) -> None:
        """Judge a batch; see `Case.take`."""
        self._try(lambda: self.case.take(t_ns, rows))

    def lose(self, gap: _Gap) -> None:
        """Continue without some rows; earlier decisions remain valid."""
        if not self._lost.rows:
            self._final, self._lost = self.outcome is not None, gap
        else:
            self._lost.rows += gap.rows

    def abandon(self, reason: str) -> None:
        """Stop judging rows."""
        self._defect = self._defect or reason

    def finish(self) -> None:
        """Finish after the last row; see `Case.finish`."""
        self._try(self.case.finish)

    def update(self) -> ResultEntry | None:
        """Current outcome; see `Case.outcome`."""
        if self._final:
            return self.outcome
        of, outcome, why = self.case.expectation, self._try(self.case.outcome), self._defect
        if self._lost.rows and not why:
            # One sample is enough to violate a limit.
            if is_limit(of.formula) and (outcome is None or outcome.result == "failed"):
                return outcome
            why = f"{self._lost.rows:,} rows from {self._lost.since_ns / 1e9:g} s on: {NO_TIME}"
        if not why:
            return outcome
        return ResultEntry(name=of.name, result="inconclusive", text=of.text, of=of.of, reason=why)

    def _try(self, act: Callable[[], T]) -> T | None:
        if not self._defect:
            try:
                return act()
            except Exception as error:
                self._defect = f"it could not be checked: {type(error).__name__}: {error}"
        return None
