"""Frames of a recorded log as arrays over time: the signals of chosen messages."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hilrt.can.database import SignalRef
from hilrt.can.frame_decoder import FrameDecoder
from hilrt.can.id_table import without_priority
from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError, RecordError
from hilrt.logs.message_topics import NO_DATA, MessageTopics
from hilrt.logs.open_source import open_source
from hilrt.record.logged_frame import LoggedFrame
from hilrt_adapters.recorded_tracks import RecordedTracks, Track

if TYPE_CHECKING:
    from cantools.database.can import Message

#: Time since the log's first frame [s] and value, of each sample.
Samples = list[tuple[float, float]]
#: Frames that are examined before a log is read.
FIRST_FRAMES = 10


def check_frames(path: Path, label: str) -> list[str]:
    """Problems of a frame log that show in its first frames; the rest is not read."""
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
    return f"{label}: {path} has no frames; record it again"


def read_recording(
    path: Path, signals: Mapping[str, SignalRef], label: str, bus: str | None = None
) -> RecordedTracks:
    """Read the frames of a log in any format that `open_source` supports, and decode signals.

    Unreadable parts of the log are reported on standard error.

    Parameters
    ----------
    path : Path
        The log; its suffix determines the format.
    signals : mapping of str to SignalRef
        Output names and signals. Messages of a J1939 database are matched by parameter group if no
        frame has exactly the database's identifier.
    label : str
        Table and key of the log, for messages.
    bus : str, optional
        Bus of the log to read; default: all.

    Raises
    ------
    ConfigError
        If the log cannot be read, or a signal is missing or ambiguous.
    """
    reading = _read(path, signals, label, bus)
    samples: dict[str, Samples] = {}
    truncated = failures = count = 0
    empty: list[str] = []
    for message, senders in reading.messages:
        frames = _choose(message, senders, path, label)
        count += len(frames)
        wanted = {o: ref.signal.name for o, ref in signals.items() if ref.message is message}
        decoder = FrameDecoder(message, list(wanted.values()))
        samples |= _samples(decoder, frames, wanted, reading.first)
        truncated += decoder.counts.truncated
        failures += decoder.counts.failures + decoder.counts.formless
        told = "".join(f"; {text}" for text in decoder.counts.texts(message.name))
        empty += [
            f"{label}: none of the {len(frames)} frames of message {message.name} in {path} "
            f"carries a value of signal {signal!r} of output {output!r}{told}; "
            "check that database and log belong together"
            for output, signal in wanted.items()
            if not samples[output]
        ]
    if empty:
        raise ConfigError(empty)
    tracks = {output: _track(samples[output]) for output in signals}
    duration = (reading.last - reading.first) / 1e9
    return RecordedTracks(tracks, duration, count, truncated, failures)


def _read(path: Path, signals: Mapping[str, SignalRef], label: str, bus: str | None) -> _Reading:
    """Frames of the messages that contain the signals; `ConfigError` if there are none."""
    reading = _Reading(signals)
    source = open_source(path, label)
    try:
        frames = (frame for frame in source.frames() if not frame.flags & NO_DATA)
        reading.take(frames, bus)
    except (RecordError, ValueError) as error:
        raise ConfigError(f"{label}: {error}") from None
    finally:
        source.close()
    for note in source.notes:
        print(f"{label}: {path.name} is read without {note}", file=sys.stderr)
    if not reading.buses:
        raise ConfigError(_no_frames(path, label))
    if bus is not None and bus not in reading.buses:
        raise ConfigError(
            f"{label}: {path} has no frames on bus {bus!r}{nearest(bus, reading.buses)}"
        )
    return reading


def _samples(
    decoder: FrameDecoder,
    frames: Iterable[tuple[int, bytes]],
    wanted: Iterable[str],
    first_ns: int,
) -> dict[str, Samples]:
    """Samples of the outputs, in the order of the decoder's signals."""
    samples: dict[str, Samples] = {output: [] for output in wanted}
    for time_ns, data in frames:
        values = decoder.decode(data)
        for found, value in zip(samples.values(), values or (), strict=False):
            if not math.isnan(value):  # absent from the frame, or marked as not available
                found.append(((time_ns - first_ns) / 1e9, value))
    return samples


@dataclass
class _Sender:
    """Sender of a message: a bus, and for J1939 an address.

    `identifier` is the first one received; `frames` are times [ns] and data.
    """

    bus: str
    identifier: int
    frames: list[tuple[int, bytes]] = field(default_factory=list)


class _Reading:
    """Values read from the messages of some signals, kept apart by sender."""

    def __init__(self, signals: Mapping[str, SignalRef]) -> None:
        refs = list(signals.values())
        self.messages = [
            (message, list[_Sender]())
            for message in {id(ref.message): ref.message for ref in refs}.values()
        ]
        self.first, self.last = 1 << 62, -(1 << 62)
        self.buses: set[str] = set()
        carriers = [message for ref in refs for message in (ref.carrier, *ref.rivals)]
        self._known = MessageTopics(_OnEveryBus(carriers))

    def take(self, frames: Iterable[LoggedFrame], bus: str | None) -> None:
        """Add the data frames of a log, of one bus or of all."""
        wanted = {id(message): senders for message, senders in self.messages}
        by_topic: dict[str, _Sender] = {}
        for frame in frames:
            self.first, self.last = min(self.first, frame.time_ns), max(self.last, frame.time_ns)
            self.buses.add(frame.bus)
            if bus is not None and frame.bus != bus:
                continue
            for found, data in self._known.parts(frame):
                senders = wanted.get(id(found.message))
                if senders is None:
                    continue
                sender = by_topic.get(found.topic.name)
                if sender is None:
                    sender = by_topic[found.topic.name] = _Sender(found.bus, found.identifier)
                    senders.append(sender)
                sender.frames.append((frame.time_ns, data))


class _OnEveryBus:
    """The requested messages on every bus, with those that could be confused with them."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = list({id(message): message for message in messages}.values())

    def on_bus(self, bus: str) -> list[Message]:
        return self._messages

    def lost(self, buses: Collection[str]) -> list[str]:
        return []


def _choose(
    message: Message, senders: list[_Sender], path: Path, label: str
) -> list[tuple[int, bytes]]:
    """Frames of one sender: that with the database's identifier, or the only one.

    Of several buses, the one named like the database, if there is one.
    """
    if not senders:
        raise ConfigError(
            f"{label}: {path} contains no frames of message {message.name} "
            f"(0x{message.frame_id:X}); check that database and log belong together"
        )
    named = [sender for sender in senders if sender.bus == message.bus_name] or senders
    exact = without_priority(message, message.frame_id)
    own = [s for s in named if without_priority(message, s.identifier) == exact] or named
    if len(own) == 1:
        return own[0].frames
    buses = sorted({sender.bus for sender in own})
    if len(buses) > 1:
        raise ConfigError(
            f"{label}: {path} contains message {message.name} on several buses "
            f"({', '.join(map(repr, buses))}); choose one with bus = {buses[0]!r}"
        )
    told = ", ".join(f"0x{identifier:X}" for identifier in sorted(s.identifier for s in own))
    raise ConfigError(
        f"{label}: {path} contains message {message.name} from several senders ({told}); "
        "write the identifier of one of them into the database"
    )


def _track(pairs: Samples) -> Track:
    array = np.array(pairs, dtype=np.float64)
    array = array[np.argsort(array[:, 0], kind="stable")]  # channels may be out of order
    return Track(np.ascontiguousarray(array[:, 0]), np.ascontiguousarray(array[:, 1]))
