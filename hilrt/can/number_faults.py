"""Numbers in a database that no value can be computed with, each named with its signal."""

from __future__ import annotations

import math

from cantools.database.can import Message

#: The longest message of any bus that databases describe, bytes: containers of Ethernet.
_MOST_BYTES = 1 << 16


def check_numbers(message: Message) -> None:
    """`ValueError` for a scale, an offset or a bound that is no number, and for endless lengths."""
    if not 0 <= message.length <= _MOST_BYTES:
        raise ValueError(f"message {message.name} has {message.length} bytes")
    for signal in message.signals:
        place = f"signal {signal.name} of message {message.name}"
        if not 0 < signal.length <= 8 * _MOST_BYTES:
            raise ValueError(f"{place} has {signal.length} bits")
        if signal.start < 0:
            raise ValueError(f"{place} begins at bit {signal.start}")
        for what in ("scale", "offset"):
            if not _finite(getattr(signal, what)):
                raise ValueError(f"{place} has a {what} that is no finite number")
        if not _finite(abs(signal.scale) * 2.0 ** min(signal.length, 1000) + abs(signal.offset)):
            raise ValueError(f"{place} has values that are no finite numbers")
        for what in ("minimum", "maximum"):
            bound = getattr(signal, what)
            if bound is not None and not _finite(bound) and not _infinite(bound):
                raise ValueError(f"{place} has a {what} that is no number")


def _finite(value: float) -> bool:
    """Whether a number is one to compute with; so is no integer of 400 digits."""
    try:
        return math.isfinite(value)
    except (OverflowError, TypeError, ValueError):
        return False


def _infinite(value: object) -> bool:
    return isinstance(value, float) and math.isinf(value)
