"""The host: processors, garbage collection, ties to the parent process, and a report of it."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hilrt.errors import ConfigError
from hilrt.timing.realtime import current_priority, schedule_when_idle

_PR_SET_PDEATHSIG = 1
_PACKAGES = ("hilrt", "numpy", "pyzmq", "msgspec", "mcap", "pint", "python-can", "cantools")


def available_cpus() -> list[int]:
    """Processors that this process may run on."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


# Taken at import: once the master is pinned, it no longer sees the processors of the others.
ALL_CPUS = available_cpus()


def other_cpus(cpus: Iterable[int]) -> list[int]:
    """Processors of the host that are not in `cpus`; all of them where none would be left."""
    taken = set(cpus)
    return [cpu for cpu in ALL_CPUS if cpu not in taken] or list(ALL_CPUS)


def set_affinity(cpus: Iterable[int], pid: int = 0) -> str | None:
    """Run a process on these processors only.

    Parameters
    ----------
    cpus : iterable of int
        Processors; empty leaves everything as it is.
    pid : int
        The process; 0 is this one (its calling thread, and threads started from it later).

    Returns
    -------
    str or None
        A warning if it did not take effect.
    """
    wanted = sorted(set(cpus))
    if not wanted:
        return None
    if sys.platform != "linux":
        return f"affinity {wanted} is ignored: only Linux can pin a process here"
    try:
        os.sched_setaffinity(pid, wanted)
    except OSError as error:
        return (
            f"affinity {wanted} is ignored: {error.strerror}; "
            f"this process may use the processors {ALL_CPUS}"
        )
    return None


def move_other_threads(cpus: Iterable[int]) -> None:
    """Let all threads but the calling one run on these processors only.

    The threads that put messages on the wire must not wait for the processor that the master
    busy-waits on, nor interrupt it there.
    """
    if sys.platform != "linux":
        return
    mine = threading.get_native_id()
    for name in os.listdir("/proc/self/task"):
        if int(name) != mine:
            with contextlib.suppress(OSError):  # the thread has just ended
                os.sched_setaffinity(int(name), cpus)


def give_idle_priority(pid: int, cpus: Iterable[int]) -> None:
    """Let a process run only when no other wants these processors.

    For recorder and views of a session on the wall clock. Measured with a process that computes for
    0.4 ms every 2 ms, on one processor with a busy one (10 alternating blocks of 500 turns): it is
    done 28 µs late (median) where the other one has idle priority, and 851 µs elsewhere. Their
    priority is lowered only when they have started, which a busy host would delay for long
    otherwise.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):  # it may have just ended
        for name in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(name), cpus)
            schedule_when_idle(int(name))


@contextlib.contextmanager
def freeze_gc() -> Iterator[Callable[[int], bool]]:
    """Keep the garbage collector out of the ticks; as it was on leaving.

    Existing objects are never collected, and the collector no longer runs automatically: a full
    collection takes milliseconds, with the compiler loaded a tenth of a second. So there is none at
    the beginning either: what was garbage then stays until the end.

    Yields
    ------
    callable
        ``collect(slack_ns) -> bool``: collects recent cycles if that fits into the slack, going by
        how long it took last time, and says whether it did.
    """
    enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    took_ns = 0

    def collect(slack_ns: int) -> bool:
        nonlocal took_ns
        if 2 * took_ns >= slack_ns:
            took_ns -= took_ns // 64  # one slow collection must not end them all
            return False
        start_ns = time.perf_counter_ns()
        gc.collect(1)
        took_ns = time.perf_counter_ns() - start_ns
        return True

    try:
        yield collect
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


@contextlib.contextmanager
def load_without_gc() -> Iterator[None]:
    """Keep the garbage collector away from loaded objects, also afterwards.

    It would look through it again and again: a tenth of the processor time of a session's start.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # else the next collection would begin with all of it
        if enabled:
            gc.enable()


def die_with_parent(sig: int = signal.SIGTERM, parent_pid: int | None = None) -> bool:
    """Have the kernel send this process `sig` when its parent ends, however that ends.

    It survives an exec, but not a fork; "parent" is the parent's thread that started this process.

    Parameters
    ----------
    sig : int
        The signal.
    parent_pid : int, optional
        The parent, if this process was told: when it has already ended, `sig` is sent at once.

    Returns
    -------
    bool
        False if the system has no such thing (anything but Linux): watch `parent_alive`.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(sig), 0, 0, 0) != 0:
        return False
    if parent_pid is not None and not parent_alive(parent_pid):
        os.kill(os.getpid(), sig)
    return True


def parent_alive(parent_pid: int) -> bool:
    """Whether `parent_pid`, from `os.getppid` at the start, still is this process's parent."""
    return os.getppid() == parent_pid


def host_report() -> dict[str, Any]:
    """Report of the host for a log: system, processors, versions of libraries that matter."""
    return {
        "platform": platform.platform(),
        "machine": platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "cpus": os.cpu_count() or 1,
        "cpus_available": len(ALL_CPUS),
        "versions": dict(_versions()),
    }


@functools.cache
def _versions() -> dict[str, str]:
    """Versions of the packages that are installed."""
    versions = {}
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions


# Processor time of the processes, as Linux counts it, and time taken by the machine's host.
#
# While the host of a virtual machine has a processor, no process of the machine runs on it, and
# none can foresee it: no setting of a session avoids the ticks that are missed for it.

#: Where Linux counts, see proc(5).
PROC = Path("/proc")
#: Field of a processor's line: after its name, and seven of its own doing and waiting.
_STOLEN = 8
#: Fields of a process's line behind its name: in its own code, and in the kernel for it.
_USER, _SYSTEM = 11, 12


def stolen_s(stat: str, cpus: Collection[int]) -> float | None:
    """Time that the host took from processors since the machine started.

    Parameters
    ----------
    stat : str
        Content of ``/proc/stat``.
    cpus : collection of int
        Processors.

    Returns
    -------
    float or None
        Mean over the processors, s; None if it is not told.
    """
    names = {f"cpu{cpu}" for cpu in cpus}
    rows = [row for row in map(str.split, stat.splitlines()) if row and row[0] in names]
    if not rows or any(len(row) <= _STOLEN for row in rows):
        return None
    return sum(float(row[_STOLEN]) for row in rows) / len(rows) / os.sysconf("SC_CLK_TCK")


def used_s(stat: str) -> float:
    """Time that a process with all its threads has had a processor, s, from its ``stat``."""
    fields = stat.rpartition(")")[2].split()
    return float(int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")


class HostUse(NamedTuple):
    """Processors in a session, from its first tick to its last."""

    #: Time that the host took the master's processors away, s; None if it is not told.
    stolen_s: float | None = None
    #: Share of one processor that each process had.
    shares: Mapping[str, float] = MappingProxyType({})
    #: The master's priority under ``SCHED_FIFO``; 0: an ordinary process.
    real_time_priority: int = 0


#: Nothing was counted: a session without processes and a clock.
NO_USE: Final = HostUse()


class ProcessorTime:
    """Processor time of processes and of the host, from its creation on.

    Parameters
    ----------
    cpus : collection of int
        Processors that the host is watched for.
    processes : mapping of str to int
        Process identifiers by name.
    proc : Path, optional
        Folder to read; a test gives one of its own.
    """

    def __init__(
        self, cpus: Collection[int], processes: Mapping[str, int], proc: Path = PROC
    ) -> None:
        self._cpus, self._processes, self._proc = cpus, processes, proc
        self._began = time.monotonic()
        self._stolen = self._stolen_now()
        self._used = {name: self._used_now(pid) for name, pid in processes.items()}

    def use(self, real_time: bool) -> HostUse:
        """Use until now; what the host took only with `real_time`."""
        return HostUse(self.stolen() if real_time else None, self.shares(), current_priority())

    def stolen(self) -> float | None:
        """Time the host took, mean over the processors, s; None if it is not told."""
        now = self._stolen_now()
        return None if now is None or self._stolen is None else now - self._stolen

    def shares(self) -> dict[str, float]:
        """Share of one processor that each process had; those that ended are left out."""
        elapsed = time.monotonic() - self._began
        shares = {}
        for name, pid in self._processes.items():
            before, now = self._used[name], self._used_now(pid)
            if before is not None and now is not None:
                shares[name] = (now - before) / elapsed
        return shares

    def _stolen_now(self) -> float | None:
        text = self._read("stat")
        return None if text is None else stolen_s(text, self._cpus)

    def _used_now(self, pid: int) -> float | None:
        text = self._read(f"{pid}/stat")
        return None if text is None else used_s(text)

    def _read(self, path: str) -> str | None:
        try:
            return (self._proc / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None


# File descriptors of a process: how many it may have, and enough of them before a session starts.
#
# A process without descriptors can open no file and take no connection, and libzmq aborts it. The
# session therefore makes sure before anything starts, and its sockets limit strangers' connections
# to the number that was counted on.

if sys.platform != "win32":
    import resource

#: Of a session without subsystems, while everything is switched on: sockets of its processes, log,
#: timers, views, and files that are open for a moment. A bench, a solver and a page: 63 in all.
OF_A_SESSION: Final = 96
#: Of one subsystem: connection, process, its output.
OF_A_SUBSYSTEM: Final = 4
#: Common limit of systems, and enough for a hundred subsystems.
COMMON: Final = 1024


class DescriptorLimit(NamedTuple):
    """Descriptors that this process may have, and how far it may raise that by itself."""

    now: int
    at_most: int


def descriptor_limit() -> DescriptorLimit | None:
    """The limit; None if there is none that matters."""
    if sys.platform == "win32":
        return None
    now, at_most = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    return DescriptorLimit(
        sys.maxsize if now == unlimited else now,
        sys.maxsize if at_most == unlimited else at_most,
    )


def reserve_descriptors(subsystems: int, strangers: int) -> None:
    """Make sure that a session has descriptors enough; the limit is raised if that is permitted.

    Parameters
    ----------
    subsystems : int
        How many the session has.
    strangers : int
        Connections of strangers that may stand at once.

    Raises
    ------
    ConfigError
        If it may not have as many.
    """
    limit = descriptor_limit()
    if limit is None:
        return
    needed = in_use() + OF_A_SESSION + OF_A_SUBSYSTEM * subsystems + strangers
    if needed <= limit.now:
        return
    if needed <= limit.at_most and sys.platform != "win32":
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, limit.at_most))
            return
    raise ConfigError(
        f"this process may open {limit.now} files and sockets at once, and the session needs up to "
        f"{needed}: raise the limit, `ulimit -n {max(needed, COMMON)}`, or LimitNOFILE of its unit"
    )


def in_use() -> int:
    """Descriptors that are open."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return len(os.listdir(Path(folder)))
    return 0
