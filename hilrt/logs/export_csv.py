"""One table of all signals as text: every float64 with the digits that give it back exactly."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from hilrt.logs.columns import JoinedTable, between, hold, tables
from hilrt.logs.exported import Exported
from hilrt.logs.source import Source
from hilrt.record.messages import Signal, Topic


def export_csv(
    source: Source, wanted: Collection[str] | None, span: tuple[int, int], out: Path
) -> Exported:
    """First column ``time [s]``, then the signals with their units; an empty cell is no value."""
    topics = wanted_topics(source.topics(), wanted)
    signals = [signal for topic in topics for signal in topic.signals]
    result = Exported(out, signals=len(signals))
    if not signals:
        raise source.fail("holds no signals; frames need --database, or --to blf")
    with out.open("w", encoding="utf-8", newline="") as file:
        write_head(file, signals)
        rows = hold(tables(between(source.blocks(wanted), *span), topics), topics)
        result.rows = write_rows(file, rows)
    return result


def wanted_topics(topics: Iterable[Topic], wanted: Collection[str] | None) -> list[Topic]:
    """Topics with the wanted signals alone."""
    if wanted is None:
        return [topic for topic in topics if topic.signals]
    kept = [Topic(t.name, [s for s in t.signals if s.name in wanted]) for t in topics]
    return [topic for topic in kept if topic.signals]


def write_head(file: TextIO, signals: Sequence[Signal]) -> None:
    """The line of names."""
    names = [f"{s.name} [{s.unit}]" if s.unit else s.name for s in signals]
    csv.writer(file, lineterminator="\n").writerow(["time [s]", *names])


def write_rows(file: TextIO, rows: Iterable[JoinedTable], limit: int | None = None) -> int:
    """Rows with at least one value or sample; returns how many."""
    count = 0
    for table in rows:
        lines = []
        for t_ns, values in zip(table.times_ns.tolist(), table.values.tolist(), strict=True):
            cells = ["" if math.isnan(v) else repr(v) for v in values]
            lines.append(f"{seconds(t_ns)},{','.join(cells)}\n")
            count += 1
            if count == limit:
                break
        file.write("".join(lines))
        if count == limit:
            break
    return count


def seconds(t_ns: int) -> str:
    """Nanoseconds as seconds, exactly."""
    whole, part = divmod(abs(t_ns), 1_000_000_000)
    return f"{'-' if t_ns < 0 else ''}{whole}.{part:09d}"


def every(rows: Iterable[JoinedTable], step: int) -> Iterable[JoinedTable]:
    """Every `step`-th row."""
    offset = 0
    for table in rows:
        keep = np.arange((-offset) % step, len(table.times_ns), step)
        offset += len(table.times_ns)
        yield JoinedTable(table.times_ns[keep], table.values[keep], table.present[keep])
