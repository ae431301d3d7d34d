"""A child process of a session: its state, its output, and signals to it and its group."""

from __future__ import annotations

import collections
import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, Protocol

#: Number of the signal, defined also where the system has no such signal.
SIGKILL = 9
#: Bytes read at once, and kept of an incomplete line.
LONGEST_LINE = 4096
_TAIL_BYTES, TAIL_LINES = 65536, 200

#: Beginnings of lines in which crashing programs state the reason: Python, JavaScript, Java and C#,
#: Julia, Go, Rust, C++, MATLAB, Fortran, C.
_CRASH: Final = re.compile(
    r"[\w.:$]*(Error|Exception|Interrupt)\b(?! termination)(.*:|$)|Caused by:|Unhandled exception"
    r"|ERROR:|panic:|thread .* panicked at|terminate called|what\(\):|Error using"
    r"|Fortran runtime error|Segmentation fault|.*Assertion .* failed"
)


def crash_line(output: str) -> str:
    """Line of a crashed program's output with the reason, else its last line, else empty.

    A stack trace after that line is ignored, as in Go or Java. A reason on two lines is joined, as
    in C++ or Rust.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    found = [i for i, line in enumerate(lines) if _CRASH.match(line)]
    if not found:
        return lines[-1] if lines else ""
    at = found[-1]
    if lines[at].startswith("what():"):
        return " ".join(lines[max(0, at - 1) : at + 1])
    two = lines[at].startswith(("thread ", "Error using"))
    return " ".join(lines[at : at + 1 + two])


class Process(Protocol):
    """Part of the interface of `subprocess.Popen`."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def poll(self) -> int | None:
        """Return the exit status, the negative of a signal's number; None while it runs."""

    def terminate(self) -> None:
        """End the process."""

    def kill(self) -> None:
        """Kill the process."""


class ForkedProcess:
    """Process forked by a child, and adopted by this process when that child ended."""

    stdin: IO[bytes] | None = None
    stdout: IO[bytes] | None = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._returncode: int | None = None

    def poll(self) -> int | None:
        """See `Process.poll`."""
        if self._returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # reaped elsewhere: status 0, as in `subprocess`
                pid, status = self.pid, 0
            if pid:
                self._returncode = os.waitstatus_to_exitcode(status)
        return self._returncode

    def terminate(self) -> None:
        """See `Process.terminate`."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """See `Process.kill`."""
        self._send(SIGKILL)

    def _send(self, number: int) -> None:
        if self.poll() is None:  # once it is reaped, its number may be reused
            os.kill(self.pid, number)


class Child:
    """One started process.

    Attributes
    ----------
    name : str
        The subsystem's name.
    argv : list of str
        Its command as executed.
    pid : int
        Also the number of its process group.
    log : Path
        File with its standard error, and its standard output unless it is read by `on_line`.
    returncode : int or None
        Exit status, the negative of a signal's number; None while it runs.
    on_line : callable
        Called with each line of its standard output, if that is read line by line.
    """

    def __init__(self, name: str, argv: list[str], log: Path, process: Process) -> None:
        self.name = name
        self.argv = argv
        self.log = log
        self.process = process
        self.pid = process.pid
        self.returncode: int | None = None
        self.on_line: Callable[[str], None] = lambda line: None
        self._unread = b""
        self._group_gone = sys.platform == "win32"

    def last_words(self) -> str:
        """Line of its output with the reason for its end, for an error message; empty if none."""
        return crash_line(self.tail(TAIL_LINES))

    def tail(self, lines: int = 10) -> str:
        """Last lines of its output, for an error message; empty if there are none."""
        try:
            with self.log.open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - _TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(collections.deque(text.splitlines(), lines))

    def describe_exit(self) -> str:
        """Text such as ``"ended with status 1"`` or ``"was ended by SIGKILL"``."""
        if self.returncode is None:
            return "is running"
        if self.returncode >= 0:
            return f"ended with status {self.returncode}"
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-self.returncode).name}"
        return f"was ended by signal {-self.returncode}"

    def reap(self) -> bool:
        """Whether the process itself has ended; also collects its exit status."""
        if self.returncode is None:
            self.returncode = self.process.poll()
            if self.returncode is not None and self.process.stdin is not None:
                self.process.stdin.close()
        return self.returncode is not None

    def send_line(self, line: str) -> None:
        """Write a line to its standard input without waiting, unless the process has ended."""
        pipe = self.process.stdin
        if pipe is not None and not pipe.closed:
            with contextlib.suppress(OSError):
                os.write(pipe.fileno(), f"{line}\n".encode())

    def read_lines(self, pipe: int) -> bool:
        """Pass received lines to `on_line`, without waiting; return whether more may follow."""
        read = b"."
        with contextlib.suppress(BlockingIOError):
            read = os.read(pipe, LONGEST_LINE)
            *lines, self._unread = (self._unread + read).split(b"\n")
            for line in lines:
                self.on_line(line.decode("utf-8", "replace"))
            self._unread = self._unread[-LONGEST_LINE:]
        return bool(read)

    def end_lines(self) -> None:
        """Pass an unterminated last line to `on_line`, when no more can follow."""
        if self._unread:
            self.on_line(self._unread.decode("utf-8", "replace"))
            self._unread = b""

    def gone(self) -> bool:
        """Whether the process and everything in its group have ended."""
        if self.reap() and not self._group_gone:
            self._group_gone = not self._signal_group(0)
        return self.returncode is not None and self._group_gone

    def signal(self, number: int) -> None:
        """Send a signal to the process and its group."""
        if self.gone():
            return
        if sys.platform == "win32":
            self.process.kill() if number == SIGKILL else self.process.terminate()
        else:
            self._signal_group(number)

    def _signal_group(self, number: int) -> bool:
        if sys.platform == "win32":
            return False
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # it changed its user, or (macOS) is a zombie
            return self.returncode is None
        return True
