"""CAN databases: signals by name, and what their bits can carry."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import cantools
from cantools.database.can import Database, Message, Signal

from hilrt.config import nearest
from hilrt.errors import ConfigError
from hilrt.units import UNSTATED

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
        reason = getattr(error, "e_dbc", None) or error
        raise ConfigError(
            f"{label}: {path} is not a CAN database: {' '.join(str(reason).split())}; "
            "open it in an editor for databases and export it again"
        ) from None
    if not isinstance(database, Database):
        raise ConfigError(f"{label}: {path} is a diagnostics database; give one of CAN messages")
    return database


def find_signal(database: Database, ref: str, label: str) -> SignalRef:
    """Signal of ``Message.Signal``; `ConfigError` with the nearest names if there is none."""
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
    signals = {signal.name: signal for signal in message.signals}
    if signal_name not in signals:
        raise ConfigError(
            f"{label} = {ref!r}: message {message_name} has no signal {signal_name!r}"
            f"{nearest(signal_name, signals)}"
        )
    return SignalRef(message, signals[signal_name])


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
