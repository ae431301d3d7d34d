"""Emulated node of a CAN database: its messages, with constants and an optional solver.

It sends every message that the database assigns to it, at the database's cycle time, with start
values, given constants and expressions of time, and results of a `Solver`. Expressions and the
solver read the messages that the node receives according to the database.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from hilrt.bench.bench_options import EMULATED, BenchInput, BenchOptions
from hilrt.bench.emulate import Emulation
from hilrt.bench.read_bench import Bench
from hilrt.bench.set_points import SetPointLimits
from hilrt.can.codec import bits
from hilrt.can.database import SignalRef, load_database, representable
from hilrt.can.protection import MessageOptions, Protection, guarded
from hilrt.can.tools.port_lines import guard_of
from hilrt.config.from_toml import nearest
from hilrt.config.units import UNSTATED
from hilrt.errors import ConfigError
from hilrt.expressions.evaluator import Evaluator
from hilrt.hosting.database_bench import DatabaseBench, Place, unsendable
from hilrt.solver import Port, Ports, Solver

if TYPE_CHECKING:
    from cantools.database.can import Message, Signal


#: Cycle of the emulation, s.
CYCLE_S = 1e-3
#: A number, or a named value of a signal; anything else is an expression.
_PLAIN = re.compile(r"[\w ]*|[-+]?[\d.]+(e[-+]?\d+)?", re.IGNORECASE)


class NodeOptions(NamedTuple):
    """A node to emulate.

    `node` is its name in the database; `values` are ``MESSAGE.SIGNAL=VALUE`` with a number, a named
    value of the signal, or an expression of `time` and received signals; `protections` are
    ``MESSAGE=METHOD`` with further comma-separated keys of `Protection`; `solver` is an instance.
    """

    node: str
    values: Sequence[str] = ()
    solver: Solver | None = None
    protections: Sequence[str] = ()


class DatabaseNode(DatabaseBench):
    """Emulated bench whose ports are the signals of a node; it needs no enabling.

    Parameters
    ----------
    database : Path
    options : NodeOptions

    Attributes
    ----------
    messages : dict of str to MessageOptions
        Counters of the messages, identified by name, and protections.
    remarks : list of str
        Information missing in the database.

    Raises
    ------
    ConfigError
        If there is no such node, message, signal or value, or a solver port is not a signal.
    """

    requested = False

    def __init__(self, database: Path, options: NodeOptions) -> None:
        loaded = load_database(database, "database")
        names = sorted({*(node.name for node in loaded.nodes), *_senders(loaded.messages)})
        if options.node not in names:
            raise ConfigError(
                f"{database.name}: there is no node {options.node!r}" + nearest(options.node, names)
            )
        self.remarks: list[str] = []
        own = [m for m in loaded.messages if options.node in m.senders]
        self._sent = {m.name: m for m in own if self._is_sent(m)}
        received = [
            message
            for message in loaded.messages
            if any(options.node in signal.receivers for signal in message.signals)
            and message not in own
            and not (message.is_multiplexed() or message.is_container)
        ]
        if not self._sent:
            raise ConfigError(
                f"{database.name}: node {options.node} has no message that can be sent"
            )
        protections = dict(_protection(text, self._sent) for text in options.protections)
        self.messages = {n: _options(m, protections.get(n)) for n, m in self._sent.items()}
        super().__init__(self._bench(options.solver, received), {}, options.solver)
        self._patience, self._period = math.inf, CYCLE_S
        self._remark_gaps()
        self._driven: dict[Place, str] = {}  # expressions
        for text in options.values:
            self._set(text)
        self.receives = {m.name: tuple(s.name for s in m.signals) for m in received}
        units = {f"{name}.{s}": UNSTATED for name, found in self.receives.items() for s in found}
        texts = list(self._driven.values())
        self._evaluator = Evaluator(texts, units, step=CYCLE_S) if texts else None
        read = self._evaluator.signals if self._evaluator else ()
        self._read = {tuple(name.split(".", 1)): i for i, name in enumerate(read)}
        self._values, self._values_at = np.full((2, len(read)), np.nan)

    def receive(self, message: str, values: Mapping[str, float | None], now: float) -> None:
        """Process the signals of a message that expressions or the solver read."""
        for signal, value in values.items():
            if (k := self._read.get((message, signal))) is not None:
                self._values[k], self._values_at[k] = value, now
        super().receive(message, values, now)

    def advance(self, now: float) -> None:
        """Evaluate expressions and the solver up to `now` [s]."""
        if self._evaluator is not None:
            found = self._evaluator.step(now, self._values, self._values_at)
            self._values_at[:] = np.nan
            for place, value in zip(self._driven, found.tolist(), strict=True):
                self.put(place, value)
        super().advance(now)

    def _bench(self, solver: Solver | None, received: Sequence[Message]) -> Bench:
        """The node as a bench's table; solver ports keep their names, others get new ones."""
        problems: list[str] = []

        def find(ports: Sequence[Port], messages: Mapping[str, Message]) -> dict[str, SignalRef]:
            refs = {}
            for channel in (channel for port in ports for channel in port.channels()):
                try:
                    message, signal = self._signal(channel, messages, "port ")
                except ConfigError as error:
                    problems.extend(error.problems)
                else:
                    one = messages[message]
                    refs[channel] = SignalRef(one, one.get_signal_by_name(signal))
            return refs

        read, computed = (solver.inputs, solver.outputs) if solver else ((), ())
        inputs, outputs = find(read, {m.name: m for m in received}), find(computed, self._sent)
        if problems:
            raise ConfigError(problems)
        for name, message in self._sent.items():
            outputs |= {f"{name}.{s.name}": SignalRef(message, s) for s in message.signals}
        ports = Ports(*(tuple(Port(name, UNSTATED) for name in side) for side in (inputs, outputs)))
        table = BenchOptions(
            "can",
            bus={},
            database="",
            outputs={},
            inputs={name: BenchInput(signal=name) for name in inputs},
            messages=self.messages,
            bench_timeout=EMULATED.bench,
        )
        wide, safe = [math.inf] * len(inputs), [port.start for port in read]
        limits = SetPointLimits(list(inputs), [-w for w in wide], wide, wide, safe)
        return Bench(table, inputs, outputs, None, None, ports, limits, (), (), ())

    def _is_sent(self, message: Message) -> bool:
        """Whether its frames can be sent; if not, a remark is added."""
        if why := unsendable(message):
            self.remarks.append(f"message {message.name} {why}, and is not sent")
        return not why

    def _remark_gaps(self) -> None:
        """Add remarks on messages without a cycle time and checksums without a method."""
        for name, message in self._sent.items():
            if not message.cycle_time:
                self.remarks.append(
                    f"message {name} has no cycle time in the database: sent every "
                    f"{self.sends[name]} ms"
                )
            values = self.measure(name)
            self.remarks += [
                f"message {name}: {signal.name} is a checksum by its name, but databases "
                f"do not say how it is computed: it stays {values[signal.name]:g} without --protect"
                for signal in message.signals
                if signal.name in values and guard_of(signal) == "checksum"
            ]

    def _signal(self, name: str, messages: Mapping[str, Message], where: str) -> Place:
        """Message and signal of ``MESSAGE.SIGNAL``, or of a unique signal name."""
        message, dot, signal = name.partition(".")
        known = [(m, s.name) for m, one in messages.items() for s in one.signals]
        found = [one for one in known if one == (message, signal) or (not dot and one[1] == name)]
        if len(found) != 1:
            why = "is in several messages; write MESSAGE.SIGNAL" if found else "does not exist"
            hint = "" if found else nearest(name, [f"{m}.{s}" for m, s in known])
            raise ConfigError(f"{where}{name} {why}{hint}")
        return found[0]

    def _set(self, text: str) -> None:
        name, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: write it as MESSAGE.SIGNAL=VALUE")
        message, signal_name = self._signal(name, self._sent, "--set ")
        if signal_name not in self._signals[message]:
            raise ConfigError(f"--set {text}: {signal_name} counts frames, or selects a form")
        signal = self._sent[message].get_signal_by_name(signal_name)
        if value.strip() == "time" or not _PLAIN.fullmatch(value):
            self._driven[message, signal_name] = value
        else:
            self.put((message, signal_name), _number(signal, value, f"--set {text}"))


def node_emulation(options: NodeOptions, bus: dict[str, Any], database: Path) -> Emulation:
    """Emulation of a database node; gaps of the database are printed on standard error.

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


def _options(message: Message, protection: Protection | None) -> MessageOptions:
    """Options of a message: its counter, identified by name, and its protection."""
    guard = None if protection is None else guarded(protection, message, "--protect")
    header, own = (guard.header, guard.counter) if guard else (0, None)
    counters = [
        signal.name
        for signal in message.signals
        if guard_of(signal) == "counter"
        and signal.multiplexer_signal is None
        and own is None
        and not bits(message, signal) & header
    ]
    return MessageOptions(counter=(*counters, "")[0], protection=protection)


def _protection(text: str, sent: Mapping[str, Message]) -> tuple[str, Protection]:
    """Message and protection of ``MESSAGE=METHOD,KEY=VALUE``; checksums are identified by name."""
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


def _number(signal: Signal, text: str, where: str) -> float:
    """A number, or a named value of an enumeration, within the signal's range."""
    names = {str(name): raw for raw, name in (signal.choices or {}).items()}
    if text in names:
        raw: Any = signal.raw_to_scaled(names[text], decode_choices=False)
        return float(raw)
    try:
        value = float(text)
    except ValueError:
        hint = nearest(text, names) if names else ""
        raise ConfigError(
            f"{where}: {text!r} is neither a number nor a name of its values{hint}"
        ) from None
    low, high = representable(signal)
    if not low <= value <= high and not (signal.is_float and math.isinf(value)):
        raise ConfigError(f"{where}: its bits can represent {low:g} to {high:g}")
    return value
