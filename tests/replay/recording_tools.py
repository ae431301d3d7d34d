"""Sessions recorded in this process, as fast as possible: no recorder process, no wall clock."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.check.check_monitor import build_trigger
from hilrt.config.session_file import SessionFile, load_session
from hilrt.exchange.master import Master
from hilrt.link import Ports
from hilrt.monitor.status import StatusPublisher
from hilrt.record.feed import Feed
from hilrt.record.messages import ASIDE, Attachment, Begin, RecordEnd, Topic, Trigger
from hilrt.record.recording import Recording
from hilrt.session.assembly import as_fast_as_possible, assemble
from hilrt.session.initialization import initialize
from hilrt.session.observers import make_master
from hilrt.session.opening import Connected, connect, describe
from hilrt.solver import Floats, InputPolynomial, Sample
from hilrt.step.changes import Changes
from hilrt.step_log.facts import attachments_of, collect_facts
from hilrt.step_log.signals import RowWriter, build_topics
from hilrt.step_log.snapshot import Snapshots
from tests.stepping import MemoryLink

CONFIGS = Path(__file__).parents[2] / "bench_configs"
EPOCH_NS = 1_780_000_000_000_000_000
#: Numbers that an operator changes now and then.
ADJUSTABLE = ("reliability.power_residual", "reliability.tracking", "bonds.bond.cap")


class DirectFeed(Feed):
    """Writes the log itself; rows in `lost` do not reach it, as when the recorder cannot follow.

    Parameters
    ----------
    lost : sequence of int
        Numbers of rows.
    """

    records = True

    def __init__(self, topics: Sequence[Topic], *, lost: Sequence[int] = ()) -> None:
        super().__init__(topics)
        self.lost = set(lost)
        self.recording: Recording | None = None

    def open(
        self,
        folder: Path,
        attachments: list[Attachment],
        metadata: dict[str, str],
        trigger: Trigger | None = None,
    ) -> None:
        head = Begin(str(folder), "test", EPOCH_NS, list(self.topics), attachments, metadata)
        head.trigger = trigger
        self.recording = Recording(head)

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
        self.recording.finish(RecordEnd(b"{}", self.rows, 0))
        return self.recording.path


def head_of(file: SessionFile) -> dict[str, str]:
    """What a session notes of itself in the log's metadata."""
    return {"overrides": json.dumps(file.overrides), "session_file": file.path.name}


def record_file(
    name: str,
    folder: Path,
    *overrides: str,
    duration: float,
    lost: Sequence[int] = (),
    on_master: Callable[[Master], None] | None = None,
    shadow: bool = False,
) -> Path:
    """Run a session file whose subsystems are all in this process; returns the log.

    `on_master` is called with the master before it runs.
    """
    file = load_session(CONFIGS / name, overrides)
    return asyncio.run(_record(file, folder, duration, lost, on_master, shadow))


async def _record(
    file: SessionFile,
    folder: Path,
    duration: float,
    lost: Sequence[int],
    on_master: Callable[[Master], None] | None,
    shadow: bool,
) -> Path:
    tables = file.tables
    connected = await connect(describe(file), limited=False)
    links = connected.links
    initialized = await initialize(connected)
    assembled = await assemble(initialized, renews=True, shadow=shadow)
    initialized = assembled.initialized or initialized
    feed = DirectFeed(build_topics(assembled.numerics), lost=lost)
    facts = collect_facts(links, assembled.numerics, initialized.samples, initialized.u0)
    trigger = build_trigger(tables, feed.topics)
    feed.open(folder, attachments_of(file, links, facts), head_of(file), trigger)
    pace = as_fast_as_possible(assembled, tables, links)
    master = make_master(assembled, pace, feed, StatusPublisher(None, "test", duration))
    if on_master is not None:
        on_master(master)
    await master.run(round(duration * 1e9), 0)
    for link in links:
        await link.close()
    return feed.finish()


# -- sessions in memory, with benches and answers that come late ----------------------------------


def toml(value: Any) -> str:
    """A value as TOML; tables are inline."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items())
        return f"{{{inside}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value) if isinstance(value, (str, bool, int)) else repr(float(value))


class Erratic(MemoryLink):
    """A subsystem that answers anything, at times late, in part, or with what is no number.

    Everything follows from the seed.
    """

    def __init__(
        self,
        name: str,
        ports: Ports,
        seed: int,
        *,
        physical: bool,
        derivatives: int,
        trouble: float,
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._trouble, self._derivatives = trouble, derivatives
        self._y = self._rng.normal(size=len(ports.outputs))
        super().__init__(name, self, physical=physical, hold_back=self._hold_back)
        self.inputs, self.outputs = ports

    def _hold_back(self, tick: int) -> int:
        return int(self._rng.integers(1, 4)) if self._rng.random() < self._trouble else 0

    async def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(self._y.copy())

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        rng, n = self._rng, len(self._y)
        pull = 0.3 * float(np.sum(np.nan_to_num(u(t + h)))) if len(self.inputs) else 0.0
        self._y = 0.9 * self._y + 0.1 * np.tanh(pull) + rng.normal(scale=0.05, size=n)
        sample = Sample(self._y.copy())
        if rng.random() < 0.5:
            sample.y_mid = self._y + rng.normal(scale=0.01, size=n)
        if self._derivatives and rng.random() < 0.8:
            sample.dy = rng.normal(size=(self._derivatives, n))
            sample.dy[:, rng.random(n) < 0.2] = np.nan
        if self.physical:
            sample.realised = u(t + h) + rng.normal(scale=0.01, size=len(self.inputs))
            sample.t_valid = t + h - rng.uniform(0.0, h, size=n)
            sample.t_valid[rng.random(n) < self._trouble] = np.nan
        if rng.random() < 0.3 * self._trouble:
            sample.y[int(rng.integers(n))] = rng.choice([np.nan, np.inf, -np.inf])
        return sample


def record_erratic(
    folder: Path,
    tables: dict[str, Any],
    links: Sequence[Erratic],
    steps: int,
    *,
    lost: Sequence[int] = (),
    seed: int = 0,
) -> Path:
    """Record a session of such subsystems, stepped by hand; returns the log."""
    text = "\n".join(f"{key} = {toml(value)}" for key, value in tables.items())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "erratic.toml"
    path.write_text(text, encoding="utf-8")
    file = load_session(path)
    for link in links:
        link.options, link.folder = file.tables.subsystems[link.name], folder
    initialized = asyncio.run(initialize(Connected.of(links, file.tables, folder)))
    numerics, exchange, _ = asyncio.run(assemble(initialized))
    feed = DirectFeed(build_topics(numerics), lost=lost)
    facts = collect_facts(links, numerics, initialized.samples, initialized.u0)
    feed.open(folder, attachments_of(file, links, facts), head_of(file))
    changes, row = Changes(numerics.network), RowWriter(numerics, exchange.channels, feed.row)
    snapshots = Snapshots(feed, numerics, changes)
    given, slack = numerics.given, numerics.slack
    rng = np.random.default_rng(seed)
    t_ns = elapsed_ns = 0
    for tick in range(steps):
        exchange.cut(tick, t_ns, elapsed_ns)
        given.session["apply"], slack["missed"] = rng.random() < 0.8, rng.random() < 0.1
        slack["learns"] = rng.random() < 0.7
        for _ in range(int(rng.integers(12)) if rng.random() < 0.05 else 0):
            number = ADJUSTABLE[int(rng.integers(len(ADJUSTABLE)))]
            changes.add(number, float(rng.uniform(0.01, 1.0)))
        changes.put_into(given)
        given.session["renewed"] = given.gamma.size and rng.random() < 0.02
        if given.session["renewed"][0]:
            given.gamma[...] = numerics.state.model.gamma * rng.uniform(0.8, 1.2)
        numerics.macro_step()
        h_ns = round(numerics.h_next * 1e9)
        exchange.dispatch(t_ns, h_ns)
        numerics.assess()
        row.fill(h_ns / 1e9, 0, 0)
        snapshots.record(t_ns)
        feed.commit(t_ns)
        t_ns, elapsed_ns = t_ns + h_ns, h_ns
    return feed.finish()
