"""An emulated bench on a CAN bus: its frames, coded by the database; no clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Protocol

import can
import cantools
from cantools.database.can import Message

from hilrt.errors import ConfigError
from hilrt.tables import nearest
from hilrt_adapters.can import load_database
from hilrt_adapters.can_codec import codec
from hilrt_adapters.can_frame import Frame, IdTable, can_id_of


class Disturbance(Protocol):
    """What a scenario does to the bench; see `hilrt.disturb`."""

    def dead(self, now: float) -> bool:
        """Whether the bench is without power."""
        ...

    def off(self, now: float) -> bool:
        """Whether it neither sends nor hears."""
        ...

    def measured(self, message: str, values: dict[str, float], now: float) -> dict[str, float]:
        """Values as the disturbed sensors give them."""
        ...

    def counter_step(self, message: str, now: float) -> int:
        """By how much the counter goes on after a frame."""
        ...

    def damaged(self, message: str, frame: Frame, now: float) -> Frame:
        """The frame, perhaps damaged."""
        ...

    def lost(self, message: str, now: float) -> bool:
        """Whether the frame is not sent at all."""
        ...

    def hold(self, message: str, frame: Frame, now: float) -> bool:
        """Keep the frame back for later; whether that was done."""
        ...

    def released(self, now: float) -> list[Frame]:
        """Frames that were kept back until now."""
        ...


class EmulatedBench(Protocol):
    """What an emulated bench offers; time comes from outside, so that tests own it."""

    #: Messages it listens to, with the signals it reads.
    receives: Mapping[str, tuple[str, ...]]
    #: Messages it sends, with the number of cycles between two of them.
    sends: Mapping[str, int]

    @property
    def requested(self) -> bool:
        """Whether somebody asks the bench to be enabled."""
        ...

    def receive(self, message: str, values: Mapping[str, float], now: float) -> None:
        """Take the signals of a message received by `now` [s], before the cycle that ends then."""
        ...

    def advance(self, now: float) -> None:
        """One control cycle, ending at `now` [s]."""
        ...

    def measure(self, message: str) -> dict[str, float]:
        """Signals of a message to send, without the counter `Alive`."""
        ...


class _Incoming:
    """One message that is taken."""

    def __init__(self, message: Message, signals: tuple[str, ...]) -> None:
        self.name = message.name
        self.signals = signals
        self.decode = codec(message, signals).decode

    def values(self, data: bytes) -> dict[str, float]:
        return dict(zip(self.signals, self.decode(data), strict=True))  # type: ignore[arg-type]


class _Outgoing:
    """One message that is sent: its coding, counter and period."""

    def __init__(self, message: Message, signals: tuple[str, ...], every: int) -> None:
        self.message = message
        self.every = every
        self.can_id = can_id_of(message)
        self.counter = 0
        alive = {signal.name: signal.length for signal in message.signals}.get("Alive")
        self.modulus = None if alive is None else 1 << alive
        names = signals if alive is None else (*signals, "Alive")
        self.encode = codec(message, names).encode

    def frame(self, measured: Mapping[str, float], step: int = 1) -> Frame:
        """Frame of the measured values; the counter goes on by `step` afterwards."""
        values = list(measured.values())
        if self.modulus is not None:
            values.append(self.counter)
            self.counter = (self.counter + step) % self.modulus
        return Frame(self.can_id, self.encode(values))


class BenchOnBus:
    """A bench with its frames coded by a CAN database.

    Parameters
    ----------
    bench : EmulatedBench
    database : Path
        CAN database with every message that the bench sends and receives.
    disturbance : Disturbance, optional
        What goes wrong on purpose.
    again : callable, optional
        Makes the bench anew, for when it has been without power.

    Attributes
    ----------
    silent : bool
        Publishes nothing any more.
    heard_at : float
        When a demand last came, s.
    received, sent, bad_frames, send_errors : int
        Frames counted.

    Raises
    ------
    ConfigError
        If the database cannot be read, or lacks a message or signal of the bench.
    """

    def __init__(
        self,
        bench: EmulatedBench,
        database: Path,
        disturbance: Disturbance | None = None,
        again: Callable[[], EmulatedBench] | None = None,
    ) -> None:
        self.bench = bench
        self.disturbance = disturbance
        self._again = again
        self._dead = False
        self._drain: Callable[[], Iterable[Frame]] = tuple
        self._transmit: Callable[[Frame], None] = lambda frame: None
        self.silent = False
        self.heard_at = -math.inf
        self.received = self.sent = self.bad_frames = self.send_errors = 0
        self._cycle = 0
        messages = {m.name: m for m in load_database(database, "database").messages}
        problems: list[str] = []
        wanted = dict(bench.receives) | {m: tuple(bench.measure(m)) for m in bench.sends}
        for name, signals in wanted.items():
            if name not in messages:
                problems.append(f"{database.name}: no message {name!r}{nearest(name, messages)}")
                continue
            there = [signal.name for signal in messages[name].signals]
            problems += [
                f"{database.name}: message {name} has no signal {s!r}{nearest(s, there)}"
                for s in signals
                if s not in there
            ]
            if name in bench.sends:
                problems += [
                    f"{database.name}: message {name} has a signal {s!r} that the bench does not "
                    "send; remove it, or use the bench's own database"
                    for s in sorted(set(there) - {*signals, "Alive"})
                ]
        if problems:
            raise ConfigError(problems)
        self.demands = [messages[name] for name in bench.receives]
        self.published = [messages[name] for name in bench.sends]
        self._incoming = IdTable(
            (message, _Incoming(message, bench.receives[message.name])) for message in self.demands
        )
        self._outgoing = [
            _Outgoing(messages[name], tuple(bench.measure(name)), every)
            for name, every in bench.sends.items()
        ]

    def attach(self, drain: Callable[[], Iterable[Frame]], send: Callable[[Frame], None]) -> None:
        """Say where frames come from, without blocking, and where they go."""
        self._drain = drain
        self._transmit = send

    def cycle(self, now: float) -> None:
        """Take what has come, integrate one cycle up to `now` [s], publish."""
        disturbance = self.disturbance
        if disturbance is not None and not self._powered(disturbance, now):
            return
        off = disturbance is not None and disturbance.off(now)
        for frame in self._drain():
            incoming = self._incoming.find(frame.can_id)
            if incoming is not None and not off:
                self._take(incoming, frame, now)
        self.bench.advance(now)
        if not self.silent and not off:
            for outgoing in self._outgoing:
                if self._cycle % outgoing.every == 0:
                    if disturbance is None:
                        self._transmit_frame(
                            outgoing.frame(self.bench.measure(outgoing.message.name))
                        )
                    else:
                        self._disturbed(disturbance, outgoing, now)
            for frame in disturbance.released(now) if disturbance is not None else ():
                self._transmit_frame(frame)
        self._cycle += 1

    def _powered(self, disturbance: Disturbance, now: float) -> bool:
        """Whether the bench has power; when it comes back, the bench starts anew."""
        if disturbance.dead(now):
            self._dead = True
            for _ in self._drain():
                pass
            return False
        if self._dead:
            self._dead = False
            if self._again is not None:
                self.bench = self._again()
            for outgoing in self._outgoing:
                outgoing.counter = 0
        return True

    def _disturbed(self, disturbance: Disturbance, outgoing: _Outgoing, now: float) -> None:
        name = outgoing.message.name
        values = disturbance.measured(name, self.bench.measure(name), now)
        frame = outgoing.frame(values, disturbance.counter_step(name, now))
        frame = disturbance.damaged(name, frame, now)
        if not disturbance.lost(name, now) and not disturbance.hold(name, frame, now):
            self._transmit_frame(frame)

    def _take(self, incoming: _Incoming, frame: Frame, now: float) -> None:
        try:
            values = incoming.values(frame.data)
        except (cantools.database.DecodeError, ValueError):
            self.bad_frames += 1
            return
        self.received += 1
        self.heard_at = now
        self.bench.receive(incoming.name, values, now)

    def _transmit_frame(self, frame: Frame) -> None:
        try:
            self._transmit(frame)
            self.sent += 1
        except (can.CanError, OSError):  # a full queue, a bus that is off: a bench goes on
            self.send_errors += 1
