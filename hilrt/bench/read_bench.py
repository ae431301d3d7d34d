"""A bench on CAN: its table, checked against and combined with its database."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from hilrt.bench.bench_options import BenchInput, BenchOptions
from hilrt.bench.check_signals import (
    check_contents,
    check_directions,
    check_frames,
    check_range,
    narrowed,
)
from hilrt.bench.guard_states import GuardSettings
from hilrt.bench.set_points import SetPointLimits
from hilrt.can.bus import check_bus
from hilrt.can.database import (
    DEFAULT_CYCLE_MS,
    SignalRef,
    check_distinct,
    find_signal,
    inward,
    load_database,
    measured_port,
    named_values,
    rounding,
)
from hilrt.can.protection import MessageOptions, check_messages, cycle_of, with_set_points
from hilrt.config.from_toml import nearest
from hilrt.config.units import UNSTATED, check_unit, conversion
from hilrt.errors import ConfigError
from hilrt.link import FrameTime
from hilrt.solver import Port, Ports

if TYPE_CHECKING:
    from cantools.database.can import Message

#: Share of `max_jerk` that the master uses. Set-points arrive with jitter and gaps: with a smaller
#: margin the gateway would limit them again, with additional lag, and a loop through both limits
#: could oscillate (tests/test_jerk_in_the_loop.py).
MASTER_SHARE = 0.5
#: Minimum number of frames per `bench_timeout` of an emulated message without a cycle time.
FRAMES_IN_TIME = 2


def emulated_cycle(message: Message, table: BenchOptions) -> int:
    """Time between two frames of a message that an emulated bench sends, ms.

    This is the database's cycle time; without one, `DEFAULT_CYCLE_MS`, or less if `bench_timeout`
    is short.
    """
    default = min(DEFAULT_CYCLE_MS, 1e3 * table.timeouts.bench / FRAMES_IN_TIME)
    return max(1, round(message.cycle_time or default))


class PortsError(ConfigError):
    """Problems of a bench's table, with the ports that are known nevertheless.

    Parameters
    ----------
    problems : sequence of str
        As for `ConfigError`; problems of the inputs' limits are among them.
    ports : Ports
        Every port that the table names, without limits.
    unclear : collection of str
        Ports of which only the name is known.
    """

    def __init__(self, problems: Sequence[str], ports: Ports, unclear: Collection[str]) -> None:
        super().__init__(problems)
        self.ports = ports
        self.unclear = frozenset(unclear)


@dataclass(frozen=True)
class Bench:
    """A bench's table, checked against its database.

    Attributes
    ----------
    inputs, outputs : dict of str to SignalRef
        Signals of the ports, in their order.
    request, state : SignalRef or None
        Signals of the enable handshake.
    ports : Ports
    limits : SetPointLimits
        Bounds that still hold after rounding to the signals' resolution.
    order : tuple of int
        Inputs in the order of the safe profile.
    narrower : tuple of str
        Texts about inputs whose limits the database narrows.
    """

    options: BenchOptions
    inputs: dict[str, SignalRef]
    outputs: dict[str, SignalRef]
    request: SignalRef | None
    state: SignalRef | None
    ports: Ports
    limits: SetPointLimits
    order: tuple[int, ...]
    narrower: tuple[str, ...]
    _realised: tuple[tuple[int, int, float, float], ...]

    @property
    def received(self) -> list[Message]:
        """Messages from the bench that carry used signals, or the containers of such messages."""
        refs = [*self.outputs.values(), *([self.state] if self.state else [])]
        return list({ref.carrier.name: ref.carrier for ref in refs}.values())

    @property
    def sending_interval(self) -> float:
        """Longest interval of the messages that carry the outputs, s; 0 if not known."""
        intervals = [self._interval(ref.carrier) for ref in self.outputs.values()]
        return float(np.nan_to_num(np.fmax.reduce(intervals)))

    @property
    def fastest_interval(self) -> float:
        """Interval of the bench's most frequent message, s; 0 if not known."""
        intervals = [self._interval(message) for message in self.received]
        return 0.0 if any(map(math.isnan, intervals)) else min(intervals)

    def _interval(self, message: Message) -> float:
        """Time between two frames, from the database or the emulated bench, s; NaN if not known."""
        if self.options.emulator is not None:
            return emulated_cycle(message, self.options) / 1e3
        return (message.cycle_time or 0) / 1e3 or math.nan

    @property
    def driven(self) -> list[Message]:
        """Messages that the gateway sends to the bench."""
        refs = [*self.inputs.values(), *([self.request] if self.request else [])]
        return list({ref.message.name: ref.message for ref in refs}.values())

    @property
    def frames(self) -> list[FrameTime]:
        """Messages on the bus, with their intervals [s] and longest frames [bit]."""
        found = []
        for message in self.driven:
            options = self.options.messages.get(message.name) or MessageOptions()
            own = not with_set_points(options, message)
            interval = cycle_of(options, message) if own and options.send != "change" else 0.0
            found.append(FrameTime(message.name, True, interval, longest_frame(message)))
        for message in self.received:
            interval = self._interval(message)
            found.append(FrameTime(message.name, False, interval, longest_frame(message)))
        return found

    def realised(self, y: Sequence[float]) -> list[float]:
        """Realised value of each input, from the values of the outputs.

        Values are in the inputs' units; NaN if not measured.
        """
        values = [math.nan] * len(self.inputs)
        for i, j, factor, offset in self._realised:
            values[i] = factor * y[j] + offset
        return values

    def guard_settings(self, idle_timeout: float) -> GuardSettings:
        """Settings of the guardian; `idle_timeout` [s] bounds the master's silence while idle."""
        enable = self.options.enable
        return GuardSettings(
            order=self.order,
            step_timeout=self.options.safe_profile.step_timeout,
            master_timeout=self.options.timeouts.master,
            idle_timeout=idle_timeout,
            enable_timeout=enable.timeout if enable else 0.0,
            enable_text=(enable.state if enable else None) or "the enable state",
        )


def longest_frame(message: Message) -> int:
    """Largest length of a message's frame with stuff bits and interframe space, bit; 0 for CAN FD.

    ``g + 8 s + 13 + floor((g + 8 s - 1) / 4)`` with s bytes, and g = 34, or 54 with an identifier
    of 29 bits (Davis, Burns, Bril and Lukkien 2007, eq. 1). For a group of several frames, the
    length of one frame.
    """
    if message.is_fd:
        return 0
    stuffed = (54 if message.is_extended_frame else 34) + 8 * min(message.length, 8)
    return stuffed + 13 + (stuffed - 1) // 4


def read_bench(name: str, options: BenchOptions, folder: Path) -> Bench:
    """Check a bench's table against its database.

    Raises
    ------
    PortsError
        With every problem found, each naming table, key, value and remedy.
    """
    table = f"[subsystems.{name}]"
    problems = check_bus(options.bus, f"{table} bus")
    signals = _find_signals(name, options, folder, problems)
    inputs, outputs = _found(signals.inputs), _found(signals.outputs)
    for port, entry in options.inputs.items():
        label = f"[subsystems.{name}.inputs.{port}]"
        problems += _check_input(entry, inputs.get(port), options, label)
    given, options = options, _within_declared(options, inputs)
    problems += _check_signals(table, options, signals)
    problems += _check_order(table, options)
    if not options.outputs:
        problems.append(f"{table} outputs: is empty; name at least one signal to measure")
    realised = _realised(name, options, inputs, outputs, problems)
    if problems:
        unclear = {*signals.inputs, *signals.outputs} - {*inputs, *outputs}
        raise PortsError(problems, _bare_ports(signals), unclear)
    order = [*options.safe_profile.order]
    order += [port for port in inputs if port not in order]
    ports = _ports(options, inputs, outputs)
    return Bench(
        options=options,
        inputs=inputs,
        outputs=outputs,
        request=signals.request,
        state=signals.state,
        ports=ports,
        limits=_limits(ports.inputs, options, inputs),
        order=tuple(list(inputs).index(port) for port in order),
        narrower=tuple(_narrower(given, options)),
        _realised=tuple(realised),
    )


class _Signals(NamedTuple):
    """Messages and signals of the table, from the database; None for missing ones.

    `complete`: whether everything was found.
    """

    inputs: dict[str, SignalRef | None]
    outputs: dict[str, SignalRef | None]
    request: SignalRef | None
    state: SignalRef | None
    complete: bool


def _found(refs: Mapping[str, SignalRef | None]) -> dict[str, SignalRef]:
    return {port: ref for port, ref in refs.items() if ref is not None}


def _find_signals(name: str, options: BenchOptions, folder: Path, problems: list[str]) -> _Signals:
    table, before = f"[subsystems.{name}]", len(problems)
    database = None
    try:
        database = load_database(folder / options.database, f"{table} database")
    except ConfigError as error:
        problems += error.problems

    def find(ref: str, label: str) -> SignalRef | None:
        try:
            return find_signal(database, ref, label) if database else None
        except ConfigError as error:
            problems.extend(error.problems)
            return None

    def port_of(port: str, ref: str, label: str) -> SignalRef | None:
        found = find(ref, label)
        return found and found._replace(stated=options.units.get(port, ""))

    problems += _check_units(table, options)
    outputs = {
        port: port_of(port, ref, f"{table} outputs.{port}") for port, ref in options.outputs.items()
    }
    inputs = {
        port: port_of(port, entry.signal, f"[subsystems.{name}.inputs.{port}] signal")
        for port, entry in options.inputs.items()
    }
    enable = options.enable
    request = find(enable.request, f"{table} enable.request") if enable else None
    state = find(enable.state, f"{table} enable.state") if enable and enable.state else None
    return _Signals(inputs, outputs, request, state, len(problems) == before)


def _check_units(table: str, options: BenchOptions) -> list[str]:
    """Check that units belong to existing ports and can be read."""
    ports, problems = {*options.outputs, *options.inputs}, []
    for port, unit in options.units.items():
        if port not in ports:
            problems.append(f"{table} units.{port}: there is no such port{nearest(port, ports)}")
            continue
        try:
            check_unit(unit)
        except ConfigError as error:
            problems.append(f"{table} units.{port}: {error}")
    return problems


def _check_input(
    entry: BenchInput, signal: SignalRef | None, options: BenchOptions, label: str
) -> list[str]:
    problems = _check_limits(entry, label)
    if signal is not None and not problems and entry.enumerated:
        problems += _check_enumeration(entry, signal, label)
    if entry.realised is not None and entry.realised not in options.outputs:
        known = nearest(entry.realised, options.outputs)
        problems.append(f"{label} realised = {entry.realised!r}: is not an output{known}")
    if signal is not None and not problems:
        problems += check_range(signal, entry, label)
    return problems


def _within_declared(options: BenchOptions, refs: Mapping[str, SignalRef]) -> BenchOptions:
    """Return the table with inputs' limits narrowed to the declared ranges of their signals."""
    inputs = dict(options.inputs)
    for port, ref in refs.items():
        entry = inputs[port]
        if entry.min is not None and entry.max is not None:
            low, high = narrowed(ref, entry.min, entry.max)
            safe, start = (
                None if value is None else min(max(value, low), high)  # rounding may exceed a limit
                for value in (entry.safe, entry.start)
            )
            inputs[port] = msgspec.structs.replace(entry, min=low, max=high, safe=safe, start=start)
    return msgspec.structs.replace(options, inputs=inputs)


def _narrower(given: BenchOptions, options: BenchOptions) -> Iterator[str]:
    for port, entry in options.inputs.items():
        table = given.inputs[port]
        if (entry.min, entry.max) != (table.min, table.max):
            yield (
                f"input {port}: the database limits it to {entry.min:g} to {entry.max:g},"
                f" not {table.min:g} to {table.max:g} as the session file does"
            )


def _check_signals(table: str, options: BenchOptions, signals: _Signals) -> list[str]:
    """Check that the signals do not conflict, and that the frames can carry them."""
    driven = [(f"inputs.{port}.signal", ref) for port, ref in _found(signals.inputs).items()]
    driven += [("enable.request", signals.request)] if signals.request else []
    received = [*_found(signals.outputs).values(), *([signals.state] if signals.state else [])]
    problems = check_directions(table, driven, received)
    if signals.complete:
        messages = [ref.message for _, ref in driven], [ref.message for ref in received]
        problems += check_distinct(
            [*received, *(ref for _, ref in driven)],
            f"{table} database",
            "set messages.NAME.source to the sender of the message, or correct the database",
            lambda message: (options.messages.get(message.name) or MessageOptions()).source,
        )
        wrong = check_messages(table, options.messages, *messages)
        problems += wrong or check_contents(table, options.messages, options.inputs, driven)
    return problems + check_frames(table, [ref for _, ref in driven], received, options.bus)


def _check_enumeration(entry: BenchInput, ref: SignalRef, label: str) -> list[str]:
    """Check that `safe` and `start` are among the values of an enumeration."""
    name = f"{ref.message.name}.{ref.signal.name}"
    assert entry.min is not None and entry.max is not None  # noqa: PT018 - checked before
    values = named_values(ref.signal, entry.min, entry.max)
    if not values:
        return [
            f"{label} enumerated = true: the value table of signal {name} has no value from "
            f"{entry.min:g} to {entry.max:g}; leave it out and give a max_rate"
        ]
    listed = ", ".join(f"{value:g}" for value in values)
    return [
        f"{label} {key} = {value}: is not in the value table of signal {name}: {listed}"
        for key, value in (("safe", entry.safe), ("start", entry.start))
        if value is not None and min(abs(value - one) for one in values) > rounding(ref.signal)
    ]


def _check_limits(entry: BenchInput, label: str) -> list[str]:
    problems = []
    rates = (("max_rate", entry.max_rate), ("max_jerk", entry.max_jerk)) if entry.enumerated else ()
    problems += [
        f"{label} {key} = {value}: an enumeration jumps; leave it out, or enumerated"
        for key, value in rates
        if value is not None
    ]
    for key in ("min", "max", "max_rate", "safe"):
        value = getattr(entry, key)
        if value is None and not (key == "max_rate" and entry.enumerated):
            problems.append(
                f"{label} {key}: is missing; a bench input needs min, max, max_rate and safe,"
                " in the signal's unit"
            )
    if problems:
        return problems
    assert entry.min is not None and entry.max is not None  # noqa: PT018 - checked above
    if not entry.min < entry.max:
        return [f"{label} min = {entry.min}: must be below max = {entry.max}"]
    for key in ("safe", "start"):
        value = getattr(entry, key)
        if value is not None and not entry.min <= value <= entry.max:
            problems.append(
                f"{label} {key} = {value}: must lie between min = {entry.min} and max = {entry.max}"
            )
    return problems


def _check_order(table: str, options: BenchOptions) -> list[str]:
    order = options.safe_profile.order
    problems = []
    for port in order:
        if port not in options.inputs:
            known = nearest(port, options.inputs)
            problems.append(f"{table} safe_profile.order: {port!r} is not an input{known}")
    if len(set(order)) < len(order):
        problems.append(f"{table} safe_profile.order = {order}: names an input twice")
    return problems


def _realised(
    name: str,
    options: BenchOptions,
    inputs: dict[str, SignalRef],
    outputs: dict[str, SignalRef],
    problems: list[str],
) -> list[tuple[int, int, float, float]]:
    """Index of input and output, and factor and offset from the output's unit to the input's."""
    entries = []
    for i, (port, entry) in enumerate(options.inputs.items()):
        if entry.realised not in outputs or port not in inputs:
            continue
        try:
            factor, offset = conversion(outputs[entry.realised].unit, inputs[port].unit)
        except ConfigError as error:
            problems.append(
                f"[subsystems.{name}.inputs.{port}] realised = {entry.realised!r}: {error}"
            )
            continue
        entries.append((i, list(outputs).index(entry.realised), factor, offset))
    return entries


def _bare_ports(signals: _Signals) -> Ports:
    """Ports of a table with problems: names, and units where the signal is known."""
    return Ports(
        *(
            tuple(Port(name, UNSTATED if ref is None else ref.unit) for name, ref in refs.items())
            for refs in (signals.inputs, signals.outputs)
        )
    )


def _ports(
    options: BenchOptions, inputs: dict[str, SignalRef], outputs: dict[str, SignalRef]
) -> Ports:
    def port(name: str, ref: SignalRef) -> Port:
        entry = options.inputs[name]
        assert entry.safe is not None
        assert entry.min is not None
        assert entry.max is not None
        return Port(
            name=name,
            unit=ref.unit,
            start=entry.safe if entry.start is None else entry.start,
            min=entry.min,
            max=entry.max,
            max_rate=math.inf if entry.max_rate is None else entry.max_rate,
            max_jerk=math.inf if entry.max_jerk is None else MASTER_SHARE * entry.max_jerk,
            safe=entry.safe,
            description=ref.signal.comment or "",
        )

    return Ports(
        inputs=tuple(port(name, ref) for name, ref in inputs.items()),
        outputs=tuple(measured_port(name, ref) for name, ref in outputs.items()),
    )


def _limits(
    ports: Sequence[Port], options: BenchOptions, inputs: dict[str, SignalRef]
) -> SetPointLimits:
    """Limits that the gateway enforces: bounds that signals can represent, and the full jerk."""
    bounds = [
        inward(ref.signal, port.min, port.max)
        for port, ref in zip(ports, inputs.values(), strict=True)
    ]
    jerks = [options.inputs[port.name].max_jerk for port in ports]
    return SetPointLimits(
        names=tuple(inputs),
        minimum=[float(low) for low, _ in bounds],
        maximum=[float(high) for _, high in bounds],
        max_rate=[float(port.max_rate) for port in ports],
        safe=[
            min(max(float(port.safe or 0.0), low), high)
            for port, (low, high) in zip(ports, bounds, strict=True)
        ],
        max_jerk=[math.inf if jerk is None else jerk for jerk in jerks],
        values={
            i: named_values(ref.signal, *bounds[i])
            for i, (name, ref) in enumerate(inputs.items())
            if options.inputs[name].enumerated
        },
    )
