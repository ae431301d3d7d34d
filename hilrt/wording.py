"""Numbers and names as people read them, for the terminal and the report."""

from __future__ import annotations

import math


def number(value: float | None, digits: int = 4) -> str:
    """A number that keeps its width while it changes; a dash for none."""
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 1e6 or size < 1e-3 or math.isinf(size):
        return f"{value:.{digits - 1}g}"
    decimals = max(0, digits - 1 - max(0, math.floor(math.log10(size))))
    return f"{value:,.{decimals}f}"


def words(name: str) -> str:
    """``sample_late`` as ``sample late``."""
    return name.replace("_", " ")
