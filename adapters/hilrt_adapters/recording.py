"""Recorded CAN logs: read by python-can, decoded by a database, as arrays over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import can
import numpy as np
from cantools.database import DecodeError
from cantools.database.can import Message

from hilrt.errors import ConfigError
from hilrt.solver import Floats
from hilrt_adapters.can import SignalRef

#: J1939: the identifier's bits that name the parameter group, without priority and sender; for
#: peer-to-peer groups (PDU format below 240) without the destination too.
_BROADCAST_GROUP = 0x03FFFF00
_PEER_GROUP = 0x03FF0000
_FIRST_BROADCAST_FORMAT = 240


@dataclass(frozen=True)
class Track:
    """One signal of a recording.

    Attributes
    ----------
    times : ndarray, shape (n,)
        Time of every sample since the log's first frame, s; ascending.
    values : ndarray, shape (n,)
        In the signal's unit.
    """

    times: Floats
    values: Floats


@dataclass(frozen=True)
class Recording:
    """Signals of a log.

    Attributes
    ----------
    tracks : dict of str to Track
        By output name.
    duration : float
        Time from the log's first frame to its last, s.
    frames : int
        Frames that carry the wanted messages.
    truncated, failures : int
        Of these: shorter than the database says; not decoded at all.
    """

    tracks: dict[str, Track]
    duration: float
    frames: int
    truncated: int
    failures: int


def read_recording(path: Path, signals: Mapping[str, SignalRef], label: str) -> Recording:
    """Read a log in any format that python-can reads and decode the wanted signals.

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
    found: dict[str, dict[int, list[tuple[float, bytes]]]] = {name: {} for name in messages}
    first, last = np.inf, -np.inf
    for frame in _frames(path, label):
        first, last = min(first, frame.timestamp), max(last, frame.timestamp)
        for name, message in messages.items():
            if carries(message, frame.arbitration_id, frame.is_extended_id):
                by_id = found[name].setdefault(frame.arbitration_id, [])
                by_id.append((frame.timestamp, bytes(frame.data)))
    if not np.isfinite(first):
        raise ConfigError(f"{label}: {path} contains no frames; record it again")
    chosen = {
        name: _choose(message, found[name], path, label) for name, message in messages.items()
    }
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in signals}
    truncated = failures = 0
    for message_name, frames in chosen.items():
        message = messages[message_name]
        wanted = [(o, r.signal.name) for o, r in signals.items() if r.message is message]
        for timestamp, data in frames:
            truncated += len(data) < message.length
            try:
                values = message.decode(data, decode_choices=False, allow_truncated=True)
            except (DecodeError, ValueError):
                failures += 1
                continue
            assert isinstance(values, dict)
            for output, signal in wanted:
                if signal in values:  # multiplexed or truncated: not in every frame
                    samples[output].append((timestamp - first, float(values[signal])))  # type: ignore[arg-type]
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
    return Recording(tracks, float(last - first), count, truncated, failures)


def _frames(path: Path, label: str) -> Iterator[can.Message]:
    """Data frames of a log; whatever a reader raises becomes a `ConfigError`."""
    count = 0
    try:
        with can.LogReader(path) as reader:
            for frame in reader:
                count += 1
                if not frame.is_error_frame and not frame.is_remote_frame:
                    yield frame
    except OSError as error:
        raise ConfigError(
            f"{label}: {path} cannot be read: {error.strerror or error}; check the path"
        ) from None
    except Exception as error:  # the readers of the formats raise all kinds
        raise ConfigError(
            f"{label}: {path} is not a log that python-can reads: after {count} frames: "
            f"{' '.join(str(error).split()) or type(error).__name__}; the suffix says the format "
            "(.log is candump's), and .mf4 needs hilrt[mdf]"
        ) from None


def carries(message: Message, identifier: int, extended: bool) -> bool:
    """Whether a frame with this identifier is the message, for J1939 from any sender."""
    if extended != message.is_extended_frame:
        return False
    if identifier == message.frame_id:
        return True
    if message.protocol != "j1939":
        return False
    broadcast = (message.frame_id >> 16) & 0xFF >= _FIRST_BROADCAST_FORMAT
    mask = _BROADCAST_GROUP if broadcast else _PEER_GROUP
    return (identifier ^ message.frame_id) & mask == 0


def _choose(
    message: Message, by_id: dict[int, list[tuple[float, bytes]]], path: Path, label: str
) -> list[tuple[float, bytes]]:
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
