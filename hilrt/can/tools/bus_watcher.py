"""Table of a bus's frames: one row per identifier, decoded if there is a database. No I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from cantools.database.can import Message, Signal
from rich.markup import escape
from rich.table import Table

from hilrt.can.codec import codec
from hilrt.can.frame import ERROR, EXTENDED, Frame
from hilrt.can.id_table import IdTable, is_j1939, unpack
from hilrt.can.j1939_transport import GroupAssembler
from hilrt.can.message_stats import MessageStats
from hilrt.can.tools.port_lines import ALIVE
from hilrt.can.tools.session_draft import fault, reason

#: Bits of a classic frame besides data, identifier included; stuffing adds up to a fifth.
_OVERHEAD_BITS = 47
_OVERHEAD_BITS_EXTENDED = 67
_STUFFING = 1.1
#: Value of a J1939 signal marked as not available, or as an error.
NOT_AVAILABLE = "n/a"


@dataclass
class Row:
    """One identifier on the bus.

    Attributes
    ----------
    frame : Frame
        The newest frame.
    stats : MessageStats
        Cycle times, and losses if the message has the counter.
    values : dict of str to str
        Signals of the newest frame, with units; empty if unknown to the database.
    undecodable : bool
        Whether the newest frame contradicts the database.
    bad_values : int
        Number of values that are not finite, or of an incorrectly described signal.
    bits : float
        Approximate number of bits on the wire so far.
    """

    name: str
    frame: Frame
    stats: MessageStats = field(default_factory=MessageStats)
    values: dict[str, str] = field(default_factory=dict)
    undecodable: bool = False
    bad_values: int = 0
    bits: float = 0.0
    counter: int | None = None


class _Decoder:
    """Converter of a message's signals to text.

    Attributes
    ----------
    problem : str
        Reason why the message cannot be decoded; else empty.
    """

    def __init__(self, message: Message) -> None:
        self.name = message.name
        self.signals = message.signals
        self.sound = [not fault(message, signal) for signal in message.signals]
        self.problem = ""
        names = [signal.name for signal in message.signals]
        self.marked = [n for n in names if n != ALIVE] if is_j1939(message) else []
        self.decode: Callable[[bytes], Sequence[float | None]] = lambda data: [None] * len(names)
        try:
            if names:
                self.decode = codec(message, names, marked=self.marked, strict=False).decode
        except Exception as error:  # errors in a database may raise any exception
            self.problem = reason(message, error)
        counted = ALIVE in names and self.sound[names.index(ALIVE)]
        self.alive = names.index(ALIVE) if counted else None
        self.modulus = 1 << message.get_signal_by_name(ALIVE).length if counted else 1

    def read(self, data: bytes) -> tuple[dict[str, str], int, int | None]:
        """Signals of a frame as text, number of bad ones, and the counter."""
        values = self.decode(data)
        texts, bad = self.texts(values)
        return texts, bad, self.count(values)

    def texts(self, values: Iterable[float | None]) -> tuple[dict[str, str], int]:
        """Values with their units, and number of bad ones."""
        found, bad = {}, 0
        for signal, sound, value in zip(self.signals, self.sound, values, strict=True):
            if not sound:
                found[signal.name] = "-"
                bad += 1
            elif value is None and signal.name in self.marked and not signal.multiplexer_signal:
                found[signal.name] = NOT_AVAILABLE
            elif value is not None:
                found[signal.name] = _text(signal, value)
                bad += not math.isfinite(value)
        return found, bad

    def count(self, values: Sequence[float | None]) -> int | None:
        """The counter; None if the frame has none."""
        value = None if self.alive is None else values[self.alive]
        if self.alive is None or value is None or not math.isfinite(value):
            return None
        return _raw(self.signals[self.alive], value) % self.modulus


def _raw(signal: Signal, value: float) -> int:
    return round((value - signal.offset) / signal.scale)


def _text(signal: Signal, value: float) -> str:
    if not math.isfinite(value):
        return str(value)  # nan, inf, -inf
    choice = signal.choices.get(_raw(signal, value)) if signal.choices else None
    unit = f" {signal.unit}" if signal.unit else ""
    return str(choice) if choice is not None else f"{value:.6g}{unit}"


class _ContainerDecoder:
    """Converter of a container's messages to text, their signals as ``Message.Signal``."""

    def __init__(self, container: Message) -> None:
        self.name = container.name
        self.problem = ""
        self._container = container
        inside = container.contained_messages or ()
        self._decoders = {id(message): _Decoder(message) for message in inside}

    def read(self, data: bytes) -> tuple[dict[str, str], int, None]:
        """Signals of a frame as text, as for `_Decoder`; unknown messages as bytes."""
        found: dict[str, str] = {}
        bad = 0
        for message, part in unpack(self._container, data):
            decoder = None if isinstance(message, int) else self._decoders[id(message)]
            if decoder is None or decoder.problem:
                found[decoder.name if decoder else f"0x{message:06X}"] = f"[{part.hex()}]"
                continue
            values, worse, _ = decoder.read(part)
            found |= {f"{decoder.name}.{name}": text for name, text in values.items()}
            bad += worse
        return found, bad, None


class BusWatcher:
    """Rows of all frames received.

    Parameters
    ----------
    messages : iterable of Message
        Messages of a database; empty: frames are shown as bytes.

    Attributes
    ----------
    rows : dict of int to Row
        By `Frame.can_id`, in the order of first appearance.
    frames, error_frames, undecodable : int
        Frames on the wire: a J1939 group of several frames is not counted in addition.
    problems : list of str
        One line for each message of the database that cannot be decoded; its frames are shown as
        bytes.
    """

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.rows: dict[int, Row] = {}
        self.frames = self.error_frames = self.undecodable = 0
        made: list[tuple[Message, _Decoder | _ContainerDecoder]] = [
            (m, _ContainerDecoder(m) if m.is_container else _Decoder(m)) for m in messages
        ]
        self.problems = [
            f"message {decoder.name} cannot be decoded, it is shown as bytes: {decoder.problem}; "
            "correct the database"
            for _, decoder in made
            if decoder.problem
        ]
        self._table = IdTable(made)
        self._groups = GroupAssembler()

    def receive(self, frames: Iterable[Frame], now_ns: int) -> list[Frame]:
        """Add frames; those without their own time count as received at `now_ns`.

        Returns
        -------
        list of Frame
            The same frames, with each J1939 group of several frames after its last one.
        """
        seen: list[Frame] = []
        for frame in frames:
            seen.append(frame)
            if frame.can_id & ERROR:
                self.error_frames += 1
                continue
            self.frames += 1
            overhead = _OVERHEAD_BITS_EXTENDED if frame.can_id & EXTENDED else _OVERHEAD_BITS
            bits = _STUFFING * (overhead + 8 * len(frame.data))
            self._add(frame, now_ns).bits += bits
            if GroupAssembler.concerns(frame.can_id):
                group = self._groups.receive(frame.can_id, frame.data, frame.t_ns or now_ns)
                if group is not None:
                    whole = Frame(group.can_id, group.data, group.complete_ns)
                    self._add(whole, now_ns)
                    seen.append(whole)
        return seen

    def _add(self, frame: Frame, now_ns: int) -> Row:
        """Store a frame, or a group of several, as the newest of its identifier."""
        decoder = self._table.find(frame.can_id)
        row = self.rows.get(frame.can_id)
        if row is None:
            # An ambiguous frame is not decoded: the values would be a guess.
            name = " or ".join(m.name for m in self._table.candidates(frame.can_id))
            row = self.rows[frame.can_id] = Row(name, frame)
        row.frame = frame
        row.stats.seen(frame.t_ns or now_ns)
        if decoder and not decoder.problem:
            self._decode(row, decoder, frame)
        return row

    def _decode(self, row: Row, decoder: _Decoder | _ContainerDecoder, frame: Frame) -> None:
        row.values = {}  # no values of an older frame beside the new bytes
        try:
            row.values, bad, count = decoder.read(frame.data)
        except Exception:  # a single bad frame must not end the view
            self.undecodable += 1
            row.stats.decode_errors += 1
            row.undecodable = True
            return
        row.undecodable = False
        row.bad_values += bad
        if count is None:
            return
        if row.counter is not None and isinstance(decoder, _Decoder):
            ahead = (count - row.counter) % decoder.modulus
            row.stats.repeated += ahead == 0
            row.stats.lost += max(0, ahead - 1)
        row.counter = count

    def load(self, seconds: float, bit_rate: float) -> float:
        """Approximate bus load, as a share of the time."""
        return (
            sum(row.bits for row in self.rows.values()) / (seconds * bit_rate) if seconds else 0.0
        )

    def sorted(self) -> list[Row]:
        """Rows by identifier, standard ones first."""
        return [self.rows[can_id] for can_id in sorted(self.rows)]


#: Maximum bytes of a frame shown in the table: a J1939 group may have 1785.
_SHOWN = 64


def signals_text(row: Row, between: str = " ") -> str:
    """The newest frame's signals in one line."""
    if row.undecodable:
        return "undecodable"
    return between.join(f"{name}={value}" for name, value in row.values.items())


def live_table(watcher: BusWatcher) -> Table:
    """Newest frame of every identifier, decoded."""
    table = Table(box=None, header_style="bold")
    for column in ("identifier", "message", "frames", "cycle ms", "data", "signals"):
        table.add_column(column, no_wrap=column != "signals")
    for row in watcher.sorted():
        table.add_row(
            row.frame.text,
            row.name or "–",
            str(row.stats.frames),
            f"{1e3 * row.stats.mean:.2f}" if row.stats.frames > 1 else "",
            row.frame.data[:_SHOWN].hex(" ") + (" …" if len(row.frame.data) > _SHOWN else ""),
            escape(signals_text(row, "  ")),  # a unit in brackets is no markup
        )
    return table


def stats_table(watcher: BusWatcher) -> Table:
    """Counts and cycle times of every identifier."""
    table = Table(box=None, header_style="bold")
    for column in ("identifier", "message"):
        table.add_column(column)
    counts = ("lost", "repeated", "undecodable", "bad values")
    for column in ("frames", "mean ms", "min ms", "max ms", *counts):
        table.add_column(column, justify="right")
    for row in watcher.sorted():
        stats = row.stats
        times = [stats.mean, stats.shortest, stats.longest] if stats.frames > 1 else []
        cells = [f"{1e3 * t:.3f}" for t in times] or [""] * 3
        found = (stats.lost, stats.repeated, stats.decode_errors, row.bad_values)
        cells += [str(n) for n in found]
        table.add_row(row.frame.text, row.name or "–", str(stats.frames), *cells)
    return table
