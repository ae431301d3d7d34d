"""The relay's telemetry stream, computed from the recorder's frames. No I/O, no clock.

Using only the recorder's frames, it costs the master nothing. Expensive topics (``minmax``,
``full/NAME``, ``each/NAME``) are computed only while they have subscribers.
"""

from __future__ import annotations

import struct
from collections import deque

import msgspec
import numpy as np

from hilrt.monitor import stream
from hilrt.monitor.stream import Full, Happening, Head, SessionGraph, Signals, change_of
from hilrt.record.decimate import IntervalExtremes
from hilrt.record.messages import BATCH, ROWS, Begin, RecordEvent, decode
from hilrt.solver import Floats
from hilrt.wording import kind_of

#: Number of events sent to a new subscriber, and period of the head, s.
KEPT_EVENTS = 500
HEAD_PERIOD_S = 2.0
#: Signals served at full rate at the same time; further requests are not served.
MAX_FULL = 64

#: Cause of the flags of alarms.
ALARM = "alarm"

Outgoing = tuple[bytes, bytes]


class Broadcast:
    """Converter of frames and subscriptions to messages of the stream.

    Parameters
    ----------
    head : Head
        Facts known before the log begins; the log's first message completes them.

    Attributes
    ----------
    outbox : list of (topic, frame)
        Messages to be sent; the caller empties it.
    wanted : set of bytes
        Topics that are subscribed to.
    """

    def __init__(self, head: Head) -> None:
        self.head = head
        self.outbox: list[Outgoing] = []
        self._period = 1.0 / head.rate if head.rate > 0 else 0.1
        self.wanted: set[bytes] = set()
        self._index: dict[bytes, int] = {}
        self._labels: list[str] = []
        self._interval = IntervalExtremes(0)
        self._events: deque[Happening] = deque(maxlen=KEPT_EVENTS)
        self._numbers: dict[bytes, int] = {}
        self._next_row = 0
        self._lost = 0
        self._due = self._head_due = 0.0

    # -- input -----------------------------------------------------------------------------------

    def process(self, frames: list[bytes]) -> None:
        """Process one message of the recorder; anything else is ignored."""
        try:
            if frames[0] == ROWS and len(frames) == 4:
                self._rows(*frames[1:])
                return
            message = decode(frames[0])
        except (ValueError, IndexError, struct.error, msgspec.MsgspecError):
            return
        if isinstance(message, Begin):
            self._begin(message)
        elif isinstance(message, RecordEvent):
            self._event(message)

    def subscribe(self, message: bytes) -> None:
        """Process a subscription (first byte 1) or its end (0), as XPUB reports them."""
        topic = message[1:]
        if message[:1] == b"\0":
            self.wanted.discard(topic)
            return
        self.wanted.add(topic)
        if stream.HEAD.startswith(topic):
            self._send(stream.HEAD, self.head)
        if stream.EVENT.startswith(topic):
            for event in self._events:
                self._send(stream.EVENT, event)

    def acknowledge(self, number: int, who: str, everything: bool = False) -> None:
        """Record the operator who has acknowledged an event, and send the event again.

        This also acknowledges earlier events: changes of the same flag, otherwise events of the
        same kind; with `everything`, all earlier events.
        """
        kind = next((_kind(event) for event in self._events if event.number == number), None)
        for event in self._events:
            same = _kind(event) == kind
            before = event.number < number and (everything or same)
            if event.number == number or (before and not event.acknowledged):
                event.acknowledged = who
                self._send(stream.EVENT, event)

    def alarm_of(self, number: float) -> str:
        """Name of the alarm whose change an event reports; empty for any other event."""
        return next((_alarm(event) for event in self._events if event.number == number), "")

    def newest_of_alarm(self, name: str) -> int:
        """Number of the newest change of an alarm; 0 if none is kept."""
        changes = (e.number for e in reversed(self._events) if _alarm(e) == name)
        return next(changes, 0)

    def tick(self, now: float) -> None:
        """Send frames due at `now` [s, monotonic]."""
        if now >= self._head_due:
            self._head_due = now + HEAD_PERIOD_S
            self._send(stream.HEAD, self.head)
        if now >= self._due and self._interval.rows:
            on_time = self._due + self._period  # so that a late message does not delay the next one
            self._due = on_time if on_time > now else now + self._period
            self._send_signals()

    # -- output ----------------------------------------------------------------------------------

    def _begin(self, begin: Begin) -> None:
        signals = [signal for topic in begin.topics for signal in topic.signals]
        try:
            text = begin.metadata.get("topology", "{}")
            topology = msgspec.json.decode(text, type=SessionGraph)
        except msgspec.MsgspecError:
            topology = SessionGraph()
        self.head.session, self.head.epoch_ns = begin.session, begin.epoch_ns
        self.head.duration = float(begin.metadata.get("duration_s") or 0.0)
        self.head.signals, self.head.topology = signals, topology
        self.head.topics = [(topic.name, len(topic.signals)) for topic in begin.topics]
        self._labels = [signal.name for signal in signals]
        self._index = {name.encode(): i for i, name in enumerate(self._labels)}
        self._interval = IntervalExtremes(len(signals))
        self._next_row = self._lost = 0
        self._send(stream.HEAD, self.head)

    def _event(self, event: RecordEvent) -> None:
        number = self._number(stream.EVENT)
        happening = Happening(
            number=number,
            t=event.t_ns * 1e-9,
            level=event.level,
            cause=event.cause,
            source=event.source,
            text=event.text,
            value=event.value,
        )
        self._events.append(happening)
        self._send(stream.EVENT, happening)

    def _rows(self, index: bytes, times: bytes, rows: bytes) -> None:
        (first,) = BATCH.unpack(index)
        t: Floats = np.frombuffer(times, "<i8") * 1e-9
        block = np.frombuffer(rows, "<f8").reshape(len(t), len(self._labels))
        self._lost += max(0, first - self._next_row)
        self._next_row = first + len(t)
        self._interval.add(t, block)
        served = 0
        for topic in list(self.wanted):
            for prefix, send in ((stream.FULL, self._send_full), (stream.EACH, self._send_each)):
                column = self._index.get(topic[len(prefix) :]) if topic[:5] == prefix else None
                if column is not None and served < MAX_FULL:
                    send(topic, t, block[:, column], self._labels[column])
                    served += 1

    def _send_full(self, topic: bytes, t: Floats, values: Floats, name: str) -> None:
        number = self._number(topic)
        times, data = stream.binary(t), stream.binary(values)
        self._send(topic, Full(number=number, name=name, t=times, value=data))

    def _send_each(self, topic: bytes, t: Floats, values: Floats, name: str) -> None:
        for time_s, value in zip(t.tolist(), values.tolist(), strict=True):
            frame = stream.encode({"timestamp": self._wall_s(time_s), name: value})
            self.outbox.append((topic, frame))

    def _send_signals(self) -> None:
        interval = self._interval
        message = Signals(
            number=self._number(stream.SIGNALS),
            t_from=interval.t_from,
            t_until=interval.t_until,
            rows=interval.rows,
            lost=self._lost,
            minimum=stream.binary(interval.minimum),
            maximum=stream.binary(interval.maximum),
            last=stream.binary(interval.last),
        )
        self._send(stream.SIGNALS, message)
        if self.wanted & {b"", stream.MINMAX}:
            columns = (interval.last.tolist(), interval.minimum.tolist(), interval.maximum.tolist())
            table: dict[str, object] = {
                name: {"last": last, "min": low, "max": high}
                for name, last, low, high in zip(self._labels, *columns, strict=True)
            }
            table["timestamp"] = self._wall_s(interval.t_until)
            self.outbox.append((stream.MINMAX, stream.encode(table)))
        interval.restart()

    def _wall_s(self, t: float) -> float:
        """Session time [s] on the wall clock, s since 1970."""
        return self.head.epoch_ns * 1e-9 + t

    def _number(self, topic: bytes) -> int:
        self._numbers[topic] = self._numbers.get(topic, 0) + 1
        return self._numbers[topic]

    def _send(self, topic: bytes, message: stream.Message) -> None:
        self.outbox.append((topic, stream.encode(message)))


def _kind(event: Happening) -> tuple[str, ...]:
    if change_of(event) is not None:
        return ("", event.cause, event.source)
    return kind_of(event.level, event.cause, event.source, event.text)


def _alarm(event: Happening) -> str:
    return event.source if event.cause == ALARM and change_of(event) is not None else ""
