"""Tables of what is on a bus, for the terminal."""

from __future__ import annotations

from rich.table import Table

from hilrt.can.watch import BusWatcher


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
            row.frame.data.hex(" "),
            "  ".join(f"{name}={value}" for name, value in row.values.items()),
        )
    return table


def stats_table(watcher: BusWatcher) -> Table:
    """Counts and cycle times of every identifier."""
    table = Table(box=None, header_style="bold")
    for column in ("identifier", "message"):
        table.add_column(column)
    numbers = ("frames", "mean ms", "min ms", "max ms", "lost", "repeated", "undecodable")
    for column in numbers:
        table.add_column(column, justify="right")
    for row in watcher.sorted():
        stats = row.stats
        times = [stats.mean, stats.shortest, stats.longest] if stats.frames > 1 else []
        cells = [f"{1e3 * t:.3f}" for t in times] or [""] * 3
        counts = [str(n) for n in (stats.lost, stats.repeated, stats.decode_errors)]
        table.add_row(row.frame.text, row.name or "–", str(stats.frames), *cells, *counts)
    return table
