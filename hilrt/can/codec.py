"""Coding of the used signals of one CAN message, compiled to a few shifts and masks.

cantools codes every signal of a message by dictionaries, which takes some 10 µs per frame, and
twice that with the cold caches of a process that wakes up for each frame. A gateway codes thousands
of frames per second and needs only a few signals. Therefore two functions per message are generated
as Python source with all constants of the database, and compiled: for integers and floats, either
byte order, multiplexed or not. Containers are coded by cantools.
"""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from cantools.database.can import Message, Signal
from cantools.database.utils import start_bit

#: struct codes of the database's floats, by their length in bits.
_FLOATS = {16: "<e", 32: "<f", 64: "<d"}
#: Largest of those floats, by their length in bits.
LARGEST_FLOAT = {16: 65504.0, 32: (2.0 - 2.0**-23) * 2.0**127, 64: sys.float_info.max}


class Codec(Protocol):
    """Conversion of selected signals of one message from and to its bytes."""

    def decode(self, data: bytes) -> Sequence[float | None]:
        """Values in the order of the signals; None for one that is not in this frame.

        Raises a cantools `DecodeError` or a `ValueError` for data that are too short, and for an
        unknown multiplexer value.
        """
        ...

    def encode(self, values: Sequence[float]) -> bytes:
        """Bytes of the message; other signals have their start values.

        A value that the bits cannot represent becomes the nearest possible one.
        """
        ...


def codec(
    message: Message,
    names: Sequence[str],
    fixed: Mapping[str, int] | None = None,
    marked: Collection[str] = (),
    *,
    strict: bool = True,
) -> Codec:
    """Create the fastest codec that the message permits.

    Parameters
    ----------
    message : Message
    names : sequence of str
        The signals, in the order of the values.
    fixed : mapping of str to int, optional
        Raw values of signals with constant values: multiplexers.
    marked : collection of str
        Signals decoded as None if their value means "not available" or "error" (SAE J1939-71).
    strict : bool
        Whether an unknown multiplexer value is an error; otherwise only the signals that do not
        depend on it are decoded.
    """
    if message.is_container:
        return CantoolsCodec(message, names)
    return CompiledCodec(message, names, fixed or {}, marked, strict=strict)


class CantoolsCodec:
    """Codec for any message, using cantools."""

    def __init__(self, message: Message, names: Sequence[str]) -> None:
        self._message = message
        self._names = list(names)
        self._values = start_values(message)

    def decode(self, data: bytes) -> Sequence[float | None]:
        """See `Codec`."""
        values: Any = self._message.decode(data, decode_choices=False)
        return [values.get(name) for name in self._names]  # multiplexed: not in every frame

    def encode(self, values: Sequence[float]) -> bytes:
        """See `Codec`."""
        self._values.update(zip(self._names, values, strict=True))
        return self._message.encode(self._values, strict=False)


class CompiledCodec:
    """Codec with two functions generated for the message.

    Attributes
    ----------
    decode, encode : callable
        See `Codec`.
    """

    decode: Callable[[bytes], Sequence[float | None]]
    encode: Callable[[Sequence[float]], bytes]

    def __init__(
        self,
        message: Message,
        names: Sequence[str],
        fixed: Mapping[str, int],
        marked: Collection[str] = (),
        *,
        strict: bool = True,
    ) -> None:
        fields = [_field(message.get_signal_by_name(name), message.length) for name in names]
        space: dict[str, Any] = {"from_bytes": int.from_bytes, "isfinite": math.isfinite}
        for code in _FLOATS.values():
            space[f"unpack_{code[1]}"] = struct.Struct(code).unpack
            space[f"pack_{code[1]}"] = struct.Struct(code).pack
        source = _decoder(message, names, fields, marked, strict=strict)
        source += _encoder(message, fields, fixed)
        exec(compile(source, f"<codec of {message.name!r}>", "exec"), space)  # safe: only numbers
        self.decode = space["decode"]
        self.encode = space["encode"]


# ---- position of a signal ------------------------------------------------------------------------


class _Field(NamedTuple):
    """Position of a signal in the message, read as one integer, and its conversion."""

    big: bool  # position in the big-endian reading of the bytes
    shift: int
    length: int
    signed: bool
    real: bool  # an IEEE float
    scale: float
    offset: float
    message_bits: int  # bits of the message

    @property
    def fits(self) -> bool:
        """Whether it lies within the message."""
        return 0 <= self.shift <= self.message_bits - self.length

    @property
    def available(self) -> str:
        """Source of the condition that the raw value is a value, not a mark of SAE J1939-71.

        The highest byte marks errors (0xFE) and missing values (0xFF); in a signal of two bits the
        upper bit does. Signals of other lengths have no marks.
        """
        if self.real or self.signed or (self.length != 2 and self.length not in (8, 16, 24, 32)):
            return "True"
        marks = 2 if self.length == 2 else 0xFE << (self.length - 8)
        return f"{self.raw} < {marks}"

    @property
    def mask(self) -> int:
        return (1 << self.length) - 1

    @property
    def raw(self) -> str:
        """Source of the raw value without its sign."""
        word = "big" if self.big else "little"
        return (
            f"({word} >> {self.shift} & {self.mask})" if self.shift else f"({word} & {self.mask})"
        )

    @property
    def value(self) -> str:
        """Source of the physical value, with cantools' operations, so that all bits are equal."""
        raw = self.raw
        if self.real:
            size = self.length // 8
            raw = f"unpack_{_FLOATS[self.length][1]}({raw}.to_bytes({size}, 'little'))[0]"
        elif self.signed:
            half = 1 << (self.length - 1)
            raw = f"(({raw} ^ {half}) - {half})"
        if self.scale == 1 and self.offset == 0:
            return raw
        if self.offset == 0 and self.scale > 0:  # else + 0 turns -0.0 into 0.0
            return f"{raw} * {self.scale!r}"
        return f"{raw} * {self.scale!r} + {self.offset!r}"

    def coded(self, value: str) -> str:
        """Source of the raw value for the physical one in the variable `value`, masked."""
        scaled = f"({value} - {self.offset!r})" if self.offset else value
        scaled += f" / {self.scale!r}" if self.scale != 1 else ""
        if self.real:
            most = LARGEST_FLOAT[self.length]
            clipped = (
                f"r if {-most} <= (r := {scaled}) <= {most} or not isfinite({value})"
                f" else {-most} if r < 0 else {most}"
            )
            return f"from_bytes(pack_{_FLOATS[self.length][1]}({clipped}), 'little')"
        half = 1 << (self.length - 1)
        low, high = (-half, half - 1) if self.signed else (0, 2 * half - 1)
        # Written out: min() and max() would take most of the time.
        clipped = (
            f"r if {low} <= (r := round({scaled})) <= {high} else {low} if r < {low} else {high}"
        )
        return f"({clipped}) & {self.mask}" if self.signed else clipped


def _field(signal: Signal, length: int) -> _Field:
    big = signal.byte_order == "big_endian"
    first = start_bit(signal)
    scale, offset = signal.scale, signal.offset
    if not signal.is_float and float(scale).is_integer() and float(offset).is_integer():
        scale, offset = int(scale), int(offset)  # exact beyond 2**53, as cantools computes it
    return _Field(
        big=big,
        shift=8 * length - first - signal.length if big else first,
        length=signal.length,
        signed=signal.is_signed,
        real=signal.is_float,
        scale=scale,
        offset=offset,
        message_bits=8 * length,
    )


def fits(message: Message, signal: Signal) -> bool:
    """Whether a signal lies within its message, which a database may violate."""
    return _field(signal, message.length).fits


def bits(message: Message, signal: Signal) -> int:
    """Bits of the message used by a signal, as a mask over its little-endian reading."""
    field = _field(signal, message.length)
    if not field.fits:
        return 0
    word = (field.mask << field.shift).to_bytes(message.length, "big" if field.big else "little")
    return int.from_bytes(word, "little")


# ---- source of the functions ---------------------------------------------------------------------


def _decoder(
    message: Message,
    names: Sequence[str],
    fields: Sequence[_Field],
    marked: Collection[str],
    *,
    strict: bool,
) -> str:
    size = message.length
    lines = [
        "def decode(data):",
        f"    if len(data) != {size}:",
        f"        if len(data) < {size}:",
        f"            raise ValueError(f'{{len(data)}} bytes instead of {size}')",
        f"        data = data[:{size}]",
    ]
    switches = sorted(
        multiplexers(message),
        key=lambda signal: len(selectors(message, signal)),  # outer ones first
    )
    read = [*fields, *(_field(signal, size) for signal in switches)]
    lines += [
        f"    {word} = from_bytes(data, '{word}')"
        for word, big in (("little", False), ("big", True))
        if any(field.big == big for field in read)
    ]
    variables: dict[str, str] = {}
    for i, switch in enumerate(switches):
        field = _field(switch, size)
        if not field.fits:  # no frame contains it or its selected signals
            variables[switch.name] = "None"
            continue
        variables[switch.name] = f"switch{i}"
        known = _known_values(message, switch)
        active = _active(message, switch, variables)
        lines.append(f"    switch{i} = {field.raw}")
        if not known or not strict:  # it selects nothing, or its value is not checked
            continue
        lines += [
            f"    if switch{i} not in {known} and {active}:",
            f"        raise ValueError(f'no multiplexer value {{switch{i}}}')",
        ]
    parts = []
    for name, field in zip(names, fields, strict=True):
        conditions = [_active(message, message.get_signal_by_name(name), variables)]
        conditions += [field.available] if name in marked else []
        condition = " and ".join(c for c in conditions if c != "True")
        value = field.value if field.fits else "None"
        parts.append(f"{value} if {condition} else None" if condition else value)
    lines.append(f"    return ({''.join(part + ', ' for part in parts)})")
    return "\n".join(lines) + "\n"


def _known_values(message: Message, switch: Signal) -> set[int]:
    """Values of a multiplexer that select signals of the message, or have a name."""
    below = {
        value
        for signal in message.signals
        if signal.multiplexer_signal == switch.name
        for value in signal.multiplexer_ids or ()
    }
    return below | set(switch.choices or ()) if below else below


def _active(message: Message, signal: Signal, variables: Mapping[str, str]) -> str:
    """Source of the condition that a frame contains the signal."""
    conditions = [
        f"{variables.get(name)} in {ids or ()}"  # None: missing in the message
        for name, ids in reversed(selectors(message, signal))
    ]
    return " and ".join(conditions) or "True"


def multiplexers(message: Message) -> list[Signal]:
    """Signals that select others, even if the database does not mark them so."""
    named = {signal.multiplexer_signal for signal in message.signals}
    return [signal for signal in message.signals if signal.name in named]


def selectors(message: Message, signal: Signal) -> list[tuple[str, set[int]]]:
    """Multiplexers of a signal, nearest first, each with the values that select it.

    No value selects a signal whose multiplexer is missing in the message, or that selects itself.
    """
    there = {other.name: other for other in message.signals}
    found: list[tuple[str, set[int]]] = []
    while (name := signal.multiplexer_signal) is not None:
        if name not in there or any(name == before for before, _ in found):
            return [*found, (name, set())]
        found.append((name, set(signal.multiplexer_ids or ())))
        signal = there[name]
    return found


def selection(message: Message, signal: Signal) -> dict[str, int]:
    """Smallest raw values of the multiplexers with which a frame contains the signal."""
    return {name: min(ids) for name, ids in selectors(message, signal) if ids}


def carried(message: Message, name: str, fixed: Mapping[str, int]) -> bool:
    """Whether a frame with the multiplexer values `fixed` contains a signal that is not fixed."""
    above = selectors(message, message.get_signal_by_name(name))
    return name not in fixed and all(fixed.get(switch) in ids for switch, ids in above)


def _encoder(message: Message, fields: Sequence[_Field], fixed: Mapping[str, int]) -> str:
    size = message.length
    background = _background(message, fields, fixed)
    # One integer: big-endian if all fields are, else little-endian with the others reversed once.
    order = "big" if fields and all(field.big for field in fields) else "little"
    main = [str(int.from_bytes(background, order))]  # type: ignore[arg-type]
    reversed_parts: list[str] = []
    for i, field in enumerate(fields):
        if not field.fits:
            continue
        part = f"({field.coded(f'v{i}')}) << {field.shift}"
        (reversed_parts if field.big and order == "little" else main).append(part)
    if reversed_parts:
        main.append(f"from_bytes(({' | '.join(reversed_parts)}).to_bytes({size}, 'big'), 'little')")
    unpack = f"    {''.join(f'v{i}, ' for i in range(len(fields)))}= values\n" if fields else ""
    whole = " | ".join(main)
    return f"def encode(values):\n{unpack}    return ({whole}).to_bytes({size}, '{order}')\n"


def _background(message: Message, fields: Sequence[_Field], fixed: Mapping[str, int]) -> bytes:
    """The message with its start values, and zero bits for the `fields`."""
    size = message.length
    raws = {
        signal.name: fixed.get(signal.name, signal.raw_initial or 0) for signal in message.signals
    }
    words = {"little": 0, "big": 0}
    for signal in message.signals:
        field = _field(signal, size)
        on = all(raws.get(name) in ids for name, ids in selectors(message, signal))
        if on and field.fits and field not in fields:
            raw = raws[signal.name]
            if field.real:
                most = LARGEST_FLOAT[field.length]
                raw = min(max(raw, -most), most) if math.isfinite(raw) else raw
                raw = int.from_bytes(struct.pack(_FLOATS[field.length], raw), "little")
            words["big" if field.big else "little"] |= (int(raw) & field.mask) << field.shift
    whole = int.from_bytes(words["big"].to_bytes(size, "big"), "little") | words["little"]
    return whole.to_bytes(size, "little")


def start_values(message: Message) -> dict[str, Any]:
    """Start values of all signals of a message; raw 0 if the database has none."""
    return {
        signal.name: signal.raw_to_scaled(signal.raw_initial or 0, decode_choices=False)
        for signal in message.signals
    }
