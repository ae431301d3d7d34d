"""Entries of a session file's lists in words: counted from 1, with what tells them apart.

Inside, and for ``--set``, their position counts from 0: ``connections.0``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import fields

from hilrt.config.structs import Session

#: Tables of a session file that are lists of tables.
LISTS: Final = tuple(
    field.encode_name for field in fields(Session) if field.default_factory is list
)
_ENTRY = re.compile(r"\[(?P<list>[A-Za-z_][\w.]*?)\.(?P<i>\d+)(?P<rest>[\].])")


def connection_place(i: int, source: str, target: str) -> str:
    """``[connections 1: a.y -> b.u]`` for the connection at position `i`, which counts from 0."""
    return f"[connections {i + 1}: {source} -> {target}]"


def in_words(line: str, tables: Mapping[str, Any]) -> str:
    """A message whose place may be an entry of a list, ``[connections.0] …``, with it in words.

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
    """The entry of a list at `path`; None where there is none."""
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
