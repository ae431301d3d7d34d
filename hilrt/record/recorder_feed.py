"""Master side of recording: rows and events on their way to the recorder process.

`RecorderFeed.commit` copies a row into a batch; a full batch is handed to a bounded queue that a
background thread of ZeroMQ empties. Nothing here waits for the recorder: when the queue is full,
the batch is dropped and counted, and the recorder notes the gap from the index of the next one it
gets.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from hilrt.record.feed import Feed
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
    Stretched,
    Topic,
    Trigger,
    encode,
)
from hilrt.solver import Floats

BATCH_ROWS = 64
#: As fast as possible, a batch has as many rows as go into this many bytes, if they are more.
BATCH_BYTES = 1 << 20
#: A batch is sent when it covers this much time, ns: what a killed master loses.
BATCH_NS = 50_000_000
#: Bound of the queue towards the recorder, bytes; and the least number of batches that it takes.
QUEUE_BYTES = 32 << 20
LEAST_BATCHES = 8
#: Control messages that wait for the recorder; more are counted and lost.
MAX_WAITING = 4096
#: So that a burst of events never makes one tick long.
EVENTS_PER_FLUSH = 16


def open_feed_socket(batches: int = LEAST_BATCHES) -> zmq.Socket[bytes]:
    """Socket that a recorder can connect to before it is known what it will record.

    It queues so many `batches`, until the feed knows how many fit. Its background thread inherits
    the processor affinity and scheduling of the caller's, so open it before the master pins itself.
    """
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    opened: zmq.Socket[bytes] = context.socket(zmq.PUSH)
    opened.sndhwm = batches
    opened.linger = 0
    # Not a Unix socket: a recorder that is behind would lose what it has not read when the master
    # closes it, because libzmq reads nothing more after the hang-up.
    opened.bind("tcp://127.0.0.1:*")
    return opened


def address_of(opened: zmq.Socket[bytes]) -> str:
    """Where a recorder connects."""
    return opened.getsockopt_string(zmq.LAST_ENDPOINT)


def close_feed_socket(opened: zmq.Socket[bytes]) -> None:
    """Free the socket and what belongs to it; what was sent may still leave within its linger."""
    opened.close()
    opened.context.term()


class RecorderFeed(Feed):
    """Hands the session's rows to a recorder process.

    Parameters
    ----------
    topics : sequence of Topic
        What a row holds: the topics' signals one after the other. Names are unique over all topics.
    opened : zmq.Socket, optional
        From `open_feed_socket`; the feed closes it.
    patience_s : float
        How long a full queue may hold up `commit`, s. Zero in real time. In virtual time waiting
        harms nothing, so give seconds there, or a fast session loses rows.
    queue_bytes : int
        Bound of the queue.

    Attributes
    ----------
    address : str
        Where the recorder connects.
    on_first_loss : callable, optional
        Called when the first rows could not be handed over: an operator may still mend it.
    """

    records = True

    def __init__(
        self,
        topics: Sequence[Topic],
        opened: zmq.Socket[bytes] | None = None,
        *,
        patience_s: float = 0.0,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        super().__init__(topics)
        names = [signal.name for topic in self.topics for signal in topic.signals]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"signals recorded twice: {', '.join(twice)}; names must be unique")
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
        self._batches = max(LEAST_BATCHES, queue_bytes // max(1, self._block.nbytes))
        self._socket = open_feed_socket(self._batches) if opened is None else opened
        self.address = address_of(self._socket)

    @property
    def ready(self) -> bool:
        """Whether a recorder is connected and has room."""
        if not self._socket.poll(0, zmq.POLLOUT):
            return False
        self._socket.sndhwm = self._batches  # changes it for the connections that there are
        return True

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

    def close(self) -> None:
        """Free the socket; what was handed to `end` may still leave within its timeout."""
        close_feed_socket(self._socket)

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
