"""What the recorder tells the master: how far the log has come, and how much room its disk has."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import zmq

from hilrt.isolation.local_sockets import bind, connect

#: Messages that may wait. (CONFLATE, which keeps the newest alone, loses it when the sender ends.)
MESSAGES = 16
#: How long the last message may take to leave, ms.
LINGER_MS = 200


class LogProgress(msgspec.Struct, frozen=True):
    """How far the log has come.

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
        """Tell that the log at `path` holds all rows before number `rows`, but for `missing`.

        So it does the first `events` of those that the master sent. The logs of the processes `cut`
        were cut.
        """
        free = shutil.disk_usage(path.parent).free
        progress = LogProgress(rows, missing, path.stat().st_size, free, events, list(cut))
        with contextlib.suppress(zmq.Again):
            self._socket.send(_encoder.encode(progress), zmq.NOBLOCK)

    def close(self) -> None:
        """Free the socket; what was told last still leaves."""
        self._socket.close(linger=LINGER_MS)


class ProgressReceiver:
    """The master's end; it never waits for the recorder.

    Parameters
    ----------
    address : str

    Attributes
    ----------
    newest : LogProgress
        What the recorder told last.
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
