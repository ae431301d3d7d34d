"""Conversion of set-points and the enable request to frames, each message on its own schedule."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cantools.database.can import Message, Signal

from hilrt.can.bus import open_bus
from hilrt.can.codec import carried, codec, selection, start_values
from hilrt.can.database import SignalRef
from hilrt.can.frame import Frame
from hilrt.can.id_table import IdTable, can_id_of
from hilrt.can.protection import MessageOptions, counter_of, cycle_of, protection_of
from hilrt.errors import ConfigError

#: A frame sent at the database's cycle may be early or late by the cycle divided by this, to carry
#: a new set-point.
WINDOW_PARTS = 4
#: Interval at which a message that is sent with every set-point is repeated in longer steps, for
#: ramps and for the bench's watchdog, ns.
REPEAT_NS = 10_000_000


class _Sent:
    """One sent message; for a multiplexed one, one of its forms."""

    def __init__(
        self, message: Message, alive: str, options: MessageOptions, fixed: Mapping[str, int]
    ) -> None:
        self.message = message
        self.can_id = can_id_of(message)
        self.fd = bool(message.is_fd)
        self.fixed = fixed
        self.inputs: list[tuple[int, str]] = []
        self.request: str | None = None
        start = start_values(message)
        given = {**{name: start[name] for name in options.last}, **options.values}
        self.values = {n: v for n, v in given.items() if carried(message, n, fixed)}
        self.last = options.last
        self.cycle_ns = int(1e9 * cycle_of(options, message))
        self.mode = options.send or ("database" if self.cycle_ns else "tick")
        self.phase_ns = int(1e9 * options.phase)
        self.due_ns = self.new_ns = 0  # next frame; newest set-point
        self.before: bytes | None = None  # content without counter, with "change"
        guard = protection_of(options, message)
        self.protect = guard.protect if guard else None
        self.alive = None if guard and guard.counter else counter_of(options, message, alive)
        self.modulus = guard.modulus if guard else 1
        if self.alive:
            self.modulus = 1 << message.get_signal_by_name(self.alive).length
        self.counter = 0

    def compile(self) -> None:
        """Choose the codec once all driven signals are known: inputs, request, values, counter."""
        names = [name for _, name in self.inputs]
        names += [self.request] if self.request else []
        self.constants = [v for name, v in self.values.items() if name not in names]
        names += [name for name in self.values if name not in names]
        names += [self.alive] if self.alive else []
        self.names = names
        self.codec = codec(self.message, names, self.fixed)
        self.indices = [i for i, _ in self.inputs]

    def frame(self, u: Sequence[float], enable: bool, last: bool = False) -> Frame:
        """Frame for the inputs `u`; with `last`, values from the key `last` replace the others."""
        values = self._values(u, enable, self.counter)
        if last:
            values = [self.last.get(n, v) for n, v in zip(self.names, values, strict=True)]
        data = self.codec.encode(values)
        if self.protect:
            data = self.protect(data, self.counter)
        self.counter = (self.counter + 1) % self.modulus
        return Frame(self.can_id, data, 0, self.fd)

    def keeps_cycle(self, now: int, new: bool) -> bool:
        """Whether to send a frame at `now` [ns], to keep the cycle of the database.

        It is sent with a set-point up to a quarter of a cycle before or after its time, and without
        one after that. If set-points have the same cycle, frames follow them.
        """
        window = self.cycle_ns // WINDOW_PARTS
        follows = new and abs(now - self.new_ns - self.cycle_ns) <= window
        self.new_ns = now if new else self.new_ns
        due = now >= self.due_ns + (-window if new else window)
        if follows or now - self.due_ns > self.cycle_ns:
            self.due_ns = now + self.cycle_ns
        elif due:
            self.due_ns += self.cycle_ns
        return due

    def content(self, u: Sequence[float], enable: bool) -> bytes:
        """Content of the frame, without counter and checksum."""
        return self.codec.encode(self._values(u, enable, 0))

    def _values(self, u: Sequence[float], enable: bool, counter: int) -> list[float]:
        """Values of the signals `names`."""
        values = [u[i] for i in self.indices]
        if self.request:
            values.append(float(enable))
        values += self.constants
        if self.alive:
            values.append(float(counter))
        return values


class Sender:
    """Converter of set-points and the enable request to frames.

    Parameters
    ----------
    inputs : sequence of SignalRef
        Signals of the input ports, in order.
    request : SignalRef, optional
        The signal that carries the enable request.
    alive : str
        Default name of the counter signal of each message.
    options : mapping of str to MessageOptions, optional
        Options of individual messages, by name.

    Raises
    ------
    ConfigError
        For a message that cannot be sent: a container of others.
    """

    def __init__(
        self,
        inputs: Sequence[SignalRef],
        request: SignalRef | None,
        alive: str,
        options: Mapping[str, MessageOptions] | None = None,
    ) -> None:
        self._sent: dict[tuple[str, tuple[tuple[str, int], ...]], _Sent] = {}
        particular = options or {}

        def entry(message: Message, signal: Signal) -> _Sent:
            if message.is_container:
                raise ConfigError(
                    f"message {message.name} contains other messages; such messages cannot be sent"
                )
            fixed = selection(message, signal)
            key = (message.name, tuple(sorted(fixed.items())))
            if key not in self._sent:
                given = particular.get(message.name) or MessageOptions()
                self._sent[key] = _Sent(message, alive, given, fixed)
            return self._sent[key]

        for i, ref in enumerate(inputs):
            entry(ref.message, ref.signal).inputs.append((i, ref.signal.name))
        if request is not None:
            entry(request.message, request.signal).request = request.signal.name
        for made in self._sent.values():
            made.compile()
        self._entries = list(self._sent.values())
        self._own_times = [made for made in self._entries if made.mode != "tick"]
        self._enable: bool | None = None

    @property
    def messages(self) -> list[Message]:
        """The sent messages."""
        return list({made.message.name: made.message for made in self._entries}.values())

    def frames(self, u: Sequence[float], enable: bool) -> list[Frame]:
        """One frame of every message for the inputs `u`, in their order and units."""
        self._enable = enable
        return [made.frame(u, enable) for made in self._entries]

    def due(self, now: int, u: Sequence[float], enable: bool, new: bool) -> list[Frame]:
        """Frames to send at `now` [ns]: with new set-points, and those that are due.

        A change of the enable request is sent immediately in all messages.
        """
        if enable != self._enable:
            for made in self._entries:
                made.due_ns, made.before = _next(made, now), None
            return self.frames(u, enable)
        frames = []
        for made in self._entries:
            if made.mode == "tick":
                ready = new or now >= made.due_ns
            elif made.mode == "database":
                if made.keeps_cycle(now, new):
                    frames.append(made.frame(u, enable))
                continue
            elif made.mode == "cyclic":
                ready = now >= made.due_ns
            else:
                content = made.content(u, enable)
                ready = content != made.before or (made.cycle_ns > 0 and now >= made.due_ns)
                made.before = content
            if ready:
                made.due_ns = _next(made, now)
                frames.append(made.frame(u, enable))
        return frames

    def wait_ns(self, now: int) -> float:
        """Time until the next message with its own schedule, ns; infinite if there is none."""
        dues = [
            made.due_ns + (made.mode == "database") * (made.cycle_ns // WINDOW_PARTS)
            for made in self._own_times
            if made.cycle_ns
        ]
        return max(0, min(dues) - now) if dues else math.inf

    def last(self, u: Sequence[float]) -> list[Frame]:
        """Last frame of every message with a defined last content."""
        return [made.frame(u, False, last=True) for made in self._entries if made.last]


def _next(made: _Sent, now: int) -> int:
    """Next time of a message: on its grid if it is cyclic, else after a cycle."""
    if made.mode == "tick":
        return now + REPEAT_NS
    if not made.cycle_ns:
        return now
    if made.mode == "cyclic":
        return ((now - made.phase_ns) // made.cycle_ns + 1) * made.cycle_ns + made.phase_ns
    return now + made.cycle_ns


#: Listening time, s: a session sends its demands at every tick or at the database's cycle.
LISTEN_S = 0.25


def refuse_conflicts(
    bus: Mapping[str, Any], messages: Sequence[Message], label: str, listen_s: float = LISTEN_S
) -> None:
    """Listen for other senders of our messages before sending them.

    Parameters
    ----------
    bus : mapping
        Arguments of `open_bus`.
    messages : sequence of Message
        Messages that only this process may send.
    label : str
        Table and key of the bus, for messages.
    listen_s : float
        Listening time, s.

    Raises
    ------
    ConfigError
        If another node sends one of them.
    """
    # A J1939 group may come from others, under their own addresses.
    ours = ((message, message) for message in messages)
    table = IdTable(ours, source=lambda message: can_id_of(message) & 0xFF)
    opened = open_bus(bus, messages, label)
    try:
        end = time.monotonic() + listen_s
        while (left := end - time.monotonic()) > 0:
            select.select([opened.fileno()], [], [], left)
            for frame in opened.drain():
                if message := table.find(frame.can_id):
                    raise ConfigError(
                        f"{label} = {dict(bus)!r}: another node already sends {message.name}, "
                        "which this session would send; end the other session or node, or use a "
                        "separate bus"
                    )
    finally:
        opened.close()
