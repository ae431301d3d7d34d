"""Check of expectations on a recorded log of a session or of another tool."""

from __future__ import annotations

import contextlib
import glob
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hilrt.config.from_toml import build
from hilrt.config.parse_toml import TomlError, parse_toml
from hilrt.config.session_file import apply_override
from hilrt.config.structs import Calculated, LookupEntry
from hilrt.errors import ConfigError
from hilrt.expect.expectation import Expectation, read_tables
from hilrt.expect.judge import Judge
from hilrt.expect.log_signals import LogSignals
from hilrt.expect.outcome import ResultEntry
from hilrt.files.formats import parse_json
from hilrt.logs.columns import JoinedTable, tables
from hilrt.logs.export_csv import wanted_topics
from hilrt.logs.open_source import format_of, open_source
from hilrt.logs.source import Source
from hilrt.record.messages import FILE_NAME, Topic

T = TypeVar("T", Calculated, LookupEntry)


class JudgedLog(NamedTuple):
    """Outcomes of the expectations on a log.

    Attributes
    ----------
    outcomes : list of ResultEntry
        Outcomes in the order of the expectations.
    time_s : float
        Length of the part of the log that was judged, s.
    notes : list of str
        Parts that could not be read.
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
    signals = signals_of(topics, source)
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


def signals_of(topics: Sequence[Topic], source: Source) -> LogSignals:
    """Signals of a log, with the facts about couplings and benches in its metadata."""
    metadata = source.metadata()
    units = {signal.name: signal.unit for topic in topics for signal in topic.signals}
    topology, benches = _json(metadata.get("topology")), _json(metadata.get("benches"))
    connections = topology.get("connections") if isinstance(topology, dict) else None
    benches = set(map(str, benches)) if isinstance(benches, list) else set()
    settings = settings_of(source)
    calculated = _entries(settings, "calculated", Calculated)
    lookup_tables = _entries(settings, "lookup_tables", LookupEntry)
    return LogSignals.of_session(units, bool(connections), benches, calculated, lookup_tables)


def _entries(settings: dict[str, Any], key: str, kind: type[T]) -> list[T]:
    """Readable entries of a list in a session file."""
    entries = settings.get(key)
    built = (build(kind, e, key, []) for e in entries) if isinstance(entries, list) else ()
    return [entry for entry in built if entry is not None]


def settings_of(source: Source) -> dict[str, Any]:
    """Session file in a log, with its overrides; empty if there is none."""
    metadata = source.metadata()
    files = {a.name: a.data for a in source.attachments() if a.name.endswith(".toml")}
    text = files.get(metadata.get("session_file", ""), next(iter(files.values()), b""))
    try:
        tables = parse_toml(text.decode())
        changes = parse_json(metadata.get("overrides") or "[]")
    except (UnicodeDecodeError, TomlError, ValueError):
        return {}
    for change in changes if isinstance(changes, list) else ():
        with contextlib.suppress(ConfigError):  # a file of another version
            apply_override(tables, str(change))
    return tables


def _json(text: str | None) -> Any:
    try:
        return parse_json(text or "null")
    except ValueError:  # another version
        return None


def _refuse_ambiguous(topics: Sequence[Topic], wanted: set[str], source: Source) -> None:
    count = Counter(signal.name for topic in topics for signal in topic.signals)
    twice = sorted(name for name in wanted if count[name] > 1)
    if twice:
        raise source.fail(f"has several signals named {twice[0]!r}; import it first")


def _first_rows(rows: Iterator[JoinedTable]) -> tuple[JoinedTable | None, Iterator[JoinedTable]]:
    """First part that has rows, and an iterator over all parts."""
    for first in rows:
        return first, itertools.chain([first], rows)
    return None, iter(())


def _step(first: JoinedTable | None) -> float:
    """Shortest time between two rows at the beginning, s."""
    if first is None:
        return 1.0
    steps = np.diff(first.times_ns)
    steps = steps[steps > 0]
    return float(steps.min()) / 1e9 if len(steps) else 1.0


#: Formats with signals; CAN logs need a database, and must be imported first.
FORMATS = ("mcap", "mf4", "csv", "parquet")


def log_files(paths: Iterable[Path]) -> list[Path]:
    """Logs in files and folders, in the given order; for a run's folder, its log.

    A path that does not exist may be a pattern with ``*``, ``?``, ``[…]`` and ``**``; its matches
    are in alphabetical order.

    Raises
    ------
    ConfigError
        For a path that does not exist, and if there is no log at all.
    """
    given = list(paths)
    found: dict[Path, None] = {}
    for path in (match for one in given for match in _matches(one)):
        if path.is_dir():
            found.update(dict.fromkeys(_in_folder(path)))
        elif path.exists():
            found[path] = None
        else:
            raise ConfigError(f"{path}: there is no such file; check the path")
    if not found:
        raise ConfigError(f"{', '.join(map(str, given))}: there is no log; give files or folders")
    return list(found)


def _matches(path: Path) -> list[Path]:
    text = str(path)
    if path.exists() or not glob.has_magic(text):
        return [path]
    found = [Path(one) for one in sorted(glob.glob(text, recursive=True))]
    if not found:
        raise ConfigError(f"{path}: nothing matches this pattern; check it")
    return found


def judge_file(
    path: Path, expectations: Sequence[Expectation] | None, time: str | None = None
) -> JudgedLog:
    """Judge a log, by default with the expectations in its own session file.

    Parameters
    ----------
    path : Path
    expectations : sequence of Expectation, optional
    time : str, optional
        Column of a CSV or Parquet file that holds the time.

    Raises
    ------
    ConfigError
        As for `judge_log`; also if the log has no expectations of its own.
    """
    source = open_source(path, time=time)
    try:
        chosen = _own(source) if expectations is None else expectations
        return judge_log(source, chosen)
    except ConfigError as error:
        known = str(path)
        lines = [line if known in line else f"{path}: {line}" for line in error.problems]
        left_out = [f"{path}: {note}" for note in source.notes]
        raise ConfigError([*lines, *left_out]) from None
    finally:
        source.close()


def _in_folder(folder: Path) -> list[Path]:
    """Log of a run's folder; for other folders, all logs below."""
    own = folder / FILE_NAME
    if own.is_file():
        return [own]
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and format_of(path) in FORMATS
    )


def _own(source: Source) -> list[Expectation]:
    """Expectations of the session file in a log."""
    found = read_tables(settings_of(source))
    if not found:
        raise source.fail("has no expectations of its own; give a TOML file with [[expect]]")
    return found
