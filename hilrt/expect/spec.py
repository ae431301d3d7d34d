"""Expectations of a file: of a specification of their own, or of a session file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hilrt.config.from_toml import build
from hilrt.config.parse_toml import read_toml
from hilrt.config.read_values import in_words
from hilrt.config.structs import Expect
from hilrt.errors import ConfigError
from hilrt.expect.expectation import Expectation, read_expectation

#: Size of a specification, bytes.
MAX_BYTES = 1 << 20


def read_spec(path: Path) -> list[Expectation]:
    """Expectations of a TOML file: its tables ``[[expect]]``; other tables are left alone.

    Raises
    ------
    ConfigError
        If it cannot be read, holds none, or any of them is wrong; one line per problem.
    """
    _, tables = read_toml(path, MAX_BYTES)
    found = read_tables(tables, f"{path}: ")
    if not found:
        raise ConfigError(f"{path}: expects nothing; add a table [[expect]]")
    return found


def read_tables(tables: dict[str, Any], prefix: str = "") -> list[Expectation]:
    """Expectations among the tables of a parsed file; `ConfigError` with all that is wrong."""
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
        raise ConfigError([prefix + in_words(line, tables) for line in problems])
    return found


def read_all(tables: Iterable[tuple[int, Expect]], problems: list[str]) -> list[Expectation]:
    """Expectations of tables, by their position; what is wrong with others goes to `problems`."""
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
