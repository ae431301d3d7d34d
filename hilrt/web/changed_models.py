"""Changes of Bokeh models, sent only where values differ."""

from __future__ import annotations

from typing import Any


def change(model: Any, **values: Any) -> None:
    """Set the properties of a Bokeh model that differ; the others are not sent."""
    changed = {key: value for key, value in values.items() if getattr(model, key) != value}
    if changed:
        model.update(**changed)
