"""``hilrt schema``: JSON Schema of the session file, for editors.

It is generated from the structs that read the file. The value of ``adapter`` selects the keys of
that adapter in its ``[subsystems.NAME]`` table, also for adapters of other packages.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from hilrt.config import registry
from hilrt.config import structs as config
from hilrt.documentation import with_titles
from hilrt.errors import ConfigError

_ATTRIBUTE = re.compile(r"^\s+(\w+)\s*:(?!:)")


def session_schema() -> dict[str, Any]:
    """Schema (draft 2020-12) of a session file."""
    options = {}
    for name in registry.names():
        try:
            options[name] = registry.link_class(name).Options
        except ConfigError:  # a package is not installed, so its keys stay unknown
            continue
    group = registry.link_class("inprocess").GroupOptions
    types: list[type[msgspec.Struct]] = [config.Session, *dict.fromkeys(options.values()), group]
    references, components = described_components(types)
    session = components[references[config.Session].rpartition("/")[2]]
    session["properties"]["subsystems"] = {
        "type": "object",
        "description": "One table for each subsystem.",
        "minProperties": 1,
        "additionalProperties": {
            "type": "object",
            "required": ["adapter"],
            "properties": {"adapter": {"type": "string", "examples": sorted(registry.names())}},
            "allOf": [
                {
                    "if": {"properties": {"adapter": {"const": name}}},
                    "then": {"$ref": references[struct]},
                }
                for name, struct in options.items()
            ],
        },
    }
    session["properties"]["groups"] = {
        "type": "object",
        "description": "Many solvers as one subsystem, one table for each group.",
        "additionalProperties": {"$ref": references[group]},
    }
    session["required"].remove("subsystems")
    session["anyOf"] = [{"required": ["subsystems"]}, {"required": ["groups"]}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hilrt session",
        "$ref": references[config.Session],
        "$defs": components,
    }


def described_components(
    types: Sequence[type[msgspec.Struct]],
) -> tuple[dict[type[msgspec.Struct], str], dict[str, Any]]:
    """References to structs, and schema components of these and all nested structs.

    Unknown keys are refused; each key's description is the comment at its field.
    """
    schemas, components = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    structs = {name: struct for struct in _structs(types) for name in _names(struct, components)}
    for name, component in components.items():
        component.setdefault("additionalProperties", False)
        if text := component.get("description"):
            component["description"] = with_titles(text)
        _describe(component, structs.get(name))
    return dict(zip(types, (schema["$ref"] for schema in schemas), strict=True)), components


def _structs(types: Sequence[type]) -> list[type]:
    """Return the given structs and all nested ones."""
    found: list[type] = []

    def visit(hint: Any) -> None:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint not in found:
            found.append(hint)
            for field in msgspec.structs.fields(hint):
                visit(field.type)
        for part in getattr(hint, "__args__", ()):
            visit(part)

    for each in types:
        visit(each)
    return found


def _names(struct: type, components: dict[str, Any]) -> list[str]:
    """Possible names of a struct among the components: its own, with or without module."""
    full = f"{struct.__module__}.{struct.__qualname__}"
    wanted = {struct.__name__, full, full.replace(".", "_")}
    return [name for name in components if name in wanted]


def _describe(component: dict[str, Any], struct: type | None) -> None:
    """Describe the properties by the comments at the struct's fields."""
    if struct is None:
        return
    for base in reversed(struct.__mro__):
        if not (issubclass(base, msgspec.Struct) and base.__module__ != "msgspec"):
            continue
        for name, text in field_comments(base).items():
            if name in component.get("properties", {}) and text:
                component["properties"][name].setdefault("description", with_titles(text))


def field_comments(struct: type) -> dict[str, str]:
    """Texts of the ``#:`` comments above or after the fields of a class, by field."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in _body(struct):
        code, mark, comment = line.partition("#:")
        if mark and not code.strip():
            above.append(comment.strip())
            continue
        if match := _ATTRIBUTE.match(code):
            found[match[1]] = " ".join([*above, comment.strip()] if mark else above)
        above = []
    return found


def _body(struct: type) -> Iterator[str]:
    """Source lines of a class, without `inspect`, which parses the whole module for each class."""
    lines = iter(_lines(struct.__module__))
    for line in lines:
        if re.match(rf"class {re.escape(struct.__qualname__)}\b", line):
            break
    yield from itertools.takewhile(lambda line: not line or line[0] in " )", lines)


@functools.cache
def _lines(module: str) -> list[str]:
    """Source lines of a module; empty if there is no source."""
    try:
        return inspect.getsource(sys.modules[module]).splitlines()
    except (OSError, TypeError, KeyError):
        return []
