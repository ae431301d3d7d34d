"""Evaluation of one expectation on a session or log, from rows to its outcome."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hilrt.errors import ConfigError
from hilrt.expect.expectation import Expectation
from hilrt.expect.formula import Atom, is_limit
from hilrt.expect.log_signals import LogSignals, Margins
from hilrt.expect.monitor import Judgement, Monitor
from hilrt.expect.obligation import Stream
from hilrt.expect.outcome import ResultEntry
from hilrt.expect.robustness import TINY, Ints, Robustness, of_samples
from hilrt.solver import Floats


class Case:
    """Evaluation of one expectation, for rows in batches of any size.

    Parameters
    ----------
    expectation : Expectation
    signals : LogSignals
        Signals of the session or log.
    step : float
        Time between two rows, s; determines how much delays and windows in conditions store.

    Attributes
    ----------
    columns : list of str
        Signals that `take` needs, in order: the signals of the conditions, then their errors.

    Raises
    ------
    ConfigError
        For unknown signals, and units that do not fit.
    """

    def __init__(self, expectation: Expectation, signals: LogSignals, step: float) -> None:
        self.expectation = expectation
        self._atoms = expectation.atoms
        try:
            self._margins = Margins(self._atoms, signals, step)
        except ConfigError as error:
            named = f"expectation {expectation.name!r}"
            raise ConfigError([f"{named}: {line}" for line in error.problems]) from None
        self.reads = self._margins.reads
        self.columns = self._margins.columns
        numbers = {atom: i for i, atom in enumerate(self._atoms)}
        condition = expectation.condition
        self._condition = None if condition is None else Stream(condition, numbers)
        self._raw = [
            is_limit(expectation.formula)
            and all(name in signals.of_benches for name in self._margins.of(i))
            for i in range(len(self._atoms))
        ]
        self._monitor = Monitor(expectation.formula, numbers, expectation.timing)
        self._held = np.full(len(self.columns), np.nan)
        self._held_ns = np.full(len(self.columns), np.iinfo(np.int64).min // 2)
        self._last_ns = np.iinfo(np.int64).min
        self._began_ns: int | None = None
        self._waits = True  # whether first values of its signals are still missing

    def take(self, t_ns: Ints, rows: Floats) -> None:
        """Judge a batch of rows.

        Parameters
        ----------
        t_ns : ndarray, shape (n,)
            Session times, ns; ascending.
        rows : ndarray, shape (n, n_columns)
            NaN if a signal has no new value.
        """
        later = np.concatenate([[self._last_ns], t_ns[:-1]]) < t_ns
        if not later.all():  # of several rows with the same time, the first is used
            t_ns, rows = t_ns[later], rows[later]
        if not len(t_ns):
            return
        self._last_ns = int(t_ns[-1])
        rows, fresh = self._hold(t_ns, rows)
        begin = self._first_known(t_ns, rows)
        if begin < len(t_ns):
            self._judge(t_ns[begin:], rows[begin:], fresh[begin:])

    def finish(self) -> None:
        """Finish after the last row."""
        self._monitor.finish()

    def outcome(self) -> ResultEntry | None:
        """Outcome; None while undecided."""
        judgement = self._monitor.judge()
        return None if judgement is None else self._outcome(judgement)

    # ----------------------------------------------------------------------------------------------

    def _hold(self, t_ns: Ints, rows: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Values held for at most the hold time, and which of them are new or have become unknown.

        Both have shape (n, n_columns).
        """
        n = len(t_ns)
        values = np.vstack([self._held, rows])
        new = ~np.isnan(values)
        new[0] = True
        newest = np.maximum.accumulate(np.where(new, np.arange(n + 1)[:, None], 0), axis=0)
        values = np.take_along_axis(values, newest, 0)
        since = np.where(newest > 0, np.concatenate([[0], t_ns])[newest], self._held_ns)
        self._held, self._held_ns = values[-1].copy(), since[-1].copy()
        held = np.where(t_ns[:, None] - since[1:] <= self.expectation.hold_ns, values[1:], np.nan)
        errors = self._margins.values
        held[:, errors:] = rows[:, errors:]  # errors are not held
        return held, new[1:] | np.isnan(held)

    def _first_known(self, t_ns: Ints, rows: Floats) -> int:
        """Number of rows to skip at the start: signals of a log may begin in different rows."""
        if not self._waits:
            return 0
        if self._began_ns is None:
            self._began_ns = int(t_ns[0])
        unknown = np.isnan(rows[:, : len(self.reads)]).any(axis=1)
        waits = unknown & (t_ns - self._began_ns <= self.expectation.hold_ns)
        return len(t_ns) if waits.all() else int(np.argmin(waits))

    def _judge(self, t_ns: Ints, rows: Floats, fresh: NDArray[np.bool_]) -> None:
        if self._waits:  # earlier rows have not been evaluated
            self._waits = False
            fresh[0] = True
        margins, errors = self._margins.evaluate(np.asarray(t_ns / 1e9), rows, fresh)
        blocks: list[Robustness] = [
            _of_atom(i, atom, t_ns, margins[:, i], errors[:, i], self._raw[i])
            for i, atom in enumerate(self._atoms)
        ]
        condition = None if self._condition is None else self._condition.take(blocks)
        self._monitor.take(blocks, condition)

    def _outcome(self, judgement: Judgement) -> ResultEntry:
        expectation, monitor = self.expectation, self._monitor
        atom = judgement.atom
        known = atom >= 0
        return ResultEntry(
            name=expectation.name,
            result=judgement.word,
            robustness=_number(judgement.value),
            error=_number(judgement.error),
            t=judgement.at_ns / 1e9 if known else None,
            text=expectation.text,
            signals=list(self.reads),
            unit=self._margins.units[atom] if known else "",
            of=expectation.of,
            since=monitor.first_ns / 1e9 if monitor.first_ns >= 0 else None,
            until=monitor.last_ns / 1e9 if monitor.last_ns >= 0 else None,
            reason=self._reason(judgement),
        )

    def _reason(self, judgement: Judgement) -> str:
        if judgement.word != "failed" or judgement.atom < 0:
            return judgement.reason
        text = f"not {self._atoms[judgement.atom].text}"
        return f"{text}; {judgement.reason}" if judgement.reason else text


def _of_atom(
    number: int, atom: Atom, t_ns: Ints, margin: Floats, error: Floats, raw: bool
) -> Robustness:
    if atom.strict:
        margin = np.where(margin == 0.0, -TINY, margin)
    return of_samples(t_ns, margin, error, number, raw)


def _number(value: float) -> float | None:
    """Number for JSON; the margin of a strict comparison of equal numbers becomes 0."""
    if not math.isfinite(value):
        return None
    return 0.0 if abs(value) <= TINY else value
