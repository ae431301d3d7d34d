"""Recorded logs as arrays over time: signals as they stand in a file, or decoded frames."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hilrt.can.database import SignalRef
from hilrt.can.id_table import carries
from hilrt.can.library_errors import DECODE_ERRORS
from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError, RecordError
from hilrt.logs.open_source import open_source
from hilrt.logs.source import Source
from hilrt.record.logged_frame import FrameFlag, LoggedFrame
from hilrt.record.messages import Signal
from hilrt.solver import Floats

if TYPE_CHECKING:
    from cantools.database.can import Message

#: Frames by which a log is judged before it is read.
FIRST_FRAMES = 10


@dataclass(frozen=True)
class Track:
    """One signal of a recording.

    Attributes
    ----------
    times : ndarray, shape (n,)
        Time of every sample since the log's begin, s; ascending.
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
        Time from the log's begin to its end, s: first and last frame, or first and last row of the
        chosen signals.
    frames : int
        Frames that carry the wanted messages; rows, of a log of signals.
    truncated, failures : int
        Of these: shorter than the database says; not decoded at all.
    """

    tracks: dict[str, Track]
    duration: float
    frames: int
    truncated: int
    failures: int


# ---- signals as they stand in the file ---------------------------------------------------------


def find_signals(
    path: Path, outputs: Mapping[str, str], label: str, table: str, problems: list[str]
) -> dict[str, Signal | None]:
    """Signals of a file by output, from its head; None, and a problem, for one that it lacks.

    Parameters
    ----------
    path : Path
    outputs : mapping of str to str
        Output names and names of signals.
    label : str
        Table and key that name the file, for messages.
    table : str
        Table that lists the outputs.
    problems : list of str
        Extended with one line per signal that is not there.

    Raises
    ------
    ConfigError
        If the file cannot be read, or holds no signals.
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
    """Read the chosen signals of a log of signals; NaN is no sample.

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


# ---- signals in CAN frames ---------------------------------------------------------------------


def check_frames(path: Path, label: str) -> list[str]:
    """Problems of a log of frames that show in its first ones; the rest of it is not read."""
    try:
        source = open_source(path, label)
        try:
            first = list(itertools.islice(source.frames(), FIRST_FRAMES))
        finally:
            source.close()
    except ConfigError as error:
        return error.problems
    except (RecordError, ValueError) as error:
        return [f"{label}: {error}"]
    return [] if first else [_no_frames(path, label)]


def _no_frames(path: Path, label: str) -> str:
    return f"{label}: {path} contains no frames; record it again"


def read_recording(path: Path, signals: Mapping[str, SignalRef], label: str) -> RecordedTracks:
    """Read the frames of a log in any format that `open_source` knows, and decode signals.

    Parameters
    ----------
    path : Path
        The log; its suffix says the format.
    signals : mapping of str to SignalRef
        Output names and signals. Messages of a J1939 database are matched by parameter group if no
        frame has exactly the database's identifier.
    label : str
        Table and key that name the log, for messages.

    Raises
    ------
    ConfigError
        If the log cannot be read, or does not contain a signal.
    """
    messages = {ref.message.name: ref.message for ref in signals.values()}
    source = open_source(path, label)
    try:
        first, last, found = _collect(_data_frames(source), messages)
    except (RecordError, ValueError) as error:
        raise ConfigError(f"{label}: {error}") from None
    finally:
        source.close()
    if first > last:
        raise ConfigError(_no_frames(path, label))
    chosen = {
        name: _choose(message, found[name], path, label) for name, message in messages.items()
    }
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in signals}
    truncated = failures = 0
    for message_name, frames in chosen.items():
        message = messages[message_name]
        wanted = [(o, r.signal.name) for o, r in signals.items() if r.message is message]
        for time_ns, data in frames:
            truncated += len(data) < message.length
            try:
                values = message.decode(data, decode_choices=False, allow_truncated=True)
            except DECODE_ERRORS:
                failures += 1
                continue
            assert isinstance(values, dict)
            for output, signal in wanted:
                if signal in values:  # multiplexed or truncated: not in every frame
                    samples[output].append(((time_ns - first) / 1e9, float(values[signal])))  # type: ignore[arg-type]
    empty = [
        f"{label}: none of the {len(chosen[ref.message.name])} frames of message "
        f"{ref.message.name} in {path} carries signal {ref.signal.name!r} of output {output!r}; "
        "check that database and log belong together"
        for output, ref in signals.items()
        if not samples[output]
    ]
    if empty:
        raise ConfigError(empty)
    tracks = {output: _track(pairs) for output, pairs in samples.items()}
    count = sum(map(len, chosen.values()))
    return RecordedTracks(tracks, (last - first) / 1e9, count, truncated, failures)


#: Message name to identifier to the frames' times [ns] and data.
Found = dict[str, dict[int, list[tuple[int, bytes]]]]


def _data_frames(source: Source) -> Iterable[LoggedFrame]:
    skip = FrameFlag.ERROR | FrameFlag.REMOTE
    return (frame for frame in source.frames() if not frame.flags & skip)


def _collect(
    frames: Iterable[LoggedFrame], messages: Mapping[str, Message]
) -> tuple[int, int, Found]:
    """First and last time [ns], and the frames that may be the messages."""
    found: Found = {name: {} for name in messages}
    carriers: dict[tuple[int, int], list[str]] = {}
    first, last = 1 << 62, -(1 << 62)
    for frame in frames:
        first, last = min(first, frame.time_ns), max(last, frame.time_ns)
        key = (frame.identifier, frame.flags & FrameFlag.EXTENDED)
        if key not in carriers:
            carriers[key] = [n for n, m in messages.items() if carries(m, key[0], bool(key[1]))]
        for name in carriers[key]:
            by_id = found[name].setdefault(frame.identifier, [])
            by_id.append((frame.time_ns, frame.data))
    return first, last, found


def _choose(
    message: Message, by_id: dict[int, list[tuple[int, bytes]]], path: Path, label: str
) -> list[tuple[int, bytes]]:
    """Frames of one sender: those with the database's identifier, or the only ones there are."""
    if message.frame_id in by_id:
        return by_id[message.frame_id]
    if len(by_id) == 1:
        return next(iter(by_id.values()))
    if not by_id:
        raise ConfigError(
            f"{label}: {path} contains no frames of message {message.name} "
            f"(0x{message.frame_id:X}); check that database and log belong together"
        )
    senders = ", ".join(f"0x{identifier:X}" for identifier in sorted(by_id))
    raise ConfigError(
        f"{label}: {path} contains message {message.name} from several senders ({senders}); "
        "write the identifier of one of them into the database"
    )


def _track(pairs: list[tuple[float, float]]) -> Track:
    array = np.array(pairs, dtype=np.float64)
    array = array[np.argsort(array[:, 0], kind="stable")]  # logs of several channels may be mixed
    return Track(np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1]))
