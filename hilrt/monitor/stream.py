"""Topics and messages of the telemetry stream (docs/telemetry.md). No I/O.

Every message has two frames: the topic and a msgpack map. Arrays are binary, little-endian
float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from hilrt.config.structs import Session
from hilrt.files.formats import decode_by
from hilrt.monitor.telemetry import RaisedFlag
from hilrt.record.messages import Level, Signal
from hilrt.solver import Floats

FORMAT = 1

HEAD = b"head"
STATUS = b"status"
EVENT = b"event"
SIGNALS = b"signals"
MINMAX = b"minmax"
FULL = b"full/"
EACH = b"each/"


class SubsystemNode(msgspec.Struct, frozen=True):
    """A subsystem, with its adapter and its policy for late samples."""

    name: str
    adapter: str
    late_policy: str = ""
    max_misses: int = 0


class ConnectionEdge(msgspec.Struct, frozen=True):
    """A connection from an output to an input, both ``subsystem.port``."""

    source: str
    target: str


class BondEdge(msgspec.Struct, frozen=True):
    """A power bond, with the outputs for its effort and flow, and its correction."""

    name: str
    effort: list[str]
    flow: str
    method: str = "none"


class SetPointPort(msgspec.Struct, frozen=True):
    """An input of a bench, with the output that measures it; empty if none does."""

    input: str
    measured: str = ""


class SessionGraph(msgspec.Struct, frozen=True):
    """Subsystems, connections, bonds and bench inputs; the log's metadata has them as JSON."""

    subsystems: list[SubsystemNode] = []
    connections: list[ConnectionEdge] = []
    bonds: list[BondEdge] = []
    set_points: list[SetPointPort] = []


def session_graph(tables: Session) -> SessionGraph:
    """Subsystems, connections, bonds and bench inputs of a session file."""
    return SessionGraph(
        subsystems=[
            SubsystemNode(name, options.adapter, options.late.policy, options.late.max_misses)
            for name, options in tables.subsystems.items()
        ],
        connections=[
            ConnectionEdge(".".join(source), ".".join(target))
            for c in tables.connections
            for source, target in ((tables.split(c.source), tables.split(c.target)),)
            if source[0] == c.source.partition(".")[0] or source[0] != target[0]
        ],  # connections within a group are not drawn
        bonds=[BondEdge(b.name, b.efforts, b.flow, b.correction.method) for b in tables.bonds],
        set_points=[
            SetPointPort(f"{name}.{port}", f"{name}.{output}" if output else "")
            for name, options in tables.subsystems.items()
            if options.measured
            for port, one in options.inputs.items()
            for output in (getattr(one, "realised", None),)
        ],
    )


class Head(msgspec.Struct, kw_only=True):
    """Description of the stream; sent to every new subscriber and every two seconds.

    `epoch_ns` is the wall clock (ns since 1970, UTC) at session time 0, `duration` in s, `rate` the
    messages per second on topic ``signals``. `control` lists the commands that the token allows,
    `adjustable` what ``adjust`` may set with its bounds, and `commands` is the port for them (0: no
    commands). `values` are the outputs, or patterns of them, which the session file selects for
    display. `run` identifies this run of the session.
    """

    session: str
    run: str = ""
    epoch_ns: int = 0
    duration: float = 0.0
    rate: float = 0.0
    signals: list[Signal] = []
    topics: list[tuple[str, int]] = []
    topology: SessionGraph = msgspec.field(default_factory=SessionGraph)
    control: list[str] = []
    adjustable: dict[str, tuple[float, float]] = {}
    commands: int = 0
    values: list[str] = []
    format: int = FORMAT


class Signals(msgspec.Struct, kw_only=True):
    """All signals over an interval of session time, in the order of ``Head.signals``.

    `rows` ticks from `t_from` to `t_until` [s] are summarized by the smallest, the largest and the
    last finite value of each signal, shape (n_signals,); NaN if there was none. `lost` counts the
    ticks lost so far. `number` grows by one with each message: a gap shows missed messages.
    """

    number: int
    t_from: float
    t_until: float
    rows: int
    lost: int
    minimum: bytes
    maximum: bytes
    last: bytes


class Full(msgspec.Struct, kw_only=True):
    """Samples of one signal at full rate: session times [s] and values, shape (n,)."""

    number: int
    name: str
    t: bytes
    value: bytes


class Happening(msgspec.Struct, kw_only=True):
    """Event of the log; sent again with the same `number` when it has been acknowledged.

    `value`: severity among events of one kind, larger is worse; `text` gives it with its unit.
    """

    number: int
    t: float
    level: Level
    cause: str
    source: str
    text: str
    acknowledged: str = ""
    value: float | None = None


Message = Head | Signals | Full | Happening

_decoders: dict[bytes, msgspec.msgpack.Decoder[Any]] = {
    HEAD: msgspec.msgpack.Decoder(Head),
    EVENT: msgspec.msgpack.Decoder(Happening),
    SIGNALS: msgspec.msgpack.Decoder(Signals),
}
_full = msgspec.msgpack.Decoder(Full)


def encode(message: Message | dict[str, Any]) -> bytes:
    """Second frame of a message."""
    return msgspec.msgpack.encode(message)


def decode(topic: bytes, frame: bytes) -> Message | None:
    """Message in a second frame; None for unknown topics.

    `msgspec.MsgspecError` if the frame is invalid for the topic.
    """
    if topic.startswith(FULL):
        return decode_by(_full, frame)
    decoder = _decoders.get(topic)
    if decoder is None:
        return None
    message: Message = decode_by(decoder, frame)
    return message


def array(data: bytes) -> Floats:
    """Numbers in a binary array."""
    return np.frombuffer(data, "<f8")


def binary(values: Floats) -> bytes:
    """Numbers as a binary array."""
    return values.astype("<f8", copy=False).tobytes()


# Counts and durations of flags, from the events of their changes.


@dataclass(slots=True)
class Spans:
    """Times of one flag: first raised [s], how often, total time raised until last cleared [s].

    `since` is when it was last raised [s] if it is still raised, else None.
    """

    first: float
    count: int = 0
    seconds: float = 0.0
    since: float | None = None


class FlagSpans:
    """Counts and durations of all flags whose changes a viewer has received."""

    def __init__(self) -> None:
        self._spans: dict[RaisedFlag, Spans] = {}

    def count(self, event: Happening) -> None:
        """Count a change of a flag; other events are ignored."""
        raised = change_of(event)
        if raised is None:
            return
        flag = RaisedFlag(event.cause, event.source)
        if raised:
            spans = self._spans.setdefault(flag, Spans(event.t))
            spans.count += 1
            spans.since = event.t
            return
        cleared = self._spans.get(flag)  # None: it was raised before the viewer joined
        if cleared is not None and cleared.since is not None:
            cleared.seconds += event.t - cleared.since
            cleared.since = None

    def of(self, flag: RaisedFlag) -> Spans | None:
        """Counts and durations of a flag; None if no rise of it was received."""
        return self._spans.get(flag)

    def clear(self) -> None:
        """Discard all counts and durations, when another run begins."""
        self._spans.clear()


def change_of(event: Happening) -> bool | None:
    """Whether an event reports that a flag was raised or cleared; None for other events."""
    if event.text.startswith(f"{event.cause} raised:"):
        return True
    return False if event.text.startswith(f"{event.cause} cleared:") else None
