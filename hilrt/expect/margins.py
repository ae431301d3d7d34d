"""Margins of comparisons over rows of signals, and how far estimated errors may move them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hilrt.config.units import UNSTATED
from hilrt.expect.formula import Atom
from hilrt.expect.log_signals import LogSignals
from hilrt.expressions.evaluator import Evaluator
from hilrt.expressions.parse import parse
from hilrt.expressions.program import Program
from hilrt.solver import Floats


class Margins:
    """Evaluates expressions, with their first-order error.

    The error is the sum, over the signals, of how far the margin moves when that signal alone moves
    by its estimated error, up or down. For what is linear in its signals that is the largest change
    there can be.

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
        What `evaluate` wants of a row: what is read, then the estimated errors of that.
    units : list of str
        Of the margins.

    Raises
    ------
    ConfigError
        For signals that there are not, and units that do not fit.
    """

    def __init__(self, atoms: Sequence[Atom], signals: LogSignals, step: float) -> None:
        expressions = [parse(atom.margin) for atom in atoms]
        units = signals.named(name for e in expressions for name in e.signals)

        # What is wrong is told of the comparison as it is written, not of its margin.
        Program.from_texts([atom.text for atom in atoms], units, step=step)

        def evaluator() -> Evaluator:
            return Evaluator(expressions, units, step=step)

        self._nominal = evaluator()
        names = tuple(self._nominal.signals)
        self.units = [unit if unit != UNSTATED else "" for unit in self._nominal.program.units]
        self._of = [tuple(map(signals.column_of, e.signals)) for e in expressions]
        self.reads = tuple(map(signals.column_of, names))
        errors = [signals.error_of(name) for name in self.reads]
        self._unknown = [
            error is None and signals.is_disturbed(name)
            for name, error in zip(self.reads, errors, strict=True)
        ]
        self._erring = [i for i, error in enumerate(errors) if error is not None]
        self.columns = [*self.reads, *(error for error in errors if error is not None)]
        self._moved = {i: (evaluator(), evaluator()) for i in self._erring}

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
        count = len(self.reads)
        values = np.ascontiguousarray(rows[:, :count])
        times = np.where(fresh[:, :count], t[:, None], np.nan)
        margins = self._nominal.run(t, values, times)
        errors = np.zeros_like(margins)
        for k, i in enumerate(self._erring):
            reads = np.array([self.reads[i] in names for names in self._of])
            moved = []
            for evaluator, sign in zip(self._moved[i], (1.0, -1.0), strict=True):
                shifted, known = values.copy(), times.copy()
                shifted[:, i] += sign * rows[:, count + k]
                known[:, i] = t  # its error is new at every row
                moved.append(np.abs(evaluator.run(t, shifted, known) - margins))
            errors[:, reads] += np.maximum(*moved)[:, reads]
        for i, unknown in enumerate(self._unknown):
            if unknown:
                errors[:, [self.reads[i] in names for names in self._of]] = np.nan
        return margins, errors


def load_margins() -> None:
    """Load the compiled code of expressions, or compile it."""
    Evaluator(["1.0"])
