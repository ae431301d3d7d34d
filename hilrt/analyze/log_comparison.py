"""Two logs compared: signals, and settings of the session files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hilrt.analyze.log_analysis import LogAnalysis, analyse_log
from hilrt.analyze.signal_differences import SignalDifference, differences

_NO_DEFAULT = "–"
#: Topics with the values of ports.
QUANTITIES = ("outputs", "corrected", "sent", "realised")


@dataclass
class LogComparison:
    """Two logs and their differences.

    Attributes
    ----------
    a, b : LogAnalysis
    signals : list of SignalDifference
        Signals of both, the most different first.
    only_a, only_b : list of str
        Signals that one log alone has.
    settings : list of (key, a, b)
        Keys of the session files with different values, overrides and a replay's changes applied.
    """

    a: LogAnalysis
    b: LogAnalysis
    signals: list[SignalDifference]
    only_a: list[str]
    only_b: list[str]
    settings: list[tuple[str, str, str]]

    @property
    def equal(self) -> bool:
        """Whether every signal is the same to the last bit, at the same times."""
        same = (
            self.a.statistics.rows == self.b.statistics.rows and not self.only_a and not self.only_b
        )
        return same and all(signal.equal for signal in self.signals)

    def as_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "equal": self.equal,
            "settings": {key: {"a": a, "b": b} for key, a, b in self.settings},
            "signals": {signal.name: signal.as_json() for signal in self.signals},
            "only_a": self.only_a,
            "only_b": self.only_b,
            "a": self.a.as_json(),
            "b": self.b.as_json(),
        }


def compare_logs(a: Path, b: Path) -> LogComparison:
    """Read two logs.

    Raises
    ------
    RecordError
        If one cannot be read, or bokeh is missing.
    """
    left, right = analyse_log(a), analyse_log(b)
    names_a, names_b = (list(analysis.statistics.stats) for analysis in (left, right))
    return LogComparison(
        a=left,
        b=right,
        signals=differences(left.file, right.file),
        only_a=[name for name in names_a if name not in right.statistics.stats],
        only_b=[name for name in names_b if name not in left.statistics.stats],
        settings=list(_settings(left, right)),
    )


def _settings(a: LogAnalysis, b: LogAnalysis) -> Iterator[tuple[str, str, str]]:
    left, right = flattened(a.settings), flattened(b.settings)
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key):
            yield key, str(left.get(key, _NO_DEFAULT)), str(right.get(key, _NO_DEFAULT))


def flattened(value: Any, path: str = "") -> dict[str, Any]:
    """Dotted key to value; tables in a list go by their name or number."""
    if isinstance(value, dict):
        items = {str(key): inner for key, inner in value.items()}
    elif isinstance(value, list) and value and all(isinstance(inner, dict) for inner in value):
        items = {str(inner.get("name", i)): inner for i, inner in enumerate(value)}
    else:
        return {path: value}
    found: dict[str, Any] = {}
    for key, inner in items.items():
        found |= flattened(inner, f"{path}.{key}" if path else key)
    return found
