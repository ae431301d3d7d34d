"""Export of all signals as one text table, with all digits needed to restore each float64."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np

from hilrt.logs.columns import JoinedTable, between, hold, tables
from hilrt.logs.source import Exported, Source
from hilrt.record.messages import Signal, Topic

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


def export_csv(
    source: Source, wanted: Collection[str] | None, span: tuple[int, int], out: Path
) -> Exported:
    """Write ``time [s]``, then the signals with their units; an empty cell means no value."""
    topics = wanted_topics(source.topics(), wanted)
    signals = [signal for topic in topics for signal in topic.signals]
    result = Exported(out, signals=len(signals))
    if not signals:
        raise source.fail("has no signals; frames need --database, or --to blf")
    with out.open("w", encoding="utf-8", newline="") as file:
        write_head(file, signals)
        rows = hold(tables(between(source.blocks(wanted), *span), topics), topics)
        result.rows = write_rows(file, rows)
    return result


def wanted_topics(topics: Iterable[Topic], wanted: Collection[str] | None) -> list[Topic]:
    """Topics reduced to the wanted signals."""
    if wanted is None:
        return [topic for topic in topics if topic.signals]
    kept = [Topic(t.name, [s for s in t.signals if s.name in wanted]) for t in topics]
    return [topic for topic in kept if topic.signals]


def write_head(file: TextIO, signals: Sequence[Signal]) -> None:
    """Write the line of names."""
    names = [f"{s.name} [{s.unit}]" if s.unit else s.name for s in signals]
    csv.writer(file, lineterminator="\n").writerow(["time [s]", *names])


def write_rows(file: TextIO, rows: Iterable[JoinedTable], limit: int | None = None) -> int:
    """Write the rows that have a value or sample; return their number."""
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
    """Yield every `step`-th row."""
    offset = 0
    for table in rows:
        keep = np.arange((-offset) % step, len(table.times_ns), step)
        offset += len(table.times_ns)
        yield JoinedTable(table.times_ns[keep], table.values[keep], table.present[keep])


#: Least size of a row group in the file, bytes.
GROUP_BYTES = 32 << 20


def export_parquet(
    source: Source, wanted: Collection[str] | None, span: tuple[int, int], out: Path
) -> Exported:
    """Write ``time`` [s], then the signals, with units and sources as the columns' metadata."""
    import pyarrow as pa  # an extra
    import pyarrow.parquet as pq

    topics = wanted_topics(source.topics(), wanted)
    signals = [signal for topic in topics for signal in topic.signals]
    if not signals:
        raise source.fail("has no signals; frames need --database, or --to blf")
    facts = {**source.metadata(), "epoch_ns": str(source.epoch_ns or 0)}
    fields = [pa.field("time", pa.float64(), nullable=False, metadata={"unit": "s"})]
    fields += [pa.field(s.name, pa.float64(), metadata=_notes(s)) for s in signals]
    schema = pa.schema(fields, metadata=facts)
    result = Exported(out, signals=len(signals))
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        waiting: list[JoinedTable] = []
        for table in hold(tables(between(source.blocks(wanted), *span), topics), topics):
            waiting.append(table)
            if sum(t.values.nbytes for t in waiting) >= GROUP_BYTES:
                result.rows += _write(writer, schema, waiting)
                waiting = []
        result.rows += _write(writer, schema, waiting)
    return result


def _write(writer: pq.ParquetWriter, schema: pa.Schema, waiting: list[JoinedTable]) -> int:
    import pyarrow as pa

    batches = []
    for table in waiting:
        columns = [pa.array(table.times_ns / 1e9)]
        columns += [
            pa.array(table.values[:, i], mask=~table.present[:, i], from_pandas=False)
            for i in range(table.values.shape[1])
        ]
        batches.append(pa.record_batch(columns, schema=schema))
    if batches:
        writer.write_table(pa.Table.from_batches(batches, schema=schema))
    return sum(len(table.times_ns) for table in waiting)


def _notes(signal: Signal) -> dict[str, str]:
    notes = {"unit": signal.unit, "source": signal.source, "comment": signal.comment}
    return {key: text for key, text in notes.items() if text}
