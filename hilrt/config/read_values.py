"""Interpretation of a session file's values: list entries, tolerances, patterns, commands."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from msgspec.structs import fields

from hilrt.config.structs import MasterTable, Session, StepControl
from hilrt.errors import ConfigError

#: Tables of a session file that are lists of tables.
LISTS: Final = tuple(
    field.encode_name for field in fields(Session) if field.default_factory is list
)
_ENTRY = re.compile(r"\[(?P<list>[A-Za-z_][\w.]*?)\.(?P<i>\d+)(?P<rest>[\].])")


def connection_place(i: int, source: str, target: str) -> str:
    """``[connections 1: a.y -> b.u]`` for the connection at position `i`, which counts from 0."""
    return f"[connections {i + 1}: {source} -> {target}]"


def in_words(line: str, tables: Mapping[str, Any]) -> str:
    """Replace a list entry in a message's place, ``[connections.0] …``, by readable text.

    Parameters
    ----------
    line : str
        A message that begins with its place in brackets.
    tables : mapping
        The file's content.
    """
    match = _ENTRY.match(line)
    if match is None:
        return line
    entry, i = _entry(tables, match["list"].split("."), int(match["i"])), int(match["i"])
    text = f"[{match['list']} {i + 1}"
    if entry is not None:
        text += _name(entry)
    rest = "]" if match["rest"] == "]" else ", "
    return text + rest + line[match.end() :]


def _entry(tables: Mapping[str, Any], path: list[str], i: int) -> Mapping[str, Any] | None:
    """Return entry `i` of the list at `path`; None if it does not exist."""
    node: Any = tables
    for name in path:
        node = node.get(name) if isinstance(node, dict) else None
    if isinstance(node, list) and i < len(node) and isinstance(node[i], dict):
        entry: Mapping[str, Any] = node[i]
        return entry
    return None


def _name(entry: Mapping[str, Any]) -> str:
    if isinstance(entry.get("from"), str) and isinstance(entry.get("to"), str):
        return f": {entry['from']} -> {entry['to']}"
    for key in ("name", "signal"):
        if isinstance(entry.get(key), str) and entry[key]:
            return f": {entry[key]}"
    return ""


def has_tolerances(master: MasterTable) -> bool:
    """Whether any tolerance for signals is given; with "ecco" they apply to energies instead."""
    table = master.step_control
    given = table.atol is not None or table.rtol is not None
    return given and table.method != "ecco"


def errors_are_tested(master: MasterTable) -> bool:
    """Whether the local error of the inputs is estimated and tested at every step."""
    table = master.step_control
    of_inputs = table.method == "local" and table.estimator == "inputs"
    return has_tolerances(master) and (table.method == "fixed" or of_inputs)


def judges_before(master: MasterTable) -> bool:
    """Whether the error of a step is estimated before its samples are taken."""
    table = master.step_control
    repeats = repeats_steps(table) or master.scheme == "implicit"  # if the corrector fails
    return table.method == "local" and (table.estimator != "inputs" or repeats)


def repeats_steps(table: StepControl) -> bool:
    """Whether a step whose error is too large is repeated."""
    return table.estimator != "inputs" if table.repeat is None else table.repeat


def names_channel(pattern: str, channel: str) -> bool:
    """Whether a pattern matches a channel: its own name, or its port's name for all elements."""
    if pattern == channel:  # brackets of an element are no wildcard
        return True
    return fnmatchcase(channel, pattern) or fnmatchcase(channel.partition("[")[0], pattern)


def executable(
    name: str, argv: Sequence[str], cwd: str | Path | None = None, path: str | None = None
) -> list[str]:
    """Return the command with the path of its program; `ConfigError` if it is not found.

    Parameters
    ----------
    name : str
        The subsystem's name, for the message.
    argv : sequence of str
        The command; ``hilrt`` is replaced by this interpreter's installation.
    cwd : str or Path, optional
        Folder that a relative path to the program starts from.
    path : str, optional
        Search path. Default: the environment's.
    """
    where = f"[subsystems.{name}] spawn = {list(argv)!r}"
    if not argv:
        raise ConfigError(f"{where}: is empty; give a command, or remove the key")
    program, *arguments = argv
    if program == "hilrt":
        return [sys.executable, "-P", "-m", "hilrt", *arguments]  # -P: no modules from `cwd`
    if os.path.dirname(program):
        program = str(Path(cwd or ".").resolve() / program)
    found = shutil.which(program, path=path)
    if found is None:
        raise ConfigError(
            f"{where}: command {argv[0]!r} is not found, or is not executable; "
            "install it, or give its path relative to the session file"
        )
    return [found, *arguments]
