"""CAN databases: signals by name, and the range of their bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cantools.database.can import Database, Message, Signal
from cantools.database.utils import start_bit

from hilrt.can.codec import LARGEST_FLOAT, multiplexers
from hilrt.can.id_table import can_id_of, indistinct, same_group, with_contained
from hilrt.can.read_database import read_database
from hilrt.config.from_toml import nearest
from hilrt.config.units import UNSTATED
from hilrt.errors import ConfigError
from hilrt.solver import Port

#: Assumed cycle time of a message without one in the database, ms: that of an emulated bench, and
#: the step of a new session.
DEFAULT_CYCLE_MS = 100

# ---- the database ------------------------------------------------------------------------------


class SignalRef(NamedTuple):
    """A signal with the message that carries it.

    `rivals` are the other J1939 messages of its parameter group, whose frames could be confused
    with it. `container` is the message whose frames contain its own (AUTOSAR), if any. `stated` is
    a unit that replaces the database's; empty for none.
    """

    message: Message
    signal: Signal
    rivals: tuple[Message, ...] = ()
    container: Message | None = None
    stated: str = ""

    @property
    def carrier(self) -> Message:
        """The message that has its own frames: its message, or the container."""
        return self.container or self.message

    @property
    def unit(self) -> str:
        """Unit as stated, or else from the database."""
        return self.stated or self.signal.unit or UNSTATED


def load_database(path: Path, label: str) -> Database:
    """Read a CAN database (DBC, ARXML, KCD, SYM).

    Unreadable statements of a DBC file are left out, each with a line on standard error; the others
    are loaded.

    Parameters
    ----------
    path : Path
        The file; for one that describes several buses, ``FILE:BUS`` is the part for one of them.
    label : str
        Table and key of the file, for messages.

    Raises
    ------
    ConfigError
        If it cannot be read, with file, reason and remedy.
    """
    file, bus = database_file(path)
    database = read_database(file, label)
    for message, _ in with_contained(database.messages):
        _mark_multiplexers(message)
    if bus is None:
        return database
    part = [message for message in database.messages if message.bus_name == bus]
    if not part:
        known = sorted({message.bus_name for message in database.messages if message.bus_name})
        raise ConfigError(f"{label}: {file} describes no bus {bus!r}{nearest(bus, known)}")
    return Database(part, strict=False)


def database_file(path: Path) -> tuple[Path, str | None]:
    """File of a database, and the bus after a colon, if there is one: ``FILE:BUS``."""
    name, colon, bus = path.name.rpartition(":")
    if colon and name and bus and not path.exists():
        return path.with_name(name), bus
    return path, None


def _mark_multiplexers(message: Message) -> None:
    """Mark signals that select others as multiplexers if the file does not."""
    unmarked = [signal for signal in multiplexers(message) if not signal.is_multiplexer]
    for signal in unmarked:
        signal.is_multiplexer = True
    if unmarked:
        message.refresh(strict=False)


def find_signal(database: Database, ref: str, label: str) -> SignalRef:
    """Signal of ``Message.Signal``; `ConfigError` with the nearest names if there is none.

    Also if the signal cannot be coded.
    """
    message_name, dot, signal_name = ref.partition(".")
    if not dot:
        raise ConfigError(f"{label} = {ref!r}: write it as Message.Signal")
    if any(message.is_container and message.name == message_name for message in database.messages):
        inner, _, signal_name = signal_name.partition(".")
        message_name = f"{message_name}.{inner}"
    message, container = _find_message(database, message_name, f"{label} = {ref!r}")
    signals = {signal.name: signal for signal in message.signals}
    if signal_name not in signals:
        raise ConfigError(
            f"{label} = {ref!r}: message {message_name} has no signal {signal_name!r}"
            f"{nearest(signal_name, signals)}"
        )
    others = database.messages if container is None else [message]
    for problem in _unusable(others, message, signals[signal_name]):
        raise ConfigError(f"{label} = {ref!r}: {problem}; correct the database")
    rivals = [
        other
        for other in database.messages
        if other is not message and same_group(message, other) and _on_one_bus(message, other)
    ]
    return SignalRef(message, signals[signal_name], tuple(rivals), container)


def _find_message(database: Database, name: str, label: str) -> tuple[Message, Message | None]:
    """Message of a name, with its container: ``Message``, or ``Container.Message``.

    Raises
    ------
    ConfigError
        If there is none, or if several containers have one.
    """
    own = {message.name: message for message in database.messages if not message.is_container}
    if name in own:
        return own[name], None
    inner = [pair for pair in with_contained(database.messages) if pair[1] is not None]
    found = [(m, box) for m, box in inner if box and name in (m.name, f"{box.name}.{m.name}")]
    if len(found) == 1:
        return found[0]
    if found:
        boxes = " or ".join(f"{box.name}.{m.name}" for m, box in found)
        raise ConfigError(f"{label}: several containers have a message {name}; write {boxes}")
    for box in database.messages:
        if box.is_container and box.name == name.partition(".")[0]:
            inside = ", ".join(message.name for message in box.contained_messages or ())
            raise ConfigError(
                f"{label}: message {box.name} contains other messages; choose one of {inside}"
            )
    known = [*own, *(message.name for message, _ in inner)]
    raise ConfigError(f"{label}: the database has no message {name!r}{nearest(name, known)}")


def _unusable(messages: Sequence[Message], message: Message, signal: Signal) -> list[str]:
    """Reason why a signal cannot be coded, or is ambiguous."""
    problems = []
    if sum(other.name == message.name for other in messages) > 1:
        problems.append(f"the database has several messages {message.name}")
    if [other.name for other in message.signals].count(signal.name) > 1:
        problems.append(f"message {message.name} has several signals {signal.name}")
    problems += [
        f"messages {message.name} and {other.name} have the same identifier {other.frame_id:#x}"
        for other in messages
        if other.name != message.name
        and can_id_of(other) == can_id_of(message)
        and _on_one_bus(message, other)
    ]
    if not message.is_container:
        first = start_bit(signal)
        if first + signal.length > 8 * message.length:
            problems.append(f"the signal extends beyond the message's {message.length} bytes")
        problems += [
            f"signal {other.name} of its message has the scale 0"
            for other in message.signals
            if not other.scale
        ]
    return problems


def _on_one_bus(message: Message, other: Message) -> bool:
    """Whether frames of both can occur on one bus; a file may describe several buses."""
    return message.bus_name == other.bus_name or not (message.bus_name and other.bus_name)


def check_distinct(
    refs: Sequence[SignalRef],
    label: str,
    remedy: str,
    source: Callable[[Message], int | None] = lambda message: None,
) -> list[str]:
    """J1939 messages whose frames cannot be distinguished from those of another one.

    Parameters
    ----------
    refs : sequence of SignalRef
        Signals to receive.
    label : str
        Table of the signals, for the message.
    remedy : str
    source : callable, optional
        Source address required for a message, if any.
    """
    messages = list({id(ref.carrier): ref.carrier for ref in refs}.values())
    rivals = [other for ref in refs for other in ref.rivals]
    problems = []
    for message, others in indistinct(messages, rivals, source):
        names = " or ".join(f"{other.name} (0x{other.frame_id:X})" for other in others)
        problems.append(
            f"{label}: no frame says whether it is message {message.name} "
            f"(0x{message.frame_id:X}) or {names}: they belong to the same parameter group and "
            "have the same source address;"
            f" {remedy}"
        )
    return problems


def representable(signal: Signal) -> tuple[float, float]:
    """Smallest and largest finite physical value that the signal's bits can represent."""
    half = 1 << (signal.length - 1)
    raw: tuple[float, float] = (-half, half - 1) if signal.is_signed else (0, 2 * half - 1)
    if signal.is_float:
        largest = LARGEST_FLOAT.get(signal.length, LARGEST_FLOAT[64])
        raw = -largest, largest
    ends = sorted(float(signal.scale) * r + float(signal.offset) for r in raw)
    return ends[0], ends[1]


def named_values(signal: Signal, low: float = -math.inf, high: float = math.inf) -> list[float]:
    """Physical values from `low` to `high` named in the signal's value table, ascending.

    A value that exceeds a bound only by rounding (3 · 0.1) counts as the bound.
    """
    scale, offset = float(signal.scale), float(signal.offset)
    values = sorted(scale * float(raw) + offset for raw in signal.choices or {})
    slack = rounding(signal)
    return [min(max(v, low), high) for v in values if low - slack <= v <= high + slack]


def rounding(signal: Signal) -> float:
    """Difference below which two physical values of a signal are equal."""
    return 1e-6 * abs(float(signal.scale))


def inward(signal: Signal, minimum: float, maximum: float) -> tuple[float, float]:
    """Bounds moved inward to values that the signal can represent exactly.

    Otherwise the rounding of a demand at its bound could exceed the bound by half a bit.
    """
    if signal.is_float:
        return minimum, maximum
    scale, offset = float(signal.scale), float(signal.offset)
    ends = sorted(((minimum - offset) / scale, (maximum - offset) / scale))
    raw = math.ceil(ends[0] - 1e-6), math.floor(ends[1] + 1e-6)
    values = sorted(scale * r + offset for r in raw)
    return max(minimum, values[0]), min(maximum, values[1])


#: Types of signals that are IEEE numbers, by number of bits.
_FLOATS: dict[int, type[np.floating[Any]]] = {16: np.float16, 32: np.float32}


def measured_port(name: str, ref: SignalRef) -> Port:
    """Output port of a signal, with the database's unit, range and comment."""
    low, high = declared_range(ref.signal)
    return Port(name, ref.unit, min=low, max=high, description=ref.signal.comment or "")


def declared_range(signal: Signal) -> tuple[float, float]:
    """Range declared by the database for a signal; infinite if there is none.

    Many databases contain [0|0] if no limits were chosen; this, and an empty range, count as none.
    A decoded value is a multiple of a raw step, which a bound need not be: a value within half a
    step of a bound is still inside.
    """
    low = -math.inf if signal.minimum is None else float(signal.minimum)
    high = math.inf if signal.maximum is None else float(signal.maximum)
    if not low < high:
        return -math.inf, math.inf
    return min(low, _carried(signal, low)), max(high, _carried(signal, high))


def _carried(signal: Signal, value: float) -> float:
    """Value as represented by the signal, rounded to the nearest raw step."""
    if math.isinf(value):
        return value
    if signal.is_float:
        with np.errstate(over="ignore"):
            return float(_FLOATS.get(signal.length, np.float64)(value))
    scale, offset = float(signal.scale), float(signal.offset)
    steps = (value - offset) / scale if scale else math.inf
    return scale * round(steps) + offset if math.isfinite(steps) else value
