"""The settings that a log was made with: its session file, overrides, and a replay's changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hilrt.config.parse_toml import parse_toml
from hilrt.config.session_file import apply_override
from hilrt.errors import ConfigError
from hilrt.files.json import parse_json


def changes_of(metadata: Mapping[str, str], key: str) -> list[str]:
    """``table.key=value`` texts under a key of the metadata: ``overrides``, ``what_if``."""
    try:
        return [str(item) for item in parse_json(metadata.get(key) or "[]")]
    except (ValueError, TypeError):  # of another version
        return []


def recorded_settings(
    metadata: Mapping[str, str], attachments: Mapping[str, bytes]
) -> dict[str, Any]:
    """Tables of the session file in a log, as they acted; empty where there is none."""
    files = [name for name in attachments if name.endswith(".toml")]
    named = metadata.get("session_file", "")
    for name in [named] * (named in files) + files:
        try:
            tables = parse_toml(attachments[name].decode())
        except ValueError:  # no TOML, or no UTF-8
            continue
        for change in changes_of(metadata, "overrides") + changes_of(metadata, "what_if"):
            try:
                apply_override(tables, change)
            except ConfigError:  # of another version's file
                continue
        return tables
    return {}
