"""The master's side of recording: it sends rows and events to the recorder process.

`RecorderFeed.commit` copies a row into a batch. A full batch goes to a bounded queue, which a
background thread of ZeroMQ empties. In real time only `RecorderFeed.end` waits for the recorder: if
the queue is full, the batch is dropped and counted, and the recorder detects the gap from the index
of the next one. As fast as possible, the batch is held back, and the session waits before its next
step until the recorder has room for it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import zmq
from numpy.typing import NDArray

from hilrt.isolation.temporary_folder import bind
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

#: Maximum events kept; older ones are only counted.
KEPT = 500
#: Maximum length of a text kept, characters.
TEXT = 500


class UnwrittenEvents:
    """Newest events that are not known to be in the log.

    The recorder writes events in the order in which they are sent, so their number identifies the
    written ones.
    """

    def __init__(self) -> None:
        self._sent: deque[RecordEvent] = deque(maxlen=KEPT)
        self._refused: deque[RecordEvent] = deque(maxlen=KEPT)
        self._number = self._written = 0

    def __len__(self) -> int:
        """Number of events sent that are not known to be written."""
        return self._number - self._written

    def send(self, event: RecordEvent) -> None:
        """Record an event that will be sent."""
        self._sent.append(event)
        self._number += 1

    def refuse(self, event: RecordEvent) -> None:
        """Record an event that will not be sent, because too many are queued."""
        self._refused.append(event)

    def written(self, number: int) -> None:
        """Record that the first `number` events sent are in the log."""
        for _ in range(len(self._sent) - max(0, self._number - number)):
            self._sent.popleft()
        self._written = max(self._written, min(number, self._number))

    def lost(self, *, failed: bool) -> list[dict[str, object]]:
        """Newest events not in the log, in order; with `failed`, including those only sent."""
        events = [*self._refused, *(self._sent if failed else ())]
        events.sort(key=lambda event: event.t_ns)
        return [_entry(event) for event in islice(events, max(0, len(events) - KEPT), None)]


def _entry(event: RecordEvent) -> dict[str, object]:
    return {
        "t": event.t_ns * 1e-9,
        "level": event.level,
        "cause": event.cause,
        "source": event.source,
        "text": event.text[:TEXT],
    }


BATCH_ROWS = 64
#: Size that a batch may always reach in a session as fast as possible, bytes.
BATCH_BYTES = 1 << 20
#: Time that a batch covers, ns; a killed master loses at most this.
BATCH_NS = 50_000_000
#: Size of the queue to the recorder, bytes, and minimum number of batches in it.
QUEUE_BYTES = 32 << 20
LEAST_BATCHES = 8
#: Maximum control messages queued for the recorder; further ones are lost and counted.
MAX_WAITING = 4096
#: Maximum events sent at once, so that a burst of events does not delay a tick.
EVENTS_PER_FLUSH = 16
#: Interval at which `end` checks whether the recorder still runs, ms.
LOOK_MS = 20


def open_feed_socket(address: str) -> zmq.Socket[bytes]:
    """Socket at `address`, to which a recorder can connect before the log's contents are known.

    It queues `LEAST_BATCHES` until their size is known. Its background thread inherits the
    processor affinity and scheduling of the caller, so open it before the master is pinned.
    """
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    opened: zmq.Socket[bytes] = context.socket(zmq.PUSH)
    opened.sndhwm = LEAST_BATCHES
    opened.linger = 0
    bind(opened, address)
    return opened


def close_feed_socket(opened: zmq.Socket[bytes]) -> None:
    """Close the socket, and discard messages that the recorder has not read."""
    opened.close()
    opened.context.term()


class RecorderFeed(Feed):
    """Feed that sends the session's rows to a recorder process.

    Parameters
    ----------
    topics : sequence of Topic
        Contents of a row: the topics' signals in sequence. Names are unique over all topics.
    opened : zmq.Socket
        Socket from `open_feed_socket`; the feed closes it.
    holds_back : bool
        Whether rows that do not fit into the queue are held back rather than dropped. This is for
        virtual time, where the session waits before its next step until `hand_over` has sent them.
    queue_bytes : int
        Size of the queue.

    Attributes
    ----------
    on_first_loss : callable, optional
        Called when the first rows are lost, while an operator may still be able to help.
    recorder_runs : callable
        Returns whether a recorder runs that may still receive queued data.
    unwritten : UnwrittenEvents
        Events that the recorder has not reported as written.
    """

    records = True

    def __init__(
        self,
        topics: Sequence[Topic],
        opened: zmq.Socket[bytes],
        *,
        holds_back: bool = False,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        super().__init__(topics)
        names = [signal.name for topic in self.topics for signal in topic.signals]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"signals recorded twice: {', '.join(twice)}; names must be unique")
        self.recorder_runs: Callable[[], bool] = lambda: True
        self._holds_back = holds_back
        self._real_time = not holds_back  # otherwise session time is unrelated to the wall clock
        rows = BATCH_ROWS
        if not self._real_time:
            rows = max(rows, BATCH_BYTES // max(1, self.row.nbytes))
        self._block: Floats = np.empty((rows, len(names)))
        self._times = np.empty(rows, np.int64)
        self._count = 0
        self._first_ns = 0
        self._head: bytes | None = None
        self._lost_since_ns: int | None = None
        self._waiting: deque[bytes] = deque()
        self.unwritten = UnwrittenEvents()
        self._held: deque[list[bytes]] = deque()
        self._batches = max(LEAST_BATCHES, queue_bytes // max(1, self._block.nbytes))
        self._socket = opened

    @property
    def ready(self) -> bool:
        """Whether a recorder is connected and has room."""
        if not self._socket.poll(0, zmq.POLLOUT):
            return False
        self._socket.sndhwm = self._batches  # also applies to existing connections
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
        monotonic clock at that time. Gateways send the recorder frames of the `buses`; with
        `trigger`, only the time around triggers is recorded.
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

    def event(
        self,
        t_ns: int,
        level: Level,
        cause: str,
        source: str,
        text: str,
        value: float | None = None,
    ) -> None:
        """Record an event at session time `t_ns` [ns]; it is sent with the next batch."""
        self.events += 1
        message = RecordEvent(t_ns, level, cause, source, text, value)
        if len(self._waiting) >= MAX_WAITING:
            self.events_dropped += 1
            self.unwritten.refuse(message)
            return
        self.unwritten.send(message)
        self._waiting.append(encode(message))

    def aside(self, topic: str, row: int, t_ns: int, data: bytes) -> None:
        """Record `data` on a topic of `ASIDES`: state or changes before row number `row`.

        Call this before that row is committed, so that the data precede it in the log.
        """
        frames = [BESIDE, topic.encode(), ASIDE.pack(row, t_ns), data]
        if self._head is None and not self._held and self._send(frames):
            return
        if self._holds_back:
            self._held.append(frames)
        else:
            self.asides_dropped += 1

    def stretched(self, since_ns: int, shift_ns: int) -> None:
        """Record a shift of the grid by `shift_ns` at `since_ns` on the monotonic clock.

        The recorder needs this for the times of CAN frames; if the message is lost, only these
        are wrong.
        """
        self._send([encode(Stretched(since_ns, shift_ns))])

    @property
    def behind(self) -> bool:
        """Whether data are held back until the recorder has room."""
        return bool(self._held)

    def hand_over(self) -> bool:
        """Send queued messages, in order, without blocking; False if the queue is full."""
        if self._head is not None:  # the log's beginning must be sent first
            if not self._send([self._head]):
                return False
            self._head = None
        for _ in range(min(len(self._waiting), EVENTS_PER_FLUSH)):
            if not self._send([self._waiting[0]]):
                return False
            self._waiting.popleft()
        while self._held:
            if not self._send(self._held[0]):
                return False
            self._held.popleft()
        return True

    def give_up(self) -> None:
        """Stop waiting for the recorder: drop rows held back, and from now on rows without room.

        Rows are recorded again as soon as there is room.
        """
        self._holds_back = False
        for frames in self._held:
            if frames[0] == ROWS:
                self._lose(np.frombuffer(frames[2], np.int64))
            else:
                self.asides_dropped += 1
        self._held.clear()

    def flush(self) -> None:
        """Send queued messages and the rows since the last call, without blocking."""
        has_room = self.hand_over()
        n, self._count = self._count, 0
        if n == 0:
            return
        batch = (ROWS, BATCH.pack(self.rows - n), self._times[:n], self._block[:n])
        if has_room and self._send(batch):
            self._lost_since_ns = None
            return
        kind, index, times, rows = batch
        if self._holds_back:  # as bytes, because the arrays are reused
            self._held.append([kind, index, times.tobytes(), rows.tobytes()])
        else:
            self._lose(times)

    def end(self, summary: bytes = b"", timeout_s: float = 2.0) -> bool:
        """Send the rest and close the log; False if the queue did not have room in time.

        This blocks for at most `timeout_s` [s], and only while the recorder runs: call it from a
        thread. The recorder may not have received everything when this returns; see `close`.
        """
        deadline = time.monotonic() + timeout_s
        # The callbacks may only be called in the session's thread; `losses` reports everything.
        self.on_first_loss = self.on_gap = None
        self._holds_back = True
        self.flush()
        taken = self._until(lambda: self.hand_over() and not self._waiting, deadline)
        if not taken:
            self.give_up()
            self.events_dropped += len(self._waiting)
        message = RecordEnd(summary=summary, rows=self.rows, events=self.events)
        return taken and self._until(lambda: self._send([encode(message)]), deadline)

    def close(self) -> None:
        """Close the socket; call this after the recorder has ended, or it may lose data.

        If the other end of a Unix socket is closed while libzmq's own queue is full, libzmq reads
        nothing more from it, not even data that the kernel has buffered (`in_event` of its stream
        engine removes the descriptor). It is therefore not enough that this process has sent all.
        """
        close_feed_socket(self._socket)

    def _lose(self, times: NDArray[np.int64]) -> None:
        """Count the rows of these session times [ns] as lost, and report the loss."""
        first, self.dropped = not self.dropped, self.dropped + len(times)
        if self._lost_since_ns is None:
            self._lost_since_ns = int(times[0])
        if first and self.on_first_loss is not None:
            self.on_first_loss()
        since_ns, until_ns = self._lost_since_ns, int(times[-1])
        if until_ns - since_ns > self.max_gap_ns and self.on_gap is not None:
            self.on_gap(
                f"the recording is lost: no step from {since_ns * 1e-9:.3f} s to "
                f"{until_ns * 1e-9:.3f} s is in the log"
            )

    def _until(self, sent: Callable[[], bool], deadline: float) -> bool:
        """Retry `sent` until it succeeds; False at the deadline or if the recorder has ended."""
        while not sent():
            left_ms = int(1e3 * (deadline - time.monotonic()))
            if left_ms <= 0 or not self.recorder_runs():
                return False
            self._socket.poll(min(left_ms, LOOK_MS), zmq.POLLOUT)
        return True

    def _send(self, frames: Sequence[Any]) -> bool:
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True
