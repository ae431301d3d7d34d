"""A node of a CAN database as an emulated bench: its messages, constants, and a solver behind them.

It sends every message of which the database names it as a sender, at the database's cycle time:
with start values, constants that are given, and what a `Solver` computes. The solver reads the
messages that the database names the node as a receiver of.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hilrt.bench.emulate import Emulation
from hilrt.can.codec import multiplexers, start_values
from hilrt.can.database import load_database, representable
from hilrt.can.frame import CLASSIC_BYTES, FD_BYTES
from hilrt.can.protection import MessageOptions
from hilrt.can.tools.port_lines import guard_of
from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.solver import Floats, Port, Solver

if TYPE_CHECKING:
    from cantools.database.can import Message, Signal

#: Cycle of the emulation, s; times of messages are whole numbers of these.
CYCLE_S = 1e-3
#: Between two messages of which the database tells no cycle time, s.
UNTOLD_CYCLE_S = 0.1


class NodeOptions(NamedTuple):
    """A node to emulate.

    `node` is its name in the database; `values` are constants, ``MESSAGE.SIGNAL=VALUE`` with a
    number or a name of the signal's enumeration; `solver` is made already.
    """

    node: str
    values: Sequence[str] = ()
    solver: Solver | None = None


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
    counters : dict of str to MessageOptions
        Counters of the messages, which are found by their names.
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
        self.counters: dict[str, MessageOptions] = {}
        own = [m for m in loaded.messages if options.node in m.senders]
        sent = [m for m in own if self._is_sent(m)]
        heard = [m for m in loaded.messages if options.node in _receivers(m) and m not in own]
        heard = [m for m in heard if not (m.is_multiplexed() or m.is_container)]
        self._sent = {m.name: m for m in sent}
        self.sends: Mapping[str, int] = {m.name: self._cycles(m) for m in sent}
        self.receives: Mapping[str, tuple[str, ...]] = {
            m.name: tuple(s.name for s in m.signals) for m in heard
        }
        self._values = {m.name: self._start(m) for m in sent}
        if not self.sends:
            raise ConfigError(f"{database.name}: node {options.node} sends no message that can be")
        for text in options.values:
            self._set(text)
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
        """Take the signals of a message that the solver reads."""
        for signal, value in values.items():
            i = self._inputs.get((message, signal)) if self._solver is not None else None
            if i is not None:
                self._u[i] = value

    def advance(self, now: float) -> None:
        """Let the solver compute up to `now` [s]."""
        if self._solver is None:
            return
        if self._t == 0.0:
            self._take(self._solver.initialize(0.0, self._u.copy()).y)
        self._take(self._solver.advance(self._t, now - self._t, self._u[None].copy()).y)
        self._t = now

    def measure(self, message: str) -> dict[str, float]:
        """Signals of a message, without its counter."""
        return dict(self._values[message])

    # -- what the database tells ------------------------------------------------------------------

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
        if not message.cycle_time:
            text = f"sent every {UNTOLD_CYCLE_S * 1e3:g} ms"
            self.remarks.append(f"message {message.name} has no cycle time in the database: {text}")
        seconds = (message.cycle_time or 0) * 1e-3 or UNTOLD_CYCLE_S
        return max(1, round(seconds / CYCLE_S))

    def _start(self, message: Message) -> dict[str, float]:
        """Start values of a message's signals, within what they can carry; not of its counter."""
        switches = {signal.name for signal in multiplexers(message)}
        start = start_values(message)
        plain = [s for s in message.signals if s.name not in switches and s.scale]
        values = {signal.name: float(start[signal.name]) for signal in plain}
        kinds = {signal.name: guard_of(signal) for signal in plain}
        for name, kind in kinds.items():
            always = message.get_signal_by_name(name).multiplexer_signal is None
            if kind == "counter" and always and message.name not in self.counters:
                self.counters[message.name] = MessageOptions(counter=name)
                del values[name]
            elif kind == "checksum":
                self.remarks.append(
                    f"message {message.name}: {name} is a checksum by its name, and no database "
                    f"says how it is computed: it stays {values[name]:g}"
                )
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
            raise ConfigError(f"--set {text}: {signal_name} counts frames, or selects their form")
        signal = self._sent[message].get_signal_by_name(signal_name)
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
        self._bounds = [
            representable(self._sent[message].get_signal_by_name(signal))
            for message, signal in self._outputs
        ]

    def _take(self, y: Floats) -> None:
        """Outputs into the messages, as far as their signals can carry them."""
        rows = zip(self._outputs, self._bounds, np.asarray(y).tolist(), strict=True)
        for (message, signal), (low, high), value in rows:
            if value == value:
                self._values[message][signal] = min(max(value, low), high)


def node_emulation(options: NodeOptions, bus: dict[str, Any], database: Path) -> Emulation:
    """A node of a database to run; what the database does not tell goes to standard error.

    `ConfigError` as for `DatabaseNode`.
    """
    node = DatabaseNode(database, options)
    for remark in node.remarks:
        print(f"hilrt emulate: {remark}", file=sys.stderr)
    return Emulation(
        options.node,
        bus=bus,
        database=database,
        messages=node.counters,
        make=partial(DatabaseNode, database, options),
    )


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
