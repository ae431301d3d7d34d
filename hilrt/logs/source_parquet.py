"""Reader of Parquet files: one column is the time, the other columns of numbers are signals."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hilrt.config.from_toml import nearest
from hilrt.logs.columns import columns_of
from hilrt.logs.source import Source
from hilrt.logs.source_csv import _TIME_NAMES, TIME_UNITS, TOPIC
from hilrt.record.logged_frame import LATEST_NS
from hilrt.record.messages import Signal, Topic
from hilrt.record.reader import Block, LogChannel

ROWS = 65536


class ParquetSource(Source):
    """Parquet file as a source."""

    kind = "Parquet table"

    def __init__(self, path: Path, label: str = "", time: str | None = None) -> None:
        super().__init__(path, label)
        try:
            self._file = pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise self.fail(f"is not a Parquet file: {' '.join(str(error).split())}") from None
        schema = self._file.schema_arrow
        facts = {k.decode(): v.decode() for k, v in (schema.metadata or {}).items()}
        self._facts = {k: v for k, v in facts.items() if k not in ("ARROW:schema", "pandas")}
        self._columns = [f for f in schema if _numeric(f.type)]
        self._left_out = [f.name for f in schema if not _numeric(f.type)]
        names = [field.name for field in self._columns]
        if not names:
            raise self.fail("has no column of numbers")
        if time is not None and time not in names:
            raise self.fail(f"has no column {time!r} for the time{nearest(time, names)}")
        times = [n for n in names if n.lower() in _TIME_NAMES]
        self._time = time or next(iter(times), names[0])
        field = schema.field(self._time)
        self._scale = _seconds(field)
        if self._scale is None:
            raise self.fail(f"the time is in {_note(field, 'unit')!r}; give it in s")
        self._stamps = pa.types.is_timestamp(field.type)
        known = self._facts.get("epoch_ns")
        self.epoch_ns: int = path.stat().st_mtime_ns
        if known:
            if not known.isdecimal() or len(known) > 19 or int(known) > LATEST_NS:
                raise self.fail(
                    f"says epoch_ns = {known[:40]!r}, which is not a time in ns since 1970"
                )
            self.epoch_ns = int(known)

    def topics(self) -> list[Topic]:
        """Single topic with all columns of numbers."""
        if self._left_out:
            self.notes.append(f"columns without numbers: {', '.join(self._left_out)}")
            self._left_out = []
        return [Topic(TOPIC, [_signal(f) for f in self._columns if f.name != self._time])]

    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Rows in the order of the file."""
        (topic,) = self.topics()
        columns = [self._time] + [
            s.name for s in topic.signals if wanted is None or s.name in wanted
        ]
        channel = LogChannel(topic.name, topic.signals)
        if wanted is not None:
            channel = LogChannel(topic.name, [s for s in topic.signals if s.name in wanted])
        last, row = None, 0
        for batch in self._file.iter_batches(ROWS, columns=columns):
            times = self._times(batch.column(batch.schema.get_field_index(self._time)))
            steps = np.diff(times, prepend=times[:1] if last is None else last)
            if np.any(steps < 0):
                at = row + int(np.argmax(steps < 0))
                raise self.fail(f"row {at}: the time decreases; sort the rows by time")
            last, row = times[-1:], row + len(times)
            values = np.column_stack(
                [
                    _floats(batch.column(batch.schema.get_field_index(s.name)))
                    for s in channel.signals
                ]
            )
            yield from columns_of([Block(channel, times, values)], wanted)

    def metadata(self) -> dict[str, str]:
        """Key-value metadata of the file."""
        return self._facts

    def close(self) -> None:
        """Free the file."""
        self._file.close()

    def _times(self, column: Any) -> Any:
        if column.null_count:
            raise self.fail("the time is missing in some rows; remove them")
        if self._stamps:
            stamps = column.cast(pa.timestamp("ns")).cast(pa.int64()).to_numpy(zero_copy_only=False)
            if np.any(np.abs(stamps.astype(np.float64)) > LATEST_NS):
                raise self.fail("has a time that is a century or more from 1970")
            return stamps - self.epoch_ns
        return self.nanoseconds(_floats(column) * self._scale)


def _numeric(kind: Any) -> bool:
    types = pa.types
    return bool(
        types.is_floating(kind)
        or types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_timestamp(kind)
    )


def _floats(column: Any) -> Any:
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64, copy=False)


def _note(field: Any, key: str) -> str:
    return ((field.metadata or {}).get(key.encode()) or b"").decode()


def _signal(field: Any) -> Signal:
    return Signal(field.name, *(_note(field, key) for key in ("unit", "source", "comment")))


def _seconds(field: Any) -> float | None:
    """Unit of the time column in s; None if unknown."""
    return TIME_UNITS.get(_note(field, "unit") or "s")
