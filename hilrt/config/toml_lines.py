"""In which line of a TOML file a table or a key stands, which the parser does not tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hilrt.config.parse_toml import TOKENS, TomlError, parse_toml


@dataclass
class _Node:
    """A table, an entry of a list of tables, or a value, with its line and what is inside."""

    line: int
    inside: dict[str, _Node] = field(default_factory=dict)
    #: Entries so far, of a list of tables.
    entries: int = 0
    #: What its key `name` says, by which an entry of a list is found, too.
    name: str = ""

    @cached_property
    def found(self) -> dict[str, _Node]:
        """What is inside, by key and by name; for a file that has been read to its end."""
        return {one.name: one for one in self.inside.values() if one.name} | self.inside

    def child(self, key: str, line: int) -> _Node:
        """What is called `key` inside; made where it is not there yet."""
        return self.inside.setdefault(key, _Node(line))


class TomlLines:
    """Lines of a file.

    Parameters
    ----------
    text : str
        The file; one that `parse_toml` reads.
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
        """Line of a dotted path, from 1 on; of the table around it where it is not in the file.

        Entries of a list go by their position from 0 on, or by their name. 0 if not even the
        outermost table is there.
        """
        node, rest = self._root, path
        while rest:
            # Keys may have dots in them: the longest one that fits is meant.
            ends = [*(i for i, letter in enumerate(rest) if letter == "."), len(rest)]
            key = next((rest[:end] for end in reversed(ends) if rest[:end] in node.found), None)
            if key is None:
                break
            node, rest = node.found[key], rest[len(key) + 1 :]
        return node.line

    def _enter(self, header: Mapping[str, Any], line: int) -> _Node:
        """Table that a header opens: a new entry for ``[[a]]``, else that of the name."""
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
