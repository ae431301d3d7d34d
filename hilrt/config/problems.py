"""Findings about a session file, and the lines that they refer to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from hilrt.config.parse_toml import TOKENS, TomlError, parse_toml

Level = Literal["error", "warning", "info", "not checked"]
_LINE = re.compile(r"\[(?P<table>[^\]]+)\](?: (?P<key>[\w.]+))?(?:: | = )(?P<rest>.*)")
#: A message that begins with the key that it refers to.
_KEY = re.compile(r"[a-z][\w.]*(: | = )")


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding; ``str()`` returns it as one line.

    Attributes
    ----------
    level : {"error", "warning", "info", "not checked"}
        Only errors prevent a session from running.
    table : str
        Dotted name of the table, without brackets.
    key : str
        Empty if the finding refers to the whole table.
    value : object
        Value of the key; None if it has none.
    message, remedy : str
        The problem, and how to solve it.
    line : str
        The complete text, if the finding was not given by its parts.
    at : int
        Line number in the session file, from 1; 0 if there is none or it is not known.
    """

    level: Level
    table: str
    key: str
    value: Any
    message: str
    remedy: str = ""
    line: str = ""
    at: int = 0

    def __str__(self) -> str:
        if self.line:
            return " ".join(self.line.split())
        where = f"[{self.table}]"
        if self.key:
            where += f" {self.key}"
        if self.value is not None:
            where += f" = {self.value!r}"
        text = f"{where}: {self.message}" + (f"; {self.remedy}" if self.remedy else "")
        return " ".join(text.split())


@dataclass(slots=True)
class Findings:
    """List of findings, with methods to add them."""

    problems: list[Problem] = field(default_factory=list)

    def error(self, table: str, key: str, value: Any, message: str, remedy: str) -> None:
        """Add an error, which prevents the session from running."""
        self.problems.append(Problem("error", table, key, value, message, remedy))

    def warn(self, table: str, key: str, value: Any, message: str, remedy: str) -> None:
        """Add a warning about a value that is probably not intended."""
        self.problems.append(Problem("warning", table, key, value, message, remedy))

    def info(self, table: str, message: str) -> None:
        """Add a note, for example about skipped checks."""
        self.problems.append(Problem("info", table, "", None, message))

    def unchecked(self, table: str, key: str, value: Any, why: str) -> None:
        """Add a note about an omitted check: no code that the file names may run."""
        self.problems.append(Problem("not checked", table, key, value, why))

    def line(self, line: str, table: str = "") -> None:
        """Add a line of a `ConfigError`; `table` is used if the line names no place."""
        match = _LINE.match(line)
        if match is None and table and _KEY.match(line):
            line = f"[{table}] {line}"
            match = _LINE.match(line)
        if match is None:
            line = f"[{table}]: {line}" if table else line
            self.problems.append(Problem("error", table, "", None, line, "", line))
            return
        message, _, remedy = match["rest"].partition("; ")
        place = match["table"], match["key"] or ""
        self.problems.append(Problem("error", *place, None, message, remedy, line))


@dataclass
class _Node:
    """A table, an entry of a list of tables, or a value: its line and content."""

    line: int
    inside: dict[str, _Node] = field(default_factory=dict)
    #: Number of entries so far, for a list of tables.
    entries: int = 0
    #: Value of its key `name`, which also identifies an entry of a list.
    name: str = ""

    @cached_property
    def found(self) -> dict[str, _Node]:
        """Content by key and by name, once the file has been read completely."""
        return {one.name: one for one in self.inside.values() if one.name} | self.inside

    def child(self, key: str, line: int) -> _Node:
        """Child named `key`, which is created if it does not exist."""
        return self.inside.setdefault(key, _Node(line))


class TomlLines:
    """Line numbers of the keys and tables in a file.

    Parameters
    ----------
    text : str
        Content of the file, readable by `parse_toml`.
    """

    def __init__(self, text: str) -> None:
        self._root = self._table = _Node(0)
        for line, statement in _statements(text):
            parsed = _parse(statement)
            if parsed is None:
                return
            if statement.startswith("["):
                self._table = self._enter(parsed, line)
            else:
                self._add(self._table, parsed, line)

    def of(self, path: str) -> int:
        """Line of a dotted path, from 1; of the enclosing table if the path is not in the file.

        Entries of a list are named by their position, from 0, or by their name. The result is 0 if
        even the outermost table is missing.
        """
        node, rest = self._root, path
        while rest:
            # Keys may contain dots: take the longest one that matches.
            ends = [*(i for i, letter in enumerate(rest) if letter == "."), len(rest)]
            key = next((rest[:end] for end in reversed(ends) if rest[:end] in node.found), None)
            if key is None:
                break
            node, rest = node.found[key], rest[len(key) + 1 :]
        return node.line

    def _enter(self, header: Mapping[str, Any], line: int) -> _Node:
        """Return the table that a header opens: a new entry for ``[[a]]``, or the named one."""
        node: _Node = self._root
        value: Any = header
        while isinstance(value, dict) and value:
            ((key, value),) = value.items()
            node = node.child(key, line)
            if isinstance(value, list):  # the header's own list, at its end
                node.entries += 1
                return node.child(str(node.entries - 1), line)
            if node.entries:
                node = node.inside[str(node.entries - 1)]
        return node

    def _add(self, node: _Node, values: Mapping[str, Any], line: int) -> None:
        for key, value in values.items():
            child = node.child(key, line)
            if key == "name" and isinstance(value, str):
                node.name = value
            if isinstance(value, dict):
                self._add(child, value, line)
            elif isinstance(value, list):
                for i, entry in enumerate(value):
                    if isinstance(entry, dict):
                        self._add(child.child(str(i), line), entry, line)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Headers and assignments, each with the number of its first line."""
    start, depth, line = 0, 0, 1
    for token in TOKENS.finditer(text + "\n"):
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
        elif token[0] == "\n" and not depth:
            whole = text[start : token.start()]
            statement = whole.strip()
            if statement and not statement.startswith("#"):
                yield line, statement
            start, line = token.end(), line + whole.count("\n") + 1


def _parse(statement: str) -> dict[str, Any] | None:
    try:
        return parse_toml(statement)
    except TomlError:
        return None
