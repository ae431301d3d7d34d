"""Parsing of TOML text, with limits far above what sessions need.

The parser recurses into brackets, and its memory grows with the square of a dotted key's length:
20,000 levels of either raise a `RecursionError` or take a gigabyte. Python refuses to read integers
of more than 4,300 digits.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.errors import ConfigError
from hilrt.files.text import MAX_TEXT, read_regular

#: Largest number of nested tables and lists.
MAX_DEPTH = 50
#: Range of TOML's integers, which have 64 bits.
_LARGEST = 1 << 63
#: Strings and comments (skipped), brackets, dots of a key, and characters that end a key.
TOKENS = re.compile(
    r'"""(?:\\.|[^\\])*?"""+'
    r"|'''.*?'''+"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*|[\[\]{}\n.,=]",
    re.DOTALL,
)
_DIGITS = re.compile(r"[0-9_]{4000,}")


class TomlError(ValueError):
    """Invalid TOML, or TOML beyond the limits; the message gives the problem and the line."""


def read_toml(path: Path, limit: int = MAX_TEXT) -> tuple[str, dict[str, Any]]:
    """Read a file of at most `limit` bytes; return its text and tables.

    Raises
    ------
    ConfigError
        If it cannot be read, or is not TOML.
    """
    try:
        text = read_regular(path, limit).decode("utf-8-sig")  # some editors write a byte-order mark
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text, parse_toml(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; check the path") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from None
    except TomlError as error:
        raise ConfigError(f"{path}: is not TOML: {error}; correct that line") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a text into tables.

    Raises
    ------
    TomlError
        Also for more than `MAX_DEPTH` levels, and for integers beyond 64 bits.
    """
    _check_nesting(text)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlError(str(error)) from None
    except (ValueError, RecursionError):  # ValueError: an integer with too many digits
        found = _DIGITS.search(text)
        where = f" (at line {_line(text, found.start())})" if found else ""
        raise TomlError(f"a number has too many digits{where}") from None
    _check_values(tables)
    return tables


def _check_nesting(text: str) -> None:
    """Refuse deeply nested brackets and keys with many dots before they reach the parser."""
    depth = dots = 0
    for token in TOKENS.finditer(text):
        kind = token[0]
        if kind == ".":
            dots += 1
        elif kind[0] not in "\"'":
            dots = 0
            if kind in "[{":
                depth += 1
            elif kind in "]}":
                depth -= 1
        if depth > MAX_DEPTH or dots > MAX_DEPTH:
            what = "brackets" if depth > MAX_DEPTH else "a key"
            line = _line(text, token.start())
            raise TomlError(f"{what} of more than {MAX_DEPTH} levels (at line {line})")


def _check_values(tables: dict[str, Any]) -> None:
    """Refuse excessive nesting of headers and keys, and integers beyond 64 bits."""
    waiting: list[tuple[str, int, Any]] = [("", 0, tables)]
    while waiting:
        path, depth, value = waiting.pop()
        if depth > MAX_DEPTH:
            raise TomlError(f"{path:.60}…: tables of more than {MAX_DEPTH} levels")
        if isinstance(value, dict):
            waiting += [(f"{path}.{k}" if path else k, depth + 1, v) for k, v in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}.{i}", depth + 1, v) for i, v in enumerate(value)]
        elif isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
            raise TomlError(f"{path:.60}: is an integer of more than 64 bits")


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def toml_value(value: object, key: str = "value") -> str:
    """Format a value as TOML; `ConfigError`, naming the `key`, for an unsupported type.

    A class is written as ``module:Class``.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(float(value)) if isinstance(value, float) else str(int(value))
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, Mapping):
        entries = (f"{json.dumps(str(k))} = {toml_value(v, key)}" for k, v in value.items())
        return f"{{ {', '.join(entries)} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(toml_value(entry, key) for entry in value)}]"
    if isinstance(value, (np.generic, np.ndarray)):
        return toml_value(value.tolist(), key)
    if isinstance(value, type):
        if "<locals>" in value.__qualname__:
            raise ConfigError(
                f"{key} = {value.__name__}: is a class inside a function, where nothing can import "
                "it; define it at the top level of a module, a script or a notebook"
            )
        return json.dumps(f"{value.__module__}:{value.__qualname__}")
    kind = type(value).__name__
    if hasattr(value, "advance"):
        raise ConfigError(
            f"{key} = {value!r}: is an instance; give its class, {kind}, and its arguments as "
            "params"
        )
    raise ConfigError(f"{key} = {value!r}: a session file cannot contain values of type {kind}")
