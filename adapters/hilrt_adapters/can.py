"""CAN databases: signals by name, frames to values and back, supervision of what is received."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import can
import cantools
from cantools.database.can import Database, Message, Signal

from hilrt.config import nearest
from hilrt.errors import ConfigError
from hilrt.units import UNSTATED
from hilrt_adapters.can_codec import codec

#: A frame's own timestamp is believed if it is at most that much older than its reading, ns.
MAX_TIMESTAMP_AGE_NS = 1_000_000_000
#: A message counts as silent after that many of its cycle times, if the database tells them.
SILENT_CYCLES = 3


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


# ---- frames to values --------------------------------------------------------------------------


def _key(arbitration_id: int, extended: bool) -> int:
    """One number for identifier and format: 0x100 standard and extended are different frames."""
    return arbitration_id | (1 << 31) if extended else arbitration_id


class _Received:
    """One message that is listened to."""

    def __init__(self, message: Message, alive: str, timeout: float) -> None:
        self.message = message
        self.outputs: list[tuple[int, str]] = []  # index in y, signal
        self.state: str | None = None
        cycle = (message.cycle_time or 0) / 1e3
        self.timeout_ns = int(1e9 * max(timeout, SILENT_CYCLES * cycle))
        self.seen_ns: int | None = None
        self.alive = alive if any(s.name == alive for s in message.signals) else None
        self.modulus = 1
        self.counter: int | None = None
        if self.alive:
            self.modulus = 1 << message.get_signal_by_name(alive).length

    def compile(self) -> None:
        """Choose the codec when all used signals are known: outputs, then counter, then state."""
        names = [name for _, name in self.outputs]
        names += [name for name in (self.alive, self.state) if name]
        self.decode = codec(self.message, names).decode
        self.indices = [i for i, _ in self.outputs]


class Receiver:
    """Newest value of every output, the enable state, and how healthy the reception is.

    Parameters
    ----------
    outputs : mapping of str to SignalRef
        Output ports in their order.
    state : SignalRef, optional
        The signal that confirms the enable request.
    alive : str
        Name of the counter signal looked for in each message.
    timeout : float
        Age of a message at which it counts as silent, s; longer for one that the database says
        comes more rarely.
    own : iterable of Message
        Messages that the gateway sends: some buses deliver them to their sender.
    clock : callable
        Monotonic clock, ns.

    Attributes
    ----------
    y : list of float
        Newest values of the outputs, in the signals' units; NaN before the first.
    t_valid_ns : list of int
        Their times of reception on the monotonic clock; 0 before the first.
    enabled : bool
        The newest enable state; True where there is no such signal.
    counters : dict of str to int
        Frames received, unknown, with decode errors, repeated and lost by their counter.
    """

    def __init__(
        self,
        outputs: Mapping[str, SignalRef],
        state: SignalRef | None,
        alive: str,
        timeout: float,
        own: Iterable[Message] = (),
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.y = [math.nan] * len(outputs)
        self.t_valid_ns = [0] * len(outputs)
        self.enabled = state is None
        self.counters = dict.fromkeys(("frames", "unknown", "decode_errors", "repeated", "lost"), 0)
        self._clock = clock
        self._received: dict[int, _Received] = {}
        self._own = {_key(m.frame_id, m.is_extended_frame) for m in own}
        for ref in [*outputs.values(), *([state] if state else [])]:
            key = _key(ref.message.frame_id, ref.message.is_extended_frame)
            self._received.setdefault(key, _Received(ref.message, alive, timeout))
        for i, ref in enumerate(outputs.values()):
            key = _key(ref.message.frame_id, ref.message.is_extended_frame)
            self._received[key].outputs.append((i, ref.signal.name))
        if state is not None:
            key = _key(state.message.frame_id, state.message.is_extended_frame)
            self._received[key].state = state.signal.name
        for entry in self._received.values():
            entry.compile()

    @property
    def messages(self) -> list[Message]:
        """The messages that are listened to."""
        return [entry.message for entry in self._received.values()]

    def take(self, frames: Sequence[can.Message]) -> bool:
        """Decode frames in the order of their arrival; True if any output is new."""
        mono, real = self._clock(), time.time_ns()
        new = False
        for frame in frames:
            key = _key(frame.arbitration_id, frame.is_extended_id)
            entry = self._received.get(key)
            if entry is not None and not frame.is_remote_frame and not frame.is_error_frame:
                age = real - int(frame.timestamp * 1e9)
                # Other clocks than the system's (a device's own) and none at all show as absurd.
                t = mono - age if 0 <= age <= MAX_TIMESTAMP_AGE_NS else mono
                new |= self._decode(entry, frame, t)
            elif key not in self._own:
                self.counters["unknown"] += 1
        return new

    def _decode(self, entry: _Received, frame: can.Message, t: int) -> bool:
        counters = self.counters
        counters["frames"] += 1
        try:
            values = entry.decode(bytes(frame.data))
        except (cantools.database.DecodeError, ValueError):
            counters["decode_errors"] += 1
            return False
        indices = entry.indices
        if entry.alive:
            count = int(values[len(indices)] or 0)
            ahead = 1 if entry.counter is None else (count - entry.counter) % entry.modulus
            if ahead == 0:  # stale: a frozen sender must look like a silent one
                counters["repeated"] += 1
                return False
            counters["lost"] += ahead - 1
            entry.counter = count
        entry.seen_ns = t
        for i, value in zip(indices, values, strict=False):
            if value is not None:  # multiplexed: not in every frame
                self.y[i] = float(value)
                self.t_valid_ns[i] = t
        if entry.state:
            state = values[-1]
            self.enabled = self.enabled if state is None else bool(state)
        return bool(indices)

    def complete(self) -> bool:
        """Whether every output and the enable state have been received."""
        return all(self.t_valid_ns) and not self.missing()

    def missing(self) -> list[str]:
        """Messages that have never been received, with their identifiers."""
        return [
            f"{entry.message.name} (0x{entry.message.frame_id:X})"
            for entry in self._received.values()
            if entry.seen_ns is None
        ]

    def overdue(self, now: int) -> tuple[float, str]:
        """Age of the most overdue message over its timeout at `now` [ns], and a text about it."""
        worst, text = 0.0, ""
        for entry in self._received.values():
            if entry.seen_ns is None:
                return math.inf, f"{entry.message.name} has never been received"
            ratio = (now - entry.seen_ns) / entry.timeout_ns
            if ratio > worst:
                worst, slowest = ratio, entry
        if worst >= 1.0:
            age = 1e-6 * worst * slowest.timeout_ns
            text = f"no new frame of {slowest.message.name} for {age:.0f} ms"
        return worst, text


# ---- values to frames --------------------------------------------------------------------------


class _Sent:
    """One message that is sent."""

    def __init__(self, message: Message, alive: str) -> None:
        self.message = message
        self.inputs: list[tuple[int, str]] = []
        self.request: str | None = None
        self.alive = alive if any(s.name == alive for s in message.signals) else None
        self.modulus = 1 << message.get_signal_by_name(alive).length if self.alive else 1
        self.counter = 0

    def compile(self) -> None:
        """Choose the codec when all driven signals are known: inputs, then request, then counter.

        The other signals of the message keep their start values.
        """
        names = [name for _, name in self.inputs]
        names += [name for name in (self.request, self.alive) if name]
        self.encode = codec(self.message, names).encode
        self.indices = [i for i, _ in self.inputs]


class Sender:
    """Set-points and the enable request to frames.

    Parameters
    ----------
    inputs : sequence of SignalRef
        Signals of the input ports, in their order.
    request : SignalRef, optional
        The signal that carries the enable request.
    alive : str
        Name of the counter signal looked for in each message.

    Raises
    ------
    ConfigError
        For a message that cannot be sent: a multiplexed one.
    """

    def __init__(self, inputs: Sequence[SignalRef], request: SignalRef | None, alive: str) -> None:
        self._sent: dict[str, _Sent] = {}
        for ref in [*inputs, *([request] if request else [])]:
            if ref.message.is_multiplexed():
                raise ConfigError(
                    f"message {ref.message.name} is multiplexed; multiplexed messages are "
                    "received, but not sent: give the demands a message of their own"
                )
            self._sent.setdefault(ref.message.name, _Sent(ref.message, alive))
        for i, ref in enumerate(inputs):
            self._sent[ref.message.name].inputs.append((i, ref.signal.name))
        if request is not None:
            self._sent[request.message.name].request = request.signal.name
        for entry in self._sent.values():
            entry.compile()

    @property
    def messages(self) -> list[Message]:
        """The messages that are sent."""
        return [entry.message for entry in self._sent.values()]

    def frames(self, u: Sequence[float], enable: bool) -> list[can.Message]:
        """One frame of every message for the inputs `u`, in their order and units."""
        return [self._encode(entry, u, enable) for entry in self._sent.values()]

    def _encode(self, entry: _Sent, u: Sequence[float], enable: bool) -> can.Message:
        message = entry.message
        values = [u[i] for i in entry.indices]
        if entry.request:
            values.append(float(enable))
        if entry.alive:
            values.append(float(entry.counter))
            entry.counter = (entry.counter + 1) % entry.modulus
        return can.Message(
            arbitration_id=message.frame_id,
            is_extended_id=message.is_extended_frame,
            is_fd=message.is_fd,
            data=entry.encode(values),
            check=False,
        )
