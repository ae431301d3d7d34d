"""The summary of a run, whenever it is asked for: after the last tick, or after a defect."""

from __future__ import annotations

import os
from typing import Any

from hilrt.expect.judge import Judge
from hilrt.master import Master
from hilrt.record.feed import Feed
from hilrt.session.observers import results_of
from hilrt.session.parts import SessionParts
from hilrt.session.summary import RunFacts, build_summary
from hilrt.timing.host import available_cpus, host_report
from hilrt.timing.monotonic import monotonic_ns
from hilrt.timing.processor_time import ProcessorTime


class RunSummary:
    """Keeps the run's own facts from its first tick on.

    Parameters
    ----------
    parts : SessionParts
    master : Master
    feed : Feed
    judge : Judge
    """

    def __init__(self, parts: SessionParts, master: Master, feed: Feed, judge: Judge) -> None:
        self._parts, self._master, self._feed, self._judge = parts, master, feed, judge
        host_report()  # it remembers what it reads: in the end there may be no descriptor for that
        pids = {"master": os.getpid(), **parts.processes.pids()}
        self._had = ProcessorTime(available_cpus(), pids)
        self._wall_s: float | None = None
        self._stolen_s: float | None = None
        self._shares: dict[str, float] = {}

    def loop_ended(self) -> None:
        """The last tick is over: time and processors are counted up to here."""
        parts = self._parts
        began_ns = parts.epoch_ns - self._master.progress.stretched_ns
        self._wall_s = (monotonic_ns() - began_ns) * 1e-9
        self._stolen_s = self._had.stolen() if parts.real_time else None
        self._shares = self._had.shares()

    def make(self, fault: str | None) -> dict[str, Any]:
        """The summary as things stand; `fault` is why the session ended early, if it did by one."""
        if self._wall_s is None:
            self.loop_ended()
        parts, master = self._parts, self._master
        facts = RunFacts(
            session=parts.name,
            end_state=str(parts.events.state),
            wall_s=self._wall_s or 0.0,
            stolen_s=self._stolen_s,
            processor_share=self._shares,
            real_time=parts.real_time,
            fault=fault,
            dropped_rows=self._feed.dropped,
            lost_events=self._feed.lost_events,
            secured=parts.secured,
            results=results_of(self._judge),
            columns=parts.events.columns,
            strangers={**parts.hub.protocol.unused.strangers(), **parts.operator.strangers},
        )
        return build_summary(master.numerics, master.exchange, master.progress, facts)
