"""A frame to send, from the words of a command line. No I/O except for reading the database."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from cantools.database.can import Message, Signal

from hilrt.can.codec import LARGEST_FLOAT, codec, multiplexers, selectors
from hilrt.can.database import load_database
from hilrt.can.frame import EXTENDED, EXTENDED_MASK, STANDARD_MASK, Frame
from hilrt.can.id_table import can_id_of
from hilrt.can.tools.session_draft import fault, reason
from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError

#: Lengths of CAN FD beyond the eight bytes of a classic frame.
_FD_LENGTHS = (12, 16, 20, 24, 32, 48, 64)
#: Relative resolution of an IEEE float and its smallest step, by number of bits.
_FLOATS = {16: (2.0**-10, 2.0**-24), 32: (2.0**-23, 2.0**-149), 64: (2.0**-52, 2.0**-1074)}


def frame_of(words: Sequence[str], database: Path | None) -> Frame:
    """Frame for ``123#11223344``, or for ``Message Signal=value …``.

    Raises
    ------
    ConfigError
        If no frame represents exactly these words, with the reason and a remedy.
    """
    if "#" in words[0]:
        return _raw_frame(words)
    if database is None:
        raise ConfigError("--database: is missing; it is needed for messages by name")
    messages = load_database(database, "--database").messages
    named = [message for message in messages if message.name == words[0]]
    if not named:
        there = {message.name for message in messages}
        raise ConfigError(f"{database.name}: no message {words[0]!r}{nearest(words[0], there)}")
    if len(named) > 1:
        raise ConfigError(
            f"{database.name}: has several messages {words[0]}; rename them, or send the frame raw"
        )
    return _named_frame(named[0], words[1:])


def _raw_frame(words: Sequence[str]) -> Frame:
    identifier, _, digits = words[0].partition("#")
    try:
        number, payload = int(identifier, 16), bytes.fromhex(digits)
    except ValueError:
        raise ConfigError(f"{words[0]}: write it as 123#11223344, in hexadecimal") from None
    extended = len(identifier) > 3
    length = len(payload)
    in_range = 0 <= number <= (EXTENDED_MASK if extended else STANDARD_MASK)
    if len(words) > 1 or not in_range or (length > 8 and length not in _FD_LENGTHS):
        raise ConfigError(
            f"{' '.join(words)}: one identifier of 3 or 8 digits, up to 8 bytes, or with CAN FD "
            f"{', '.join(map(str, _FD_LENGTHS))}"
        )
    return Frame(number | (EXTENDED if extended else 0), payload, 0, length > 8)


def _named_frame(message: Message, items: Iterable[str]) -> Frame:
    if message.is_container:
        raise ConfigError(f"{message.name}: contains other messages; such messages cannot be sent")
    signals = {signal.name: signal for signal in message.signals}
    values: dict[str, float] = {}
    for item in items:
        name, _, text = item.partition("=")
        if name not in signals:
            raise ConfigError(f"{item}: {message.name} has no such signal{nearest(name, signals)}")
        if name in values:
            raise ConfigError(f"{item}: {name} is given twice; give it once")
        values[name] = _value(message, signals[name], item, text)
    fixed = _selected(message, values)
    values |= {name: _physical(signals[name], raw) for name, raw in fixed.items()}
    return Frame(can_id_of(message), _encoded(message, values, fixed), 0, _is_fd(message))


def _is_fd(message: Message) -> bool:
    return bool(message.is_fd) or message.length > 8


# ---- values --------------------------------------------------------------------------------------


def _physical(signal: Signal, raw: float) -> float:
    return raw * signal.scale + signal.offset


def _raw(signal: Signal, value: float) -> float:
    # Without a scale integers stay integers, exact beyond 53 bits.
    scaled = value - signal.offset
    return scaled if signal.scale == 1 else scaled / signal.scale


def _value(message: Message, signal: Signal, item: str, text: str) -> float:
    """Physical value given for a signal, within the range of its bits."""
    wrong = fault(message, signal)
    if wrong:
        raise ConfigError(f"{item}: {wrong}; correct the database")
    choices = {str(choice): raw for raw, choice in (signal.choices or {}).items()}
    try:
        value = _physical(signal, choices[text]) if text in choices else _number(text)
    except ValueError:
        others = f" or one of {list(choices)}" if choices else ""
        raise ConfigError(f"{item}: give a number{others}") from None
    if not math.isfinite(value):
        raise ConfigError(f"{item}: cannot be sent; give a finite number")
    low, high = _raw_limits(signal)
    raw = _raw(signal, value)
    if not low <= (raw if signal.is_float else round(raw)) <= high:
        ends = sorted(_physical(signal, end) for end in (low, high))
        unit = f" {signal.unit}" if signal.unit else ""
        raise ConfigError(
            f"{item}: {signal.name} can carry {_shown(ends[0])} to {_shown(ends[1])}{unit} only; "
            "give a value between these"
        )
    return value


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.10g}"


def _raw_limits(signal: Signal) -> tuple[float, float]:
    if signal.is_float:
        largest = LARGEST_FLOAT[signal.length]
        return -largest, largest
    half = 1 << (signal.length - 1)
    return (-half, half - 1) if signal.is_signed else (0, 2 * half - 1)


# ---- multiplexers --------------------------------------------------------------------------------


def _selected(message: Message, values: dict[str, float]) -> dict[str, int]:
    """Raw values of the multiplexers of the one frame that contains all given signals.

    A multiplexer is never guessed: with its start value the frame could have another meaning.
    """
    possible: dict[str, set[int]] = {}
    for given in values:
        for name, ids in selectors(message, message.get_signal_by_name(given)):
            possible[name] = possible.get(name, ids) & ids
    switches = sorted(
        multiplexers(message), key=lambda signal: len(selectors(message, signal))
    )  # outer ones first
    fixed: dict[str, int] = {}
    for switch in switches:
        if any(fixed.get(name) not in ids for name, ids in selectors(message, switch)):
            continue  # not in this frame
        known = {
            value
            for signal in message.signals
            if signal.multiplexer_signal == switch.name
            for value in signal.multiplexer_ids or ()
        }
        if known:
            raw = _raw(switch, values[switch.name]) if switch.name in values else None
            fixed[switch.name] = _choice(message, switch, raw, known, possible.get(switch.name))
    return fixed


def _choice(
    message: Message,
    switch: Signal,
    given: float | None,
    known: set[int],
    possible: set[int] | None,
) -> int:
    """Raw value of a multiplexer: the `given` one, or the only possible one."""
    place = f"{message.name}: its multiplexer {switch.name}"
    if given is not None and given not in known:
        value = _shown(_physical(switch, given))
        raise ConfigError(
            f"{place} has no value {value}; give one of {_values(message, switch, known)}"
        )
    if possible is not None and not possible:
        raise ConfigError(
            f"{place} puts the given signals into different frames; send them separately: "
            f"{_values(message, switch, known)}"
        )
    fitting = known if possible is None else possible
    if given is not None and given not in fitting:
        value = _shown(_physical(switch, given))
        raise ConfigError(
            f"{place} is given as {value}, for which the frame lacks a given signal; "
            f"give one of {_values(message, switch, fitting)}, or leave it out"
        )
    if given is not None:
        return int(given)
    if len(fitting) != 1:
        raise ConfigError(
            f"{place} is missing; it selects what the frame carries: "
            f"give {switch.name}= one of {_values(message, switch, fitting)}"
        )
    return next(iter(fitting))


def _values(message: Message, switch: Signal, ids: Iterable[int]) -> str:
    """Values of a multiplexer, each with the signals that it selects."""
    texts = []
    for value in sorted(ids):
        names = [
            signal.name
            for signal in message.signals
            if signal.multiplexer_signal == switch.name and value in (signal.multiplexer_ids or ())
        ]
        texts.append(f"{_shown(_physical(switch, value))} ({', '.join(names)})")
    return ", ".join(texts)


# ---- bytes ---------------------------------------------------------------------------------------


def _encoded(message: Message, values: dict[str, float], fixed: dict[str, int]) -> bytes:
    """Encode the values, and check them by decoding."""
    try:
        coder = codec(message, list(values), fixed)
        data = coder.encode(list(values.values()))
        found = coder.decode(data)
    except Exception as error:  # errors in a database may raise any exception
        raise ConfigError(
            f"{message.name}: cannot be encoded: {reason(message, error)}; correct the database, "
            "or send the frame raw"
        ) from None
    for (name, value), got in zip(values.items(), found, strict=True):
        signal = message.get_signal_by_name(name)
        if got is None or not abs(got - value) <= _resolution(signal, value):
            would = "would be missing" if got is None else f"would be {got:.10g}"
            raise ConfigError(
                f"{message.name}: {name} {would} instead of {value:.10g}, because another signal "
                "overlaps it; omit that one, or send the frame raw"
            )
    return data


def _resolution(signal: Signal, value: float) -> float:
    """Maximum error of a value due to coding."""
    if signal.is_float:
        relative, smallest = _FLOATS[signal.length]
        step = max(abs(_raw(signal, value)) * relative, smallest)
        return abs(float(signal.scale)) * step + 1e-12 * abs(value)
    return 0.5 * abs(float(signal.scale)) * (1 + 1e-9) + 1e-12 * abs(value)
