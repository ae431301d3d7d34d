"""Conversion of parsed TOML to typed structs; reports every problem at once."""

from __future__ import annotations

import difflib
import functools
import math
import re
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from hilrt.config.parse_toml import TomlError, parse_toml

#: Removed keys by dotted name, each with the reason.
REMOVED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "master.pacing.draft": "the macro step is always computed at its tick, because in ten "
        "pairs of whole sessions earlier drafts did not reduce missed ticks",
        "master.pacing.latch": "a tick receives everything that has arrived by then, because in "
        "ten pairs of whole sessions drafts and a latch did not reduce "
        "missed ticks",
        "master.pacing.same_layout": "subsystems' processes keep the system's address "
        "randomisation, which makes faulty code harder to attack",
    }
)


T = TypeVar("T", bound=msgspec.Struct)

#: Placeholder for a value that the user has to choose, in a session file written by hilrt.
TO_CHOOSE = "choose"


def build(cls: type[T], table: Any, where: str, problems: list[str]) -> T | None:
    """Convert a table to a struct and append every problem found; None if there was any.

    Parameters
    ----------
    cls : type
        The struct.
    table : object
        Output of the TOML parser.
    where : str
        Dotted name of the table, for messages.
    problems : list of str
        Extended with one line per problem.
    """
    before = len(problems)
    built = build_partly(cls, table, where, problems)
    return built if len(problems) == before else None


def build_partly(
    cls: type[T],
    table: Any,
    where: str,
    problems: list[str],
    stand_ins: Mapping[str, Any] = MappingProxyType({}),
) -> T | None:
    """Convert a table as `build` does, without faulty entries; None if a required one is faulty.

    Parameters
    ----------
    stand_ins : mapping, optional
        Values used in place of faulty required keys, by dotted name.
    """
    label = f"[{where}]" if where else "the file"
    if not isinstance(table, dict):
        problems.append(f"{label}: is {table!r}; it must be a table")
        table = _stand_in(where, stand_ins)
        if table is None:
            return None
    hints, fields = _fields(cls)
    values: dict[str, Any] = {}
    usable = True
    for key in table:
        if key not in fields:
            reason = REMOVED.get(f"{where}.{key}")
            if reason is not None:
                problems.append(f"{label} {key}: this key was removed: {reason}; delete it")
            else:
                problems.append(_unknown(key, table[key], fields, label, bool(where)))
    for key, field in fields.items():
        path = f"{where}.{key}" if where else key
        before, value = len(problems), None
        if key in table:
            value = _value(hints[field.name], table[key], path, label, problems, stand_ins)
        elif field.required:
            place = f"{label} {key}" if where else f"[{key}]"
            problems.append(f"{place}: is missing; add it")
        else:
            continue
        if value is None and len(problems) > before:
            if not field.required:
                continue
            stand_in = _stand_in(path, stand_ins)
            if stand_in is None:
                usable = False
                continue
            value = msgspec.convert(stand_in, hints[field.name])
        values[field.name] = value
    return cls(**values) if usable else None


@functools.cache
def _fields(
    cls: type[msgspec.Struct],
) -> tuple[dict[str, Any], dict[str, msgspec.structs.FieldInfo]]:
    """Types of a struct's fields by name, and the fields by key."""
    hints = get_type_hints(cls, include_extras=True)
    return hints, {field.encode_name: field for field in msgspec.structs.fields(cls)}


def _unknown(key: str, value: Any, fields: Iterable[str], label: str, inside: bool) -> str:
    """Message for an unknown key, or for an unknown table at the top level of the file."""
    if inside:
        return f"{label} {key}: unknown key{nearest(key, fields)}"
    if not isinstance(value, (dict, list)):
        return f"{key}: is before the first table; move it into the table that it belongs to"
    close = difflib.get_close_matches(key, list(fields), n=1)
    known = ", ".join(f"[{name}]" for name in sorted(fields))
    return f"[{key}]: unknown table, " + (
        f"did you mean [{close[0]}]?" if close else f"there is {known}"
    )


def _stand_in(path: str, stand_ins: Mapping[str, Any]) -> Any:
    """Stand-in for a required key, or a table of them for a required table; None without any."""
    inside = {
        key.rpartition(".")[2]: value
        for key, value in stand_ins.items()
        if key.startswith(f"{path}.")
    }
    return stand_ins.get(path, inside or None)


def _value(
    hint: Any,
    value: Any,
    path: str,
    label: str,
    problems: list[str],
    stand_ins: Mapping[str, Any],
) -> Any:
    """Convert one value: tables and lists of tables recursively, anything else by msgspec.

    Returns None, with problems appended, if no part of it is usable.
    """
    inner = _table_type(hint)
    if inner is not None and isinstance(value, (dict, list)):
        if get_origin(hint) is dict and isinstance(value, dict):
            built = {k: build_partly(inner, v, f"{path}.{k}", problems) for k, v in value.items()}
            return {k: v for k, v in built.items() if v is not None}
        if get_origin(hint) is list and isinstance(value, list):
            names = [_name(inner, entry, i) for i, entry in enumerate(value)]
            items = [
                build_partly(inner, entry, f"{path}.{name}", problems)
                for name, entry in zip(names, value, strict=True)
            ]
            return [item for item in items if item is not None]
        if get_origin(hint) not in (dict, list) and isinstance(value, dict):
            return build_partly(inner, value, path, problems, stand_ins)
    key = path.rpartition(".")[2]
    try:
        built = msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        problems.append(f"{label} {key} = {value!r}: {_reason(error, hint, value)}")
        return None
    if Any not in get_args(hint) and not _is_finite(value):
        problems.append(f"{label} {key} = {value!r}: is not finite; give a number, or remove it")
        return None
    return built


def _is_finite(value: Any) -> bool:
    """Whether all numbers in a value are finite; TOML permits nan and inf."""
    if isinstance(value, (list, dict)):
        return all(map(_is_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or math.isfinite(value)


def _name(cls: type[msgspec.Struct], entry: Any, position: int) -> str:
    """Name of a list entry in messages: its `name` if that key is required, or its position."""
    named = any(field.name == "name" and field.required for field in msgspec.structs.fields(cls))
    name = entry.get("name") if named and isinstance(entry, dict) else None
    return name if isinstance(name, str) and name else str(position)


#: Words for msgspec's names of types.
_TYPE_WORDS = {
    "int": "whole number",
    "float": "number",
    "str": "string",
    "bool": "true or false",
    "array": "list",
    "object": "table",
}


def _reason(error: msgspec.ValidationError, hint: Any, value: Any) -> str:
    """Explain why a value is refused, and which values are allowed."""
    literals = [part for part in (hint, *get_args(hint)) if get_origin(part) is Literal]
    choices = [choice for part in literals for choice in get_args(part)]
    text = _translated(error)
    if value == TO_CHOOSE:
        wanted = text.partition(",")[0].removeprefix("Expected ")
        return f"is still to be chosen; replace it by {' or '.join(choices) or f'a {wanted}'}"
    if isinstance(value, str) and choices:
        numbers = "" if get_origin(hint) is Literal else " (or a number)"
        return f"is not a choice{nearest(value, choices)}{numbers}"
    if f"<= {sys.float_info.max!r}" in text:
        return "is not finite; give a number"
    if "matching regex" in text:
        return "has forbidden characters; use letters, digits, '_', '-' and '.'"
    return f"{text[0].lower()}{text[1:]}; correct the value"


def wrong_type(error: msgspec.ValidationError) -> str:
    """Explain msgspec's error about a value in the words of a session file."""
    text = _translated(error)
    return f"{text[0].lower()}{text[1:]}; correct the value"


def _translated(error: msgspec.ValidationError) -> str:
    text = re.sub(r"`([\w |]+)`", lambda types: _type_words(types[1]), str(error))
    return text.replace(" - at `$", " at `value")


def _type_words(types: str) -> str:
    words = [_TYPE_WORDS.get(word, word) for word in types.split(" | ") if word != "null"]
    return " or ".join(words)


def _table_type(hint: Any) -> type[msgspec.Struct] | None:
    """Struct in ``X``, ``X | None``, ``list[X]`` or ``dict[str, X]``; None if there is none."""
    for candidate in (hint, *get_args(hint)):
        if isinstance(candidate, type) and issubclass(candidate, msgspec.Struct):
            return candidate
    return None


def parse_params(params: Mapping[str, str]) -> dict[str, Any]:
    """Parse values of command-line parameters as TOML; a value that is not TOML stays text."""
    values: dict[str, Any] = {}
    for key, text in params.items():
        try:
            parsed = parse_toml(f"value = {text}")
        except TomlError:
            parsed = {}
        # With more than one key, the text contained a line break and is not a single value.
        values[key] = parsed["value"] if parsed.keys() == {"value"} else text
    return values


#: Maximum number of known words that a message lists.
MOST_LISTED = 30


def nearest(word: str, known: Iterable[str]) -> str:
    """``"; did you mean 'x'?"``, or a list of at most `MOST_LISTED` known words."""
    known = sorted(known)
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    more = f" and {len(known) - MOST_LISTED:,} more" if len(known) > MOST_LISTED else ""
    return f"; there is {', '.join(known[:MOST_LISTED])}{more}" if known else "; there is none"
