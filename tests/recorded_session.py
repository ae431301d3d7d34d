"""Sessions in memory that leave a log on the disk, and their figures: no processes, no clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hilrt.analyze import report_accumulator
from hilrt.errors import HilrtError
from hilrt.exchange.master import Master
from hilrt.monitor.status import StatusPublisher
from hilrt.record.feed import Feed
from hilrt.record.messages import Begin, Level, RecordEnd, RecordEvent
from hilrt.record.recording import Recording
from hilrt.reliability.alarms import AlarmHistory
from hilrt.session.observers import make_master
from hilrt.session.summary import RunFacts, build_summary
from hilrt.step_log.facts import numerics_metadata
from hilrt.step_log.signals import build_topics
from hilrt.timing.pace import Pace
from tests.stepping import Stepping
from tests.virtual_clock import VirtualClock

EPOCH_NS = 1_780_000_000_000_000_000
BATCH = 64


#: What no row holds.
ELSEWHERE = {
    *(
        "format",
        "wall_s",
        "stolen_s",
        "processor_share",
        "real_time_priority",
        "stretched_s",
        "repeated",
        "strangers",
        "versions",
        "host",
        "estimated_error",
        "own_integration",
        "advice",
        "rejected",
        "sending_interval_s",
        "growth_per_s",
        "stable_step_s",
        "stimulus_columns",
        "results",
    ),
    "identification",  # compared where there is one
}
#: The same, of ports and bonds.
OF_ESTIMATES = {"disturbance", "spread", "interface_energy_j", "carried_energy_j"}
OF_PEERS = {"lost", "dropped", "compute_us", "wire_us", "collect_wait_us"}


def assert_same(rows: dict[str, Any], summary: dict[str, Any]) -> None:
    """The rows give every figure of the summary, but for those that no row holds."""
    assert summary.keys() - ELSEWHERE <= rows.keys()
    judged = {"verdict", "reasons", "evidence_lacking"} if summary["estimated_error"] else set()
    assert not judged or any("estimated error: unknown for" in said for said in rows["reasons"])
    for key in (summary.keys() & rows.keys()) - judged:
        mine, theirs = rows[key], summary[key]
        if key in ("ports", "bonds"):
            theirs = {
                name: {k: v for k, v in entry.items() if k not in OF_ESTIMATES}
                for name, entry in theirs.items()
            }
        if key == "peers":
            theirs = {
                name: {k: v for k, v in peer.items() if k not in OF_PEERS}
                for name, peer in theirs.items()
            }
        compare(mine, theirs, key)


def compare(mine: Any, theirs: Any, where: str) -> None:
    if isinstance(theirs, dict):
        assert mine.keys() == theirs.keys(), where
        for key in theirs:
            compare(mine[key], theirs[key], f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(mine) == len(theirs), where
        for i, pair in enumerate(zip(mine, theirs, strict=True)):
            compare(*pair, f"{where}.{i}")
    elif isinstance(theirs, float):
        assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-12), where
    else:
        assert mine == theirs, where


class RecordingFeed(Feed):
    """Writes rows and events into a log; those numbered `lost` never reach it."""

    records = True

    def __init__(self, session: Stepping, folder: Path, pace: str) -> None:
        super().__init__(build_topics(session.numerics))
        metadata = {**numerics_metadata(session.numerics), "pace": pace}
        begin = Begin(str(folder), "test", EPOCH_NS, self.topics, [], metadata)
        self.recording = Recording(begin, report_accumulator.ReportAccumulator.of)
        self.lost: set[int] = set()
        self._times: list[int] = []
        self._rows: list[np.ndarray] = []

    def commit(self, t_ns: int) -> None:
        if self.rows in self.lost or len(self._rows) == BATCH:
            self._flush()
        if self.rows not in self.lost:
            self._times.append(t_ns)
            self._rows.append(self.row.copy())
        self.rows += 1
        if self.rows - 1 in self.lost:
            self.dropped += 1

    def _flush(self) -> None:
        if self._rows:
            first = self.rows - len(self._rows)
            times = np.array(self._times, dtype=np.int64)
            self.recording.batch(first, times, np.array(self._rows))
            self.recording.flush()
            self._times, self._rows = [], []

    def event(
        self,
        t_ns: int,
        level: Level,
        cause: str,
        source: str,
        text: str,
        value: float | None = None,
    ) -> None:
        self.recording.event(RecordEvent(t_ns, level, cause, source, text, value))

    def finish(self, summary: dict[str, Any]) -> Path:
        self._flush()
        data = json.dumps(summary, allow_nan=False).encode()
        self.recording.finish(RecordEnd(data, self.rows, self.events))
        return self.recording.path


def record(
    session: Stepping,
    folder: Path,
    duration_s: float,
    *,
    clock: VirtualClock | None = None,
    prepare: Callable[[Master, RecordingFeed], None] = lambda master, feed: None,
) -> tuple[dict[str, Any], Path]:
    """Run it, by a clock or as fast as possible; its summary, and its log."""
    pace: Pace = session.as_fast_as_possible() if clock is None else session.real_time(clock)
    feed = RecordingFeed(session, folder, "asap" if clock is None else "realtime")
    publisher, alarms = StatusPublisher(None, "test", duration_s), AlarmHistory()
    master = make_master(session.assembled, pace, feed, publisher, alarms=alarms)
    prepare(master, feed)
    epoch_ns, fault = 0 if clock is None else clock.now_ns(), None
    try:
        asyncio.run(master.run(round(duration_s * 1e9), epoch_ns))
    except HilrtError as error:
        fault = str(error)
        feed.event(master.progress.t_ns, "error", "session", "session", f"RUNNING -> SAFE: {fault}")
    end = "STOPPED" if fault is None else "FAULT"
    feed.event(master.progress.t_ns, "info", "session", "session", f"RUNNING -> {end}: over")
    told = alarms.as_json(master.progress.t_ns * 1e-9)
    run = RunFacts("test", end, 1.0, clock is not None, fault, feed.dropped, alarms=told)
    summary = build_summary(*session.assembled[:2], master.progress, run)
    return summary, feed.finish(summary)
