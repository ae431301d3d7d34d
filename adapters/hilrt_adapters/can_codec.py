"""Coding of the used signals of one CAN message, as shifts and masks where that is possible.

cantools codes every signal of a message through dictionaries, some 10 µs per frame and, with the
cold caches of a process that wakes up for each frame, twice that. A gateway does it thousands of
times a second for the few signals that it uses. Messages of plain integers, which is what benches
send, are therefore taken apart here; everything else (floats, multiplexing) goes to cantools.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from cantools.database.can import Message, Signal
from cantools.database.utils import start_bit


class Codec(Protocol):
    """Values of chosen signals from and to the bytes of one message."""

    def decode(self, data: bytes) -> Sequence[float | None]:
        """Values in the order of the signals; None for one that this frame does not carry.

        Raises a cantools `DecodeError` or a `ValueError` for data that are too short.
        """
        ...

    def encode(self, values: Sequence[float]) -> bytes:
        """Bytes of the message; signals that were not chosen have their start values."""
        ...


def codec(message: Message, names: Sequence[str]) -> Codec:
    """The cheapest codec that the message permits, for the signals `names`."""
    signals = [message.get_signal_by_name(name) for name in names]
    if message.is_multiplexed() or message.is_container or any(s.is_float for s in signals):
        return CantoolsCodec(message, names)
    return PlainCodec(message, names)


class CantoolsCodec:
    """Any message."""

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


class _Field(NamedTuple):
    """Where a signal lies in the message, read as one integer, and what it means."""

    big: bool  # in the big-endian reading of the bytes
    shift: int
    mask: int
    sign: int  # weight of the sign bit; 0 for an unsigned one
    low: int  # smallest and largest raw value
    high: int
    scale: float
    offset: float


class PlainCodec:
    """Messages whose used signals are integers with scale and offset."""

    def __init__(self, message: Message, names: Sequence[str]) -> None:
        self._length = message.length
        self._fields = [_field(message.get_signal_by_name(name), message.length) for name in names]
        data = message.encode(start_values(message), strict=False)
        readings = {"little": int.from_bytes(data, "little"), "big": int.from_bytes(data, "big")}
        for field in self._fields:
            order = "big" if field.big else "little"
            readings[order] &= ~(field.mask << field.shift)
            cleared = readings[order].to_bytes(self._length, order)  # type: ignore[arg-type]
            readings = {
                "little": int.from_bytes(cleared, "little"),
                "big": int.from_bytes(cleared, "big"),
            }
        self._background = readings["little"]
        self._any_big = any(field.big for field in self._fields)

    def decode(self, data: bytes) -> Sequence[float | None]:
        """See `Codec`."""
        if len(data) < self._length:
            raise ValueError(f"{len(data)} bytes instead of {self._length}")
        data = data[: self._length]
        little = int.from_bytes(data, "little")
        big = int.from_bytes(data, "big") if self._any_big else 0
        values: list[float | None] = []
        for is_big, shift, mask, sign, _, _, scale, offset in self._fields:
            raw = ((big if is_big else little) >> shift) & mask
            if raw & sign:
                raw -= mask + 1
            values.append(raw * scale + offset)
        return values

    def encode(self, values: Sequence[float]) -> bytes:
        """See `Codec`; a value that the bits cannot carry becomes the nearest they can."""
        little, big = self._background, 0
        for value, field in zip(values, self._fields, strict=True):
            is_big, shift, mask, _, low, high, scale, offset = field
            raw = min(max(round((value - offset) / scale), low), high) & mask
            if is_big:
                big |= raw << shift
            else:
                little |= raw << shift
        if big:
            little |= int.from_bytes(big.to_bytes(self._length, "big"), "little")
        return little.to_bytes(self._length, "little")


def _field(signal: Signal, length: int) -> _Field:
    big = signal.byte_order == "big_endian"
    first = start_bit(signal)
    half = 1 << (signal.length - 1)
    return _Field(
        big=big,
        shift=8 * length - first - signal.length if big else first,
        mask=2 * half - 1,
        sign=half if signal.is_signed else 0,
        low=-half if signal.is_signed else 0,
        high=half - 1 if signal.is_signed else 2 * half - 1,
        scale=signal.scale,
        offset=signal.offset,
    )


def start_values(message: Message) -> dict[str, Any]:
    """Start values of all signals of a message; raw 0 where the database tells none."""
    return {
        signal.name: signal.raw_to_scaled(signal.raw_initial or 0, decode_choices=False)
        for signal in message.signals
    }
