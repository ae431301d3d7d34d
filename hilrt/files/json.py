"""JSON from elsewhere: what is none, or nests without end, raises one kind of error."""

from __future__ import annotations

import json
from typing import Any


def parse_json(data: str | bytes) -> Any:
    """What the text says; `ValueError` if it is no JSON."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
