"""A node of a CAN database as an emulated bench: its messages, constants, and a solver behind them.

It sends every message of which the database names it as a sender, at the database's cycle time:
with start values, with constants and expressions of time that are given, and with what a `Solver`
computes. Expressions and the solver read the messages that the database names the node as a
receiver of.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from hilrt.bench.bench_on_bus import cycles_of
from hilrt.bench.emulate import Emulation
from hilrt.can.codec import bits, multiplexers, start_values
from hilrt.can.database import load_database, representable
from hilrt.can.frame import CLASSIC_BYTES, FD_BYTES
from hilrt.can.protection import MessageOptions, Protection, guarded
from hilrt.can.tools.port_lines import guard_of
from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError
from hilrt.expressions.evaluator import Evaluator
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.solver import Floats, Port, Solver

if TYPE_CHECKING:
    from cantools.database.can import Message, Signal


#: A number, or a name of a signal's values; all else is an expression.
_PLAIN = re.compile(r"[\w ]*|[-+]?[\d.]+(e[-+]?\d+)?", re.IGNORECASE)


class NodeOptions(NamedTuple):
    """A node to emulate.

    `node` is its name in the database; `values` are ``MESSAGE.SIGNAL=VALUE`` with a number, a name
    of the signal's enumeration, or an expression of `time` and of received signals;
    `protections` are ``MESSAGE=METHOD`` and more keys of `Protection`, with commas; `solver` is
    made already.
    """

    node: str
    values: Sequence[str] = ()
    solver: Solver | None = None
    protections: Sequence[str] = ()


class DatabaseNode:
    """See the module.

    Parameters
    ----------
    database : Path
    options : NodeOptions

    Attributes
    ----------
    receives, sends, requested
        As of every emulated bench; it is always on, and never asked to be enabled.
    messages : dict of str to MessageOptions
        Counters of the messages, which are found by their names, and protections.
    remarks : list of str
        What the database does not tell.

    Raises
    ------
    ConfigError
        If there is no such node, message, signal or value, or a port of the solver is no signal.
    """

    def __init__(self, database: Path, options: NodeOptions) -> None:
        loaded = load_database(database, "database")
        names = sorted({*(node.name for node in loaded.nodes), *_senders(loaded.messages)})
        if options.node not in names:
            raise ConfigError(
                f"{database.name}: there is no node {options.node!r}" + nearest(options.node, names)
            )
        self.remarks: list[str] = []
        self._bounds: dict[tuple[str, str], tuple[float, float]] = {}
        self.messages: dict[str, MessageOptions] = {}
        own = [m for m in loaded.messages if options.node in m.senders]
        sent = [m for m in own if self._is_sent(m)]
        heard = [m for m in loaded.messages if options.node in _receivers(m) and m not in own]
        heard = [m for m in heard if not (m.is_multiplexed() or m.is_container)]
        self._sent = {m.name: m for m in sent}
        self.sends: Mapping[str, int] = {m.name: self._cycles(m) for m in sent}
        protections = dict(_protection(text, self._sent) for text in options.protections)
        self.receives: Mapping[str, tuple[str, ...]] = {
            m.name: tuple(s.name for s in m.signals) for m in heard
        }
        self._values = {m.name: self._start(m, protections.get(m.name)) for m in sent}
        if not self.sends:
            raise ConfigError(f"{database.name}: node {options.node} sends no message that can be")
        self._driven: dict[tuple[str, str], str] = {}  # places and expressions
        for text in options.values:
            self._set(text)
        units = {f"{name}.{s}": "?" for name, signals in self.receives.items() for s in signals}
        texts = list(self._driven.values())
        self._evaluator = Evaluator(texts, units, step=1e-3) if texts else None
        read = self._evaluator.signals if self._evaluator else ()
        self._read = {tuple(name.split(".", 1)): i for i, name in enumerate(read)}
        self._heard, self._heard_at = np.full((2, len(read)), np.nan)
        self._solver = None if options.solver is None else HostedSolver(options.solver)
        self._u: Floats = np.zeros(0)
        self._t = 0.0
        if options.solver is not None:
            self._connect(options.solver, {m.name: m for m in heard})

    @property
    def requested(self) -> bool:
        """It is never asked to be enabled."""
        return False

    def receive(self, message: str, values: Mapping[str, float], now: float) -> None:
        """Take the signals of a message that expressions or the solver read."""
        for signal, value in values.items():
            if (k := self._read.get((message, signal))) is not None:
                self._heard[k], self._heard_at[k] = value, now
            i = self._inputs.get((message, signal)) if self._solver is not None else None
            if i is not None:
                self._u[i] = value

    def advance(self, now: float) -> None:
        """Let expressions and the solver compute up to `now` [s]."""
        if self._evaluator is not None:
            found = self._evaluator.step(now, self._heard, self._heard_at)
            self._heard_at[:] = np.nan
            for (message, signal), value in zip(self._driven, found.tolist(), strict=True):
                self._put(message, signal, value)
        if self._solver is None:
            return
        if self._t == 0.0:
            self._take(self._solver.initialize(0.0, self._u.copy()).y)
        self._take(self._solver.advance(self._t, now - self._t, self._u[None].copy()).y)
        self._t = now

    def measure(self, message: str) -> dict[str, float]:
        """Signals of a message, without its counter."""
        return dict(self._values[message])

    # -- facts of the database ------------------------------------------------------------------

    def _is_sent(self, message: Message) -> bool:
        """Whether its frames can be sent; if not, that is remarked."""
        limit = FD_BYTES if message.is_fd else CLASSIC_BYTES
        if not message.is_container and message.length <= limit:
            return True
        what = "contains others" if message.is_container else f"has {message.length} bytes"
        self.remarks.append(f"message {message.name} {what}, and is not sent")
        return False

    def _cycles(self, message: Message) -> int:
        """Cycles of the emulation from one frame of a message to the next."""
        cycles = cycles_of(message)
        if not message.cycle_time:
            text = f"sent every {cycles} ms"
            self.remarks.append(f"message {message.name} has no cycle time in the database: {text}")
        return cycles

    def _start(self, message: Message, protection: Protection | None) -> dict[str, float]:
        """Start values of a message's signals, but for its counter and what protects it."""
        guard = None if protection is None else guarded(protection, message, "--protect")
        header = 0 if guard is None else guard.header
        switches = {signal.name for signal in multiplexers(message)}
        start = start_values(message)
        plain = [s for s in message.signals if s.name not in switches and s.scale]
        plain = [s for s in plain if not bits(message, s) & header]
        values = {signal.name: float(start[signal.name]) for signal in plain}
        kinds = {signal.name: guard_of(signal) for signal in plain}
        for name, kind in kinds.items():
            always = message.get_signal_by_name(name).multiplexer_signal is None
            counts = guard is None or guard.counter is None
            if kind == "counter" and always and counts and message.name not in self.messages:
                self.messages[message.name] = MessageOptions(counter=name)
                del values[name]
            elif kind == "checksum":
                self.remarks.append(
                    f"message {message.name}: {name} looks like a checksum by its name, but "
                    "databases do not say how it is computed: it stays"
                    f" {values[name]:g} without --protect"
                )
        if protection is not None:
            named = self.messages.get(message.name) or MessageOptions(counter="")
            self.messages[message.name] = msgspec.structs.replace(named, protection=protection)
        return values

    def _signal(self, name: str, messages: Mapping[str, Message], where: str) -> tuple[str, str]:
        """Message and signal of ``MESSAGE.SIGNAL``, or of a signal's name that is there once."""
        message, dot, signal = name.partition(".")
        known = [(m, s.name) for m, one in messages.items() for s in one.signals]
        found = [one for one in known if one == (message, signal) or (not dot and one[1] == name)]
        if len(found) != 1:
            why = "is in several messages; write MESSAGE.SIGNAL" if found else "is no such signal"
            hint = "" if found else nearest(name, [f"{m}.{s}" for m, s in known])
            raise ConfigError(f"{where}{name} {why}{hint}")
        return found[0]

    def _set(self, text: str) -> None:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: write it as MESSAGE.SIGNAL=VALUE")
        message, signal_name = self._signal(name, self._sent, "--set ")
        if signal_name not in self._values[message]:
            raise ConfigError(f"--set {text}: {signal_name} counts frames, or selects a form")
        signal = self._sent[message].get_signal_by_name(signal_name)
        if value.strip() == "time" or not _PLAIN.fullmatch(value):
            self._driven[message, signal_name] = value
        else:
            self._values[message][signal_name] = _number(signal, value, f"--set {text}")

    # -- the solver -------------------------------------------------------------------------------

    def _connect(self, solver: Solver, heard: Mapping[str, Message]) -> None:
        problems: list[str] = []

        def places(ports: Sequence[Port], messages: Mapping[str, Message]) -> list[tuple[str, str]]:
            found = []
            for channel in (channel for port in ports for channel in port.channels()):
                try:
                    found.append(self._signal(channel, messages, "port "))
                except ConfigError as error:
                    problems.extend(error.problems)
            return found

        inputs, self._outputs = places(solver.inputs, heard), places(solver.outputs, self._sent)
        if problems:
            raise ConfigError(problems)
        self._inputs = {place: i for i, place in enumerate(inputs)}
        starts = [port.start for port in solver.inputs for _ in port.channels()]
        self._u = np.array(starts, dtype=np.float64)

    def _take(self, y: Floats) -> None:
        """Outputs into the messages."""
        for (message, signal), value in zip(self._outputs, np.asarray(y).tolist(), strict=True):
            self._put(message, signal, value)

    def _put(self, message: str, signal: str, value: float) -> None:
        """A value into a message, as far as its signal can carry it; not one that is unknown."""
        if (message, signal) not in self._bounds:
            sent = self._sent[message].get_signal_by_name(signal)
            self._bounds[message, signal] = representable(sent)
        low, high = self._bounds[message, signal]
        if value == value:
            self._values[message][signal] = min(max(value, low), high)


def node_emulation(options: NodeOptions, bus: dict[str, Any], database: Path) -> Emulation:
    """A node of a database to run; gaps of the database are reported on standard error.

    `ConfigError` as for `DatabaseNode`.
    """
    node = DatabaseNode(database, options)
    for remark in node.remarks:
        print(f"hilrt emulate: {remark}", file=sys.stderr)
    return Emulation(
        options.node,
        bus=bus,
        database=database,
        messages=node.messages,
        make=partial(DatabaseNode, database, options),
    )


def _protection(text: str, sent: Mapping[str, Message]) -> tuple[str, Protection]:
    """Message and protection of ``MESSAGE=METHOD,KEY=VALUE``; a checksum is found by its name."""
    name, equals, rest = text.partition("=")
    method, *more = rest.split(",")
    if name not in sent or not equals:
        where = "write it as MESSAGE=METHOD" if not equals else f"is not sent{nearest(name, sent)}"
        raise ConfigError(f"--protect {text}: {where}")
    keys: dict[str, Any] = {"method": method} | dict(one.partition("=")[::2] for one in more)
    checksums = [s.name for s in sent[name].signals if guard_of(s) == "checksum"]
    if "signal" not in keys and not method.startswith("e2e") and checksums:
        keys["signal"] = checksums[0]
    try:
        return name, msgspec.convert(keys, Protection, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"--protect {text}: {error}") from None


def _senders(messages: Sequence[Message]) -> set[str]:
    return {sender for message in messages for sender in message.senders}


def _receivers(message: Message) -> set[str]:
    return {receiver for signal in message.signals for receiver in signal.receivers}


def _number(signal: Signal, text: str, where: str) -> float:
    """A number, or the value of an enumeration's name, that a signal can carry."""
    names = {str(name): raw for raw, name in (signal.choices or {}).items()}
    if text in names:
        raw: Any = signal.raw_to_scaled(names[text], decode_choices=False)
        return float(raw)
    try:
        value = float(text)
    except ValueError:
        hint = nearest(text, names) if names else ""
        raise ConfigError(
            f"{where}: {text!r} is no number and no name of its values{hint}"
        ) from None
    low, high = representable(signal)
    if not low <= value <= high:
        raise ConfigError(f"{where}: its bits carry {low:g} to {high:g}")
    return value
