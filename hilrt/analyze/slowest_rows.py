"""The slowest ticks of a log, with the flags that were up at them and their numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilrt.record.reader import Block, LogChannel
from hilrt.solver import Floats

WORST = 10
#: What a tick is slow by: in real time, and where no time has to be kept.
KEYS = ("master:lateness", "master:compute")


@dataclass
class WorstStep:
    """A tick with one of the largest values of `key`; times in µs, `t` in s.

    `tick` is its number, -1 where the log does not say; `values` its row of the topic "timing".
    """

    t: float
    key: str
    values: dict[str, float]
    causes: list[str]
    tick: int = -1


@dataclass
class _Row:
    """A row of the topic "timing"."""

    value: float
    t_ns: int
    values: Floats
    channel: LogChannel
    causes: list[str]
    tick: int = -1


class SlowestRows:
    """Keeps the rows with the largest values of each of `KEYS` above 0; of equal ones the earliest.

    The topics of a row come in the file's order: its flags before its timing, its number after it.
    """

    def __init__(self) -> None:
        self._kept: dict[str, list[_Row]] = {key: [] for key in KEYS}
        self._flags: Block | None = None

    def add(self, block: Block) -> None:
        """Take the next rows of a topic."""
        topic = block.channel.topic
        if topic == "flags":
            self._flags = block
        elif topic == "timing":
            for key in KEYS:
                self._add_timing(block, key)
        elif topic == "arrivals":
            self._add_ticks(block)

    def _add_timing(self, block: Block, key: str) -> None:
        names = [signal.name for signal in block.channel.signals]
        if key not in names:
            return
        kept = self._kept[key]
        values = block.values[:, names.index(key)]
        least = kept[-1].value if len(kept) == WORST else 0.0
        rows = np.flatnonzero(values > least)
        order = np.lexsort((block.times_ns[rows], -values[rows]))
        for row in rows[order[:WORST]].tolist():
            t_ns = int(block.times_ns[row])
            found = block.values[row].copy()
            kept.append(_Row(values[row], t_ns, found, block.channel, self._causes_at(t_ns)))
        kept.sort(key=lambda row: (-row.value, row.t_ns))
        del kept[WORST:]

    def _causes_at(self, t_ns: int) -> list[str]:
        """Causes whose flags were up."""
        row = None if self._flags is None else _row_at(self._flags, t_ns)
        if self._flags is None or row is None:
            return []
        up = np.flatnonzero(self._flags.values[row] > 0.0)
        return [self._flags.channel.signals[i].name.rpartition(":")[2] for i in up]

    def _add_ticks(self, block: Block) -> None:
        names = [signal.name for signal in block.channel.signals]
        if "cut:tick" not in names:
            return
        ticks = block.values[:, names.index("cut:tick")]
        for kept in (row for rows in self._kept.values() for row in rows if row.tick < 0):
            if (row := _row_at(block, kept.t_ns)) is not None:
                kept.tick = int(ticks[row])

    def steps(self) -> list[WorstStep]:
        """Worst first: by lateness where any tick was late, else by computing time."""
        for key in KEYS:
            kept = self._kept[key]
            if kept:
                return [_step(row, key) for row in kept]
        return []


def _row_at(block: Block, t_ns: int) -> int | None:
    """The row of that time."""
    row = int(np.searchsorted(block.times_ns, t_ns))
    found = row < len(block.times_ns) and block.times_ns[row] == t_ns
    return row if found else None


def _step(row: _Row, key: str) -> WorstStep:
    names = [signal.name for signal in row.channel.signals]
    values = dict(zip(names, row.values.tolist(), strict=True))
    return WorstStep(row.t_ns / 1e9, key, values, row.causes, row.tick)
