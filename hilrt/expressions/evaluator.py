"""`Evaluator`: a program with its state, for callers in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hilrt.compilation.compiled import compiled, entry_point
from hilrt.errors import RecordError
from hilrt.expressions.evaluate import evaluate
from hilrt.expressions.parse import Expression, KnownSignals
from hilrt.expressions.program import Program
from hilrt.solver import Floats
from hilrt.tables.program_tables import LookupPoint, OperationRow, Register, Word
from hilrt.tables.record import Table, as_bytes

Ints = NDArray[np.int64]


class Evaluator:
    """Evaluation of expressions, sample by sample or over a whole log.

    Parameters
    ----------
    texts : sequence of str or Expression, or Program
    signals : mapping of str, or KnownSignals
        Signals that they may refer to, with units; a `Program` already contains them.
    step : float
        Shortest time between two samples, s.

    Attributes
    ----------
    program : Program
    signals : tuple of str
        Order of the values passed to a step.
    """

    def __init__(
        self,
        texts: Sequence[str | Expression] | Program,
        signals: Mapping[str, str] | KnownSignals | None = None,
        *,
        step: float = 0.001,
    ) -> None:
        if not isinstance(texts, Program):
            texts = Program.from_texts(texts, signals or {}, step=step)
        self.program = program = texts
        self.signals = program.signals
        self._registers, self._memory = program.registers.copy(), program.memory.copy()
        results = np.array(program.results, dtype=np.int64)
        self._tables = program.operations, program.points, self._registers, self._memory, results
        rows = np.zeros((1, len(self.signals)))
        found = np.zeros((1, len(results)))
        self._run = entry_point(run_program, *self._tables, np.zeros(1), rows, rows, found)

    def step(self, t: float, values: Floats, times: Floats | None = None) -> Floats:
        """Values of the expressions at time `t` [s], shape (texts,).

        Parameters
        ----------
        t : float
        values : ndarray, shape (signals,)
            Samples in the order of `signals`; NaN: unknown.
        times : ndarray, shape (signals,), optional
            Times of validity, s. NaN: no new sample, the last one is held. By default all are new,
            at the time `t`.
        """
        valid = None if times is None else np.atleast_2d(times)
        found: Floats = self.run(np.array([t], dtype=np.float64), np.atleast_2d(values), valid)[0]
        return found

    def run(self, t: Floats, columns: Floats, times: Floats | None = None) -> Floats:
        """Values for all rows of a log, shape (rows, texts).

        Parameters
        ----------
        t : ndarray, shape (rows,)
        columns, times : ndarray, shape (rows, signals)
            As for `step`.
        """
        t = np.ascontiguousarray(t, dtype=np.float64)
        if times is None:
            times = np.repeat(t[:, None], len(self.signals), axis=1)
        columns = np.ascontiguousarray(columns, dtype=np.float64)
        times = np.ascontiguousarray(times, dtype=np.float64)
        shape = len(t), len(self.signals)
        if columns.shape != shape or times.shape != shape:
            raise ValueError(f"values of shape {columns.shape}, not {shape}: {self.signals}")
        found = np.empty((len(t), len(self.program.results)))
        self._run(*self._tables, t, columns, times, found)
        return found

    def save(self) -> bytes:
        """Return the state, for `restore`."""
        return bytes(as_bytes(self._registers)) + bytes(as_bytes(self._memory))

    def restore(self, state: bytes) -> None:
        """Restore the state; `RecordError` if it belongs to another program."""
        registers, memory = as_bytes(self._registers), as_bytes(self._memory)
        if len(state) != len(registers) + len(memory):
            raise RecordError(f"{len(state)} bytes are not a state of these expressions")
        saved: NDArray[np.uint8] = np.frombuffer(state, np.uint8)
        registers[...], memory[...] = saved[: len(registers)], saved[len(registers) :]


@compiled
def run_program(
    operations: Table[OperationRow],
    points: Table[LookupPoint],
    registers: Table[Register],
    memory: Table[Word],
    results: Ints,
    t: Floats,
    columns: Floats,
    times: Floats,
    found: Floats,
) -> None:
    """For each row: put samples into the first registers, run all operations, store results."""
    for k in range(len(t)):
        for i in range(columns.shape[1]):
            if times[k, i] == times[k, i]:
                registers[i].value, registers[i].t = columns[k, i], times[k, i]
        evaluate(operations, points, registers, memory, t[k])
        for i in range(len(results)):
            found[k, i] = registers[results[i]].value
