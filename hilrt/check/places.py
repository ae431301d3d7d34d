"""Where in the session file a finding is: its line, and entries of lists in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from hilrt.config.list_entries import LISTS, in_words
from hilrt.config.problems import Problem
from hilrt.config.session_file import SessionFile
from hilrt.config.structs import Session
from hilrt.config.toml_lines import TomlLines

#: Tables that are lists of tables, or hold one.
_WITH_LISTS = (*LISTS, "record")


def worded(problems: Iterable[Problem], tables: Session) -> list[Problem]:
    """Findings whose entries of lists, ``connections.0``, are named and counted from 1."""
    lists = {name: msgspec.to_builtins(getattr(tables, name)) for name in _WITH_LISTS}
    return [worded_line(problem, lists) for problem in problems]


def worded_line(problem: Problem, tables: Mapping[str, Any]) -> Problem:
    """One of `worded`, with the lists as the file has them."""
    text = str(problem)
    named = in_words(text, tables)
    return problem if named == text else replace(problem, line=named)


def located(problems: Iterable[Problem], session: SessionFile) -> list[Problem]:
    """Findings with their line in the file; what was set beside it (``--set``) has none."""
    lines = TomlLines(session.text)
    set_beside = [item.partition("=")[0] for item in session.overrides]
    found = []
    for problem in problems:
        key = problem.key.strip('"')
        path = f"{problem.table}.{key}" if key else problem.table
        if not any(path == other or path.startswith(f"{other}.") for other in set_beside):
            problem = replace(problem, at=lines.of(path))
        found.append(problem)
    return found
