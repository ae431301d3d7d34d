"""Child processes of a session: start, supervision, and end with the session.

Each child leads its own session and process group, so that Ctrl-C in a terminal reaches only the
master, and a signal to the group also reaches processes that the child started. On Linux the kernel
sends every child a signal if the master ends without stopping it (``kill -9``); the child must then
end processes that it forked itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hilrt.config.read_values import executable
from hilrt.errors import ConfigError
from hilrt.isolation.limited_process import inherited_environment
from hilrt.session.child import LONGEST_LINE, SIGKILL, Child, ForkedProcess

#: Time limit for a killed process to disappear, s; a process that hangs in the kernel never does.
KILL_TIMEOUT_S = 2.0
#: Environment of processes without linear algebra: keeps OpenBLAS from starting threads, which
#: would cost 0.1 s of processor time while numpy is imported.
SINGLE_THREAD: Final[Mapping[str, str]] = {"OPENBLAS_NUM_THREADS": "1"}
_POLL_S = 0.02
#: Capacity of a pipe on Linux, bytes.
_PIPE_BYTES = 65536
_LAUNCH = Path(__file__).with_name("launch.py")
_LINUX = sys.platform == "linux"
#: Whether the event loop can watch processes and pipes.
_WATCHES = hasattr(os, "pidfd_open")
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
#: Minimum number of solvers that are forked from one process instead of started one by one. On two
#: processors, that process takes as long to start as three solvers.
MANY: Final = 8
#: Time limit for that process, after which solvers are started one by one, s.
FORK_TIMEOUT_S: Final = 60.0


class Inherited(NamedTuple):
    """Descriptors and environment that a child inherits from the master.

    Attributes
    ----------
    terminal : bool
        Its output goes to the same place as the master's, not to a log.
    keys : bool
        It reads the keyboard.
    lines : bool
        It receives lines, see `Child.send_line`, and its standard output is passed line by line to
        `Child.on_line`; if the event loop cannot watch pipes, this output goes to the log.
    descriptors : tuple of int
        Open files and sockets, under the same numbers; not on Windows.
    """

    terminal: bool = False
    keys: bool = False
    lines: bool = False
    descriptors: tuple[int, ...] = ()


NOTHING: Final = Inherited()


class SolverStart(NamedTuple):
    """A solver to start: the subsystem's name, its command, and additions to its environment."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]


class Children:
    """The processes that a session has started.

    Start them on the main thread, in the event loop that watches for their end: for the kernel, a
    child's parent is the thread that started it.

    Parameters
    ----------
    log_dir : Path
        Folder for the children's output, ``NAME.log`` each; created when needed.
    on_exit : callable, optional
        ``on_exit(name, returncode)``, called from the event loop once for every child that ends,
        for any reason.
    """

    def __init__(
        self, log_dir: str | Path, on_exit: Callable[[str, int], None] | None = None
    ) -> None:
        self.log_dir = Path(log_dir)
        self.on_exit = on_exit
        self._children: list[Child] = []
        self._unwatch: dict[int, Callable[[], None]] = {}

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children)

    def __getitem__(self, name: str) -> Child:
        """The newest child of that name; KeyError if there is none."""
        for child in reversed(self._children):
            if child.name == name:
                return child
        raise KeyError(name)

    def start(
        self,
        name: str,
        argv: Sequence[str],
        cwd: str | Path | None = None,
        affinity: Iterable[int] = (),
        nice: int = 0,
        env: Mapping[str, str] | None = None,
        inherits: Inherited = NOTHING,
    ) -> Child:
        """Start a command.

        Parameters
        ----------
        name : str
            The subsystem's name.
        argv : sequence of str
            The command; ``hilrt`` means this installation.
        cwd : str or Path, optional
            Folder in which it runs, also the base of a relative command. Default: the current one.
        affinity : iterable of int
            Processors it may use; empty: all of them.
        nice : int
            Added to its niceness.
        env : mapping, optional
            Added to the environment; variables ``HILRT_…`` of the master are not inherited.
        inherits : Inherited
            Descriptors and streams that it inherits from the master.

        Raises
        ------
        ConfigError
            If there is no such command.
        """
        environment = {**inherited_environment(), "PYTHONUNBUFFERED": "1", **(env or {})}
        command = executable(name, argv, cwd, environment.get("PATH"))
        if _LINUX:
            command = launched(command, affinity, nice)
        log = self._log(name)
        with contextlib.ExitStack() as files, _interrupts_held_back():
            output = None if inherits.terminal else files.enter_context(log.open("ab"))
            try:
                process = subprocess.Popen(
                    command,
                    cwd=cwd,
                    env=environment,
                    stdin=_standard_input(inherits),
                    stdout=subprocess.PIPE if inherits.lines and _WATCHES else output,
                    stderr=output,
                    start_new_session=True,
                    pass_fds=inherits.descriptors,
                    creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
                )
            except OSError as error:
                raise ConfigError(
                    f"[subsystems.{name}] spawn = {list(argv)!r}: cannot be started: "
                    f"{error.strerror}; check the command and the folder {str(cwd)!r}"
                ) from None
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
        if process.stdout is not None:
            os.set_blocking(process.stdout.fileno(), False)
        return self._add(Child(name, list(argv), log, process))

    async def start_solvers(
        self,
        solvers: Sequence[SolverStart],
        cwd: str | Path | None = None,
        affinity: Iterable[int] = (),
    ) -> None:
        """Start commands ``hilrt solver …``; on Linux, fork many of them from one process.

        Parameters
        ----------
        solvers : sequence of SolverStart
        cwd : str or Path, optional
            Folder they run in. Default: the current one.
        affinity : iterable of int
            Processors they may use; empty: all of them.

        Raises
        ------
        ConfigError
            If one cannot be started.
        """
        cpus = tuple(affinity)
        pids = []
        if _LINUX and len(solvers) >= MANY:
            pids = await self._forked(solvers, cwd, cpus)
        for one, pid in zip(solvers, pids, strict=False):
            self._add(Child(one.name, list(one.argv), self._log(one.name), ForkedProcess(pid)))
        for one in solvers[len(pids) :]:
            self.start(one.name, one.argv, cwd=cwd, affinity=cpus, env=one.env)

    async def _forked(
        self, solvers: Sequence[SolverStart], cwd: str | Path | None, cpus: Sequence[int]
    ) -> list[int]:
        """Numbers of the forked processes; empty if forking failed, in which case none remains."""
        jobs = [(one.argv[1:], str(self._log(one.name).absolute()), one.env) for one in solvers]
        with _adopts_orphans() as adopts:
            if not adopts:
                return []
            process = _start_forking(cwd, cpus, self._log("forked_solvers"))
            request = json.dumps(jobs).encode()
            answer = asyncio.ensure_future(asyncio.to_thread(_forked_pids, process, request))
            try:
                pids, complete = await asyncio.shield(answer)
            except asyncio.CancelledError:
                process.kill()
                pids, _ = await answer
                await _kill_all(pids)
                raise
            if not complete:
                await _kill_all(pids)
        return pids if complete else []

    def _log(self, name: str) -> Path:
        """File of a process's output."""
        self.log_dir.mkdir(parents=True, exist_ok=True)
        return self.log_dir / (re.sub(r"[^\w.-]", "_", name) + ".log")

    def _add(self, child: Child) -> Child:
        self._children.append(child)
        self._watch(child)
        return child

    def running(self) -> list[str]:
        """Names of the children that have not ended."""
        return [child.name for child in self._children if not self._check(child)]

    async def wait(self, timeout: float, names: Iterable[str] | None = None) -> list[str]:
        """Wait for children to end; return the names of those still running after `timeout` [s]."""
        chosen = self._choose(names)
        await self._until_gone(chosen, timeout)
        return [child.name for child in chosen if not self._check(child)]

    async def stop(self, timeout: float, names: Iterable[str] | None = None) -> list[str]:
        """End children (default: all) and their processes: SIGTERM, after `timeout` [s] SIGKILL.

        Never takes longer than `timeout` plus `KILL_TIMEOUT_S`. Kills at once if cancelled.

        Returns
        -------
        list of str
            One line for each child that SIGTERM did not end in time.
        """
        chosen = [child for child in self._choose(names) if not child.gone()]
        left = chosen
        for child in chosen:
            child.signal(signal.SIGTERM)
        try:
            await self._until_gone(chosen, timeout)
        finally:
            left = [child for child in chosen if not child.gone()]
            for child in left:
                child.signal(SIGKILL)
        await self._until_gone(left, KILL_TIMEOUT_S)
        return [
            f"{child.name}: did not end within {timeout:g} s of SIGTERM; "
            + ("it was killed" if child.gone() else f"process {child.pid} cannot be killed")
            for child in left
        ]

    def _choose(self, names: Iterable[str] | None) -> list[Child]:
        if names is None:
            return list(self._children)
        wanted = set(names)
        return [child for child in self._children if child.name in wanted]

    async def _until_gone(self, children: list[Child], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while True:
            for child in children:
                self._check(child)
            if all(child.gone() for child in children) or time.monotonic() >= deadline:
                return
            await asyncio.sleep(_POLL_S)

    def _check(self, child: Child) -> bool:
        """Whether the process has ended; the first call that detects the end reports it."""
        if not child.reap():
            return False
        unwatch = self._unwatch.pop(child.pid, None)
        if unwatch is not None:
            unwatch()
            if self.on_exit is not None and child.returncode is not None:
                self.on_exit(child.name, child.returncode)
        return True

    def _watch(self, child: Child) -> None:
        """Have the event loop call `_check` when the process ends."""
        loop = asyncio.get_running_loop()
        if _WATCHES:
            fd, pipe = os.pidfd_open(child.pid), child.process.stdout  # fd: readable at its end
            loop.add_reader(fd, self._check, child)

            def read_pipe() -> None:
                if pipe is not None and not child.read_lines(pipe.fileno()):
                    loop.remove_reader(pipe.fileno())

            if pipe is not None:
                loop.add_reader(pipe.fileno(), read_pipe)

            def unwatch() -> None:
                if not loop.is_closed():
                    loop.remove_reader(fd)
                os.close(fd)
                if pipe is not None:
                    for _ in range(_PIPE_BYTES // LONGEST_LINE):
                        child.read_lines(pipe.fileno())
                    if not loop.is_closed():
                        loop.remove_reader(pipe.fileno())
                    pipe.close()
                    child.end_lines()

            self._unwatch[child.pid] = unwatch
            return

        def poll() -> None:
            if not self._check(child):
                self._unwatch[child.pid] = loop.call_later(_POLL_S, poll).cancel

        self._unwatch[child.pid] = loop.call_later(_POLL_S, poll).cancel


def _standard_input(inherits: Inherited) -> int | None:
    if inherits.lines:
        return subprocess.PIPE
    return None if inherits.keys else subprocess.DEVNULL


def launched(command: list[str], affinity: Iterable[int], nice: int) -> list[str]:
    """Prefix a command with `launch.py`, so that the kernel ends it if the master dies."""
    cpus = ",".join(str(cpu) for cpu in affinity)
    settings = [str(os.getpid()), str(int(signal.SIGTERM)), cpus, str(nice)]
    return [sys.executable, "-I", "-S", str(_LAUNCH), *settings, *command]


def _start_forking(
    cwd: str | Path | None, cpus: Sequence[int], log: Path
) -> subprocess.Popen[bytes]:
    """Start the process that forks solvers."""
    module = [sys.executable, "-P", "-m", "hilrt.cli.forked_solvers"]
    command = [*module, str(os.getpid()), str(int(signal.SIGTERM)), ",".join(map(str, cpus))]
    with log.open("ab") as errors, _interrupts_held_back():
        return subprocess.Popen(
            launched(command, (), 0),
            cwd=cwd,
            env={**inherited_environment(), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )


def _forked_pids(process: subprocess.Popen[bytes], request: bytes) -> tuple[list[int], bool]:
    """Numbers of the forked processes, and whether the forking process succeeded in time.

    It is killed if it is late. As a forked process may keep its output open, the wait for the end
    of that output is also limited.
    """
    try:
        written, _ = process.communicate(request, FORK_TIMEOUT_S)
        return json.loads(written or b"[]"), process.returncode == 0
    except subprocess.TimeoutExpired:
        process.kill()
    try:
        written, _ = process.communicate(timeout=KILL_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        written = error.output or b""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(KILL_TIMEOUT_S)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    return json.loads(written or b"[]"), False


async def _kill_all(pids: Iterable[int]) -> None:
    """Kill adopted processes, and collect their exit status, so that they disappear."""
    left = [ForkedProcess(pid) for pid in pids]
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, SIGKILL)
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while left := [process for process in left if process.poll() is None]:
        if time.monotonic() >= deadline:
            return
        await asyncio.sleep(_POLL_S)


@contextlib.contextmanager
def _adopts_orphans() -> Iterator[bool]:
    """Adopt orphaned descendants of this process; yield whether the kernel supports it."""
    libc, before = ctypes.CDLL(None), ctypes.c_int(0)
    libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    done = libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield done
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


@contextlib.contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Block Ctrl-C while a new child is in this group; `launch.py` drops a pending one."""
    if sys.platform != "linux":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
