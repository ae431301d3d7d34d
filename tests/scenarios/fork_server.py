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


class Request(msgspec.Struct):
    """A ``hilrt`` command; its standard streams and a pipe for its status are sent with it."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]


class Streams(NamedTuple):
    """Descriptors that a command gets; what it is not given is empty, or lost."""

    stdin: int
    stdout: int
    stderr: int


# ---- beside the tests --------------------------------------------------------------------------


class Forked:
    """What a test needs of `subprocess.Popen`, for a child of the server."""

    def __init__(self, status: int, stdin: IO[bytes] | None) -> None:
        self.stdin, self._status = stdin, status
        self.returncode: int | None = None
        self.pid = self._read()

    def _read(self) -> int:
        read = os.read(self._status, NUMBER.size)
        assert len(read) == NUMBER.size, "the fork server has ended"
        (number,) = NUMBER.unpack(read)
        return int(number)

    def poll(self) -> int | None:
        """Exit status, or None while it runs; negative: the number of the signal that ended it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("hilrt", timeout or 0.0)
            self.returncode = self._read()
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The server, started with the first command."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.scenarios.fork_server", str(theirs.fileno())],
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
        finally:
            os.close(theirs)
        return Forked(ours, stdin)

    def close(self) -> None:
        """End the server; its children go on."""
        self._control.close()
        self._process.wait()


@functools.cache
def server() -> ForkServer:
    """The one of this process of pytest; it ends with it, too."""
    return ForkServer()


def close_server() -> None:
    """End the server, if there is one."""
    if server.cache_info().currsize:
        server().close()
        server.cache_clear()


def start_hilrt(
    arguments: Sequence[str], stdout: int, stderr: int, environment: Mapping[str, str]
) -> Forked:
    """``hilrt`` with these arguments, and a pipe to its standard input."""
    reads, writes = os.pipe()
    stdin = os.fdopen(writes, "wb")
    try:
        request = Request([*arguments], os.getcwd(), {**environment})
        return server().start(request, Streams(reads, stdout, stderr), stdin)
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
            os.write(status, NUMBER.pack(pid))
            ready.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))


def _tell_end(pidfd: int, pid: int, status: int) -> None:
    _, ended = os.waitpid(pid, 0)
    os.close(pidfd)
    with contextlib.suppress(BrokenPipeError):  # the test has not waited for it
        os.write(status, NUMBER.pack(os.waitstatus_to_exitcode(ended)))
    os.close(status)


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


def main(descriptor: int) -> None:
    load()
    gc.collect()
    gc.freeze()
    assert len(os.listdir("/proc/self/task")) == 1
    request = serve(socket.socket(fileno=descriptor))
    if request is not None:
        runpy.run_module("hilrt", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
