"""Benefit of advice: sessions that were not good, run again with the first suggested change."""

from __future__ import annotations

from typing import Any

from tools.calibration.compare import compare
from tools.calibration.law import Draw, draw
from tools.calibration.sessions import make_session

#: Sessions that would take more steps than this after the change are omitted.
MOST_STEPS = 12_000


def advised(number: int, seed: int = 0) -> dict[str, Any]:
    """True error before and after the change; only before if none is suggested."""
    drawn = draw(number, seed)
    made = make_session(drawn)
    line: dict[str, Any] = {"number": number, "seed": seed, "group": drawn.group}
    line["verdict"] = made.summary["verdict"]
    named = [change for change in made.summary.get("advice") or [] if change["settings"]]
    if not named:
        return line
    change = named[0]
    again = draw(number, seed)
    apply(again, change["settings"])
    if again.duration / again.tables["master"]["step"] > MOST_STEPS:
        return line
    after = make_session(again)
    return line | {
        "change": change,
        "before": compare(drawn, made)["error"],
        "after": compare(again, after)["error"],
        "verdict_after": after.summary["verdict"],
    }


def apply(drawn: Draw, settings: dict[str, Any]) -> None:
    """Set keys of the session file, ``table.key``; bonds are selected by name."""
    for path, value in settings.items():
        *tables, key = path.split(".")
        place: Any = drawn.tables
        for name in tables:
            if isinstance(place, list):
                place = next(entry for entry in place if entry["name"] == name)
            else:
                place = place.setdefault(name, {})
        place[key] = value
