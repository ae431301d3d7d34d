"""Decoding of recorded frames: all signals that a frame contains.

A gateway accepts only complete frames. For recordings, short frames are decoded as far as possible,
and if the multiplexer has an unknown value, the signals that do not depend on it are decoded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from cantools.database.can import Message

from hilrt.can.codec import bits, codec, multiplexers, selectors
from hilrt.can.frame import DECODE_ERRORS
from hilrt.can.id_table import is_j1939


@dataclass
class DecodeCounts:
    """Counts of unusual frames of a message.

    Attributes
    ----------
    truncated : int
        Frames shorter than in the database.
    formless : int
        Frames whose multiplexer value is unknown to the database.
    not_available : int
        Values that mean "not available" or "error" (SAE J1939-71).
    failures : int
        Frames that could not be decoded at all.
    """

    truncated: int = 0
    formless: int = 0
    not_available: int = 0
    failures: int = 0

    def texts(self, name: str) -> list[str]:
        """One line for each kind of missing data of the message `name`."""
        lines = (
            (self.failures, f"frames of message {name} that its database cannot decode"),
            (self.truncated, f"frames of message {name} that are shorter than in its database"),
            (
                self.formless,
                f"frames of message {name} with a multiplexer value that its database does not "
                "know; signals that do not depend on it are kept",
            ),
            (
                self.not_available,
                f"values of message {name} that J1939 marks as not available or an error are "
                "missing values",
            ),
        )
        return [f"{count:,} {text}" for count, text in lines if count]


class FrameDecoder:
    """Decoder of one message's frames.

    Parameters
    ----------
    message : Message
    names : sequence of str, optional
        Signals, in the order of the values; default: all `distinct_names`.

    Attributes
    ----------
    names : list of str
    counts : DecodeCounts

    Raises
    ------
    Exception
        If no codec can handle the database's description; `database_faults.reason` gives the
        reason.
    """

    def __init__(self, message: Message, names: Sequence[str] | None = None) -> None:
        self.message = message
        self.names = distinct_names(message) if names is None else list(names)
        self.counts = DecodeCounts()
        self._marked = self.names if is_j1939(message) else ()
        self._strict = codec(message, self.names, marked=self._marked).decode
        self._lenient = codec(message, self.names, marked=self._marked, strict=False).decode
        self._unmarked = codec(message, self.names, strict=False).decode
        self._needed = (
            [] if message.is_container else [_needed(message, name) for name in self.names]
        )

    def decode(self, data: bytes) -> list[float] | None:
        """Decode the signals, NaN for those without a value; None if decoding fails."""
        missing = self.message.length - len(data) if self._needed else 0
        whole = data + bytes(missing) if missing > 0 else data
        try:
            try:
                found = self._strict(whole)
            except DECODE_ERRORS:
                found = self._lenient(whole)
                self.counts.formless += missing <= 0
        except DECODE_ERRORS:
            self.counts.failures += 1
            return None
        if missing > 0:
            self.counts.truncated += 1
            reach = 8 * len(data)
            there = [not needed >> reach for needed in self._needed]
            found = [v if carried else None for v, carried in zip(found, there, strict=True)]
        elif self._marked and None in found:
            bare = self._unmarked(whole)
            self.counts.not_available += sum(v is not None for v in bare) - sum(
                v is not None for v in found
            )
        return [math.nan if value is None else float(value) for value in found]


def distinct_names(message: Message) -> list[str]:
    """Names that only one signal of the message has; other names are ambiguous."""
    counted = Counter(signal.name for signal in message.signals)
    return [name for name, count in counted.items() if count == 1]


def _needed(message: Message, name: str) -> int:
    """Bits of a frame that contain the signal's value and its multiplexers."""
    signal = message.get_signal_by_name(name)
    above = {switch for switch, _ in selectors(message, signal)}
    switches = [other for other in multiplexers(message) if other.name in above]
    needed = bits(message, signal)
    for switch in switches:
        needed |= bits(message, switch)
    return needed
