"""Walk through a log: starting points, gaps, and macro steps with its rows as input."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from hilrt.record.messages import ADJUSTMENTS, JACOBIANS, SENSITIVITIES, SNAPSHOTS
from hilrt.record.reader import Aside
from hilrt.replay.recorded_steps import RecordedSteps, RowChunk, StepInputs
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.step_log.signals import RowWriter, build_topics
from hilrt.step_log.snapshot import StateBytes
from hilrt.tables.channels import ChannelRow
from hilrt.tables.record import table


def signal_names(numerics: Numerics) -> list[str]:
    """Signals of a row, in order."""
    return [signal.name for topic in build_topics(numerics) for signal in topic.signals]


class Engine:
    """Macro step with the rows of a log as input.

    Attributes
    ----------
    numerics : Numerics
    names : list of str
        Signals of a row.
    memory : StateBytes
        The state as bytes.
    changes : Changes
        Changes by an operator, which act at the next step.
    """

    def __init__(self, steps: RecordedSteps, numerics: Numerics) -> None:
        self.numerics = numerics
        self._inputs = StepInputs(steps.columns, numerics, steps.recorded.where)
        self.names = signal_names(numerics)
        self._row = np.full(len(self.names), np.nan)
        # Channels are measured in a session, and unknown in a replay.
        channels = table(ChannelRow, len(numerics.network.subsystems))
        self._writer = RowWriter(numerics, channels, self._row)
        self.memory = StateBytes(numerics.state)
        self.changes = numerics.new_changes()
        self._renewed = numerics.given.session["renewed"]
        self._gamma: Floats | None = None
        self._answers: tuple[int, float, float, list[float], Sequence[int]] | None = None

    def load(self, values: Floats) -> None:
        """Load the rows of a chunk, shape (n, signals)."""
        self._inputs.load(values)

    def renew(self, gamma: Floats) -> None:
        """Renew the Jacobians, shape (order + 1, ny, nu), at the next step."""
        if gamma.shape == self.numerics.given.gamma.shape:  # changes may have removed the model
            self._gamma = gamma

    def renew_answers(
        self,
        moved: int,
        change: float,
        since: float,
        factors: list[float],
        switches: Sequence[int] = (),
    ) -> None:
        """Renew sensitivities at the next step; parameters as in `StepInput`.

        `switches` are the subsystems that switch inside their steps.
        """
        if len(factors) == len(self.numerics.given.answers):  # changes may have removed them
            self._answers = moved, change, since, factors, switches

    def step(self, i: int, t_ns: int, row: Floats) -> None:
        """Repeat the step of the chunk's row `i`, at `t_ns` [ns], into `row`, shape (signals,)."""
        numerics, given = self.numerics, self.numerics.given
        self._inputs.put(i, t_ns)
        self.changes.put_into(given)
        self._renewed[0] = self._gamma is not None
        if self._gamma is not None:
            given.gamma[...] = self._gamma
            self._gamma = None
        self._renew_answers()
        numerics.macro_step()
        step = round(numerics.h_next * 1e9) / 1e9
        numerics.assess()
        self._writer.fill(step, 0, 0)
        row[:] = self._row

    def _renew_answers(self) -> None:
        given, session = self.numerics.given, self.numerics.given.session[0]
        session.answers_renewed = self._answers is not None
        if self._answers is not None:
            moved, change, since, given.answers[:], switches = self._answers
            given.subsystems["switches"] = np.isin(np.arange(len(given.subsystems)), switches)
            session.answers_moved, session.answers_change = moved, change
            session.answers_since = since
            self._answers = None


@dataclass(frozen=True)
class Gap:
    """Gap in the rows of a log.

    Attributes
    ----------
    begin, end : float
        Session times of the last row before and the first row after the gap, s.
    missing : int
        Number of missing rows.
    """

    begin: float
    end: float
    missing: int


class Walk:
    """Repetition of the steps of a log, row by row, by an `Engine`.

    Parameters
    ----------
    steps, numerics
        The log, and the numerics to run.
    columns : sequence of str
        Signals of the engine to keep for every row.
    start_ns, until_ns : int
        Begin at the first snapshot at or after `start_ns` (0: at the first step), end at
        `until_ns`, ns.
    exact : bool
        Whether the numerics are those of the session: after a gap the walk then resumes from a
        snapshot. Otherwise it continues with its own state, which differs from the recorded one.
    compare_snapshots : bool
        Whether to compare the state with the snapshots, bit for bit.
    changes : sequence of str
        Settings ``table.key=value`` of the numerics; operators' adjustments of these are ignored.

    Attributes
    ----------
    made, skipped : int
        Steps repeated, and rows skipped.
    begin, end : float
        Session times between which steps were repeated, s.
    gaps : list of Gap
    resumed : list of float
        Session times of the snapshots from which the walk resumed, s.
    compared : int
        Snapshots with which the state was compared.
    strayed : tuple of (int, float, list of str) or None
        Row, session time [s] and differing fields of the first snapshot unequal to the state.
    ended : bool
        Whether the walk has ended.
    """

    def __init__(
        self,
        steps: RecordedSteps,
        numerics: Numerics,
        columns: Sequence[str],
        *,
        start_ns: int = 0,
        until_ns: int | None = None,
        exact: bool = True,
        compare_snapshots: bool = True,
        changes: Sequence[str] = (),
    ) -> None:
        self._steps = steps
        self.engine = Engine(steps, numerics)
        index = {name: i for i, name in enumerate(self.engine.names)}
        self._columns = np.array([index[name] for name in columns], dtype=np.intp)
        self._start_ns, self._until_ns = start_ns, until_ns
        self._exact, self._compares = exact, exact and compare_snapshots
        self._set = {c.partition("=")[0].replace(".correction.", ".") for c in changes}
        self.made = self.skipped = self.compared = 0
        self.begin = self.end = 0.0
        self.gaps: list[Gap] = []
        self.resumed: list[float] = []
        self.strayed: tuple[int, float, list[str]] | None = None
        self.ended = False
        self._running = start_ns <= 0
        self._next, self._last_ns = 0, 0
        self._snapshots: dict[int, Aside] = {}
        self._changes: deque[Aside] = deque()

    def chunks(
        self, progress: Callable[[float], None]
    ) -> Iterator[tuple[RowChunk, NDArray[np.bool_], Floats]]:
        """Yield every chunk of the log with the result of `run`, until the walk ends.

        `progress` is called with the session time [s] reached.
        """
        for chunk in self._steps.chunks():
            yield chunk, *self.run(chunk)
            progress(self.end)
            if self.ended:
                return

    def run(self, chunk: RowChunk) -> tuple[NDArray[np.bool_], Floats]:
        """Recompute the steps of a chunk.

        Returns
        -------
        made : ndarray of bool, shape (n,)
            Rows whose step was recomputed.
        values : ndarray, shape (n, columns)
            Recomputed signals; NaN for rows without a step.
        """
        self._queue(chunk.asides)
        self.engine.load(chunk.values)
        made = np.zeros(len(chunk.rows), dtype=bool)
        values = np.full((len(chunk.rows), len(self.engine.names)), np.nan)
        times = chunk.times_ns.tolist()
        for i, row in enumerate(chunk.rows.tolist()):
            if self._until_ns is not None and times[i] > self._until_ns:
                self.ended = True
                break
            if row != self._next:
                self._note_gap(row, times[i])
            self._next, self._last_ns = row + 1, times[i]
            if not (self._running or self._resume(row)):
                self.skipped += 1
                continue
            self._apply_changes(row)
            self.engine.step(i, times[i], values[i])
            made[i] = True
            self._count(times[i])
            if not self._agrees(row + 1):
                self.ended = True
                break
        return made, values[:, self._columns]

    def _queue(self, asides: list[Aside]) -> None:
        changes = [aside for aside in asides if aside.topic != SNAPSHOTS]
        if changes:  # within a chunk, they are in the order of topics
            self._changes = deque(sorted([*self._changes, *changes], key=lambda aside: aside.row))
        self._snapshots |= {aside.row: aside for aside in asides if aside.topic == SNAPSHOTS}
        for row in [row for row in self._snapshots if row < self._next]:
            del self._snapshots[row]

    def _note_gap(self, row: int, t_ns: int) -> None:
        self.gaps.append(Gap(self._last_ns / 1e9, t_ns / 1e9, row - self._next))
        self._running = not self._exact and self._running

    def _apply_changes(self, row: int) -> None:
        """Apply changes that act at this step, or acted in a gap before it."""
        while self._changes and self._changes[0].row <= row:
            change = self._changes.popleft()
            content = msgspec.msgpack.decode(change.data)
            if change.topic == JACOBIANS:
                self.engine.renew(np.array(content))
            elif change.topic == SENSITIVITIES:
                self.engine.renew_answers(*content)
            elif change.topic == ADJUSTMENTS and content[0] not in self._set:
                self.engine.changes.add(*content)

    def _resume(self, row: int) -> bool:
        """Resume from the snapshot before this row; False if there is none, or it is too early."""
        snapshot = self._snapshots.get(row)
        if snapshot is None or snapshot.t_ns < self._start_ns:
            return False
        if self._exact:
            self.engine.memory.restore(snapshot.data)
            while self._changes and self._changes[0].row < row:
                self._changes.popleft()  # the snapshot includes its effect
        self.resumed.append(snapshot.t_ns / 1e9)
        self._running = True
        return True

    def _count(self, t_ns: int) -> None:
        t = t_ns / 1e9
        if self.made == 0:
            self.begin = t
        self.made += 1
        self.end = t

    def _agrees(self, row: int) -> bool:
        """Whether the state equals the snapshot before `row`; True if there is none."""
        snapshot = self._snapshots.get(row)
        if snapshot is None or not self._compares:
            return True
        memory = self.engine.memory
        found = memory.differences(snapshot.data, memory.encode())
        if found:
            self.strayed = (row - 1, snapshot.t_ns / 1e9, found)
            return False
        self.compared += 1
        return True
