"""Recorded logs as arrays over time: signals as they stand in a file, or decoded frames."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hilrt.can.database import SignalRef
from hilrt.can.frame import EXTENDED
from hilrt.can.frame_decoder import FrameDecoder
from hilrt.can.id_table import IdTable, without_priority
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
        Of these: shorter than the database says; not decoded, or only what does not depend on a
        multiplexer value that the database does not know.
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
    rivals = [rival for ref in signals.values() for rival in ref.rivals]
    source = open_source(path, label)
    try:
        first, last, found = _collect(_data_frames(source), messages, rivals)
    except (RecordError, ValueError) as error:
        raise ConfigError(f"{label}: {error}") from None
    finally:
        source.close()
    if first > last:
        raise ConfigError(_no_frames(path, label))
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in signals}
    truncated = failures = count = 0
    empty: list[str] = []
    for message_name, message in messages.items():
        frames = _choose(message, found[message_name], path, label)
        count += len(frames)
        wanted = {o: ref.signal.name for o, ref in signals.items() if ref.message is message}
        decoder = FrameDecoder(message, list(wanted.values()))
        for time_ns, data in frames:
            values = decoder.decode(data)
            for output, value in zip(wanted, values or (), strict=False):
                if not math.isnan(value):  # not in every frame, or marked as not available
                    samples[output].append(((time_ns - first) / 1e9, value))
        truncated += decoder.counts.truncated
        failures += decoder.counts.failures + decoder.counts.formless
        told = "".join(f"; {text}" for text in decoder.counts.texts(message_name))
        empty += [
            f"{label}: none of the {len(frames)} frames of message {message_name} in {path} "
            f"carries a value of signal {signal!r} of output {output!r}{told}; "
            "check that database and log belong together"
            for output, signal in wanted.items()
            if not samples[output]
        ]
    if empty:
        raise ConfigError(empty)
    tracks = {output: _track(pairs) for output, pairs in samples.items()}
    return RecordedTracks(tracks, (last - first) / 1e9, count, truncated, failures)


#: Message name to sender to the frames' times [ns] and data; a sender is the identifier that it
#: uses, without its priority, and the first identifier as it came.
Found = dict[str, dict[int, "_Sender"]]


class _Sender(NamedTuple):
    identifier: int
    frames: list[tuple[int, bytes]]


def _data_frames(source: Source) -> Iterable[LoggedFrame]:
    skip = FrameFlag.ERROR | FrameFlag.REMOTE
    return (frame for frame in source.frames() if not frame.flags & skip)


def _collect(
    frames: Iterable[LoggedFrame], messages: Mapping[str, Message], rivals: Iterable[Message]
) -> tuple[int, int, Found]:
    """First and last time [ns], and the frames that are the messages."""
    found: Found = {name: {} for name in messages}
    table = IdTable(((message, message) for message in messages.values()), rivals=rivals)
    first, last = 1 << 62, -(1 << 62)
    for frame in frames:
        first, last = min(first, frame.time_ns), max(last, frame.time_ns)
        wide = EXTENDED if frame.flags & FrameFlag.EXTENDED else 0
        message = table.find(frame.identifier | wide)
        if message is None:
            continue
        senders = found[message.name]
        sender = without_priority(message, frame.identifier)
        if sender not in senders:
            senders[sender] = _Sender(frame.identifier, [])
        senders[sender].frames.append((frame.time_ns, frame.data))
    return first, last, found


def _choose(
    message: Message, senders: dict[int, _Sender], path: Path, label: str
) -> list[tuple[int, bytes]]:
    """Frames of one sender: that of the database's identifier, or the only one there is."""
    own = senders.get(without_priority(message, message.frame_id))
    if own is not None:
        return own.frames
    if len(senders) == 1:
        return next(iter(senders.values())).frames
    if not senders:
        raise ConfigError(
            f"{label}: {path} contains no frames of message {message.name} "
            f"(0x{message.frame_id:X}); check that database and log belong together"
        )
    told = ", ".join(f"0x{sender.identifier:X}" for _, sender in sorted(senders.items()))
    raise ConfigError(
        f"{label}: {path} contains message {message.name} from several senders ({told}); "
        "write the identifier of one of them into the database"
    )


def _track(pairs: list[tuple[float, float]]) -> Track:
    array = np.array(pairs, dtype=np.float64)
    array = array[np.argsort(array[:, 0], kind="stable")]  # logs of several channels may be mixed
    return Track(np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1]))
