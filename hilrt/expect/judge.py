"""Expectations of one session or log: rows in, outcomes out.

While a session runs, rows are kept until there are enough for a batch, and batches are judged one
expectation at a time, as far as the slack of a tick has time for it. Nothing depends on when: the
result of the same rows is the same.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from hilrt.expect.case import Case
from hilrt.expect.expectation import Expectation
from hilrt.expect.log_signals import LogSignals
from hilrt.expect.outcome import ResultEntry
from hilrt.expect.robustness import Ints
from hilrt.solver import Floats

T = TypeVar("T")
#: Rows of a batch. A batch of one expectation takes 0.2 to 0.6 ms, most of it whatever its size.
BATCH_ROWS = 64
#: What one batch of one expectation is taken to cost before it is known, ns; and how fast a longer
#: time is forgotten.
FIRST_COST_NS = 500_000
FORGETTING = 0.9


class Judge:
    """Judges expectations.

    Parameters
    ----------
    expectations : iterable of Expectation
    signals : LogSignals
    names : sequence of str
        Signals of a row, in its order.
    step : float
        Time between two rows, s.
    now_ns : callable, optional
        Clock for the cost of a batch.

    Attributes
    ----------
    on_outcome : callable, optional
        Told of each outcome as soon as it is known.

    Raises
    ------
    ConfigError
        For signals that there are not, and units that do not fit.
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
        self._cases: list[_Turn] = []
        #: In the order in which they were asked for: cases, and what was made elsewhere.
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
        self._lay_out()

    @property
    def reads(self) -> bool:
        """Whether there is anything to judge in a row."""
        return bool(self._columns)

    @property
    def wanted(self) -> list[str]:
        """Signals of a row that any expectation reads, or their errors."""
        return sorted({name for turn in self._cases for name in turn.case.columns})

    def expect(self, expectation: Expectation) -> None:
        """Judge another expectation, from the next row on; `ConfigError` as at the start."""
        self._close_batch()
        self._add(expectation)
        self._lay_out()

    def measured(self, outcome: ResultEntry) -> None:
        """Take an outcome that was made elsewhere."""
        self._entries.append(outcome)
        self._tell(outcome)

    def take(self, t_ns: int, row: Floats) -> None:
        """Take a row, shape (n_names,), at a session time, ns; it may change afterwards."""
        if not self._columns:
            return
        n = self._count
        row.take(self._columns, out=self._block[n])
        self._times[n] = t_ns
        self._count = n + 1
        if self._count == BATCH_ROWS:
            self._close_batch()

    def take_rows(self, t_ns: Ints, rows: Floats) -> None:
        """Take rows, shape (n, n_names), at session times, ns, and judge them."""
        for turn in self._cases:
            turn.take(t_ns, rows[:, turn.columns])
            self._look(turn)

    def work(self, time_left_ns: float) -> None:
        """Judge what waits, as far as that has time."""
        while self._todo and self._cost_ns < time_left_ns:
            begun_ns = self._now_ns()
            self._judge(self._todo.popleft())
            cost_ns = self._now_ns() - begun_ns
            self._cost_ns = max(cost_ns, FORGETTING * self._cost_ns)
            time_left_ns -= cost_ns
        if self._todo:  # one slow batch must not keep all later ones waiting
            self._cost_ns *= FORGETTING

    def finish(self) -> list[ResultEntry]:
        """Judge the rest; no more rows come. Every outcome, in the order of the expectations."""
        if not self._ended:
            self._ended = True
            self._close_batch()
            while self._todo:
                self._judge(self._todo.popleft())
            for turn in self._cases:
                turn.finish()
                self._look(turn)
        return self.outcomes

    @property
    def outcomes(self) -> list[ResultEntry]:
        """Those that are known so far."""
        made = (one.outcome if isinstance(one, _Turn) else one for one in self._entries)
        return [outcome for outcome in made if outcome is not None]

    # ----------------------------------------------------------------------------------------------

    def _add(self, expectation: Expectation) -> None:
        case = Case(expectation, self._signals, self._step)
        turn = _Turn(case, [self._index[name] for name in case.columns])
        self._cases.append(turn)
        self._entries.append(turn)

    def _lay_out(self) -> None:
        """Columns of a batch: those that any expectation wants."""
        self._columns = sorted({column for turn in self._cases for column in turn.columns})
        self._block = np.empty((BATCH_ROWS, len(self._columns)))
        place = {column: i for i, column in enumerate(self._columns)}
        for turn in self._cases:
            turn.places = [place[column] for column in turn.columns]

    def _close_batch(self) -> None:
        if not self._count:
            return
        times, block = self._times[: self._count].copy(), self._block[: self._count].copy()
        for turn in self._cases:
            turn.waiting.append((times, block[:, turn.places]))
            self._todo.append(turn)
        self._count = 0

    def _judge(self, turn: _Turn) -> None:
        turn.take(*turn.waiting.popleft())
        self._look(turn)

    def _look(self, turn: _Turn) -> None:
        """Tell of an outcome when it is first known; at the end it is as it is then."""
        if turn.outcome is not None and not self._ended:
            return
        told, turn.outcome = turn.outcome is not None, turn.look()
        if turn.outcome is not None and not told:
            self._tell(turn.outcome)

    def _tell(self, outcome: ResultEntry) -> None:
        if self.on_outcome is not None:
            self.on_outcome(outcome)


class _Turn:
    """A case, and the batches that wait for it.

    A defect of the judge costs the outcome, and not the session that is judged.
    """

    def __init__(self, case: Case, columns: list[int]) -> None:
        self.case, self.columns = case, columns
        self.places: list[int] = []
        self.waiting: deque[tuple[Ints, Floats]] = deque()
        self.outcome: ResultEntry | None = None
        self._defect = ""

    def take(self, t_ns: Ints, rows: Floats) -> None:
        """See `Case.take`."""
        self._try(lambda: self.case.take(t_ns, rows))

    def finish(self) -> None:
        """See `Case.finish`."""
        self._try(self.case.finish)

    def look(self) -> ResultEntry | None:
        """See `Case.outcome`."""
        outcome = self._try(self.case.outcome)
        if not self._defect:
            return outcome
        of = self.case.expectation
        return ResultEntry(
            name=of.name, result="inconclusive", text=of.text, of=of.of, reason=self._defect
        )

    def _try(self, act: Callable[[], T]) -> T | None:
        if not self._defect:
            try:
                return act()
            except Exception as error:
                self._defect = f"it could not be judged: {type(error).__name__}: {error}"
        return None
