"""Read a session's log: `load_log`, and `LogStream` for logs larger than memory.

A truncated log (power failure, kill -9, full disk) is read as far as it is intact.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from mcap import records
from mcap.opcode import Opcode
from numpy.typing import NDArray

from hilrt.errors import RecordError
from hilrt.files.formats import parse_json
from hilrt.record.find_log import find_log
from hilrt.record.messages import EVENTS, LEVELS, Signal, signals_in
from hilrt.record.record_file import (
    HEAD,
    Chunk,
    RecordFile,
    Run,
    find_messages,
    gather,
    read_attachment,
    read_metadata,
    record_type,
    stream_of,
)
from hilrt.solver import Floats

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: Offsets in a message record, bytes from its start.
_SEQUENCE, _DATA = 11, 31
_STAMP = struct.Struct("<IQ")
_LEVEL_NAMES = {number: name for name, number in LEVELS.items()}


@dataclass(frozen=True)
class LogEvent:
    """Event of a log.

    Attributes
    ----------
    t : float
        Session time, s.
    level : str
        ``"info"``, ``"warning"``, ``"error"``, …
    cause : str
        Cause (docs/reference/events.md).
    source : str
        Subsystem, or part of the session.
    text : str
        Description of the event.
    until : float or None
        Session time at which it ended, s, for an event that lasted.
    value : float or None
        Severity among events of one kind, larger is worse; `text` gives it with its unit.
    """

    t: float
    level: str
    cause: str
    source: str
    text: str
    until: float | None = None
    value: float | None = None


class LogChannel(NamedTuple):
    """Topic of the log, with the signals in each of its messages, in order."""

    topic: str
    signals: list[Signal]


class Block(NamedTuple):
    """Consecutive messages of one topic: times (n,) [ns of session time], values (n, signals).

    `rows` are their numbers since the start of the session, shape (n,): a jump is a gap.
    """

    channel: LogChannel
    times_ns: NDArray[np.int64]
    values: Floats
    rows: NDArray[np.int64] = np.empty(0, np.int64)


class Aside(NamedTuple):
    """Record that is not a row, and applies before row number `row`."""

    topic: str
    row: int
    t_ns: int
    data: bytes


@dataclass(repr=False)
class Log(Mapping[str, Floats]):
    """A recorded session: a mapping from signals, in the order of recording, to their values.

    ``log["engine.torque"]`` gives the values, shape (n,), in ``log.units["engine.torque"]``;
    ``log.time("engine.torque")`` gives their session times, shape (n,), s. NaN means that the
    signal had no fresh value at that tick; `held` repeats the last one.

    Attributes
    ----------
    path : Path
        The file.
    names : list of str
        Signals in the order of recording.
    units, sources : dict
        Unit and origin of each signal.
    events : list of LogEvent
        Events in order of time.
    attachments : dict
        File name to bytes: session file, databases, ``summary.json``.
    metadata : dict
        Versions, ``epoch_ns`` (wall clock at session time 0) and data added by the master.
    truncated : str
        Empty if the log is intact; otherwise the reason why it ends early.
    """

    path: Path
    names: list[str]
    units: dict[str, str]
    sources: dict[str, str]
    events: list[LogEvent]
    attachments: dict[str, bytes]
    metadata: dict[str, str]
    truncated: str
    _where: dict[str, tuple[str, int]] = field(repr=False)
    _times: dict[str, NDArray[np.int64]] = field(repr=False)
    _values: dict[str, list[Floats]] = field(repr=False)

    def __getitem__(self, name: str) -> Floats:
        topic, column = self._find(name)
        blocks = [block[:, column] for block in self._values.get(topic, [])]
        return np.concatenate(blocks) if blocks else np.empty(0)

    def held(self, name: str) -> Floats:
        """Values of a signal, shape (n,), with NaN replaced by the last fresh value.

        Outputs of a subsystem that is late, or whose ``every`` is above 1, are NaN between their
        own samples in ``log[name]``. Values before the first sample stay NaN.
        """
        values = self[name]
        fresh = np.where(np.isnan(values), 0, np.arange(len(values)))
        held: Floats = values[np.maximum.accumulate(fresh)]
        return held

    def __contains__(self, name: object) -> bool:
        return name in self._where

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def time_ns(self, name: str) -> NDArray[np.int64]:
        """Session times of a signal's values, shape (n,), ns."""
        return self._times.get(self._find(name)[0], np.empty(0, np.int64))

    def time(self, name: str) -> Floats:
        """Session times of a signal's values, shape (n,), s."""
        return self.time_ns(name) / 1e9

    @property
    def t(self) -> Floats:
        """Session times of the ticks, shape (n,), s; these are the times of the first signal."""
        return self.time(self.names[0])

    def __repr__(self) -> str:
        """One line with the extent of the log."""
        rows = len(self.t) if self.names else 0
        counts = f"{len(self.names):,} signals, {rows:,} rows, {len(self.events):,} events"
        return f"<Log {self.path}: {counts}>"

    def to_pandas(self, names: str | Iterable[str] | None = None) -> pd.DataFrame:
        """Signals as the columns of a `pandas.DataFrame`; needs the extra ``hilrt[pandas]``.

        Parameters
        ----------
        names : str, or iterable of str, optional
            Signals in the order of the columns, or patterns as for `plot`; default: all.

        Returns
        -------
        DataFrame, shape (n, n_signals)
            The index ``t`` is session time, s. If signals have different times, as in imported
            logs, those without a value at a time are NaN; so are outputs between the samples of a
            subsystem with ``every`` above 1: ``frame.ffill()`` repeats the last ones, as `held`
            does. ``attrs["units"]`` maps names to units.

        Raises
        ------
        KeyError
            For a signal that the log does not have.
        RecordError
            Without pandas; or if signals of different times have several values at one time.
        """
        from hilrt.record.notebook import chosen, to_pandas

        patterns = [names] if isinstance(names, str) else names
        return to_pandas(self, self.names if patterns is None else chosen(self, patterns))

    def topic(self, name: str) -> str:
        """Topic of a signal, such as ``outputs``, ``sent`` or ``timing``."""
        return self._find(name)[0]

    def plot(self, *names: str) -> Figure:
        """Plot signals over session time, with one pair of axes per unit.

        Parameters
        ----------
        *names : str
            Signals, or patterns of them: ``"engine.*"`` matches the ports of a subsystem,
            ``"engine.*:*"`` signals that the session derived from them, such as inputs as sent and
            defects. Default: the main signals, that is set-points as demanded, sent and measured,
            then the bonds, then other outputs.

        Returns
        -------
        matplotlib.figure.Figure
            A notebook shows it if it is the last value of a cell. Where a signal had no fresh
            value (NaN), the previous one is drawn.

        Raises
        ------
        KeyError
            For a signal that the log does not have.
        RecordError
            Without matplotlib, which the extra ``hilrt[report]`` installs.
        """
        from hilrt.record.notebook import plot

        return plot(self, names)

    def _repr_html_(self) -> str:
        """Summary for notebooks: the log's extent, and the main signals with sparklines."""
        from hilrt.record.notebook import log_html

        return log_html(self)

    def _find(self, name: str) -> tuple[str, int]:
        try:
            return self._where[name]
        except KeyError:
            from hilrt.config.from_toml import nearest

            hint = nearest(name, self.names)
            raise KeyError(f"{self.path}: no signal {name!r}{hint}") from None


def load_log(path: str | Path) -> Log:
    """Read a recorded session.

    Parameters
    ----------
    path : str or Path
        ``session.mcap``, the run's folder, or a pattern such as ``runs/NAME-*``, of which the
        newest match is read.

    Raises
    ------
    RecordError
        If there is no log, it cannot be read, or it was not written by hilrt. A truncated log is
        read as far as it is intact, with a warning in Python's log and in `Log.truncated`.
    """
    stream = LogStream(find_log(path))
    times: dict[str, list[NDArray[np.int64]]] = {}
    values: dict[str, list[Floats]] = {}
    for block in stream.blocks():
        times.setdefault(block.channel.topic, []).append(block.times_ns)
        values.setdefault(block.channel.topic, []).append(block.values)
    log = make_log(
        stream.path,
        list(stream.channels.values()),
        {topic: np.concatenate(blocks) for topic, blocks in times.items()},
        values,
        stream.events,
        stream.metadata,
    )
    log.attachments, log.truncated = stream.attachments, stream.damage
    if log.truncated:
        logging.getLogger(__name__).warning(
            "%s: is incomplete: %s; the part before that was read", log.path, log.truncated
        )
    return log


def make_log(
    path: Path,
    channels: Sequence[LogChannel],
    times: dict[str, NDArray[np.int64]],
    values: dict[str, list[Floats]],
    events: Iterable[LogEvent],
    metadata: dict[str, str],
) -> Log:
    """Create a log from data that were read, or kept in memory.

    Parameters
    ----------
    path : Path
        Origin of the data.
    channels : sequence of LogChannel
        Topics and their signals.
    times, values : dict
        For each topic, session times [ns], shape (n,), and blocks of rows, shape (·, n_signals).
    events : iterable of LogEvent
        Events in any order.
    metadata : dict
    """
    signals = [signal for channel in channels for signal in channel.signals]
    return Log(
        path=path,
        names=[signal.name for signal in signals],
        units={signal.name: signal.unit for signal in signals},
        sources={signal.name: signal.source for signal in signals},
        events=sorted(events, key=lambda event: event.t),
        attachments={},
        metadata=metadata,
        truncated="",
        _where={
            signal.name: (channel.topic, column)
            for channel in channels
            for column, signal in enumerate(channel.signals)
        },
        _times=times,
        _values=values,
    )


class LogStream(RecordFile):
    """Log read piece by piece, for files larger than memory.

    While `blocks` runs, all other contents are collected in the attributes.

    Parameters
    ----------
    path : Path
        The file.
    asides : collection of str
        Topics without rows (of `ASIDES`) to collect.

    Attributes
    ----------
    asides : deque of Aside
        Records of these topics, each before the row that it belongs to; the caller must empty it.
    channels : dict of int to LogChannel
        Topics with their signals, by the ids of the channels in the file.
    events, attachments, metadata
        As in `Log`.
    damage : str
        Reason why reading ended early; empty for an intact file.
    """

    def __init__(self, path: Path, asides: Collection[str] = ()) -> None:
        super().__init__(path)
        self.asides: deque[Aside] = deque()
        self._wanted = asides
        self._aside_channels: dict[int, str] = {}
        self.channels: dict[int, LogChannel] = {}
        self.events: list[LogEvent] = []
        self.attachments: dict[str, bytes] = {}
        self.metadata: dict[str, str] = {}
        self._event_channels: set[int] = set()

    def blocks(self) -> Iterator[Block]:
        """Rows in the order of the file, about a second of one topic at a time.

        Raises
        ------
        RecordError
            If the file cannot be read, or has no signals written by hilrt.
        """
        yield from self.read(self._read_record)
        if not self.channels:
            raise RecordError(
                f"{self.path}: has no signals; it was not written by hilrt (`hilrt import` takes "
                "files of other tools), or it was truncated before the first"
            )

    def _read_record(self, kind: int, body: bytes | Chunk) -> list[Block]:
        if isinstance(body, Chunk):
            return self._read_chunk(body.data)
        if kind == Opcode.METADATA:
            self.metadata.update(read_metadata(body).metadata)
        elif kind == Opcode.ATTACHMENT:
            attachment = read_attachment(body)
            self.attachments[attachment.name] = attachment.data
        return []

    def _read_chunk(self, data: bytes) -> list[Block]:
        runs, others = find_messages(data)
        for kind, begin, end in others:
            if kind == Opcode.CHANNEL:
                self._read_channel(data[begin:end])
        epoch_ns = int(self.metadata["epoch_ns"])
        for channel_id in self._event_channels & runs.keys():
            self.events += [_event(body) for _, _, body in _messages(data, runs[channel_id])]
        for channel_id, topic in self._aside_channels.items():
            for row, log_time, body in _messages(data, runs.get(channel_id, [])):
                self.asides.append(Aside(topic, row, log_time - epoch_ns, body))
        return [
            _block(data, runs[channel_id], channel, epoch_ns)
            for channel_id, channel in self.channels.items()
            if channel_id in runs
        ]

    def _read_channel(self, body: bytes) -> None:
        channel = records.Channel.read(stream_of(body))
        if "signals" in channel.metadata:
            signals = signals_in(channel.metadata["signals"])
            self.channels[channel.id] = LogChannel(channel.topic.removeprefix("/"), signals)
        elif channel.topic == EVENTS:
            self._event_channels.add(channel.id)
        elif channel.topic in self._wanted:
            self._aside_channels[channel.id] = channel.topic


def _messages(data: bytes, runs: list[Run]) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, time and content of each message."""
    for run in runs:
        for start in (run.first + i * run.period for i in range(run.number)):
            size = HEAD.unpack_from(data, start)[1]
            row, log_time = _STAMP.unpack_from(data, start + _SEQUENCE)
            yield row, log_time, data[start + _DATA : start + HEAD.size + size]


def _block(data: bytes, runs: list[Run], channel: LogChannel, epoch_ns: int) -> Block:
    """Times and values of a topic's messages."""
    parts = gather(data, runs, record_type(len(channel.signals)))
    times, values, numbers = (
        np.concatenate([part[key] for part in parts]) for key in ("log_time", "values", "sequence")
    )
    return Block(
        channel,
        times.astype(np.int64, copy=False) - epoch_ns,
        values.astype(np.float64, copy=False),
        numbers.astype(np.int64),
    )


def _event(data: bytes) -> LogEvent:
    body = parse_json(data)
    return LogEvent(
        t=float(body["t"]),
        level=_LEVEL_NAMES.get(body["level"], "info"),
        cause=body["cause"],
        source=body["name"],
        text=body["message"],
        until=body.get("until"),
        value=body.get("value"),
    )
