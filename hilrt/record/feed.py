"""Master side of recording: rows and events on their way to the recorder process.

`Feed.commit` copies a row into a batch; a full batch is handed to a bounded queue that a background
thread of ZeroMQ empties. Nothing here waits for the recorder: when the queue is full, the batch is
dropped and counted, and the recorder notes the gap from the index of the next one it gets.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from hilrt.record.messages import (
    ASIDE,
    BATCH,
    BESIDE,
    ROWS,
    Attachment,
    Begin,
    Level,
    RecordEnd,
    RecordEvent,
    Signal,
    Stretched,
    Topic,
    Trigger,
    encode,
)
from hilrt.solver import Floats

__all__ = ["Attachment", "Feed", "NullFeed", "Signal", "Topic"]

BATCH_ROWS = 64
#: As fast as possible, a batch has as many rows as go into this many bytes, if they are more.
BATCH_BYTES = 1 << 20
#: A batch is sent when it covers this much time, ns: what a killed master loses.
BATCH_NS = 50_000_000
#: Bound of the queue towards the recorder, bytes.
QUEUE_BYTES = 32 << 20
#: Control messages that wait for the recorder; more are counted and lost.
MAX_WAITING = 4096
#: So that a burst of events never makes one tick long.
EVENTS_PER_FLUSH = 16


class Feed:
    """Hands the session's rows to a recorder process.

    Parameters
    ----------
    topics : sequence of Topic
        What a row holds: the topics' signals one after the other. Names are unique over all topics.
    patience_s : float
        How long a full queue may hold up `commit`, s. Zero in real time. In virtual time waiting
        does no harm, so give seconds there, or a fast session loses rows.
    context : zmq.Context, optional
        Shared context. Its background thread inherits the processor affinity and scheduling of the
        thread that opens the first socket, so open the feed before the master pins itself.

    Attributes
    ----------
    records : bool
        Whether the rows go anywhere: else none need be filled.
    row : ndarray, shape (n_signals,)
        The caller fills it in place before each `commit`; values stay until overwritten.
    address : str
        Where the recorder connects.
    rows : int
        Rows committed.
    dropped : int
        Rows that could not be handed over.
    events_dropped, asides_dropped : int
        Events, and data beside the rows, that could not be handed over.
    on_first_loss : callable, optional
        Called when the first rows could not be handed over: it may still be mended.
    """

    records = True
    on_first_loss: Callable[[], None] | None = None

    def __init__(
        self,
        topics: Sequence[Topic],
        *,
        patience_s: float = 0.0,
        context: zmq.Context[zmq.Socket[bytes]] | None = None,
        address: str = "tcp://127.0.0.1:*",
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        self.topics = [topic for topic in topics if topic.signals]
        names = [signal.name for topic in self.topics for signal in topic.signals]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"signals recorded twice: {', '.join(twice)}; names must be unique")
        self.row: Floats = np.full(len(names), np.nan)
        self.rows = 0
        self.dropped = 0
        self.events = 0
        self.events_dropped = 0
        self.asides_dropped = 0
        self._patience_ms = int(1e3 * patience_s)
        self._real_time = patience_s == 0.0  # else session time says nothing of the wall clock
        rows = BATCH_ROWS
        if not self._real_time:
            rows = max(rows, BATCH_BYTES // max(1, self.row.nbytes))
        self._block: Floats = np.empty((rows, len(names)))
        self._times = np.empty(rows, np.int64)
        self._count = 0
        self._first_ns = 0
        self._head: bytes | None = None
        self._waiting: deque[bytes] = deque()
        self._context = context or zmq.Context()
        self._owns_context = context is None
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.PUSH)
        self._socket.sndhwm = max(8, queue_bytes // max(1, self._block.nbytes))
        self._socket.linger = 0
        try:
            self._socket.bind(address)
        except zmq.ZMQError:
            self.close()
            raise
        self.address = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    @property
    def ready(self) -> bool:
        """Whether a recorder is connected and has room."""
        return bool(self._socket.poll(0, zmq.POLLOUT))

    def begin(
        self,
        out_dir: Path,
        session_name: str,
        epoch_ns: int,
        attachments: Sequence[Attachment] = (),
        metadata: Mapping[str, str] | None = None,
        *,
        clock_ns: int = 0,
        buses: Sequence[str] = (),
        trigger: Trigger | None = None,
    ) -> None:
        """Start the log ``out_dir/session.mcap``; sent as soon as a recorder is connected.

        `epoch_ns` is the wall clock (ns since 1970, UTC) at session time 0, `clock_ns` the
        monotonic clock then. Gateways hand the recorder frames of the `buses`; with a `trigger`
        only what is around one is recorded.
        """
        head = Begin(
            out_dir=str(out_dir),
            session=session_name,
            epoch_ns=epoch_ns,
            topics=self.topics,
            attachments=list(attachments),
            metadata=dict(metadata or {}),
            clock_ns=clock_ns,
            buses=list(buses),
            trigger=trigger,
        )
        self._head = encode(head)
        self.flush()

    def commit(self, t_ns: int) -> None:
        """Record `row` at session time `t_ns`, ns."""
        n = self._count
        self._block[n] = self.row
        self._times[n] = t_ns
        now = t_ns if self._real_time else time.monotonic_ns()
        if n == 0:
            self._first_ns = now
        self._count = n + 1
        self.rows += 1
        if n + 1 == len(self._times) or now - self._first_ns >= BATCH_NS:
            self.flush()

    def event(self, t_ns: int, level: Level, cause: str, source: str, text: str) -> None:
        """Note something that happened at session time `t_ns` [ns]; sent with the next batch."""
        self.events += 1
        if len(self._waiting) >= MAX_WAITING:
            self.events_dropped += 1
            return
        message = RecordEvent(t_ns=t_ns, level=level, cause=cause, source=source, text=text)
        self._waiting.append(encode(message))

    def aside(self, topic: str, row: int, t_ns: int, data: bytes) -> None:
        """Record `data` on a topic of `ASIDES`: how things stand before the row number `row`.

        To be called before that row is committed, so that it does not come after it in the log.
        """
        frames = [BESIDE, topic.encode(), ASIDE.pack(row, t_ns), data]
        if self._head is not None or not self._send(frames):
            self.asides_dropped += 1

    def stretched(self, since_ns: int, shift_ns: int) -> None:
        """The grid was shifted by `shift_ns` at the reading `since_ns` of the monotonic clock.

        The recorder places frames by it; if it does not take the message, theirs alone are wrong.
        """
        self._send([encode(Stretched(since_ns, shift_ns))])

    def flush(self) -> None:
        """Hand over what is waiting, without blocking (or at most for the patience)."""
        if self._head is not None and self._send([self._head]):
            self._head = None
        started = self._head is None  # nothing overtakes the head of the log
        for _ in range(min(len(self._waiting), EVENTS_PER_FLUSH) if started else 0):
            if not self._send([self._waiting[0]]):
                break
            self._waiting.popleft()
        n, self._count = self._count, 0
        if n == 0:
            return
        batch = [ROWS, BATCH.pack(self.rows - n), self._times[:n], self._block[:n]]
        if not started or not self._send(batch):
            first, self.dropped = not self.dropped, self.dropped + n
            if first and self.on_first_loss is not None:
                self.on_first_loss()

    def end(self, summary: bytes = b"", timeout_s: float = 2.0) -> bool:
        """Hand over the rest and close the log; False if the recorder did not take it in time."""
        deadline = time.monotonic() + timeout_s
        self._patience_ms = int(1e3 * timeout_s)
        self.flush()
        while self._waiting and self._patience_ms:
            self.flush()
        message = RecordEnd(summary=summary, rows=self.rows, events=self.events)
        taken = self._head is None and self._send([encode(message)])
        self._socket.linger = max(0, int(1e3 * (deadline - time.monotonic())))
        return taken

    def losses(self) -> list[str]:
        """What could not be handed over, for people; empty if everything was."""
        lost = (
            (self.dropped, f"of {self.rows} steps are not in the log"),
            (self.events_dropped, "events are not in the log"),
            (self.asides_dropped, "snapshots are not in the log: a replay cannot start there"),
        )
        return [f"recorder: did not follow: {n} {text}" for n, text in lost if n]

    def close(self) -> None:
        """Free the socket; what was handed to `end` may still leave within its timeout."""
        self._socket.close()
        if self._owns_context:
            self._context.term()

    def _send(self, frames: Sequence[Any]) -> bool:
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again:
            if self._patience_ms == 0:
                return False
        else:
            return True
        if self._socket.poll(self._patience_ms, zmq.POLLOUT) == 0:
            self._patience_ms = 0  # the recorder is gone or stuck: do not wait a second time
            return False
        return self._send(frames)


class NullFeed(Feed):
    """A feed that records nothing, with the same `row`."""

    records = False

    def __init__(self, topics: Sequence[Topic]) -> None:
        self.topics = [topic for topic in topics if topic.signals]
        self.row = np.full(sum(len(topic.signals) for topic in self.topics), np.nan)
        self.rows = self.dropped = self.events = self.events_dropped = self.asides_dropped = 0
        self.address = ""

    @property
    def ready(self) -> bool:
        """There is nothing to wait for."""
        return True

    def begin(self, *args: object, **kwargs: object) -> None:
        """Do nothing."""

    def commit(self, t_ns: int) -> None:
        """Count the row."""
        self.rows += 1

    def event(self, t_ns: int, level: Level, cause: str, source: str, text: str) -> None:
        """Count the event."""
        self.events += 1

    def aside(self, topic: str, row: int, t_ns: int, data: bytes) -> None:
        """Do nothing."""

    def stretched(self, since_ns: int, shift_ns: int) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def end(self, summary: bytes = b"", timeout_s: float = 2.0) -> bool:
        """Do nothing."""
        return True

    def close(self) -> None:
        """Do nothing."""
