"""Checks that a bench's signals and frames can carry the values of its table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cantools.database.can import Message

from hilrt.can.codec import bits, fits, selectors
from hilrt.can.database import SignalRef, declared_range, representable
from hilrt.can.frame import CLASSIC_BYTES, FD_BYTES
from hilrt.can.id_table import is_j1939
from hilrt.can.j1939_transport import LONGEST
from hilrt.can.protection import MessageOptions, protection_of
from hilrt.config.structs import InputOptions

#: Key in the table, and the signal that it drives.
Driven = tuple[str, SignalRef]


def check_range(ref: SignalRef, entry: InputOptions, label: str) -> list[str]:
    """Check that a signal's bits can carry an input's limits, and the database permits its values.

    Limits beyond the declared range are narrowed to it, which the session's check reports; the safe
    value and the start value must lie inside.
    """
    low, high = entry.min, entry.max
    assert low is not None and high is not None  # noqa: PT018 - checked before
    signal, name = ref.signal, f"{ref.message.name}.{ref.signal.name}"
    carried = representable(signal)
    if not _within(low, high, *carried):
        return [
            f"{label} min = {low}, max = {high}: signal {name} carries only"
            f" {carried[0]:g} to {carried[1]:g}; narrow the limits"
        ]
    least, most = declared_range(signal)
    slack = _slack(least, most)
    declared = f"the database limits signal {name} to {least:g} to {most:g}"
    if high <= least or low >= most:
        return [
            f"{label} min = {low}, max = {high}: {declared}, so that no value is possible;"
            " correct the limits, or the database"
        ]
    return [
        f"{label} {key} = {value}: {declared}; give a value inside, or correct the database if the"
        " bench accepts more"
        for key, value in (("safe", entry.safe), ("start", entry.start))
        if value is not None and not least - slack <= value <= most + slack
    ]


def narrowed(ref: SignalRef, low: float, high: float) -> tuple[float, float]:
    """Limits of an input within the declared range of its signal."""
    least, most = declared_range(ref.signal)
    return max(low, least), min(high, most)


def _within(low: float, high: float, least: float, most: float) -> bool:
    slack = _slack(least, most)
    return least - slack <= low and high <= most + slack


def _slack(least: float, most: float) -> float:
    """Tolerance of a range for rounding."""
    return 1e-6 * (most - least) if math.isfinite(most - least) else 0.0


def check_directions(
    table: str, driven: Sequence[Driven], received: Iterable[SignalRef]
) -> list[str]:
    """Check that signals are driven once, messages go one way, and no multiplexer is driven."""
    problems = []
    seen: dict[str, str] = {}
    for key, ref in driven:
        text = f"{ref.message.name}.{ref.signal.name}"
        if text in seen:
            problems.append(f"{table} {key} = {text!r}: is driven by {seen[text]} too; choose one")
        seen[text] = key
    for key, ref in driven:
        above = f"{ref.message.name}.{ref.signal.multiplexer_signal}"
        if above in seen:
            problems.append(
                f"{table} {seen[above]} = {above!r}: says which frames carry {key}; leave it out,"
                " it is set automatically in each frame"
            )
    both = {ref.message.name for _, ref in driven} & {ref.message.name for ref in received}
    for name in sorted(both):
        problems.append(
            f"{table}: message {name} is sent by the gateway and received from the bench;"
            " take outputs and enable.state from messages that the bench sends"
        )
    return problems


def check_frames(
    table: str,
    driven: Iterable[SignalRef],
    received: Iterable[SignalRef],
    bus: Mapping[str, Any],
) -> list[str]:
    """Check that messages fit into one frame of the bus, and multiplexed signals into messages.

    A received J1939 group may consist of several frames.
    """
    sent = {ref.message.name for ref in driven}
    refs = [*driven, *received]
    messages = {ref.carrier.name: ref.carrier for ref in refs}
    problems = [
        f"{table}: message {ref.message.name} would be sent in container {ref.container.name};"
        " messages in containers can only be received; choose one with its own frame"
        for ref in driven
        if ref.container is not None
    ]
    for name, message in sorted(messages.items()):
        text = f"{table}: message {name} has {message.length} bytes"
        if message.length > CLASSIC_BYTES and is_j1939(message) and not message.is_fd:
            if name in sent:
                problems.append(
                    f"{text}; several frames of the J1939 transport protocol would carry it, which"
                    f" can be received but not sent; send messages of {CLASSIC_BYTES} bytes"
                )
            elif message.length > LONGEST:
                problems.append(
                    f"{text}; the longest J1939 group has {LONGEST}; correct the database"
                )
        elif message.length > FD_BYTES:
            problems.append(
                f"{text}; a frame of CAN FD carries {FD_BYTES}; correct the database, or leave"
                " the message out"
            )
        elif message.length > CLASSIC_BYTES and not _is_fd(message):
            problems.append(
                f"{text} and the database does not mark it as CAN FD, which could carry it; a frame"
                f" without CAN FD carries {CLASSIC_BYTES}; correct the database"
            )
    fd = sorted(name for name, message in messages.items() if _is_fd(message))
    if fd and not bus.get("fd"):
        problems.append(
            f"{table} bus: {', '.join(fd)} is a CAN FD message; add fd = true to the bus"
        )
    return problems + _check_multiplexers(table, refs)


def _is_fd(message: Message) -> bool:
    """Whether its frames are CAN FD frames; databases do not specify this for containers."""
    return bool(message.is_fd or (message.is_container and message.length > CLASSIC_BYTES))


def _check_multiplexers(table: str, refs: Sequence[SignalRef]) -> list[str]:
    """Find signals that no frame carries, because their multiplexer lies beyond its message."""
    problems = []
    for ref in refs:
        message, signal = ref.message, ref.signal
        for switch, _ in selectors(message, signal):
            if not fits(message, message.get_signal_by_name(switch)):
                problems.append(
                    f"{table}: {message.name}.{signal.name} is only in frames that the multiplexer"
                    f" {switch} selects, which extends beyond the message's {message.length} bytes;"
                    " correct the database"
                )
    return problems


def check_contents(
    table: str,
    options: Mapping[str, MessageOptions],
    limits: Mapping[str, InputOptions],
    driven: Sequence[Driven],
) -> list[str]:
    """Check that fixed and final values are in range, and that protections overwrite no signal."""
    problems = []
    for name, message in {ref.message.name: ref.message for _, ref in driven}.items():
        entry = options.get(name)
        if entry is None:
            continue
        label = f"{table} messages.{name}"
        keys = {ref.signal.name: key for key, ref in driven if ref.message.name == name}
        ports = {s: key.split(".")[1] for s, key in keys.items()}  # inputs.PORT.signal
        sent = {
            **dict.fromkeys(entry.values, "values"),
            **dict.fromkeys(entry.last, "last"),
            **keys,
        }
        guard = protection_of(entry, message)
        if guard is not None:
            problems += [
                f"{label} protection: writes over the bits of signal {signal}, which {key} sends;"
                " correct offset or method, or omit the signal"
                for signal, key in sent.items()
                if guard.header & bits(message, message.get_signal_by_name(signal))
            ]
        for key, values in (("values", entry.values), ("last", entry.last)):
            for signal, value in values.items():
                of_signal = message.get_signal_by_name(signal)
                low, high = representable(of_signal)
                given = limits.get(ports.get(signal, ""))
                low = low if given is None or given.min is None else given.min
                high = high if given is None or given.max is None else given.max
                least, most = declared_range(of_signal)
                slack = _slack(least, most)
                if not low <= value <= high:
                    problems.append(
                        f"{label} {key}.{signal} = {value}: must lie between {low:g} and {high:g}"
                    )
                elif not least - slack <= value <= most + slack:
                    problems.append(
                        f"{label} {key}.{signal} = {value}: the database limits it to {least:g} to"
                        f" {most:g}; give a value inside, or correct the database"
                    )
    return problems
