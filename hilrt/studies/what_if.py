"""Counterfactual replay: recompute decisions on the same samples with other settings.

Caps, orders, correctors or thresholds of a recorded session are changed, and every decision is
recomputed from the session's beginning. The subsystems' samples stay as recorded; the reaction of a
bench to other inputs is not simulated. So the result shows what the master would have decided at
each step from the recorded samples, but not what later samples would have been.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from hilrt.analyze.report_accumulator import ReportAccumulator
from hilrt.analyze.rows_summary import fault_of, secured_by
from hilrt.errors import ConfigError
from hilrt.files.formats import parse_json
from hilrt.record.find_log import find_log
from hilrt.record.messages import Attachment, Begin, Level, RecordEnd, RecordEvent
from hilrt.record.recording import Recording
from hilrt.reliability.causes import CAUSES
from hilrt.reliability.estimates import errors_of
from hilrt.reliability.flags import flag_totals
from hilrt.reliability.verdict import SessionCourse, Verdict, verdict
from hilrt.replay.decisions import decisions
from hilrt.replay.rebuild import rebuild
from hilrt.replay.recorded_steps import RecordedSteps, RowChunk
from hilrt.replay.walk import Walk, signal_names
from hilrt.solver import Floats
from hilrt.step.numerics import Numerics
from hilrt.step_log.facts import numerics_metadata
from hilrt.step_log.signals import build_topics
from hilrt.studies.what_if_result import CAVEAT, ChangedSignal, FlagTime, WhatIf
from hilrt.tables.plan import Plan


def what_if(
    path: str | Path,
    changes: Sequence[str],
    *,
    start: float = 0.0,
    until: float | None = None,
    out: Path | None = None,
    progress: Callable[[float], None] = lambda t: None,
) -> WhatIf:
    """Recompute the decisions of a recorded session with other settings.

    Parameters
    ----------
    path : str or Path
        ``session.mcap``, or the run's folder.
    changes : sequence of str
        Settings ``table.key=value``, as for `hilrt run --set`.
    start, until : float
        Session times to compare, s; decisions are recomputed from the session's beginning.
    out : Path, optional
        Folder for a log of the recomputed decisions.

    Raises
    ------
    ConfigError
        If a change is invalid, or its effect cannot be computed from the log.
    RecordError
        If there is no log, or it lacks data for a replay.
    """
    begun = time.monotonic()
    steps = RecordedSteps(find_log(path))
    before = rebuild(steps.recorded)
    numerics = rebuild(steps.recorded, changes)
    _refuse_other_grid(before.plan, numerics.plan)
    walk = Walk(
        steps,
        numerics,
        signal_names(numerics),
        until_ns=None if until is None else round(until * 1e9),
        exact=False,
        changes=changes,
    )
    decided = _comparable(numerics)
    sums = _DifferenceSums(decided, walk.engine.names, steps.columns, round(start * 1e9))
    log = None if out is None else _WhatIfLog(out, steps, numerics, changes)
    missed = 0
    for chunk, made, values in walk.chunks(progress):
        if log is not None:
            log.write(chunk, made, values)
        sums.add(chunk, made, values)
        missed += _missed(chunk, made, steps.columns)
    signals = sums.changes({signal.name: signal.unit for signal in steps.signals})
    recomputed = _verdict(walk, steps, missed).word
    return WhatIf(
        path=steps.stream.path,
        changes=list(changes),
        steps=walk.made,
        compared=sums.count,
        begin=max(walk.begin, start),
        end=walk.end,
        signals=signals,
        unchanged=len(sums.names) - len(signals),
        added=[name for name in decided if name not in steps.columns],
        gone=[name for name in _comparable(before) if name not in decided],
        flags=sums.flags(),
        verdicts=(
            decide_again(path, (), until).verdict if signals else recomputed,
            recomputed,
        ),
        in_summary=_recorded_verdict(steps),
        gaps=walk.gaps,
        damage=steps.damage,
        written=None if log is None else log.finish(),
        wall_s=time.monotonic() - begun,
    )


def _comparable(numerics: Numerics) -> dict[str, str]:
    """Signals to compare and their stages, as from `decisions` but without estimated errors.

    Estimated errors depend on the session's probing, which is not valid for other settings.
    """
    return {
        name: stage
        for name, stage in decisions(numerics).items()
        if stage != "estimate_signals" and "error_feeds_spread" not in name
    }


def _refuse_other_grid(before: Plan, plan: Plan) -> None:
    """Refuse changes of the time grid, because samples exist only at the recorded times."""
    step = float(before.session["step"][0])
    if plan.session["step"][0] != step:
        raise ConfigError(
            f"--set master.step: the log was recorded with {step:g} s, and its samples belong to "
            "that grid; run the session again for another step"
        )
    if not np.array_equal(plan.subsystems["every"], before.subsystems["every"]):
        raise ConfigError(
            "--set subsystems.NAME.every: the samples in the log arrived at the recorded "
            "intervals; run the session again for others"
        )


def _missed(chunk: RowChunk, made: NDArray[np.bool_], columns: dict[str, int]) -> int:
    """Number of ticks missed at the rows that were repeated, including skipped ticks."""
    marks = [columns[name] for name in ("master:overdue", "master:skipped") if name in columns]
    return round(float(np.nansum(chunk.values[made][:, marks])))


def _verdict(walk: Walk, steps: RecordedSteps, missed: int) -> Verdict:
    """Verdict on the repeated decisions; missed ticks and a fault stay as recorded."""
    numerics = walk.engine.numerics
    events = [event for event in steps.stream.events if event.t <= walk.end]
    errors, made = errors_of(numerics.network, numerics.plan, numerics.state)
    course = SessionCourse(
        walk.end,
        fault_of(events),
        missed,
        steps=max(walk.made - 1, 0),
        unrecorded=int(steps.stream.metadata.get("rows_missing", 0)),
        secured=secured_by(events),
        errors=errors,
        bonds=made,
    )
    return verdict(flag_totals(numerics.checks, numerics.state), course)


class DecidedAgain(NamedTuple):
    """Result of repeating the decisions of a whole log: their verdict, and where they end.

    `steps` were repeated, up to `t` [s]; `numerics` has the state after them.
    """

    verdict: str
    evidence_lacking: bool
    steps: int
    t: float
    numerics: Numerics


def decide_again(
    path: str | Path, changes: Sequence[str] = (), until: float | None = None
) -> DecidedAgain:
    """Recompute the decisions of a log, with its own settings or with changes.

    Parameters, errors and limitations as for `what_if`.
    """
    steps = RecordedSteps(find_log(path))
    numerics = rebuild(steps.recorded, changes, as_changed=True)
    if changes:
        _refuse_other_grid(rebuild(steps.recorded).plan, numerics.plan)
    until_ns = None if until is None else round(until * 1e9)
    walk = Walk(
        steps, numerics, signal_names(numerics), until_ns=until_ns, exact=False, changes=changes
    )
    chunks = walk.chunks(lambda t: None)
    missed = sum(_missed(chunk, made, steps.columns) for chunk, made, _ in chunks)
    found = _verdict(walk, steps, missed)
    return DecidedAgain(found.word, found.evidence_lacking, walk.made, walk.end, numerics)


def _recorded_verdict(steps: RecordedSteps) -> str:
    """Verdict in the session's summary, which also covers faults and missed ticks."""
    try:
        summary = dict(parse_json(steps.stream.attachments.get("summary.json", b"{}")))
    except (ValueError, TypeError):
        return ""
    return str(summary.get("verdict", ""))


class _DifferenceSums:
    """Accumulator of the differences of each signal, chunk by chunk."""

    def __init__(
        self, decided: Iterable[str], mine: list[str], theirs: dict[str, int], start_ns: int
    ) -> None:
        self.names = names = [name for name in decided if name in theirs]
        self._mine = np.array([mine.index(name) for name in names], dtype=np.intp)
        self._theirs = np.array([theirs[name] for name in names], dtype=np.intp)
        self._elapsed, self._start_ns = theirs["cut:elapsed"], start_ns
        n = len(names)
        self.count = 0
        self._differing = np.zeros(n, dtype=np.int64)
        self._largest, self._t = np.zeros(n), np.full(n, np.nan)
        self._then = np.full((2, n), np.nan)
        self._square, self._known = np.zeros(n), np.zeros(n, dtype=np.int64)
        self._flag = np.array([name.startswith("flag:") for name in names], dtype=bool)
        self._up = np.zeros((2, int(self._flag.sum())))

    def add(self, chunk: RowChunk, made: NDArray[np.bool_], values: Floats) -> None:
        """Add the rows of a chunk that were repeated, as `values` (n, signals)."""
        late = made & (chunk.times_ns >= self._start_ns)
        times_ns, recorded = chunk.times_ns[late], chunk.values[late]
        if not len(times_ns):
            return
        a, b, elapsed = (
            recorded[:, self._theirs],
            values[late][:, self._mine],
            recorded[:, self._elapsed],
        )
        self.count += len(a)
        self._differing += ((a != b) & ~(np.isnan(a) & np.isnan(b))).sum(axis=0)
        with np.errstate(invalid="ignore"):  # both may be infinite
            apart = np.abs(a - b)
        known = np.isfinite(apart)
        self._known += known.sum(axis=0)
        apart[~known] = 0.0
        self._square += np.square(apart).sum(axis=0)
        i, columns = apart.argmax(axis=0), np.arange(len(self.names))
        higher = apart[i, columns] > self._largest
        self._largest = np.where(higher, apart[i, columns], self._largest)
        self._t = np.where(higher, times_ns[i] / 1e9, self._t)
        self._then = np.where(higher, (a[i, columns], b[i, columns]), self._then)
        self._up += (elapsed @ a[:, self._flag], elapsed @ b[:, self._flag])

    def changes(self, units: dict[str, str]) -> list[ChangedSignal]:
        """Signals that differ."""
        return [
            ChangedSignal(
                name,
                units.get(name, ""),
                int(self._differing[i]),
                float(self._largest[i]),
                float(self._t[i]),
                float(self._then[0, i]),
                float(self._then[1, i]),
                math.sqrt(self._square[i] / self._known[i]) if self._known[i] else 0.0,
            )
            for i, name in enumerate(self.names)
            if self._differing[i]
        ]

    def flags(self) -> list[FlagTime]:
        """Causes whose flags were up in either of the two."""
        causes = [name.removeprefix("flag:") for name in self.names if name.startswith("flag:")]
        return [
            FlagTime(cause, float(then), float(now))
            for cause, then, now in zip(causes, *self._up, strict=True)
            if then or now
        ]


class _WhatIfLog:
    """Log of the recomputed decisions, with the recorded samples."""

    def __init__(
        self, out: Path, steps: RecordedSteps, numerics: Numerics, changes: Sequence[str]
    ) -> None:
        metadata = dict(steps.stream.metadata)
        epoch_ns = int(metadata.pop("epoch_ns", "0"))
        metadata |= numerics_metadata(numerics)
        metadata |= {"what_if": json.dumps(list(changes)), "what_if_caveat": CAVEAT}
        name = f"{metadata.get('session', 'session')} (what if)"
        recorded = steps.recorded
        files = [Attachment(recorded.name, "application/toml", recorded.text.encode())]
        begin = Begin(str(out), name, epoch_ns, build_topics(numerics), files, metadata)
        try:
            self._recording = Recording(begin, ReportAccumulator.of)
        except FileExistsError:
            raise ConfigError(
                f"--out {out}: already contains a log; choose another folder"
            ) from None
        except OSError as error:
            raise ConfigError(f"--out {out}: {error.strerror}; choose another folder") from None
        self._stream = steps.stream
        mine = signal_names(numerics)
        decided = decisions(numerics)
        copied = [name for name in mine if name not in decided and name in steps.columns]
        self._mine = np.array([mine.index(name) for name in copied], dtype=np.intp)
        self._theirs = np.array([steps.columns[name] for name in copied], dtype=np.intp)

    def write(self, chunk: RowChunk, made: NDArray[np.bool_], values: Floats) -> None:
        """Add the rows of a chunk that were repeated, as `values` (n, signals)."""
        rows, numbers, times = values[made], chunk.rows[made], chunk.times_ns[made]
        rows[:, self._mine] = chunk.values[made][:, self._theirs]
        for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(numbers) != 1) + 1):
            if len(part):
                self._recording.batch(int(numbers[part[0]]), times[part], rows[part])
        self._recording.flush()

    def finish(self) -> Path:
        """Add the recorded events, except those of flags, and close the log; return its path."""
        for event in self._stream.events:
            if event.cause not in CAUSES and event.source != "recorder":
                t_ns = round(event.t * 1e9)
                level = cast("Level", event.level)
                replayed = RecordEvent(
                    t_ns, level, event.cause, event.source, event.text, event.value
                )
                self._recording.event(replayed)
        self._recording.finish(RecordEnd(b"", self._recording.rows, 0))
        return self._recording.path
