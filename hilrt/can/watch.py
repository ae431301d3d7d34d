"""What is on a bus: a row per identifier, decoded by a database where there is one. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import cantools
from cantools.database.can import Message

from hilrt_adapters.can_codec import codec
from hilrt_adapters.can_frame import ERROR, EXTENDED, Frame, IdTable
from hilrt_adapters.can_receive import MessageStats

#: Bits of a classic frame beside data, identifier included; stuffing adds up to a fifth.
_OVERHEAD_BITS = 47
_OVERHEAD_BITS_EXTENDED = 67
_STUFFING = 1.1


@dataclass
class Row:
    """One identifier on the bus.

    Attributes
    ----------
    frame : Frame
        The newest.
    stats : MessageStats
        Cycle times, and losses where the message has the counter.
    values : dict of str to str
        Signals of the newest frame, with units; empty where the database does not know it.
    bits : float
        On the wire so far, about.
    """

    name: str
    frame: Frame
    stats: MessageStats = field(default_factory=MessageStats)
    values: dict[str, str] = field(default_factory=dict)
    bits: float = 0.0
    counter: int | None = None


class _Decoder:
    """A message's signals as text."""

    def __init__(self, message: Message, alive: str) -> None:
        self.name = message.name
        self.signals = message.signals
        names = [signal.name for signal in message.signals]
        self.decode = codec(message, names).decode if names else lambda data: []
        self.alive = names.index(alive) if alive in names else None
        self.modulus = 1 << message.get_signal_by_name(alive).length if alive in names else 1

    def texts(self, values: Iterable[float | None]) -> dict[str, str]:
        found = {}
        for signal, value in zip(self.signals, values, strict=True):
            if value is None:
                continue
            raw = round((value - signal.offset) / signal.scale)
            choice = signal.choices.get(raw) if signal.choices else None
            unit = f" {signal.unit}" if signal.unit else ""
            found[signal.name] = str(choice) if choice is not None else f"{value:.6g}{unit}"
        return found


class BusWatcher:
    """Rows of everything that has been seen.

    Parameters
    ----------
    messages : iterable of Message
        Of a database; empty: frames are shown as bytes.
    alive : str
        Name of the counter signal, for losses.

    Attributes
    ----------
    rows : dict of int to Row
        By `Frame.can_id`, in the order of the identifiers' first appearance.
    error_frames, undecodable : int
    """

    def __init__(self, messages: Iterable[Message] = (), alive: str = "Alive") -> None:
        self.rows: dict[int, Row] = {}
        self.error_frames = self.undecodable = 0
        self._find = IdTable(
            (message, _Decoder(message, alive)) for message in messages if not message.is_container
        ).find

    def take(self, frames: Iterable[Frame], now_ns: int) -> None:
        """Add frames; those without a time of their own count as received at `now_ns`."""
        for frame in frames:
            if frame.can_id & ERROR:
                self.error_frames += 1
                continue
            decoder = self._find(frame.can_id)
            row = self.rows.get(frame.can_id)
            if row is None:
                name = decoder.name if decoder else ""
                row = self.rows[frame.can_id] = Row(name, frame)
            row.frame = frame
            row.stats.seen(frame.t_ns or now_ns)
            overhead = _OVERHEAD_BITS_EXTENDED if frame.can_id & EXTENDED else _OVERHEAD_BITS
            row.bits += _STUFFING * (overhead + 8 * len(frame.data))
            if decoder:
                self._decode(row, decoder, frame)

    def _decode(self, row: Row, decoder: _Decoder, frame: Frame) -> None:
        try:
            values = decoder.decode(frame.data)
        except (cantools.database.DecodeError, ValueError):
            self.undecodable += 1
            row.stats.decode_errors += 1
            return
        row.values = decoder.texts(values)
        if decoder.alive is None:
            return
        count = int(values[decoder.alive] or 0) % decoder.modulus
        if row.counter is not None:
            ahead = (count - row.counter) % decoder.modulus
            row.stats.repeated += ahead == 0
            row.stats.lost += max(0, ahead - 1)
        row.counter = count

    def load(self, seconds: float, bit_rate: float) -> float:
        """Share of the bus's time that is taken, about."""
        return (
            sum(row.bits for row in self.rows.values()) / (seconds * bit_rate) if seconds else 0.0
        )

    def sorted(self) -> list[Row]:
        """Rows by identifier, standard ones first."""
        return [self.rows[can_id] for can_id in sorted(self.rows)]
