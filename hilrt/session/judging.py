"""The expectations of a session that runs: their judge, and what becomes of its outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hilrt.config.structs import Session
from hilrt.expect.judge import Judge
from hilrt.expect.log_signals import LogSignals
from hilrt.expect.outcome import ResultEntry, outcome_line
from hilrt.expect.spec import expectations_of
from hilrt.link import Link
from hilrt.master import Master
from hilrt.monitor.telemetry import ResultStatus
from hilrt.record.feed import Feed
from hilrt.record.messages import Level
from hilrt.session.event_log import EventLog
from hilrt.timing.monotonic import monotonic_ns


def make_judge(tables: Session, links: Sequence[Link], feed: Feed, events: EventLog) -> Judge:
    """The judge of a session, whose rows are those of the feed.

    Raises
    ------
    ConfigError
        For expectations of signals that there are not, or whose units do not fit.
    """
    units = {signal.name: signal.unit for topic in feed.topics for signal in topic.signals}
    benches = {link.name for link in links if link.physical}
    coupled = bool(tables.connections)
    signals = LogSignals.of_session(
        units, coupled, benches, tables.calculated, tables.lookup_tables
    )
    judge = Judge(
        expectations_of(tables.expect), signals, list(units), tables.master.step, monotonic_ns
    )

    def tell(outcome: ResultEntry) -> None:
        text = f"{outcome.result}: {outcome_line(outcome)}"
        level: Level = "info" if outcome.result == "passed" else "warning"
        events.note(level, outcome.name, text, cause="expectation")
        events.publisher.add_result(ResultStatus(outcome.name, outcome.result, text))

    judge.on_outcome = tell
    judge.on_loss = lambda text: events.note("warning", "expectations", text, "expectation_lost")
    return judge


def results_of(master: Master) -> list[dict[str, Any]]:
    """Every outcome, as it stands in the summary; no more rows come."""
    if master.judge is None:
        return []
    found: list[dict[str, Any]] = msgspec.to_builtins(master.judge.finish())
    return found
