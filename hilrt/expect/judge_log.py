"""Expectations on a recorded log: one of a session, or one of another tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hilrt.expect.expectation import Expectation
from hilrt.expect.judge import Judge
from hilrt.expect.log_signals import LogSignals
from hilrt.expect.outcome import ResultEntry
from hilrt.files.json import parse_json
from hilrt.logs.columns import JoinedTable, tables
from hilrt.logs.export_csv import wanted_topics
from hilrt.logs.source import Source
from hilrt.record.messages import Topic


class JudgedLog(NamedTuple):
    """What the expectations on a log have come to.

    Attributes
    ----------
    outcomes : list of ResultEntry
        In the order of the expectations.
    time_s : float
        Length of the log as far as it was judged, s.
    notes : list of str
        What could not be read.
    """

    outcomes: list[ResultEntry]
    time_s: float
    notes: list[str]


def judge_log(source: Source, expectations: Sequence[Expectation]) -> JudgedLog:
    """Judge a log from its rows.

    Parameters
    ----------
    source : Source
    expectations : sequence of Expectation

    Raises
    ------
    ConfigError
        For signals that the log does not have, units that do not fit, and an unreadable log.
    """
    topics = source.topics()
    signals = signals_of(topics, source.metadata())
    wanted = set(Judge(expectations, signals, list(signals.units), 1.0).wanted)
    _refuse_ambiguous(topics, wanted, source)
    chosen = wanted_topics(topics, wanted)
    names = [signal.name for topic in chosen for signal in topic.signals]
    first, rows = _first_rows(tables(source.blocks(wanted), chosen))
    judge = Judge(expectations, signals, names, _step(first))
    last_ns = begin_ns = None
    for part in rows:
        begin_ns = int(part.times_ns[0]) if begin_ns is None else begin_ns
        last_ns = int(part.times_ns[-1])
        judge.take_rows(part.times_ns, part.values)
    span_ns = 0 if begin_ns is None or last_ns is None else last_ns - begin_ns
    return JudgedLog(judge.finish(), span_ns / 1e9, list(source.notes))


def signals_of(topics: Sequence[Topic], metadata: dict[str, str]) -> LogSignals:
    """Signals of a log; whether they are of a co-simulation, and which a bench has measured."""
    units = {signal.name: signal.unit for topic in topics for signal in topic.signals}
    topology, benches = _json(metadata.get("topology")), _json(metadata.get("benches"))
    connections = topology.get("connections") if isinstance(topology, dict) else None
    benches = set(map(str, benches)) if isinstance(benches, list) else set()
    measured = frozenset(
        name for name in units if ":" not in name and name.partition(".")[0] in benches
    )
    return LogSignals(units, bool(connections), measured)


def _json(text: str | None) -> Any:
    try:
        return parse_json(text or "null")
    except ValueError:  # of another version
        return None


def _refuse_ambiguous(topics: Sequence[Topic], wanted: set[str], source: Source) -> None:
    count = Counter(signal.name for topic in topics for signal in topic.signals)
    twice = sorted(name for name in wanted if count[name] > 1)
    if twice:
        raise source.fail(f"holds several signals of the name {twice[0]!r}; import it first")


def _first_rows(rows: Iterator[JoinedTable]) -> tuple[JoinedTable | None, Iterator[JoinedTable]]:
    """The first part with rows, and all of them."""
    for first in rows:

        def again(first: JoinedTable = first) -> Iterator[JoinedTable]:
            yield first
            yield from rows

        return first, again()
    return None, iter(())


def _step(first: JoinedTable | None) -> float:
    """The shortest time between two rows at the beginning, s."""
    if first is None:
        return 1.0
    steps = np.diff(first.times_ns)
    steps = steps[steps > 0]
    return float(steps.min()) * 1e-9 if len(steps) else 1.0
