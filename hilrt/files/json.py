"""JSON: what we write is some; what is none, or nests without end, raises one kind of error."""

from __future__ import annotations

import json
import math
from typing import Any


def json_bytes(value: Any) -> bytes:
    """The text of a value; null for numbers that are not finite, of which JSON has none."""
    return json.dumps(_finite(value), indent=1, allow_nan=False).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parse_json(data: str | bytes) -> Any:
    """What the text says; `ValueError` if it is no JSON."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
