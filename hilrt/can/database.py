"""CAN databases: signals by name, and what their bits can carry."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import cantools
from cantools.database.can import Database, Message, Signal
from cantools.database.utils import start_bit

from hilrt.can.tolerant_loading import load_tolerantly
from hilrt.config.from_toml import nearest
from hilrt.config.units import UNSTATED
from hilrt.errors import ConfigError

# ---- the database ------------------------------------------------------------------------------


class SignalRef(NamedTuple):
    """A signal with the message that carries it."""

    message: Message
    signal: Signal

    @property
    def unit(self) -> str:
        """Unit as the database gives it."""
        return self.signal.unit or UNSTATED


def load_database(path: Path, label: str) -> Database:
    """Read a CAN database (DBC, ARXML, KCD, SYM).

    Of a DBC file with statements that cannot be read, the others are loaded; each that is left out
    is one line on standard error.

    Parameters
    ----------
    path : Path
    label : str
        Table and key that name it, for the message.

    Raises
    ------
    ConfigError
        If it cannot be read, with file, reason and remedy.
    """
    try:
        database = cantools.database.load_file(path, strict=False)
    except OSError as error:
        raise ConfigError(
            f"{label}: {path} cannot be read: {error.strerror}; "
            "give the database's path, relative to the session file"
        ) from None
    except Exception as error:  # the parsers of the formats raise all kinds
        saved = _readable_part(path)
        if saved is not None:
            return saved
        reason = getattr(error, "e_dbc", None) or error
        raise ConfigError(
            f"{label}: {path} is not a CAN database: {' '.join(str(reason).split())}; "
            "open it in an editor for databases and export it again"
        ) from None
    if not isinstance(database, Database):
        raise ConfigError(f"{label}: {path} is a diagnostics database; give one of CAN messages")
    return database


def _readable_part(path: Path) -> Database | None:
    """What can be read of a broken DBC file; what cannot goes to standard error."""
    if path.suffix.lower() != ".dbc":
        return None
    text = path.read_text(encoding="cp1252", errors="replace")
    load = partial(cantools.database.load_string, database_format="dbc", strict=False)
    saved = load_tolerantly(text, load)  # type: ignore[arg-type]
    if saved is None:
        return None
    for problem in saved[1]:
        print(f"{path.name} is read without {problem}", file=sys.stderr)
    return saved[0]


def find_signal(database: Database, ref: str, label: str) -> SignalRef:
    """Signal of ``Message.Signal``; `ConfigError` with the nearest names if there is none.

    So it is if there is one that cannot be coded.
    """
    message_name, dot, signal_name = ref.partition(".")
    if not dot:
        raise ConfigError(f"{label} = {ref!r}: write it as Message.Signal")
    messages = {message.name: message for message in database.messages}
    message = messages.get(message_name)
    if message is None:
        raise ConfigError(
            f"{label} = {ref!r}: the database has no message {message_name!r}"
            f"{nearest(message_name, messages)}"
        )
    if message.is_container:
        raise ConfigError(
            f"{label} = {ref!r}: message {message_name} contains others, which are not taken out "
            "of it; choose a signal of a message with a frame of its own"
        )
    signals = {signal.name: signal for signal in message.signals}
    if signal_name not in signals:
        raise ConfigError(
            f"{label} = {ref!r}: message {message_name} has no signal {signal_name!r}"
            f"{nearest(signal_name, signals)}"
        )
    for problem in _unusable(database.messages, message, signals[signal_name]):
        raise ConfigError(f"{label} = {ref!r}: {problem}; correct the database")
    return SignalRef(message, signals[signal_name])


def _unusable(messages: Sequence[Message], message: Message, signal: Signal) -> list[str]:
    """Why a signal cannot be coded, or not be told from another one."""
    problems = []
    if sum(other.name == message.name for other in messages) > 1:
        problems.append(f"the database has several messages {message.name}")
    problems += [
        f"messages {message.name} and {other.name} have the same identifier {other.frame_id:#x}"
        for other in messages
        if other.name != message.name
        and (other.frame_id, other.is_extended_frame)
        == (message.frame_id, message.is_extended_frame)
    ]
    if not message.is_container:
        first = start_bit(signal)
        if first + signal.length > 8 * message.length:
            problems.append(f"the signal goes beyond the message's {message.length} bytes")
        problems += [
            f"signal {other.name} of its message has the scale 0"
            for other in message.signals
            if not other.scale
        ]
    return problems


def representable(signal: Signal) -> tuple[float, float]:
    """Smallest and largest physical value that the signal's bits can carry."""
    if signal.is_float:
        return -math.inf, math.inf
    half = 1 << (signal.length - 1)
    raw = (-half, half - 1) if signal.is_signed else (0, 2 * half - 1)
    ends = sorted(float(signal.scale) * r + float(signal.offset) for r in raw)
    return ends[0], ends[1]


def inward(signal: Signal, minimum: float, maximum: float) -> tuple[float, float]:
    """Bounds moved inward to values that the signal carries exactly.

    Without it the rounding of a demand at its bound could leave the bound by half a bit.
    """
    if signal.is_float:
        return minimum, maximum
    scale, offset = float(signal.scale), float(signal.offset)
    ends = sorted(((minimum - offset) / scale, (maximum - offset) / scale))
    raw = math.ceil(ends[0] - 1e-6), math.floor(ends[1] + 1e-6)
    values = sorted(scale * r + offset for r in raw)
    return max(minimum, values[0]), min(maximum, values[1])
