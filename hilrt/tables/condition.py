"""Conditions in tables: numbers; NaN means unknown."""

from __future__ import annotations

from hilrt.compilation.compiled import compiled


@compiled
def is_true(value: float) -> bool:
    """Whether a value counts as a fulfilled condition: it is known, and not 0."""
    return value == value and value != 0.0
