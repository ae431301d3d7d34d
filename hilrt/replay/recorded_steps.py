"""The steps in a log: the input of each, and the decisions of the session."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hilrt.errors import RecordError
from hilrt.record.messages import ASIDES, Signal
from hilrt.record.reader import Aside, Block, LogStream
from hilrt.record.signals import CUT_SIGNALS, PEER_CUT_SIGNALS
from hilrt.replay.rebuild import Recorded, read_recorded
from hilrt.solver import Floats
from hilrt.step.step_state import StepInput
from hilrt.tables.network import Network


class RowChunk(NamedTuple):
    """Consecutive rows: their numbers (n,), session times (n,) [ns], values (n, signals).

    `asides` is what was recorded beside the rows, in the order of the file.
    """

    rows: NDArray[np.int64]
    times_ns: NDArray[np.int64]
    values: Floats
    asides: list[Aside]


class RecordedSteps:
    """A log as a sequence of steps; `recorded` is read at once, the rest piece by piece.

    Parameters
    ----------
    path : Path
        The log.

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
        self._first = next(self._blocks, None)
        where = str(path)
        self.recorded: Recorded = read_recorded(
            self.stream.attachments, self.stream.metadata, where
        )
        if self._first is None:
            raise RecordError(f"{where}: holds no steps")
        self.channels = list(self.stream.channels.values())
        self.signals: list[Signal] = [s for channel in self.channels for s in channel.signals]
        self.columns = {signal.name: i for i, signal in enumerate(self.signals)}

    @property
    def damage(self) -> str:
        """Why the log ends early, known when all of it has been read; empty for a whole one."""
        return self.stream.damage

    def chunks(self) -> Iterator[RowChunk]:
        """All rows in the order of the file; to be called once.

        A row whose last topics are in the next piece of the file waits for them: the recorder never
        divides a row, but tools that cut or merge logs may.
        """
        assert self._first is not None
        waiting: dict[str, Block] = {}
        for block in itertools.chain([self._first], self._blocks):
            topic = block.channel.topic
            waiting[topic] = _append(waiting[topic], block) if topic in waiting else block
            if len(waiting) == len(self.channels):
                yield self._join(waiting)

    def _join(self, waiting: dict[str, Block]) -> RowChunk:
        """Take the rows out of `waiting` of which all topics have been read."""
        n = min(len(block.rows) for block in waiting.values())
        blocks = [_part(waiting[channel.topic], slice(n)) for channel in self.channels]
        for topic, block in list(waiting.items()):
            if len(block.rows) > n:
                waiting[topic] = _part(block, slice(n, None))
            else:
                del waiting[topic]
        first = blocks[0]
        if any(not np.array_equal(block.rows, first.rows) for block in blocks):
            raise RecordError(f"{self.stream.path}: its topics do not hold the same rows")
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
    """Makes a `StepInput` of each row of a chunk.

    Parameters
    ----------
    columns : mapping of str to int
        Signal name to column of the rows.
    network : Network
    derivatives : int
        Derivatives of the outputs that the plan uses.

    Raises
    ------
    RecordError
        If the rows lack a signal.
    """

    def __init__(
        self, columns: dict[str, int], network: Network, derivatives: int, where: str
    ) -> None:
        self._columns, self._where = columns, where
        outputs, inputs, peers = network.outputs.names, network.inputs.names, network.subsystems
        self.given = StepInput.empty(len(outputs), len(inputs), len(peers), derivatives)
        self._index = {
            "y": self._find(outputs),
            "t_valid": self._find(outputs, ":t_valid"),
            "y_mid": self._find(outputs, ":middle"),
            "realised": self._find(inputs, ":realised"),
            "late": self._find(peers, ":late"),
            **{key: self._find(peers, f":{key}") for key, _ in PEER_CUT_SIGNALS},
            "cut": self._find([f"cut:{key}" for key, _ in CUT_SIGNALS]),
            "missed": self._find(["master:missed"]),
        }
        known = (m for m in range(1, derivatives + 1) if f"{outputs[0]}:arrived_d{m}" in columns)
        self._derivatives = [self._find(outputs, f":arrived_d{m}") for m in known]
        self._chunk: dict[str, Floats] = {}

    def _find(self, names: list[str], suffix: str = "") -> NDArray[np.intp]:
        try:
            return np.array([self._columns[name + suffix] for name in names], dtype=np.intp)
        except KeyError as error:
            raise RecordError(
                f"{self._where}: holds no signal {error}; without it no step can be replayed"
            ) from None

    def load(self, values: Floats) -> None:
        """Take the rows of a chunk, shape (n, signals)."""
        self._chunk = {key: values[:, index] for key, index in self._index.items()}
        for m, index in enumerate(self._derivatives):
            self._chunk[f"dy{m}"] = values[:, index]
        # Only a sample that has arrived has a time.
        self._fresh = ~np.isnan(self._chunk["t_valid"])

    def cut(self, i: int, t_ns: int) -> StepInput:
        """The `StepInput` of row `i` of the chunk at session time `t_ns` [ns]; valid until next."""
        given, chunk = self.given, self._chunk
        tick, elapsed, apply, regular, has_middle, learns, rest = chunk["cut"][i].tolist()
        given.tick, given.t, given.elapsed = int(tick), t_ns * 1e-9, elapsed
        given.apply, given.regular, given.has_middle = bool(apply), bool(regular), bool(has_middle)
        given.missed, given.learns = bool(chunk["missed"][i, 0]), bool(learns)
        given.y[:] = chunk["y"][i]
        given.t_valid[:] = chunk["t_valid"][i]
        given.fresh[:] = self._fresh[i]
        given.y_mid[:] = chunk["y_mid"][i]
        given.realised[:] = chunk["realised"][i]
        for m in range(len(self._derivatives)):
            given.dy[m] = chunk[f"dy{m}"][i]
        given.busy[:] = chunk["busy"][i]
        given.late[:] = chunk["late"][i]
        given.due[:] = chunk["due"][i]
        given.reached[:] = chunk["reached"][i]
        given.covered[:] = chunk["covered"][i]
        given.clock_error[:] = chunk["clock_error"][i]
        given.event[:] = chunk["event"][i]
        given.rejoined[:] = chunk["rejoined"][i]
        given.rest = rest
        return given
