"""Tables of what is on a bus, for the terminal."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from hilrt.can.tools.bus_watcher import BusWatcher, Row

#: Bytes of a frame that the table shows: a J1939 group may have 1785.
_SHOWN = 64


def signals_text(row: Row, between: str = " ") -> str:
    """The newest frame's signals in one line."""
    if row.undecodable:
        return "undecodable"
    return between.join(f"{name}={value}" for name, value in row.values.items())


def live_table(watcher: BusWatcher) -> Table:
    """Newest frame of every identifier, decoded."""
    table = Table(box=None, header_style="bold")
    for column in ("identifier", "message", "frames", "cycle ms", "data", "signals"):
        table.add_column(column, no_wrap=column != "signals")
    for row in watcher.sorted():
        table.add_row(
            row.frame.text,
            row.name or "–",
            str(row.stats.frames),
            f"{1e3 * row.stats.mean:.2f}" if row.stats.frames > 1 else "",
            row.frame.data[:_SHOWN].hex(" ") + (" …" if len(row.frame.data) > _SHOWN else ""),
            escape(signals_text(row, "  ")),  # a unit in brackets is no markup
        )
    return table


def stats_table(watcher: BusWatcher) -> Table:
    """Counts and cycle times of every identifier."""
    table = Table(box=None, header_style="bold")
    for column in ("identifier", "message"):
        table.add_column(column)
    counts = ("lost", "repeated", "undecodable", "bad values")
    for column in ("frames", "mean ms", "min ms", "max ms", *counts):
        table.add_column(column, justify="right")
    for row in watcher.sorted():
        stats = row.stats
        times = [stats.mean, stats.shortest, stats.longest] if stats.frames > 1 else []
        cells = [f"{1e3 * t:.3f}" for t in times] or [""] * 3
        found = (stats.lost, stats.repeated, stats.decode_errors, row.bad_values)
        cells += [str(n) for n in found]
        table.add_row(row.frame.text, row.name or "–", str(stats.frames), *cells)
    return table
