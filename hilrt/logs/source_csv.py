"""Reader of CSV files: one column is the time, the others are signals.

Names may include their unit, ``torque [N*m]``; a second line of units is accepted, too, and so are
semicolons with decimal commas. An empty cell means no sample.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from hilrt.config.from_toml import nearest
from hilrt.files.text import open_lines
from hilrt.logs.columns import columns_of
from hilrt.logs.source import Source
from hilrt.record.messages import Signal, Topic
from hilrt.record.reader import Block, LogChannel

TOPIC = "table"
#: Cells per block.
CELLS = 100_000
#: Units of a time column, in s.
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
_TIME_NAMES = ("time", "t", "time_s", "timestamp", "timestamps", "seconds", "zeit")


class CsvSource(Source):
    """CSV file as a source.

    Parameters
    ----------
    time : str, optional
        Name of the time column; default: one named time or t, else the first.
    """

    kind = "CSV table"

    def __init__(self, path: Path, label: str = "", time: str | None = None) -> None:
        super().__init__(path, label)
        self._time_name = time
        self._comma = False
        self._delimiter = ","
        self._head: tuple[list[Signal], int, float, int] | None = None

    def topics(self) -> list[Topic]:
        """Single topic with all columns."""
        signals, time, _, _ = self._read_head()
        return [Topic(TOPIC, [s for i, s in enumerate(signals) if i != time])]

    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Yield rows in the order of the file; an error for an invalid cell names its line."""
        signals, time, scale, skip = self._read_head()
        names = [s for i, s in enumerate(signals) if i != time]
        last = -np.inf
        with self._open() as file:
            lines = self._rows(file)
            for _ in range(skip):
                next(lines)
            while batch := list(itertools.islice(lines, max(1, CELLS // len(signals)))):
                numbers = np.array([self._numbers(row, n, signals) for n, row in batch])
                times = numbers[:, time] * scale
                wrong = np.flatnonzero(~(np.diff(times, prepend=last) >= 0.0) | np.isnan(times))
                if len(wrong):
                    line = batch[int(wrong[0])][0]
                    raise self.fail(
                        f"line {line}: the time is missing or decreases; sort the rows by time"
                    )
                last = times[-1]
                values = np.delete(numbers, time, axis=1)
                at = self.nanoseconds(times)
                yield from columns_of([Block(LogChannel(TOPIC, names), at, values)], wanted)

    @contextlib.contextmanager
    def _open(self) -> Iterator[Iterator[str]]:
        try:
            with open_lines(self.path, newline="") as lines:
                yield lines
        except OSError as error:
            text = error.strerror or error
            raise self.fail(f"cannot be read: {text}; check the path") from None

    def _rows(self, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield line number and cells, without comments and empty lines."""
        for n, line in enumerate(lines, 1):
            if not line.startswith("#") and line.strip():
                yield n, self._cells(n, line)

    def _cells(self, number: int, line: str) -> list[str]:
        try:
            return next(csv.reader([line], delimiter=self._delimiter), [])
        except csv.Error as error:
            raise self.fail(f"line {number}: {error}; correct it") from None

    def _read_head(self) -> tuple[list[Signal], int, float, int]:
        """Columns, index of the time column, its unit in s, and number of rows in the head."""
        if self._head is not None:
            return self._head
        with self._open() as file:
            text = list(itertools.islice((x for x in file if not x.startswith("#")), 3))
        if not text or not text[0].strip():
            raise self.fail("is empty; it needs a line of names and rows of numbers")
        self._delimiter = max(";\t,", key=text[0].count)
        rows = [self._cells(n, line) for n, line in enumerate(text, 1)]
        self._comma = self._delimiter != "," and not any(
            "." in cell for row in rows[1:] for cell in row
        )
        names = [cell.strip() for cell in rows[0]]
        if all(_number(name, self._comma) is not None for name in names):
            raise self.fail("has no line of names; add one")
        units, skip = [""] * len(names), 1
        for i, name in enumerate(names):
            names[i], units[i] = _name_and_unit(name)
        second = rows[1] if len(rows) > 1 else []
        if second and all(_number(cell, self._comma) is None for cell in second):
            units = [cell.strip(" []()") for cell in second] + [""] * len(names)
            skip = 2
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        if twice:
            raise self.fail(f"has several columns {', '.join(map(repr, twice))}; rename them")
        signals = [
            Signal(name or f"column_{i + 1}", "" if units[i] == "-" else units[i], self.path.name)
            for i, name in enumerate(names)
        ]
        time = self._time_column([s.name for s in signals])
        unit = signals[time].unit or "s"
        if unit not in TIME_UNITS:
            raise self.fail(f"the time is in {unit!r}; give it in {', '.join(TIME_UNITS)}")
        self.epoch_ns = self.path.stat().st_mtime_ns
        self._head = signals, time, TIME_UNITS[unit], skip
        return self._head

    def _time_column(self, names: list[str]) -> int:
        if self._time_name is not None:
            if self._time_name not in names:
                hint = nearest(self._time_name, names)
                raise self.fail(f"has no column {self._time_name!r} for the time{hint}")
            return names.index(self._time_name)
        return next((i for i, name in enumerate(names) if name.lower() in _TIME_NAMES), 0)

    def _numbers(self, row: list[str], line: int, signals: list[Signal]) -> list[float]:
        if len(row) != len(signals):
            raise self.fail(f"line {line}: has {len(row)} cells instead of {len(signals)}")
        numbers = []
        for cell, signal in zip(row, signals, strict=True):
            value = _number(cell, self._comma)
            if value is None:
                raise self.fail(
                    f"line {line}: {signal.name} = {cell!r} is not a number; correct it"
                )
            numbers.append(value)
        return numbers


def _name_and_unit(cell: str) -> tuple[str, str]:
    """Split ``torque [N*m]`` or ``torque (N*m)`` into name and unit.

    A regular expression would take a minute for 100,000 brackets.
    """
    if not cell.endswith(("]", ")")):
        return cell, ""
    inside = cell[:-1]
    start = max(inside.rfind("]"), inside.rfind(")")) + 1
    opened = [at for at in (inside.find("[", start), inside.find("(", start)) if at >= 0]
    if not opened:
        return cell, ""
    return inside[: min(opened)].rstrip(), inside[min(opened) + 1 :]


def _number(cell: str, comma: bool) -> float | None:
    """Number in a cell; NaN for an empty cell, None for text."""
    cell = cell.strip()
    if not cell:
        return float("nan")
    try:
        return float(cell.replace(",", ".") if comma else cell)
    except ValueError:
        return None
