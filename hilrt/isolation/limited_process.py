"""Child processes: environment, limits for parsers that may crash, reuse of an idle child."""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, BinaryIO, Final, NamedTuple

#: Prefix of variables meant for a single process: tokens, keys, socket addresses. They are not
#: inherited.
OWN_VARIABLES: Final = "HILRT_"
#: Variables that this process has set for itself.
_set_here: set[str] = set()


def set_for_this_process(name: str, value: str) -> None:
    """Set a variable that no child process inherits."""
    os.environ[name] = value
    _set_here.add(name)


def inherited_environment() -> dict[str, str]:
    """Environment for a child process, without variables meant for this one alone."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith(OWN_VARIABLES) and name not in _set_here
    }


if sys.platform != "win32":
    import resource

_LENGTH = struct.Struct("<I")
#: Time limit for a child to end on request, s.
_END_S = 2.0
#: Keeps linear algebra libraries from starting threads and reserving memory for each.
_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
    "NUMEXPR_MAX_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # its default reserves 1 GB at once
}


class ProcessLimits(NamedTuple):
    """Limits of a child: memory [bytes], processor time [s], response time [s]."""

    memory: int
    processor_s: int
    answer_s: float

    @classmethod
    def for_size(cls, size: int) -> ProcessLimits:
        """Limits sufficient for a packed file of `size` bytes and the slowest reader."""
        return cls((1 << 30) + 8 * size, 60 + size // 50_000, 60.0 + size / 1e6)


class ChildDied(Exception):
    """The child has ended; the text describes how, and completes "the reader of it …"."""


class LimitedProcess:
    """A running child process that answers requests.

    Parameters
    ----------
    module : str
        Module to run, as ``python -m``; it uses `own_pipes` and answers each message with one.

    Attributes
    ----------
    limits : ProcessLimits
        Its limits, for error messages and the response time.
    unanswered : int
        Messages not yet answered.
    """

    limits: ProcessLimits

    def __init__(self, module: str) -> None:
        self.limits = ProcessLimits.for_size(0)
        self.unanswered = 0
        self._late = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**inherited_environment(), **_ENVIRONMENT},
        )

    @property
    def pid(self) -> int:
        """Process number of the child."""
        return self._process.pid

    def send(self, message: bytes) -> None:
        """Send a request; `ChildDied` if the child has ended."""
        assert self._process.stdin is not None
        try:
            write_message(self._process.stdin, message)
        except OSError:
            raise self._died() from None
        self.unanswered += 1

    def receive(self) -> bytes:
        """Next answer; `ChildDied` if the child ends first, or takes too long."""
        assert self._process.stdout is not None
        watch = threading.Timer(self.limits.answer_s, self._end_late)
        watch.daemon = True
        watch.start()
        try:
            message = read_message(self._process.stdout)
        finally:
            watch.cancel()
        if message is None:
            raise self._died()
        self.unanswered -= 1
        return message

    @property
    def idle(self) -> bool:
        """Whether it is alive and has answered everything."""
        return self._process.poll() is None and not self.unanswered

    def close(self) -> None:
        """End the child, if it is still running."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()

    def _end_late(self) -> None:
        self._late = True
        self._process.kill()

    def _died(self) -> ChildDied:
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if self._late:
            return ChildDied(f"did not respond for {self.limits.answer_s:.0f} s")
        if status == -getattr(signal, "SIGXCPU", 0):
            return ChildDied(f"took more than {self.limits.processor_s} s of processor time")
        if status < 0:
            with contextlib.suppress(ValueError):
                return ChildDied(f"crashed ({signal.Signals(-status).name})")
        return ChildDied(f"ended with status {status}")


def limit_this_process(memory: int, processor_s: int) -> None:
    """Limit the resources of the calling process from now on, if the platform supports it.

    Memory means private writable memory: a large mapped file costs nothing.
    """
    if sys.platform == "win32":
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    for kind, limit in (
        (resource.RLIMIT_DATA, _memory_now() + memory),
        (resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime) + processor_s),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        with contextlib.suppress(OSError, ValueError):  # macOS refuses some
            resource.setrlimit(kind, (limit, hard))


def _memory_now() -> int:
    """Memory counted by RLIMIT_DATA, bytes; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[5])
    except (OSError, LookupError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The child's pipes for requests and answers; output of libraries goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C: the parent ends, and with it the pipe
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return requests, answers


def write_message(stream: IO[bytes], message: bytes) -> None:
    """Write a message, preceded by its length."""
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def read_message(stream: IO[bytes]) -> bytes | None:
    """Next message; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    message = stream.read(length)
    return message if len(message) == length else None


#: Time for which an idle child is kept, s.
KEPT_S = 5.0

_lock = threading.Lock()
_idle: dict[str, LimitedProcess] = {}
_timers: dict[str, threading.Timer] = {}


def take_process(module: str) -> LimitedProcess:
    """A child running the module: an idle one, or a new one."""
    process = _pop(module)
    if process is not None and process.idle:
        return process
    if process is not None:
        process.close()
    return LimitedProcess(module)


def give_back(module: str, process: LimitedProcess) -> None:
    """Keep an idle child for a while; end it if requests are still unanswered."""
    if not process.idle:
        process.close()
        return
    with _lock:
        if module not in _idle:
            _idle[module] = process
            timer = _timers[module] = threading.Timer(KEPT_S, _end, (module, process))
            timer.daemon = True
            timer.start()
            return
    process.close()


def _pop(module: str) -> LimitedProcess | None:
    with _lock:
        timer = _timers.pop(module, None)
        if timer is not None:
            timer.cancel()
        return _idle.pop(module, None)


def _end(module: str, process: LimitedProcess) -> None:
    """End the process after `KEPT_S`, unless it was used again."""
    with _lock:
        if (
            _idle.get(module) is not process
            or _timers.get(module) is not threading.current_thread()
        ):
            return
        del _idle[module], _timers[module]
    process.close()


@atexit.register
def _end_all() -> None:
    for module in list(_idle):
        process = _pop(module)
        if process is not None:
            process.close()
