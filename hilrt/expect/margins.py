"""Margins of comparisons over rows of signals, and how far estimated errors may move them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.config.units import UNSTATED
from hilrt.expect.formula import Atom
from hilrt.expect.log_signals import LogSignals
from hilrt.expressions.evaluator import Evaluator
from hilrt.expressions.parse import parse
from hilrt.expressions.program import Program
from hilrt.solver import Floats

#: Functions by which an expression says itself what it does about values that are unknown.
_ASKS = re.compile(r"\b(known|default)\s*\(")


class Margins:
    """Evaluates expressions, with their first-order error.

    The error is the sum, over the signals, of how far the margin moves when that signal alone moves
    by its estimated error, up or down. For what is linear in its signals that is the largest change
    there can be. A calculated channel moves as the signals do that it is computed from.

    What an expression reads must be known, or its margin is not: a comparison inside it would be
    false instead. With ``known`` or ``default`` it decides by itself.

    Parameters
    ----------
    atoms : sequence of Atom
        Comparisons.
    signals : LogSignals
    step : float
        Time between two rows, s.

    Attributes
    ----------
    reads : tuple of str
        Signals that they read.
    columns : list of str
        What `evaluate` wants of a row: what is read; further signals that calculated channels are
        computed from; the estimated errors.
    values : int
        Columns before the errors.
    units : list of str
        Of the margins.

    Raises
    ------
    ConfigError
        For signals that there are not, and units that do not fit.
    """

    def __init__(self, atoms: Sequence[Atom], signals: LogSignals, step: float) -> None:
        expressions = [parse(atom.margin) for atom in atoms]
        names = [name for e in expressions for name in e.signals]
        units = signals.named(names)

        # What is wrong is told of the comparison as it is written, not of its margin.
        Program.from_texts([atom.text for atom in atoms], units, step=step)

        self._nominal = Evaluator(expressions, units, step=step)
        self.units = [unit if unit != UNSTATED else "" for unit in self._nominal.program.units]
        self.reads = tuple(map(signals.column_of, self._nominal.signals))
        self._of = [tuple(map(signals.column_of, e.signals)) for e in expressions]
        places = {name: i for i, name in enumerate(self.reads)}
        self._needs = [
            [] if _ASKS.search(atom.margin) else [places[name] for name in of]
            for atom, of in zip(atoms, self._of, strict=True)
        ]
        raw = [signals.raw(e.signals) for e in expressions]
        self._unknown = [
            any(signals.error_of(name) is None and signals.is_disturbed(name) for name in of)
            for of in raw
        ]
        self._moved: list[_Moved] = []
        self.columns = [*self.reads]
        traced = raw != [frozenset(of) for of in self._of]
        known = signals.known(names) if traced else signals.named(names)

        def evaluator() -> Evaluator:
            return Evaluator(expressions, known, step=step)

        self._traced = evaluator() if traced else None
        own = [signals.column_of(name) for name in (self._traced or self._nominal).signals]
        self.columns += [name for name in own if name not in self.reads]
        self.values = len(self.columns)
        self._own = [self.columns.index(name) for name in own]
        for i, name in enumerate(own):
            error = signals.error_of(name)
            if error is not None:
                of = np.array([name in of for of in raw])
                both = evaluator(), evaluator()
                self._moved.append(_Moved(i, len(self.columns), of, both))
                self.columns.append(error)

    def of(self, number: int) -> tuple[str, ...]:
        """Signals that a comparison reads."""
        return self._of[number]

    def evaluate(self, t: Floats, rows: Floats, fresh: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Margins and their errors, each shape (n, n_atoms).

        Parameters
        ----------
        t : ndarray, shape (n,)
            s
        rows : ndarray, shape (n, n_columns)
            Values as they hold; NaN: unknown.
        fresh : ndarray, shape (n, n_columns)
            Which of them are new, or have become unknown: filters step by these.
        """
        sampled = np.where(fresh, t[:, None], np.nan)
        count = len(self.reads)
        margins = self._nominal.run(t, rows[:, :count], sampled[:, :count])
        unknown = np.isnan(rows)
        for k, needs in enumerate(self._needs):
            margins[unknown[:, needs].any(axis=1), k] = np.nan
        values, times = rows[:, self._own], sampled[:, self._own]
        about = margins if self._traced is None else self._traced.run(t, values, times)
        errors = np.zeros_like(margins)
        for one in self._moved:
            found = []
            for evaluator, sign in zip(one.evaluators, (1.0, -1.0), strict=True):
                shifted, known = values.copy(), times.copy()
                shifted[:, one.signal] += sign * rows[:, one.error]
                known[:, one.signal] = t  # its error is new at every row
                found.append(np.abs(evaluator.run(t, shifted, known) - about))
            errors[:, one.of] += np.maximum(*found)[:, one.of]
        errors[:, self._unknown] = np.nan
        return margins, errors


class _Moved(NamedTuple):
    """A signal that is moved by its error.

    `signal`: its place among what is evaluated; `error`: the column of its error; `of`: the
    comparisons that it moves, shape (n_atoms,); `evaluators`: with it moved up and down.
    """

    signal: int
    error: int
    of: NDArray[np.bool_]
    evaluators: tuple[Evaluator, Evaluator]


def load_margins() -> None:
    """Load the compiled code of expressions, or compile it."""
    Evaluator(["1.0"])
