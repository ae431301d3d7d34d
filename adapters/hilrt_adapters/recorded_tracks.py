"""Recorded logs as arrays over time, for signals stored in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError, RecordError
from hilrt.logs.open_source import open_source
from hilrt.record.messages import Signal
from hilrt.solver import Floats


@dataclass(frozen=True)
class Track:
    """One signal of a recording.

    Attributes
    ----------
    times : ndarray, shape (n,)
        Time of every sample since the log's beginning, s; ascending.
    values : ndarray, shape (n,)
        In the signal's unit.
    """

    times: Floats
    values: Floats


@dataclass(frozen=True)
class RecordedTracks:
    """Signals of a log.

    Attributes
    ----------
    tracks : dict of str to Track
        By output name.
    duration : float
        Time from the log's beginning to its end, s: first to last frame, or first to last row of
        the chosen signals.
    frames : int
        Frames with the requested messages; for a log of signals, its rows.
    truncated, failures : int
        Of these frames: shorter than in the database; not decoded, or only the part that does not
        depend on an unknown multiplexer value.
    """

    tracks: dict[str, Track]
    duration: float
    frames: int
    truncated: int
    failures: int


def find_signals(
    path: Path, outputs: Mapping[str, str], label: str, table: str, problems: list[str]
) -> dict[str, Signal | None]:
    """Signals of a file by output, from its head; None, and a problem, for a missing one.

    Parameters
    ----------
    path : Path
    outputs : mapping of str to str
        Output names and names of signals.
    label : str
        Table and key of the file, for messages.
    table : str
        Table that lists the outputs.
    problems : list of str
        Extended by one line per missing signal.

    Raises
    ------
    ConfigError
        If the file cannot be read, or contains no signals.
    """
    source = open_source(path, label)
    try:
        known = {signal.name: signal for topic in source.topics() for signal in topic.signals}
        frames_only = not known and next(source.frames(), None) is not None
    finally:
        source.close()
    if frames_only:
        raise ConfigError(
            f'{label}: {path} holds CAN frames; add database = "….dbc" to decode them'
        )
    problems += [
        f"{table} outputs.{output} = {name!r}: {path} has no such signal{nearest(name, known)}"
        for output, name in outputs.items()
        if name not in known
    ]
    return {output: known.get(name) for output, name in outputs.items()}


def read_signals(path: Path, outputs: Mapping[str, str], label: str) -> RecordedTracks:
    """Read the chosen signals of a log of signals; NaN means no sample.

    Parameters as for `find_signals`; `ConfigError` if it cannot be read, or a signal has no value.
    """
    wanted = set(outputs.values())
    parts: dict[str, list[tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Floats]]] = {}
    first, last, rows = 1 << 62, -(1 << 62), 0
    source = open_source(path, label)
    try:
        for block in source.blocks(wanted):
            rows += len(block.times_ns)
            first = min(first, int(block.times_ns[0]))
            last = max(last, int(block.times_ns[-1]))
            for column, signal in enumerate(block.channel.signals):
                values = block.values[:, column]
                keep = ~np.isnan(values)
                pair = (block.times_ns[keep], values[keep].copy())
                parts.setdefault(signal.name, []).append(pair)
    except RecordError as error:
        raise ConfigError(f"{label}: {error}") from None
    finally:
        source.close()
    tracks: dict[str, Track] = {}
    empty = []
    for output, name in outputs.items():
        pairs = parts.get(name, [])
        if not sum(len(times) for times, _ in pairs):
            empty.append(f"{label}: {path} has no value of signal {name!r} of output {output!r}")
            continue
        times = np.concatenate([t for t, _ in pairs])
        order = np.argsort(times, kind="stable")
        values = np.concatenate([v for _, v in pairs])
        tracks[output] = Track((times[order] - first) / 1e9, values[order])
    if empty:
        raise ConfigError(empty)
    return RecordedTracks(tracks, (last - first) / 1e9, rows, 0, 0)
