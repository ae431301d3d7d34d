"""Signals that expectations may name, of a session or a log: units, and known errors."""

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

#: Signal that is the half-width of the band in which the true value of another one is estimated.
ERROR = ":estimated_error"
#: What signals that tell of the session itself begin with, before a colon.
_OF_THE_SESSION = frozenset({"cut", "flag", "flags", "master"})
#: What signals of a subsystem, port or bond end with, behind the colon, that are times of the
#: exchange or flags of the session.
_TIMES_AND_FLAGS = frozenset(
    {
        *("age", "compute", "wire", "late", "busy", "due", "reached", "covered", "clock_error"),
        *("event", "rejoined", "t_valid", "source", "communicates", "capped"),
    }
)


@dataclass(frozen=True)
class LogSignals:
    """Signals by name.

    Attributes
    ----------
    units : mapping of str to str
        Every signal, with its unit.
    coupled : bool
        Whether they are of a co-simulation, in which what the coupling did to them is an error.
        Measurements of another tool have no such error.
    of_benches : frozenset of str
        Measured outputs of benches.
    channels : mapping of str
        Calculated channels by their names, as far as it is known how they are computed: their
        error is that of what they are computed from.
    tables : mapping of str
        Lookup tables that they use.
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

        Channels whose inputs `units` lacks are taken as they are.
        """
        channels = computable(channels_of(calculated, []), units)
        tables = lookup_tables_of(lookup_tables, [])
        measured = (n for n in units if ":" not in n and n.partition(".")[0] in benches)
        return cls(units, coupled, frozenset(measured), channels, tables)

    def error_of(self, name: str) -> str | None:
        """Signal with the estimated error of another one; None: it has none."""
        base, _, kind = name.partition(":")
        error = f"{base}{ERROR}"
        return error if kind in ("", "corrected") and error in self.units else None

    def is_disturbed(self, name: str) -> bool:
        """Whether the coupling has a part in it.

        So it has in everything but times of the exchange and flags of the session.
        """
        begin, _, end = name.partition(":")
        of_session = end in _TIMES_AND_FLAGS or (end != "" and begin in _OF_THE_SESSION)
        return self.coupled and not of_session

    def column_of(self, name: str) -> str:
        """Signal that a name in a condition stands for: calculated channels go by their own."""
        calculated = f"{CALCULATED}.{name}"
        return calculated if name not in self.units and calculated in self.units else name

    def named(self, names: Iterable[str]) -> dict[str, str]:
        """Units by the names that conditions use."""
        found = dict(self.units)
        for name in names:
            column = self.column_of(name)
            if column in found:
                found[name] = found[column]
        return found

    def raw(self, names: Iterable[str]) -> frozenset[str]:
        """Signals behind the names in a condition: for a channel, its inputs."""
        return frozenset(map(self.column_of, self._traced(names)[0]))

    def known(self, names: Iterable[str]) -> KnownSignals:
        """Signals of a condition; channels as expressions over their inputs."""
        raw, channels = self._traced(names)
        units = self.named(raw)
        return KnownSignals({name: units[name] for name in raw}, channels, self.tables)

    def _traced(self, names: Iterable[str]) -> tuple[set[str], dict[str, CalculatedChannel]]:
        """Names of signals, and channels, that stand behind names."""
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
    """Channels for which a log has everything that they are computed from."""
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


#: Functions with which an expression handles unknown values itself.
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

        # Errors are reported about the comparison as it is written, not about its margin.
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
