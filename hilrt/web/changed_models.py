"""What the parts of the page have in common."""

from __future__ import annotations

from typing import Any


def change(model: Any, **values: Any) -> None:
    """Change what differs of a Bokeh model: the rest need not travel."""
    changed = {key: value for key, value in values.items() if getattr(model, key) != value}
    if changed:
        model.update(**changed)
