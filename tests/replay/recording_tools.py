"""Sessions recorded in this process, as fast as possible: no recorder process, no wall clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hilrt import registry
from hilrt.assembly import build_numerics, initialize
from hilrt.config import SessionFile, load_session
from hilrt.jacobians import JacobianKeeper
from hilrt.master import Master
from hilrt.monitor.status import StatusPublisher
from hilrt.record.facts import attachments_of, collect_facts
from hilrt.record.feed import NullFeed
from hilrt.record.messages import ASIDE, Attachment, Begin, End, Topic
from hilrt.record.writer import Recording
from hilrt.signals import build_topics

CONFIGS = Path(__file__).parents[2] / "bench_configs"
EPOCH_NS = 1_780_000_000_000_000_000


class DirectFeed(NullFeed):
    """Writes the log itself; rows in `lost` do not reach it, as when the recorder cannot follow.

    Parameters
    ----------
    lost : sequence of int
        Numbers of rows.
    """

    def __init__(self, topics: Sequence[Topic], *, lost: Sequence[int] = ()) -> None:
        super().__init__(topics)
        self.lost = set(lost)
        self.recording: Recording | None = None

    def open(self, folder: Path, attachments: list[Attachment], metadata: dict[str, str]) -> None:
        self.recording = Recording(
            Begin(str(folder), "test", EPOCH_NS, list(self.topics), attachments, metadata)
        )

    def commit(self, t_ns: int) -> None:
        assert self.recording is not None
        if self.rows not in self.lost:
            self.recording.batch(self.rows, np.array([t_ns]), self.row[None].copy())
        self.rows += 1
        if self.rows % 50 == 0:
            self.recording.flush()

    def aside(self, topic: str, row: int, t_ns: int, data: bytes) -> None:
        assert self.recording is not None
        self.recording.aside(topic.encode(), ASIDE.pack(row, t_ns), data)

    def finish(self) -> Path:
        assert self.recording is not None
        self.recording.finish(End(b"{}", self.rows, 0))
        return self.recording.path


def head_of(file: SessionFile) -> dict[str, str]:
    """What a session notes of itself in the log's metadata."""
    return {"overrides": json.dumps(file.overrides), "session_file": file.path.name}


def record_file(
    name: str, folder: Path, *overrides: str, duration: float, lost: Sequence[int] = ()
) -> Path:
    """Run a session file whose subsystems are all in this process; returns the log."""
    file = load_session(CONFIGS / name, overrides)
    return asyncio.run(_record(file, folder, duration, lost))


async def _record(file: SessionFile, folder: Path, duration: float, lost: Sequence[int]) -> Path:
    tables = file.tables
    links: list[Any] = [
        registry.link_class(options.adapter)(name, options, file.folder)
        for name, options in tables.subsystems.items()
    ]
    for link in links:
        await link.open()
    initialized = await initialize(links, tables)
    plan, state, exchange = await build_numerics(links, tables, initialized, shadow=False)
    feed = DirectFeed(build_topics(plan), lost=lost)
    facts = collect_facts(links, plan, state, initialized.samples, initialized.u0)
    feed.open(folder, attachments_of(file, links, facts), head_of(file))
    master = Master(plan, state, exchange, None, feed, StatusPublisher(None, "test", duration))
    if state.model is not None:
        master.jacobians = JacobianKeeper(plan.network, tables, links, state.model)
    await master.run(round(duration * 1e9), 0)
    for link in links:
        await link.close()
    return feed.finish()
