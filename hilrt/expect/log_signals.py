"""Signals of a session or log that expectations may use, with units and estimated errors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.config.structs import CALCULATED, Calculated, LookupEntry
from hilrt.config.units import UNSTATED
from hilrt.expect.formula import Atom
from hilrt.expressions.evaluator import Evaluator
from hilrt.expressions.nodes import LookupTable
from hilrt.expressions.parse import CalculatedChannel, KnownSignals, channel_name, parse
from hilrt.expressions.program import Program
from hilrt.expressions.session_program import channels_of, lookup_tables_of
from hilrt.solver import Floats

#: Signal with the half-width of another one's error band.
ERROR = ":estimated_error"
#: Prefixes, before a colon, of signals about the session itself.
_OF_THE_SESSION = frozenset({"cut", "flag", "flags", "master"})
#: Suffixes, after a colon, of a subsystem's, port's or bond's signals that are times of the
#: exchange or flags of the session.
_TIMES_AND_FLAGS = frozenset(
    {
        *("age", "compute", "wire", "late", "busy", "due", "reached", "covered", "clock_error"),
        *("event", "rejoined", "t_valid", "source", "communicates", "capped"),
    }
)


@dataclass(frozen=True)
class LogSignals:
    """Signals by name, with their units and properties.

    Attributes
    ----------
    units : mapping of str to str
        Unit of every signal.
    coupled : bool
        Whether they are from a co-simulation, where the coupling causes errors. Measurements of
        other tools have no such error.
    of_benches : frozenset of str
        Measured outputs of benches.
    channels : mapping of str
        Calculated channels with a known expression, by name: their error follows from that of
        the signals they are computed from.
    tables : mapping of str
        Lookup tables that calculated channels use.
    """

    units: Mapping[str, str]
    coupled: bool = False
    of_benches: frozenset[str] = field(default_factory=frozenset)
    channels: Mapping[str, CalculatedChannel] = field(default_factory=dict)
    tables: Mapping[str, LookupTable] = field(default_factory=dict)

    @classmethod
    def of_session(
        cls,
        units: Mapping[str, str],
        coupled: bool,
        benches: Collection[str],
        calculated: Sequence[Calculated] = (),
        lookup_tables: Sequence[LookupEntry] = (),
    ) -> LogSignals:
        """Signals of a session, with its benches and the tables of its calculated channels.

        Channels whose inputs are not in `units` count as ordinary signals.
        """
        channels = computable(channels_of(calculated, []), units)
        tables = lookup_tables_of(lookup_tables, [])
        measured = (n for n in units if ":" not in n and n.partition(".")[0] in benches)
        return cls(units, coupled, frozenset(measured), channels, tables)

    def error_of(self, name: str) -> str | None:
        """Signal with the estimated error of another one; None if there is none."""
        base, _, kind = name.partition(":")
        error = f"{base}{ERROR}"
        return error if kind in ("", "corrected") and error in self.units else None

    def is_disturbed(self, name: str) -> bool:
        """Whether the coupling influences a signal.

        It influences all signals except times of the exchange and flags of the session.
        """
        begin, _, end = name.partition(":")
        of_session = end in _TIMES_AND_FLAGS or (end != "" and begin in _OF_THE_SESSION)
        return self.coupled and not of_session

    def column_of(self, name: str) -> str:
        """Signal to which a name in a condition refers: for a channel, ``calculated.NAME``."""
        calculated = f"{CALCULATED}.{name}"
        return calculated if name not in self.units and calculated in self.units else name

    def named(self, names: Iterable[str]) -> dict[str, str]:
        """Units by the names used in conditions."""
        found = dict(self.units)
        for name in names:
            column = self.column_of(name)
            if column in found:
                found[name] = found[column]
        return found

    def raw(self, names: Iterable[str]) -> frozenset[str]:
        """Signals that the names in a condition depend on: for a channel, its inputs."""
        return frozenset(map(self.column_of, self._traced(names)[0]))

    def known(self, names: Iterable[str]) -> KnownSignals:
        """Signals of a condition, with channels as expressions of their inputs."""
        raw, channels = self._traced(names)
        units = self.named(raw)
        return KnownSignals({name: units[name] for name in raw}, channels, self.tables)

    def _traced(self, names: Iterable[str]) -> tuple[set[str], dict[str, CalculatedChannel]]:
        """Signals and channels on which the given names depend."""
        raw, channels, todo = set[str](), dict[str, CalculatedChannel](), [*names]
        while todo:
            name = todo.pop()
            own = channel_name(name)
            if own not in self.channels or self.column_of(name) != f"{CALCULATED}.{own}":
                raw.add(name)
            elif own not in channels:
                channels[own] = self.channels[own]
                todo += channels[own].expression.signals
        return raw, channels


def computable(
    channels: Mapping[str, CalculatedChannel], units: Mapping[str, str]
) -> dict[str, CalculatedChannel]:
    """Channels for which a log has all inputs."""
    found = dict(channels)
    while True:
        left = {
            name: channel
            for name, channel in found.items()
            if all(n in units or channel_name(n) in found for n in channel.expression.signals)
        }
        if len(left) == len(found):
            return found
        found = left


#: Functions with which an expression handles unknown values explicitly.
_HANDLES_UNKNOWN = re.compile(r"\b(known|default)\s*\(")


class Margins:
    """Evaluator of comparisons' margins, with their first-order errors.

    Each signal is moved up and down by its estimated error while the others stay fixed; the error
    is the sum of the resulting changes of the margin. If the margin is linear in its signals, that
    is the largest possible change. A calculated channel moves with the signals it is computed from.

    If a signal that an expression reads is unknown, so is its margin; otherwise a comparison inside
    the expression would be false. Expressions with ``known`` or ``default`` handle unknown values
    themselves.

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
        Signals that the comparisons read.
    columns : list of str
        Columns that `evaluate` needs: signals that are read, further inputs of calculated channels,
        then the estimated errors.
    values : int
        Number of columns before the errors.
    units : list of str
        Units of the margins.

    Raises
    ------
    ConfigError
        For unknown signals, and units that do not fit.
    """

    def __init__(self, atoms: Sequence[Atom], signals: LogSignals, step: float) -> None:
        expressions = [parse(atom.margin) for atom in atoms]
        names = [name for e in expressions for name in e.signals]
        units = signals.named(names)

        # Errors are reported for the comparison as written, not for its margin.
        Program.from_texts([atom.text for atom in atoms], units, step=step)

        self._nominal = Evaluator(expressions, units, step=step)
        self.units = [unit if unit != UNSTATED else "" for unit in self._nominal.program.units]
        self.reads = tuple(map(signals.column_of, self._nominal.signals))
        self._of = [tuple(map(signals.column_of, e.signals)) for e in expressions]
        places = {name: i for i, name in enumerate(self.reads)}
        self._needs = [
            [] if _HANDLES_UNKNOWN.search(atom.margin) else [places[name] for name in of]
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
            Held values; NaN: unknown.
        fresh : ndarray, shape (n, n_columns)
            Values that are new, or have become unknown; filters advance at these.
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
                known[:, one.signal] = t  # the error is new in every row
                found.append(np.abs(evaluator.run(t, shifted, known) - about))
            errors[:, one.of] += np.maximum(*found)[:, one.of]
        errors[:, self._unknown] = np.nan
        return margins, errors


class _Moved(NamedTuple):
    """Signal that is moved by its error.

    `signal`: its column among the values; `error`: the column of its error; `of`: the comparisons
    that depend on it, shape (n_atoms,); `evaluators`: for the signal moved up, and moved down.
    """

    signal: int
    error: int
    of: NDArray[np.bool_]
    evaluators: tuple[Evaluator, Evaluator]


def load_margins() -> None:
    """Load the compiled code of expressions, or compile it."""
    Evaluator(["1.0"])
