"""``hilrt`` commands as forks of a process that has loaded everything: 1 s of processor time less.

A command started so is a process of its own, with a session, a group, signals, standard streams,
an environment and a folder as `subprocess.Popen` would give it, and all that it starts itself is
started as ever. Only what it has loaded was loaded before; /proc keeps the server's command and
environment for it. Each way in which a session ends has a scenario with the true command.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import pkgutil
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple

import msgspec

ROOT: Final = Path(__file__).parents[2]
NUMBER: Final = struct.Struct("i")
#: Longest request, bytes: arguments and environment.
LONGEST: Final = 1 << 17
#: The server answers at once, but has to load everything first on what may be a busy machine, s.
ANSWER_TIMEOUT: Final = 60.0
#: For commands whose test names no time, s.
WAIT_TIMEOUT: Final = 90.0


class Request(msgspec.Struct):
    """A ``hilrt`` command; its standard streams and a pipe for its status are sent with it."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]
    #: How long its children may take to end, s; None: as long as ever.
    stop_timeout: float | None = None


class Streams(NamedTuple):
    """Descriptors that a command gets; what it is not given is empty, or lost."""

    stdin: int
    stdout: int
    stderr: int


# ---- beside the tests --------------------------------------------------------------------------


class ForkServerLost(Exception):
    """The server has ended or does not answer; the next command gets a new one."""


class Forked:
    """What a test needs of `subprocess.Popen`, for a child of the server.

    `ForkServerLost` where the server cannot say how it ended; it is killed then.
    """

    def __init__(self, server: ForkServer, status: int, stdin: IO[bytes] | None) -> None:
        self.stdin, self._server, self._status = stdin, server, status
        self.returncode: int | None = None
        self._handle = -1
        try:
            self.pid = self._read(ANSWER_TIMEOUT)
        except BaseException:
            os.close(status)
            raise
        with contextlib.suppress(ProcessLookupError):  # it has ended: the server has said so
            self._handle = os.pidfd_open(self.pid)

    def _read(self, timeout: float) -> int:
        if not _readable(timeout, self._status):
            raise self._server.lost(f"has not answered for {timeout:g} s")
        read = os.read(self._status, NUMBER.size)
        if len(read) != NUMBER.size:
            raise self._server.lost("has ended")
        (number,) = NUMBER.unpack(read)
        return int(number)

    def poll(self) -> int | None:
        """Exit status, or None while it runs; negative: the number of the signal that ended it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float = WAIT_TIMEOUT) -> int:
        if self.returncode is None:
            # Whether it still runs is seen without the server, too: that may have been stopped.
            if not _readable(timeout, self._status, *([self._handle] * (self._handle >= 0))):
                raise subprocess.TimeoutExpired("hilrt", timeout)
            try:
                self.returncode = self._read(ANSWER_TIMEOUT)
            except ForkServerLost:
                self._signal(signal.SIGKILL)
                self.returncode = -signal.SIGKILL
                raise
            finally:
                os.close(self._status)
                if self._handle >= 0:
                    os.close(self._handle)
        return self.returncode

    def _signal(self, number: int) -> None:
        if self._handle >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            self._signal(number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _readable(timeout: float, *descriptors: int) -> bool:
    """Whether one of them is, at the latest after `timeout` [s]; their numbers may be any."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(1e3 * timeout))


class ForkServer:
    """The server, started with the first command; `loads` is what makes its commands fast."""

    def __init__(self, *, loads: bool = True) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(ANSWER_TIMEOUT)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno()), *["load"] * loads],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                # With more than one thread, a fork may find a lock that nobody gives back.
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def start(self, request: Request, streams: Streams, stdin: IO[bytes] | None = None) -> Forked:
        """A process that runs the command; `stdin` is the tests' end of a pipe to it."""
        ours, theirs = os.pipe()
        try:
            data = msgspec.json.encode(request)
            assert len(data) <= LONGEST
            socket.send_fds(self._control, [data], [*streams, theirs])
        except OSError as error:
            os.close(ours)
            raise self.lost(f"takes no command ({error})") from error
        finally:
            os.close(theirs)
        return Forked(self, ours, stdin)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def lost(self, what: str) -> ForkServerLost:
        """Give it up; says what became of it."""
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may be about to end
            self._process.wait(0.5)
        status = self._process.poll()
        text = f"the fork server {what}; " + (
            "it is killed" if status is None else f"its exit status is {status}"
        )
        self._process.kill()
        self.close()
        return ForkServerLost(text)

    def close(self) -> None:
        """End the server; its children go on."""
        self._control.close()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@functools.cache
def _server() -> ForkServer:
    return ForkServer()


def server() -> ForkServer:
    """The one of this process of pytest, which ends with it; a new one where that has ended."""
    if _server().ended:
        print(_server().lost("has ended, a new one is started"), file=sys.stderr)
        _server.cache_clear()
    return _server()


def close_server() -> None:
    """End the server, if there is one."""
    if _server.cache_info().currsize:
        _server().close()
        _server.cache_clear()


def start_hilrt(
    arguments: Sequence[str],
    stdout: int,
    stderr: int,
    environment: Mapping[str, str],
    stop_timeout: float | None = None,
) -> Forked:
    """``hilrt`` with these arguments, and a pipe to its standard input."""
    reads, writes = os.pipe()
    stdin = os.fdopen(writes, "wb")
    try:
        request = Request([*arguments], os.getcwd(), {**environment}, stop_timeout)
        return server().start(request, Streams(reads, stdout, stderr), stdin)
    except BaseException:
        stdin.close()
        raise
    finally:
        os.close(reads)


def run_hilrt(*arguments: object, timeout: float) -> subprocess.CompletedProcess[str]:
    """A whole ``hilrt`` command, and what it has written, as of `subprocess.run`."""
    words = [str(argument) for argument in arguments]
    with contextlib.ExitStack() as opened:
        out, err = (opened.enter_context(_memory_file(name)) for name in ("stdout", "stderr"))
        process = start_hilrt(words, out.fileno(), err.fileno(), os.environ)
        assert process.stdin is not None
        process.stdin.close()
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(words, status, *texts)


def _memory_file(name: str) -> IO[bytes]:
    return os.fdopen(os.memfd_create(name), "r+b")


# ---- in the server -----------------------------------------------------------------------------


def load() -> None:
    """What any ``hilrt run`` loads."""
    import hilrt_adapters
    from hilrt.cli import main  # noqa: F401
    from hilrt.session import session  # noqa: F401
    from hilrt.session.running import load_numerics

    for module in pkgutil.iter_modules(hilrt_adapters.__path__, "hilrt_adapters."):
        with contextlib.suppress(ImportError):  # of an extra that is not installed
            importlib.import_module(module.name)
    load_numerics(expects=True)


def serve(control: socket.socket) -> Request | None:
    """Fork a process for each request; returns the request in that, and None at the end."""
    ready = selectors.DefaultSelector()
    ready.register(control, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.data is not None:
                ready.unregister(key.fd)
                _tell_end(key.fd, *key.data)
                continue
            data, descriptors, _, _ = socket.recv_fds(control, LONGEST, 4)
            if not data:
                return None
            request = msgspec.json.decode(data, type=Request)
            *streams, status = descriptors
            pid = os.fork()
            if not pid:
                _inherit_nothing(ready, control, status)
                _become(request, Streams(*streams))
                return request
            for descriptor in streams:
                os.close(descriptor)
            _tell(status, pid)
            ready.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))


def _tell_end(pidfd: int, pid: int, status: int) -> None:
    _, ended = os.waitpid(pid, 0)
    os.close(pidfd)
    _tell(status, os.waitstatus_to_exitcode(ended))
    os.close(status)


def _tell(status: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the test has not waited for it
        os.write(status, NUMBER.pack(number))


def _inherit_nothing(ready: selectors.BaseSelector, control: socket.socket, status: int) -> None:
    for key in [*ready.get_map().values()]:
        if key.data is not None:
            os.close(key.fd)
            os.close(key.data[1])
    ready.close()
    control.close()
    os.close(status)


def _become(request: Request, streams: Streams) -> None:
    """Take the place of a process that was started with this command."""
    os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    for descriptor in streams:
        os.close(descriptor)
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    sys.path[0] = request.folder
    sys.argv = ["hilrt", *request.arguments]
    if request.stop_timeout is not None:
        processes = importlib.import_module("hilrt.session.processes")
        vars(processes).update(
            STOP_TIMEOUT=request.stop_timeout, NOTICE=0.25 * request.stop_timeout
        )


def main(descriptor: int, *, loads: bool) -> None:
    if loads:
        load()
    gc.collect()
    gc.freeze()
    assert len(os.listdir("/proc/self/task")) == 1
    request = serve(socket.socket(fileno=descriptor))
    if request is not None:
        runpy.run_module("hilrt", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), loads="load" in sys.argv)
