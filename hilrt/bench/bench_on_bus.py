"""An emulated bench on a CAN bus, with frames coded by the database; time is passed in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from hilrt.bench.disturb import Disturbance
from hilrt.can.codec import Codec, bits, carried, codec, multiplexers, selection
from hilrt.can.database import load_database
from hilrt.can.frame import BUS_ERRORS, DECODE_ERRORS, FD_LENGTHS, Frame
from hilrt.can.id_table import IdTable, can_id_of
from hilrt.can.protection import Guarded, MessageOptions, counter_of, protection_of
from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError
from hilrt.link import EmulatedMessage
from hilrt.solver import Parameter

if TYPE_CHECKING:
    from cantools.database.can import Message

#: Name of the counter in the benches, independent of its name in the database.
COUNTER = "Alive"


class EmulatedBench(Protocol):
    """Interface of an emulated bench; time is passed in, so that tests control it."""

    #: Messages it listens to, with the signals it reads.
    receives: Mapping[str, tuple[str, ...]]
    #: Messages it sends, with the number of cycles between two of them.
    sends: Mapping[str, int]

    @property
    def requested(self) -> bool:
        """Whether the bench is requested to be enabled."""
        ...

    def receive(self, message: str, values: Mapping[str, float], now: float) -> None:
        """Store the signals of a message; the cycle that ends at `now` [s] runs afterwards.

        Signals of a multiplexed message that the frame does not carry are None.
        """
        ...

    def advance(self, now: float) -> None:
        """Run one control cycle, ending at `now` [s]."""
        ...

    def measure(self, message: str) -> dict[str, float]:
        """Signals of a message to send, without the counter `Alive`."""
        ...


@runtime_checkable
class AdjustableBench(Protocol):
    """Emulated bench with parameters that may change while it runs."""

    parameters: Sequence[Parameter]

    def set_parameter(self, name: str, value: float) -> str:
        """Change a parameter; return why it is refused, or an empty string."""
        ...


class _Layout(NamedTuple):
    """A message of the bench in the database: its signals, counter and protection.

    Parameters
    ----------
    message : Message
    signals : tuple of str
        Signals that the bench uses, without the counter.
    counter : str, optional
        The counter, if it is a signal of the message.
    guard : Guarded, optional
        Its protection.
    """

    message: Message
    signals: tuple[str, ...]
    counter: str | None
    guard: Guarded | None

    @property
    def header_counter(self) -> Callable[[bytes], int] | None:
        """Function that reads the counter from the protection's header, if it is there."""
        return self.guard.counter if self.guard else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the signals to code: those of the bench, then the counter."""
        return (*self.signals, self.counter) if self.counter else self.signals


def _layout_of(
    message: Message, signals: Iterable[str], options: MessageOptions, alive: str
) -> _Layout:
    """Layout of a message; `ConfigError` if its protection does not fit."""
    guard = protection_of(options, message)
    counter = None if guard and guard.counter else counter_of(options, message, alive)
    return _Layout(message, tuple(s for s in signals if s != COUNTER), counter, guard)


def _missing(layout: _Layout, watched: bool) -> list[str]:
    """Report signals that the database lacks; with `watched`, also a missing counter."""
    name = layout.message.name
    there = [signal.name for signal in layout.message.signals]
    problems = [
        f"message {name} has no signal {s!r}{nearest(s, there)}"
        for s in layout.signals
        if s not in there
    ]
    if watched and layout.counter is None and layout.header_counter is None:
        problems.append(
            f"message {name} has no counter, which the bench watches; name its signal in "
            f"messages.{name}.counter, or in alive for all messages"
        )
    return problems


def _misplaced(layout: _Layout, published: bool) -> list[str]:
    """Report signals that the protection would overwrite or, if published, without a value."""
    message = layout.message
    header = layout.guard.header if layout.guard else 0
    problems = []
    switches = {signal.name for signal in multiplexers(message)}
    for signal in message.signals:
        if signal.name in switches or not signal.scale:
            continue  # set by the form of the frame, not by the bench
        place = bits(message, signal)
        if signal.name in layout.names:
            if place & header:
                problems.append(
                    f"message {message.name}: signal {signal.name!r} overlaps its protection; "
                    "move one of them"
                )
        elif published and (not place or place & ~header):
            problems.append(
                f"message {message.name} has a signal {signal.name!r} that the bench does not "
                f"send; remove it, name it in messages.{message.name}.protection if it is a "
                "checksum, or use the bench's own database"
            )
    return problems


def _read_layouts(
    bench: EmulatedBench,
    database: Path,
    known: Iterable[Message],
    options: Mapping[str, MessageOptions],
    alive: str,
) -> dict[str, _Layout]:
    """Layouts of all messages of a bench, by name; `ConfigError` with every problem."""
    messages = {message.name: message for message in known}
    wanted = dict(bench.receives) | {m: tuple(bench.measure(m)) for m in bench.sends}
    layouts: dict[str, _Layout] = {}
    problems: list[str] = []
    for name, signals in wanted.items():
        if name not in messages:
            problems.append(f"{database.name}: no message {name!r}{nearest(name, messages)}")
            continue
        given = options.get(name) or MessageOptions()
        try:
            layout = layouts[name] = _layout_of(messages[name], signals, given, alive)
        except ConfigError as error:
            problems += error.problems
            continue
        found = _missing(layout, COUNTER in signals) + _misplaced(layout, name in bench.sends)
        problems += [f"{database.name}: {problem}" for problem in found]
    if problems:
        raise ConfigError(problems)
    return layouts


class _Incoming:
    """One message that the bench receives."""

    def __init__(self, layout: _Layout) -> None:
        self.name = layout.message.name
        self.signals = (*layout.signals, COUNTER) if layout.counter else layout.signals
        self.decode = codec(layout.message, layout.names).decode
        self.check = layout.guard.check if layout.guard else None
        self._header_counter = layout.header_counter

    def values(self, data: bytes) -> dict[str, float]:
        values = dict(zip(self.signals, self.decode(data), strict=True))
        if self._header_counter:
            values[COUNTER] = self._header_counter(data)
        return values  # type: ignore[return-value]


class _Form(NamedTuple):
    """Signals that one form of a message carries (without the counter), and their coding."""

    names: tuple[str, ...]
    counts: bool
    codec: Codec


def _forms(layout: _Layout) -> list[_Form]:
    """Forms of a message, sent in turn: one for each selection of its multiplexers."""
    message = layout.message
    selections: list[dict[str, int]] = []
    for name in layout.signals:
        chosen = selection(message, message.get_signal_by_name(name))
        if chosen and chosen not in selections:
            selections.append(chosen)
    forms = []
    for fixed in selections or [{}]:
        names = tuple(name for name in layout.signals if carried(message, name, fixed))
        counts = layout.counter is not None and carried(message, layout.counter, fixed)
        coded = (*names, layout.counter) if counts and layout.counter else names
        forms.append(_Form(names, counts, codec(message, coded, fixed)))
    return forms


class _Outgoing:
    """One message that the bench sends: its coding, counter, protection and period.

    Attributes
    ----------
    counter : int
        Counter of the next frame.
    sent_counter : int
        Counter of the newest frame sent.
    """

    def __init__(self, layout: _Layout, every: int) -> None:
        self.message = layout.message
        self.every = every
        self.can_id = can_id_of(layout.message)
        self._checksum = layout.guard.checksum if layout.guard else 0
        self._forms = _forms(layout)
        self._turn = 0
        self._fd = bool(layout.message.is_fd)
        self._protect = layout.guard.protect if layout.guard else None
        self.counter = self.sent_counter = 0
        self._modulus = layout.guard.modulus if layout.guard else 1
        if layout.counter:
            self._modulus = 1 << layout.message.get_signal_by_name(layout.counter).length

    def frame(self, measured: Mapping[str, float], step: int = 1, backwards: bool = False) -> Frame:
        """Frame of the measured values; afterwards the counter advances by `step`.

        With `backwards`, this frame gets a counter one below that of the newest frame.
        """
        count = (self.sent_counter - 1) % self._modulus if backwards else self.counter
        form = self._forms[self._turn]
        self._turn = (self._turn + 1) % len(self._forms)
        values = [measured[name] for name in form.names]
        if form.counts:
            values.append(count)
        data = form.codec.encode(values)
        if self._protect:
            data = self._protect(data, count)
        self.sent_counter = count
        self.counter = (self.counter + step) % self._modulus
        return Frame(self.can_id, data, 0, self._fd)

    def with_wrong_checksum(self, frame: Frame) -> Frame:
        """The frame with the lowest bit of its checksum flipped."""
        word = int.from_bytes(frame.data, "little") ^ (self._checksum & -self._checksum)
        return frame._replace(data=word.to_bytes(len(frame.data), "little"))


def _without_effect(disturbance: Disturbance, on_bus: BenchOnBus) -> list[str]:
    """Report disturbances of a counter or checksum that none of their messages contains."""
    problems = []
    for event in disturbance.events:
        messages = [on_bus.sent_messages[name] for name in event.messages or on_bus.sent_messages]
        missing = {
            "wrong_counter": "counter" if not any(one.counts for one in messages) else "",
            "wrong_checksum": "checksum" if not any(one.guarded for one in messages) else "",
        }.get(event.kind)
        if missing:
            where = ", ".join(event.messages) or "what the bench sends"
            problems.append(f"{event.kind}: there is no {missing} in {where}")
    return problems


class BenchOnBus:
    """A bench with its frames coded by a CAN database.

    Parameters
    ----------
    bench : EmulatedBench
    database : Path
        CAN database with every message that the bench sends and receives.
    disturbance : Disturbance, optional
        Deliberate fault.
    recreate : callable, optional
        Creates the bench again after a loss of power.
    options : mapping of str to MessageOptions, optional
        Counters and protection of single messages, by name, as in the gateway.
    alive : str
        Name of the counter signal searched for in each message.

    Attributes
    ----------
    silent : bool
        Whether it has stopped publishing.
    heard_at : float
        Time of the newest demand, s.
    sent_messages : dict of str to EmulatedMessage
        Messages that the bench sends, by name.
    received, sent, bad_frames, checksum_errors, send_errors : int
        Counts of frames; one with a wrong checksum does not count as received.

    Raises
    ------
    ConfigError
        If the database cannot be read, lacks a message or signal of the bench, or has no room for a
        protection, or if a disturbance has no effect.
    """

    def __init__(
        self,
        bench: EmulatedBench,
        database: Path,
        disturbance: Disturbance | None = None,
        recreate: Callable[[], EmulatedBench] | None = None,
        options: Mapping[str, MessageOptions] | None = None,
        alive: str = COUNTER,
    ) -> None:
        self.bench = bench
        self.disturbance = disturbance
        self._recreate = recreate
        self._dead = False
        self._drain: Callable[[], Iterable[Frame]] = tuple
        self._transmit: Callable[[Frame], None] = lambda frame: None
        self.silent = False
        self.heard_at = -math.inf
        self.received = self.sent = self.send_errors = 0
        self.bad_frames = self.checksum_errors = 0
        self._cycle = 0
        messages = load_database(database, "database").messages
        layouts = _read_layouts(bench, database, messages, options or {}, alive)
        self.demands = [layouts[name].message for name in bench.receives]
        self.published = [layouts[name].message for name in bench.sends]
        self._incoming = IdTable(
            ((layouts[name].message, _Incoming(layouts[name])) for name in bench.receives),
            rivals=messages,
        )
        self._outgoing = [_Outgoing(layouts[name], every) for name, every in bench.sends.items()]
        self._known_ids = {can_id_of(message) for message in messages}
        self.sent_messages = {
            name: EmulatedMessage(
                layouts[name].signals,
                layouts[name].counter is not None or layouts[name].header_counter is not None,
                layouts[name].guard is not None,
            )
            for name in bench.sends
        }
        if disturbance is not None and (problems := _without_effect(disturbance, self)):
            raise ConfigError(problems)

    def attach(self, drain: Callable[[], Iterable[Frame]], send: Callable[[Frame], None]) -> None:
        """Set the functions that receive frames, without blocking, and send them."""
        self._drain = drain
        self._transmit = send

    def cycle(self, now: float) -> None:
        """Receive demands, simulate one cycle up to `now` [s], and publish."""
        disturbance = self.disturbance
        if disturbance is not None and not self._powered(disturbance, now):
            return
        off = disturbance is not None and disturbance.off(now)
        for frame in self._drain():
            incoming = self._incoming.find(frame.can_id)
            if incoming is not None and not off:
                self._receive(incoming, frame, now)
        self.bench.advance(now)
        if not self.silent and not off:
            for outgoing in self._outgoing:
                if self._cycle % outgoing.every == 0:
                    if disturbance is None:
                        self._transmit_frame(
                            outgoing.frame(self.bench.measure(outgoing.message.name))
                        )
                    else:
                        self._transmit_disturbed(disturbance, outgoing, now)
            for frame in disturbance.released(now) if disturbance is not None else ():
                self._transmit_frame(frame)
        self._cycle += 1

    def _powered(self, disturbance: Disturbance, now: float) -> bool:
        """Whether the bench has power; when it returns, the bench restarts."""
        if disturbance.dead(now):
            self._dead = True
            for _ in self._drain():
                pass
            return False
        if self._dead:
            self._dead = False
            if self._recreate is not None:
                self.bench = self._recreate()
            for outgoing in self._outgoing:
                outgoing.counter = outgoing.sent_counter = 0
        return True

    def _transmit_disturbed(
        self, disturbance: Disturbance, outgoing: _Outgoing, now: float
    ) -> None:
        name = outgoing.message.name
        values = disturbance.measured(name, self.bench.measure(name), now)
        backwards = disturbance.affects("wrong_counter", name, now)
        frame = outgoing.frame(values, disturbance.counter_step(name, now), backwards)
        if disturbance.affects("wrong_checksum", name, now):
            frame = outgoing.with_wrong_checksum(frame)
        if disturbance.affects("wrong_length", name, now) and frame.data:
            shorter = max(n for n in FD_LENGTHS if n < len(frame.data))
            frame = frame._replace(data=frame.data[:shorter])
        if disturbance.affects("wrong_identifier", name, now):
            frame = frame._replace(can_id=self._unknown_id(frame.can_id))
        frame = disturbance.damaged(name, frame, now)
        twice = disturbance.affects("duplicate", name, now)
        if disturbance.lost(name, now):
            return
        for _ in range(1 + twice):
            if not disturbance.hold(name, frame, now):
                self._transmit_frame(frame)

    def _unknown_id(self, can_id: int) -> int:
        """The identifier with its lowest bit flipped, or the next one that no message has."""
        return next(i for i in (can_id ^ bits for bits in count(1)) if i not in self._known_ids)

    def _receive(self, incoming: _Incoming, frame: Frame, now: float) -> None:
        if incoming.check and not incoming.check(frame.data):
            self.checksum_errors += 1
            return
        try:
            values = incoming.values(frame.data)
        except DECODE_ERRORS:
            self.bad_frames += 1
            return
        self.received += 1
        self.heard_at = now
        self.bench.receive(incoming.name, values, now)

    def _transmit_frame(self, frame: Frame) -> None:
        try:
            self._transmit(frame)
            self.sent += 1
        except BUS_ERRORS:  # queue full or bus off: a bench continues
            self.send_errors += 1
