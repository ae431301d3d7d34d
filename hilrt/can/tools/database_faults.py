"""What databases say of signals that cannot be: one bad signal must not cost the others."""

from __future__ import annotations

from cantools.database.can import Message, Signal
from cantools.database.utils import start_bit


def fault(message: Message, signal: Signal) -> str:
    """Why no frame can carry a signal; empty if one can."""
    if not signal.scale:
        return f"signal {signal.name} has the scale 0"
    if start_bit(signal) + signal.length > 8 * message.length:
        return f"signal {signal.name} goes beyond the message's {message.length} bytes"
    if signal.is_float and signal.length not in (16, 32, 64):
        return f"signal {signal.name} is a float of {signal.length} bits"
    return ""


def reason(message: Message, error: Exception) -> str:
    """Why a message cannot be coded: its signals' faults, else what the `error` says."""
    faults = [text for signal in message.signals if (text := fault(message, signal))]
    return ", ".join(faults) or str(error) or type(error).__name__
