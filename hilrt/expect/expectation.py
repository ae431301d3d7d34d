"""Checkable form of a table ``[[expect]]``: formula, condition, and time span."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hilrt.config import read_values
from hilrt.config.from_toml import build
from hilrt.config.parse_toml import read_toml
from hilrt.config.structs import Expect
from hilrt.errors import ConfigError
from hilrt.expect.formula import (
    Atom,
    Formula,
    HoldsUntil,
    Junction,
    Window,
    atoms,
    reach_ns,
    read_condition,
    read_formula,
    seconds_ns,
)
from hilrt.expect.monitor import JudgedTime


@dataclass(frozen=True)
class Expectation:
    """An expectation in the form in which it is evaluated.

    Attributes
    ----------
    name : str
    text : str
        The expectation as text.
    formula : Formula
    condition : Formula or None
        Condition of the trigger.
    timing : JudgedTime
    hold_ns : int
        Time for which a signal's last value is held, ns.
    of : str
        Subsystem of the sequence that added it; empty: from a file.
    """

    name: str
    text: str
    formula: Formula
    condition: Formula | None
    timing: JudgedTime
    hold_ns: int
    of: str = ""

    @property
    def atoms(self) -> list[Atom]:
        """Comparisons, first those of the formula, then those of the condition."""
        return atoms(self.formula) + (atoms(self.condition) if self.condition else [])


def read_expectation(table: Expect, of: str = "") -> Expectation:
    """Read the expectation of a table.

    Raises
    ------
    ConfigError
        One line per problem, each beginning with the key.
    """
    problems = _forms(table)
    if problems:
        raise ConfigError(problems)
    formula = _formula(table)
    condition = None
    if table.when is not None:
        condition = _condition("when", table.when)
        if reach_ns(formula) is None:
            raise ConfigError(
                "when: needs an expectation that ends; give `for` or `within` (s), or use `while` "
                "instead of when"
            )
    timing = JudgedTime(
        seconds_ns(table.from_),
        None if table.to is None else seconds_ns(table.to),
        condition is not None,
    )
    hold_ns = seconds_ns(table.max_age)
    return Expectation(table.name, in_words(table), formula, condition, timing, hold_ns, of)


def in_words(table: Expect) -> str:
    """Text of the expectation in a table."""
    if table.formula is not None:
        text = table.formula
    elif table.eventually is not None:
        text = f"eventually {table.eventually}"
        text += f", for {table.for_:g} s" if table.for_ is not None else ""
    else:
        text = f"always {table.always}"
        text += f", for {table.for_:g} s" if table.for_ is not None else ""
        text += f", until {table.until}" if table.until is not None else ""
    text += f", within {table.within:g} s" if table.within is not None else ""
    text += f", after {table.after:g} s" if table.after else ""
    text += f", while {table.while_}" if table.while_ is not None else ""
    text += f", when {table.when}" if table.when is not None else ""
    text += f", from {table.from_:g} s" if table.from_ else ""
    return text + (f", to {table.to:g} s" if table.to is not None else "")


def _forms(table: Expect) -> list[str]:
    """Problems with keys that cannot be combined."""
    problems = []
    given = [k for k in ("always", "eventually", "formula") if getattr(table, k) is not None]
    if len(given) != 1:
        text = f"{', '.join(given)} are given" if given else "none is given"
        problems.append(f"always: {text}; give one of always, eventually, formula")
    if table.formula is not None:
        unused = ("until", "within", "for_", "after", "while_")
        problems += [
            f"{key.rstrip('_')}: cannot be combined with formula; write it in the formula"
            for key in unused
            if getattr(table, key) not in (None, 0.0)
        ]
    if table.until is not None and table.always is None:
        problems.append('until: needs always, which holds until then; write always = "…"')
    if table.until is not None and table.for_ is not None:
        problems.append(
            "for: cannot be combined with until; use within, the time limit of its occurrence"
        )
    if table.within is not None and table.always is not None and table.until is None:
        problems.append(
            "within: cannot be combined with always; use for, the time that it must hold"
        )
    if table.while_ is not None and (table.always is None or table.until is not None):
        problems.append("while: only works with always; use when, or a formula")
    if table.to is not None and table.to < table.from_:
        problems.append(f"to: is before from = {table.from_:g}; swap them")
    if table.within is not None and table.after > table.within:
        problems.append(f"after: is later than within = {table.within:g}; make it shorter")
    return problems


def _formula(table: Expect) -> Formula:
    begin_ns = seconds_ns(table.after)
    within_ns = None if table.within is None else seconds_ns(table.within)
    for_ns = None if table.for_ is None else seconds_ns(table.for_)
    if table.formula is not None:
        return _read(read_formula, "formula", table.formula)
    if table.eventually is not None:
        part = _condition("eventually", table.eventually)
        if for_ns is not None:
            part = Window(True, part, 0, for_ns)
        return Window(False, part, begin_ns, within_ns)
    assert table.always is not None
    part = _condition("always", table.always)
    if table.until is not None:
        return HoldsUntil(part, _condition("until", table.until), begin_ns, within_ns)
    if table.while_ is not None:
        given = _condition("while", f"not ({table.while_})")
        part = Junction(False, (given, part))
    return Window(True, part, begin_ns, None if for_ns is None else begin_ns + for_ns)


def _condition(key: str, text: str) -> Formula:
    return _read(read_condition, key, text)


def _read(read: Callable[[str], Formula], key: str, text: str) -> Formula:
    """Read a key's text as a formula; problems are reported with the key as prefix."""
    try:
        return read(text)
    except ConfigError as error:
        raise ConfigError([f"{key}: {line}" for line in error.problems]) from None


#: Largest specification file, bytes.
MAX_BYTES = 1 << 20


def read_spec(path: Path) -> list[Expectation]:
    """Read the expectations ``[[expect]]`` of a TOML file; other tables are ignored.

    Raises
    ------
    ConfigError
        If it cannot be read, has no expectation, or one of them is wrong; one line per problem.
    """
    _, tables = read_toml(path, MAX_BYTES)
    found = read_tables(tables, f"{path}: ")
    if not found:
        raise ConfigError(f"{path}: contains no expectation; add a table [[expect]]")
    return found


def read_tables(tables: dict[str, Any], prefix: str = "") -> list[Expectation]:
    """Read the expectations of a parsed file; `ConfigError` with all problems."""
    entries = tables.get("expect", [])
    if not isinstance(entries, list):
        raise ConfigError(f"{prefix}[expect]: is a table; write it as [[expect]]")
    problems: list[str] = []
    read = []
    for i, entry in enumerate(entries):
        table = build(Expect, entry, f"expect.{i}", problems)
        if table is not None:
            read.append((i, table))
    found = read_all(read, problems)
    if problems:
        raise ConfigError([prefix + read_values.in_words(line, tables) for line in problems])
    return found


def read_all(tables: Iterable[tuple[int, Expect]], problems: list[str]) -> list[Expectation]:
    """Read tables, given with their position; problems are added to `problems`."""
    found: list[Expectation] = []
    names: set[str] = set()
    for i, table in tables:
        if table.name in names:
            problems.append(f"[expect.{i}] name: another one has that name; rename one")
        names.add(table.name)
        try:
            found.append(read_expectation(table))
        except ConfigError as error:
            problems += [f"[expect.{i}] {line}" for line in error.problems]
    return found


def expectations_of(tables: Sequence[Expect]) -> list[Expectation]:
    """Expectations of a session file without errors."""
    return [read_expectation(table) for table in tables]
