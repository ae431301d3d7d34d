"""One Parquet table of all signals: NaN is a value, null where a signal has no row."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hilrt.logs.columns import JoinedTable, between, hold, tables
from hilrt.logs.export_csv import wanted_topics
from hilrt.logs.exported import Exported
from hilrt.logs.source import Source
from hilrt.record.messages import Signal

#: Bytes of a group of rows of the file, at least.
GROUP_BYTES = 32 << 20


def export_parquet(
    source: Source, wanted: Collection[str] | None, span: tuple[int, int], out: Path
) -> Exported:
    """First column ``time`` [s], then the signals; units and sources are the columns' metadata."""
    topics = wanted_topics(source.topics(), wanted)
    signals = [signal for topic in topics for signal in topic.signals]
    if not signals:
        raise source.fail("holds no signals; frames need --database, or --to blf")
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
