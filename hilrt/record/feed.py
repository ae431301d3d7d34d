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
    """Takes a session's rows and events. This one counts them, and keeps none.

    Parameters
    ----------
    topics : sequence of Topic
        Contents of a row: the topics' signals in sequence.

    Attributes
    ----------
    records : bool
        Whether rows are kept: else none need be filled.
    row : ndarray, shape (n_signals,)
        The caller fills it in place before each `commit`; values stay until overwritten.
    rows, events : int
        Rows and events taken.
    dropped, events_dropped, asides_dropped : int
        Rows, events, and data beside the rows, that were lost.
    lost_events : list of dict
        The newest events that were lost, once that is known.
    on_first_loss : callable, optional
        Called when the first rows are lost.
    max_gap_ns : float
        Session time without a row, ns, after which `on_gap` is called with what is lost, as text.
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
        """Take `row` at session time `t_ns`, ns."""
        self.rows += 1

    def flush(self) -> None:
        """Send waiting messages, without blocking."""

    def event(
        self,
        t_ns: int,
        level: Level,
        cause: str,
        source: str,
        text: str,
        value: float | None = None,
    ) -> None:
        """Note something that happened at session time `t_ns` [ns]."""
        self.events += 1

    def aside(self, topic: str, row: int, t_ns: int, data: bytes) -> None:
        """Take `data` on a topic of `ASIDES`: how things stand before the row number `row`."""

    def stretched(self, since_ns: int, shift_ns: int) -> None:
        """The grid was shifted by `shift_ns` at the reading `since_ns` of the monotonic clock."""

    def losses(self) -> list[str]:
        """Losses as text; empty if there were none."""
        lost = (
            (self.dropped, f"of {self.rows} steps are not in the log"),
            (self.events_dropped, "events are not in the log: summary.json has the newest"),
            (self.asides_dropped, "snapshots are not in the log: a replay cannot start there"),
        )
        return [f"recorder: did not keep up: {n} {text}" for n, text in lost if n]

    def close(self) -> None:
        """Release its resources."""


#: Messages that may wait. (CONFLATE, which keeps the newest alone, loses it when the sender ends.)
MESSAGES = 16
#: How long the last message may take to leave, ms.
LINGER_MS = 200


class LogProgress(msgspec.Struct, frozen=True):
    """Progress of the log.

    Parameters
    ----------
    rows : int
        Number of the row after the newest one in the file: of those before, `missing` are not.
    missing : int
    size, free : int
        Of the file, and on its disk, bytes.
    events : int
        So many of the master's events are in the file.
    cut : list of str
        Processes whose own logs were cut because they print too much.
    """

    rows: int
    missing: int
    size: int
    free: int
    events: int = 0
    cut: list[str] = []


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(LogProgress)


class ProgressSender:
    """The recorder's end; it never waits for the master.

    Parameters
    ----------
    context : zmq.Context
    address : str
        Of the master's end.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str) -> None:
        self._socket: zmq.Socket[bytes] = context.socket(zmq.PUSH)
        self._socket.sndhwm = MESSAGES
        connect(self._socket, address)

    def tell(
        self, path: Path, rows: int, missing: int, events: int, cut: Sequence[str] = ()
    ) -> None:
        """Tell that the log at `path` holds all rows before number `rows`, except for `missing`.

        So it does the first `events` of those that the master sent. The logs of the processes `cut`
        were cut.
        """
        free = shutil.disk_usage(path.parent).free
        progress = LogProgress(rows, missing, path.stat().st_size, free, events, list(cut))
        with contextlib.suppress(zmq.Again):
            self._socket.send(_encoder.encode(progress), zmq.NOBLOCK)

    def close(self) -> None:
        """Free the socket; the last messages are still sent."""
        self._socket.close(linger=LINGER_MS)


class ProgressReceiver:
    """The master's end; it never waits for the recorder.

    Parameters
    ----------
    address : str

    Attributes
    ----------
    newest : LogProgress
        The recorder's last report.
    """

    def __init__(self, address: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.PULL)
        self._socket.rcvhwm = MESSAGES
        self.newest = LogProgress(0, 0, 0, 0)
        bind(self._socket, address)

    def look(self) -> bool:
        """Whether the recorder has told something since the last look."""
        heard = False
        with contextlib.suppress(zmq.Again):
            for _ in range(MESSAGES):
                message = self._socket.recv(zmq.NOBLOCK)
                with contextlib.suppress(msgspec.MsgspecError):
                    self.newest, heard = _decoder.decode(message), True
        return heard

    def close(self) -> None:
        """Free the socket."""
        self._socket.close(linger=0)
        self._context.term()
