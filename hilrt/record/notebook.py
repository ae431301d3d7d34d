"""Logs in notebooks: main signals with sparklines, matplotlib plots, pandas tables."""

from __future__ import annotations

import fnmatch
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from hilrt.errors import RecordError
from hilrt.solver import Floats
from hilrt.wording import number, unit_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


#: Maximum signals in a table, and in a plot if none are named.
MOST_SHOWN: Final = 8
#: Size of a sparkline, px, and number of its intervals, whose extremes are drawn.
WIDTH, HEIGHT, INTERVALS = 180, 28, 90
#: Size of a plot of one unit, inches.
_PLOT_WIDTH, _PLOT_HEIGHT = 9.0, 2.6


class RecordedSignals(Protocol):
    """Signals with their times, units and topics, and the session's metadata: a `Log`."""

    path: Path
    names: list[str]
    units: dict[str, str]
    events: list[Any]
    metadata: dict[str, str]
    truncated: str

    def __contains__(self, name: object) -> bool:
        """Whether there is a signal of that name."""
        ...

    def held(self, name: str) -> Floats:
        """Values without gaps, shape (n,)."""
        ...

    def time(self, name: str) -> Floats:
        """Session times of the values, shape (n,), s."""
        ...

    def topic(self, name: str) -> str:
        """Topic of a signal; `KeyError` if there is none."""
        ...


def main_signals(log: RecordedSignals) -> list[str]:
    """Most important signals of a session, at most `MOST_SHOWN`.

    Set-points come first, each as demanded, sent and measured, then effort and flow of the bonds,
    then the other outputs, those of connections first. Multiplexers and signals that never changed
    are last.
    """
    try:
        graph: Mapping[str, Any] = json.loads(log.metadata.get("topology") or "{}")
        wires = [(one["source"], one["target"]) for one in graph.get("connections") or ()]
        points = [(p["input"], p.get("measured", "")) for p in graph.get("set_points") or ()]
        bonds = [port for b in graph.get("bonds") or () for port in (*b["effort"], b["flow"])]
    except (ValueError, TypeError, KeyError, AttributeError):  # of another version
        wires, points, bonds = [], [], []
    names: list[str] = []
    for point, measured in points:
        names += [source for source, target in wires if target == point]
        names += [f"{point}:sent", measured]
    outputs = [name for name in log.names if log.topic(name) == "outputs"] or log.names
    found = dict.fromkeys((*names, *bonds, *(source for source, _ in wires), *outputs))
    switches, varying, others = multiplexers_of(log.metadata), list[str](), list[str]()
    for name in found:
        if name in log:
            changes = name not in switches and varies(log.held(name))
            (varying if changes else others).append(name)
        if len(varying) == MOST_SHOWN:
            break
    return [*varying, *others][:MOST_SHOWN]


def multiplexers_of(metadata: Mapping[str, str]) -> set[str]:
    """Outputs of a log that are multiplexers; none in a log of an earlier version."""
    return set(json.loads(metadata.get("multiplexers") or "[]"))


def varies(values: Floats) -> bool:
    """Whether the finite values of a signal differ."""
    finite = values[np.isfinite(values)]
    return bool(len(finite)) and bool(np.ptp(finite) > 0.0)


def chosen(log: RecordedSignals, patterns: Iterable[str]) -> list[str]:
    """Signals that match names or patterns (``"engine.*"``); `KeyError` if one matches none.

    Signals that the session derives, such as defects and flags, have a ``:`` in their names. A
    pattern matches them only if it also has one, or if it matches no others.
    """
    names: dict[str, None] = {}
    for pattern in patterns:
        found = [pattern] if pattern in log else fnmatch.filter(log.names, pattern)
        if ":" not in pattern:
            found = [name for name in found if ":" not in name] or found
        if not found:
            log.topic(pattern)  # raises with the nearest name
        names |= dict.fromkeys(found)
    return list(names)


def plot(log: RecordedSignals, names: Sequence[str]) -> Figure:
    """Plot signals; see `hilrt.Log.plot`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise RecordError("plots need matplotlib; install hilrt[report]") from None

    shown = chosen(log, names) if names else main_signals(log)
    units = list(dict.fromkeys(log.units[name] for name in shown))
    rows = max(len(units), 1)
    figure = Figure(figsize=(_PLOT_WIDTH, _PLOT_HEIGHT * rows), layout="constrained")
    all_axes = figure.subplots(rows, sharex=True, squeeze=False)[:, 0]
    for unit, axes in zip(units, all_axes, strict=False):
        for name in shown:
            if log.units[name] == unit:
                axes.plot(log.time(name), log.held(name), label=name.replace("$", r"\$"), lw=1.2)
        axes.set_ylabel((unit_text(unit) or "–").replace("$", r"\$"))
        axes.grid(alpha=0.3)
        axes.legend(loc="best", fontsize="small")
    all_axes[-1].set_xlabel("session time in s")
    return figure


def log_html(log: RecordedSignals) -> str:
    """Summary of a log as HTML: its extent, and its main signals."""
    times = log.time(log.names[0]) if log.names else np.empty(0)
    span = f", {number(float(times[0]))} s to {number(float(times[-1]))} s" if len(times) else ""
    ends_early = f" – ends early: {log.truncated}" if log.truncated else ""
    extent = f"{len(log.names):,} signals, {len(times):,} rows{span}, {len(log.events):,} events"
    return (
        f"<p><b>{html.escape(str(log.path))}</b><br>{html.escape(extent + ends_early)}</p>"
        + signal_table(log, main_signals(log))
    )


def signal_table(log: RecordedSignals, names: Sequence[str]) -> str:
    """Table with the smallest, the largest and the last value of signals, and a sparkline."""
    rows = []
    for name in names:
        held = log.held(name)
        finite = held[np.isfinite(held)]
        low, high, last = (finite.min(), finite.max(), finite[-1]) if len(finite) else (np.nan,) * 3
        cells = (html.escape(name), number(low), number(high), number(last))
        unit = html.escape(unit_text(log.units[name]))
        rows.append(
            "<tr><td style='text-align:left'>"
            + "</td><td>".join(cells)
            + f"</td><td style='text-align:left'>{unit}</td><td>{sparkline_svg(held)}</td></tr>"
        )
    if not rows:
        return ""
    headings = "".join(f"<th>{one}</th>" for one in ("", "min", "max", "last", "", ""))
    return f"<table><thead><tr>{headings}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def sparkline_svg(values: Floats) -> str:
    """Small plot of values in the colour of the text, scaled from the smallest to the largest.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Values that are not finite become gaps.
    """
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    scale = (HEIGHT - 4) / (high - low) if high > low else 0.0
    lines: list[list[str]] = [[]]
    parts = np.array_split(values, min(INTERVALS, max(len(values), 1)))
    for k, part in enumerate(parts):
        part = part[np.isfinite(part)]
        if not len(part):
            lines.append([])
            continue
        x = WIDTH * (k + 0.5) / len(parts)
        ends = (part[0], part[-1]) if len(part) < 3 else (part.min(), part.max())
        for y in dict.fromkeys(map(float, ends)):
            lines[-1].append(f"{x:.1f},{HEIGHT - 2 - scale * (y - low):.1f}")
    drawn = "".join(f'<polyline points="{" ".join(line)}"/>' for line in lines if line)
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" fill="none" '
        f'stroke="currentColor" role="img" aria-label="time history">{drawn}</svg>'
    )


class SignalSource(Protocol):
    """Signals with their times and units: a `hilrt.Log`."""

    units: dict[str, str]

    def __getitem__(self, name: str) -> Floats:
        """Values, shape (n,)."""
        ...

    def time_ns(self, name: str) -> NDArray[np.int64]:
        """Session times of the values, shape (n,), ns."""
        ...


def to_pandas(log: SignalSource, names: Sequence[str]) -> pd.DataFrame:
    """Convert signals to a table; see `hilrt.Log.to_pandas`."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise RecordError("to_pandas needs pandas; install hilrt[pandas]") from None

    times = {name: log.time_ns(name) for name in names}
    stamps = _stamps(times)
    columns = {}
    for name in times:
        values = log[name]
        if not np.array_equal(times[name], stamps):
            values, given = np.full(len(stamps), np.nan), values
            values[np.searchsorted(stamps, times[name])] = given
        columns[name] = values
    frame = pd.DataFrame(columns, index=pd.Index(stamps / 1e9, name="t"))
    frame.attrs["units"] = {name: log.units[name] for name in times}
    return frame


def _stamps(times: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Times of all signals, ns: their common times, or else the sorted union."""
    arrays = list(times.values())
    if not arrays:
        return np.empty(0, np.int64)
    if all(np.array_equal(array, arrays[0]) for array in arrays):
        return arrays[0]
    for name, array in times.items():
        if len(np.unique(array)) < len(array):
            raise RecordError(
                f"{name} has several values at one time, and other signals have other times; "
                "choose signals that were recorded together"
            )
    return np.unique(np.concatenate(arrays))
