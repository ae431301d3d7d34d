"""Steps in a log: the input of each, and the session's decisions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.errors import RecordError
from hilrt.record.messages import ASIDES, Signal
from hilrt.record.reader import Aside, Block, LogStream
from hilrt.replay.rebuild import Recorded, read_recorded
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.step_log.gather import Scatter
from hilrt.step_log.signals import TickTiming, given_columns, tables_of
from hilrt.tables.channels import ChannelRow
from hilrt.tables.record import table


class RowChunk(NamedTuple):
    """Consecutive rows: their numbers (n,), session times (n,) [ns], values (n, signals).

    `asides` are the other records, in the order of the file.
    """

    rows: NDArray[np.int64]
    times_ns: NDArray[np.int64]
    values: Floats
    asides: list[Aside]


class RecordedSteps:
    """Log as a sequence of steps; only `recorded` is read at once.

    Parameters
    ----------
    path : Path
        Path of the log.

    Attributes
    ----------
    recorded : Recorded
    signals : list of Signal
        Columns of the rows.
    columns : dict
        Signal name to column.
    """

    def __init__(self, path: Path) -> None:
        self.stream = LogStream(path, asides=ASIDES)
        self._blocks = self.stream.blocks()
        self._begun: list[Block] = []
        for block in self._blocks:  # to the second row: the first may be split, see `chunks`
            self._begun.append(block)
            if block.rows[-1] != self._begun[0].rows[0]:
                break
        where = str(path)
        self.recorded: Recorded = read_recorded(
            self.stream.attachments, self.stream.metadata, where
        )
        if not self._begun:
            raise RecordError(f"{where}: has no steps")
        self.channels = list(self.stream.channels.values())
        self.signals: list[Signal] = [s for channel in self.channels for s in channel.signals]
        self.columns = {signal.name: i for i, signal in enumerate(self.signals)}

    @property
    def damage(self) -> str:
        """Reason why the log ends early, known after reading it all; empty for an intact log."""
        return self.stream.damage

    def chunks(self) -> Iterator[RowChunk]:
        """Yield all rows in the order of the file; may be called only once.

        A row whose last topics are in the next piece of the file is completed from there: the
        recorder never splits a row, but tools that cut or merge logs may.
        """
        waiting: dict[str, Block] = {}
        for block in itertools.chain(self._begun, self._blocks):
            topic = block.channel.topic
            waiting[topic] = _append(waiting[topic], block) if topic in waiting else block
            if len(waiting) == len(self.channels):
                yield self._join(waiting)

    def _join(self, waiting: dict[str, Block]) -> RowChunk:
        """Remove the rows whose topics have all been read from `waiting`, and return them."""
        n = min(len(block.rows) for block in waiting.values())
        blocks = [_part(waiting[channel.topic], slice(n)) for channel in self.channels]
        for topic, block in list(waiting.items()):
            if len(block.rows) > n:
                waiting[topic] = _part(block, slice(n, None))
            else:
                del waiting[topic]
        first = blocks[0]
        if any(not np.array_equal(block.rows, first.rows) for block in blocks):
            raise RecordError(f"{self.stream.path}: its topics have different rows")
        asides = list(self.stream.asides)
        self.stream.asides.clear()
        return RowChunk(
            first.rows, first.times_ns, np.hstack([block.values for block in blocks]), asides
        )


def _append(block: Block, more: Block) -> Block:
    return Block(
        block.channel,
        np.concatenate((block.times_ns, more.times_ns)),
        np.concatenate((block.values, more.values)),
        np.concatenate((block.rows, more.rows)),
    )


def _part(block: Block, rows: slice) -> Block:
    return Block(block.channel, block.times_ns[rows], block.values[rows], block.rows[rows])


class StepInputs:
    """The step's input, restored from rows of a log.

    Parameters
    ----------
    columns : mapping of str to int
        Signal name to column of the log's rows.
    numerics : Numerics
        Numerics whose `given` and `slack` are filled.
    where : str
        Name of the log in messages.

    Raises
    ------
    RecordError
        If the rows lack a signal.
    """

    def __init__(self, columns: Mapping[str, int], numerics: Numerics, where: str) -> None:
        wanted, places = [], []
        for column in given_columns(numerics):
            name = column.signal.name
            if name in columns:
                wanted.append(column)
                places.append(columns[name])
            elif column.place.field != "dy":  # missing if the order is higher than recorded
                raise RecordError(
                    f"{where}: has no signal {name!r}; without it no step can be replayed"
                )
        nothing = table(ChannelRow, len(numerics.network.subsystems)), table(TickTiming, 1)
        self._scatter = Scatter(wanted, places, tables_of(numerics, *nothing))
        self._t = numerics.given.session["t"]

    def load(self, values: Floats) -> None:
        """Load the rows of a chunk, shape (n, signals)."""
        self._values = np.ascontiguousarray(values)

    def put(self, i: int, t_ns: int) -> None:
        """Set the step's input to row `i` of the chunk, at session time `t_ns` [ns]."""
        self._scatter.put(self._values[i])
        self._t[0] = t_ns / 1e9
