"""Destination of the master's rows and events: a recorder, memory, or nothing."""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import zmq

from hilrt.isolation.temporary_folder import bind, connect
from hilrt.record.messages import Level, Topic
from hilrt.solver import Floats


class Feed:
    """Receiver of a session's rows and events. This base class counts and discards them.

    Parameters
    ----------
    topics : sequence of Topic
        Contents of a row: the topics' signals in sequence.

    Attributes
    ----------
    records : bool
        Whether rows are kept; if not, `row` need not be filled.
    row : ndarray, shape (n_signals,)
        Filled in place by the caller before each `commit`; values stay until overwritten.
    rows, events : int
        Rows and events received.
    dropped, events_dropped, asides_dropped : int
        Numbers of lost rows, events, and other data.
    lost_events : list of dict
        Newest events known to be lost.
    on_first_loss : callable, optional
        Called when the first rows are lost.
    max_gap_ns : float
        Session time without a row, ns, after which `on_gap` is called with a text about the loss.
    on_gap : callable, optional
    """

    records = False
    on_first_loss: Callable[[], None] | None = None
    max_gap_ns = math.inf
    on_gap: Callable[[str], None] | None = None

    def __init__(self, topics: Sequence[Topic]) -> None:
        self.topics = [topic for topic in topics if topic.signals]
        self.row: Floats = np.full(sum(len(topic.signals) for topic in self.topics), np.nan)
        self.rows = self.events = 0
        self.dropped = self.events_dropped = self.asides_dropped = 0
        self.lost_events: list[dict[str, object]] = []

    def commit(self, t_ns: int) -> None:
        """Record `row` at session time `t_ns`, ns."""
        self.rows += 1

    def flush(self) -> None:
        """Send queued messages, without blocking."""

    def event(
        self,
        t_ns: int,
        level: Level,
        cause: str,
        source: str,
        text: str,
        value: float | None = None,
    ) -> None:
        """Record an event at session time `t_ns` [ns]."""
        self.events += 1

    def aside(self, topic: str, row: int, t_ns: int, data: bytes) -> None:
        """Record `data` on a topic of `ASIDES`: state or changes before row number `row`."""

    def stretched(self, since_ns: int, shift_ns: int) -> None:
        """Record a shift of the grid by `shift_ns` at `since_ns` on the monotonic clock."""

    def losses(self) -> list[str]:
        """Describe losses, one line each; empty if there were none."""
        lost = (
            (self.dropped, f"of {self.rows} steps are not in the log"),
            (self.events_dropped, "events are not in the log: summary.json has the newest"),
            (self.asides_dropped, "snapshots are not in the log: a replay cannot start there"),
        )
        return [f"recorder: did not keep up: {n} {text}" for n, text in lost if n]

    def close(self) -> None:
        """Release the resources."""


#: Maximum messages queued. (CONFLATE keeps only the newest, but loses it when the sender ends.)
MESSAGES = 16
#: Time limit for sending the last message, ms.
LINGER_MS = 200


class LogProgress(msgspec.Struct, frozen=True):
    """Progress of the log.

    Parameters
    ----------
    rows : int
        Number of the row after the newest one in the file; `missing` of the rows before are not in
        the file.
    missing : int
    size, free : int
        Size of the file, and free space on its disk, bytes.
    events : int
        Number of the master's events in the file.
    cut : list of str
        Processes whose own logs were cut because they printed too much.
    """

    rows: int
    missing: int
    size: int
    free: int
    events: int = 0
    cut: list[str] = []


_decoder = msgspec.msgpack.Decoder(LogProgress)


class ProgressSender:
    """The recorder's sender of progress reports; it never waits for the master.

    Parameters
    ----------
    context : zmq.Context
    address : str
        Address of the master's receiver.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self._socket: zmq.Socket[bytes] = context.socket(zmq.PUSH)
        self._socket.sndhwm = MESSAGES
        connect(self._socket, address)

    def send(
        self, path: Path, rows: int, missing: int, events: int, cut: Sequence[str] = ()
    ) -> None:
        """Report that the log at `path` has all but `missing` of the rows before number `rows`.

        It also has the master's first `events` events. `cut` are the processes whose logs were cut.
        """
        free = shutil.disk_usage(path.parent).free
        progress = LogProgress(rows, missing, path.stat().st_size, free, events, list(cut))
        with contextlib.suppress(zmq.Again):
            self._socket.send(msgspec.msgpack.encode(progress), zmq.NOBLOCK)

    def close(self) -> None:
        """Close the socket once the last messages are sent."""
        self._socket.close(linger=LINGER_MS)


class ProgressReceiver:
    """The master's receiver of progress reports; it never waits for the recorder.

    Parameters
    ----------
    address : str

    Attributes
    ----------
    newest : LogProgress
        The recorder's latest report.
    """

    def __init__(self, address: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.PULL)
        self._socket.rcvhwm = MESSAGES
        self.newest = LogProgress(0, 0, 0, 0)
        bind(self._socket, address)

    def poll(self) -> bool:
        """Receive reports; return whether there was one since the last call."""
        received = False
        with contextlib.suppress(zmq.Again):
            for _ in range(MESSAGES):
                message = self._socket.recv(zmq.NOBLOCK)
                with contextlib.suppress(msgspec.MsgspecError):
                    self.newest, received = _decoder.decode(message), True
        return received

    def close(self) -> None:
        """Free the socket."""
        self._socket.close(linger=0)
        self._context.term()
