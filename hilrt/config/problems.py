"""Findings in a session file, one line each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["error", "warning", "info", "not checked"]
_LINE = re.compile(r"\[(?P<table>[^\]]+)\](?: (?P<key>[\w.]+))?(?:: | = )(?P<rest>.*)")
#: A line that begins with the key that it is about.
_KEY = re.compile(r"[a-z][\w.]*(: | = )")


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding; ``str()`` of it is one line.

    Attributes
    ----------
    level : {"error", "warning", "info", "not checked"}
        Only errors keep a session from running.
    table : str
        Dotted name of the table, without brackets.
    key : str
        Empty if the finding is about the whole table.
    value : object
        Value of the key; None if it has none.
    message, remedy : str
        What is wrong, and what to do about it.
    line : str
        The whole line, where it is ready-made.
    at : int
        Line in the session file, from 1 on; 0 where it is in none, or not known.
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
    """Collects findings."""

    problems: list[Problem] = field(default_factory=list)

    def error(self, table: str, key: str, value: Any, message: str, remedy: str) -> None:
        """Add an error, which keeps the session from running."""
        self.problems.append(Problem("error", table, key, value, message, remedy))

    def warn(self, table: str, key: str, value: Any, message: str, remedy: str) -> None:
        """Add a warning: the value is probably not intended."""
        self.problems.append(Problem("warning", table, key, value, message, remedy))

    def info(self, table: str, message: str) -> None:
        """Add a note, such as what could not be checked."""
        self.problems.append(Problem("info", table, "", None, message))

    def unchecked(self, table: str, key: str, value: Any, why: str) -> None:
        """Add what only code that the file names could tell, where none of it is to run."""
        self.problems.append(Problem("not checked", table, key, value, why))

    def line(self, line: str, table: str = "") -> None:
        """Add a ready-made line of a `ConfigError`; `table` is its place if it names none."""
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
