"""What operators type into the page's fields: it is sent as it stands there, or refused."""

from __future__ import annotations

import math
import re
from typing import Any

#: Numbers in the notation of the session file; a typographic minus is one, too.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MINUS = "\N{MINUS SIGN}"


class TypedText:
    """The text of a field of Bokeh's as it stands there.

    The browser reports it key by key as `value_input`, and the whole as `value` when the field is
    left: the newest report of the two counts, also where it says that the field is empty now.
    """

    def __init__(self, field: Any) -> None:
        self.text: str = field.value
        self._field = field
        for report in ("value_input", "value"):
            field.on_change(report, lambda attr, old, new: self._take(new))

    def _take(self, text: str) -> None:
        self.text = text

    def put(self, text: str) -> None:
        """Show another text in the field."""
        self._field.update(value=text, value_input=text)  # each alone would leave the other's


def typed_number(text: str, low: float, high: float) -> float:
    """The number that a text is, from `low` to `high`; `ValueError` with the reason otherwise."""
    said = text.strip()
    if not said:
        raise ValueError("give a number")
    if "," in said:
        raise ValueError(f"{said!r} has a comma; write decimals with a point, as in 0.25")
    if not NUMBER.fullmatch(said.replace(MINUS, "-")):
        raise ValueError(f"{said!r} is no number; write it as 0.25 or 2.5e-1")
    value = float(said.replace(MINUS, "-"))
    if not math.isfinite(value) or not low <= value <= high:
        raise ValueError(f"{said} is outside {plain(low)} … {plain(high)}")
    return value


def plain(value: float) -> str:
    """A number with all digits that distinguish it from others, as it may be typed."""
    return f"{value:.15g}" if float(f"{value:.15g}") == value else repr(value)
