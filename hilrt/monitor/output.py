"""Standard streams that cannot delay a session, even if closed, without a reader, or stalled.

A session's output is for its observers. Its log, its summary and its benches must not wait for a
reader, nor be lost because ``| head -1`` has closed the pipe.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
import time
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: Time that a session's last lines wait for a reader (such as a pager), s.
PATIENCE_S: Final = 5.0
#: Bytes written at a time: a pipe with room takes this many without blocking (POSIX, PIPE_BUF).
_AT_ONCE: Final = 512 if not hasattr(select, "PIPE_BUF") else int(select.PIPE_BUF)
_GONE: Final = (errno.EPIPE, errno.EIO, errno.ENXIO, errno.EBADF, errno.ECONNRESET)


class PatientFile(io.FileIO):
    """Stream that discards output if nobody reads within `patience_s` [s].

    After that it discards output at once until there is room again.

    Attributes
    ----------
    dropped : int
        Bytes discarded.
    gone : bool
        Whether the reader has gone.
    """

    def __init__(self, number: int, patience_s: float) -> None:
        super().__init__(number, "w", closefd=False)
        self.dropped, self.gone = 0, False
        self._patience_s, self._stalled = patience_s, False
        self._room = select.poll() if hasattr(select, "poll") else None
        if self._room is not None:
            self._room.register(number, select.POLLOUT)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write or discard the data; the absence of a reader is not an error."""
        view = memoryview(data).cast("B")
        until = time.monotonic() + (0.0 if self._stalled else self._patience_s)
        written = 0
        while written < len(view) and not self.gone and self._has_room(until):
            try:
                written += super().write(view[written : written + _AT_ONCE]) or 0
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                self.gone = True
        self.dropped += len(view) - written
        return len(view)

    def _has_room(self, until: float) -> bool:
        if self._room is None:  # Windows
            return True
        wait_ms = max(0, round(1e3 * (until - time.monotonic())))
        self._stalled = not self._room.poll(wait_ms)
        return not self._stalled


def open_closed_streams() -> None:
    """Open the null device in place of a closed standard input, output or error.

    Otherwise the next file or socket opened would get that descriptor, and the output.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number, inheritable=True)
                os.close(opened)
            os.set_inheritable(number, True)
            mode = "w" if number else "r"
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def be_patient(patience_s: float = PATIENCE_S) -> list[PatientFile]:
    """Make standard output and error `PatientFile`s, where they are the process's own."""
    made = []
    for name in ("stdout", "stderr"):
        stream: TextIO = getattr(sys, name)
        if stream is not getattr(sys, f"__{name}__"):
            continue  # replaced, by a test for example
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
            raw = PatientFile(stream.fileno(), patience_s)
            patient = io.TextIOWrapper(
                io.BufferedWriter(raw),
                encoding=stream.encoding,
                errors=stream.errors,
                line_buffering=name == "stderr" or raw.isatty(),
            )
            setattr(sys, name, patient)
            made.append(raw)
    return made
