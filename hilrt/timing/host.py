"""The host: processors, garbage collection, descriptors, and a host report."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import platform
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

_PACKAGES = ("hilrt", "numpy", "pyzmq", "msgspec", "mcap", "pint", "python-can", "cantools")


def available_cpus() -> list[int]:
    """Processors that this process may run on."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


# Read at import: a pinned process cannot query the other processors.
ALL_CPUS = available_cpus()


def other_cpus(cpus: Iterable[int]) -> list[int]:
    """Processors of the host that are not in `cpus`; all processors if there are no others."""
    taken = set(cpus)
    return [cpu for cpu in ALL_CPUS if cpu not in taken] or list(ALL_CPUS)


def set_affinity(cpus: Iterable[int], pid: int = 0) -> str | None:
    """Run a process on these processors only.

    Parameters
    ----------
    cpus : iterable of int
        Processors; if empty, nothing is changed.
    pid : int
        The process; 0 is this one (the calling thread, and threads that it starts later).

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
    """Restrict all threads except the calling one to these processors.

    The threads that send messages must neither wait for the processor on which the master
    busy-waits nor interrupt it there.
    """
    if sys.platform != "linux":
        return
    mine = threading.get_native_id()
    for name in os.listdir("/proc/self/task"):
        if int(name) != mine:
            with contextlib.suppress(OSError):  # the thread has just ended
                os.sched_setaffinity(int(name), cpus)


def give_idle_priority(pid: int, cpus: Iterable[int]) -> None:
    """Let a process run only when no other needs these processors.

    Meant for the recorder and the views of a session on the wall clock. Measured with a process
    that computes for 0.4 ms every 2 ms and shares a processor with a busy one (10 alternating
    blocks of 500 turns): it finishes 28 µs late (median) if the busy one has idle priority, and
    851 µs late if not. The priority is lowered only after the start, because starting at idle
    priority takes long on a busy host.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):  # it may have just ended
        for name in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(name), cpus)
            schedule_when_idle(int(name))


@contextlib.contextmanager
def freeze_gc() -> Iterator[Callable[[int], bool]]:
    """Keep the garbage collector out of the ticks; restore its settings on leaving.

    Existing objects are never collected, and the collector no longer runs automatically: a full
    collection takes milliseconds, or a tenth of a second with the compiler loaded. Entering does
    not collect either, so existing garbage stays until the end.

    Yields
    ------
    callable
        ``collect(slack_ns) -> bool``: collects recent cycles if that fits into the slack, judged by
        earlier collections, and returns whether it did.
    """
    enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    took_ns = 0

    def collect(slack_ns: int) -> bool:
        nonlocal took_ns
        if 2 * took_ns >= slack_ns:
            took_ns -= took_ns // 64  # one slow collection must not block later ones permanently
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
    """Permanently exclude the objects loaded in this block from garbage collection.

    Scanning them repeatedly would take a tenth of a session start's processor time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # otherwise the next collection would scan them all
        if enabled:
            gc.enable()


def host_report() -> dict[str, Any]:
    """Facts about the host for a log: system, processors, versions of relevant libraries."""
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


# Processor time of the processes, as Linux counts it, and time stolen by the hypervisor.
#
# While the hypervisor uses a processor, no process of the virtual machine runs on it. No setting
# of a session can avoid the ticks missed because of this.

#: Folder of Linux's counters, see proc(5).
PROC = Path("/proc")
#: Index of the stolen time in a processor's line, after its name and seven other times.
_STOLEN = 8
#: Indices of user and system time in a process's line, counted after its name.
_USER, _SYSTEM = 11, 12


def stolen_s(stat: str, cpus: Collection[int]) -> float | None:
    """Time that the hypervisor has stolen from processors since the machine started.

    Parameters
    ----------
    stat : str
        Content of ``/proc/stat``.
    cpus : collection of int
        Processors.

    Returns
    -------
    float or None
        Mean over the processors, s; None if it is not reported.
    """
    names = {f"cpu{cpu}" for cpu in cpus}
    rows = [row for row in map(str.split, stat.splitlines()) if row and row[0] in names]
    if not rows or any(len(row) <= _STOLEN for row in rows):
        return None
    return sum(float(row[_STOLEN]) for row in rows) / len(rows) / os.sysconf("SC_CLK_TCK")


def used_s(stat: str) -> float:
    """Processor time of a process with all its threads, s, from its ``stat``."""
    fields = stat.rpartition(")")[2].split()
    return float(int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")


class HostUse(NamedTuple):
    """Use of processors in a session, from its first tick to its last."""

    #: Time that the hypervisor stole from the master's processors, s; None if not reported.
    stolen_s: float | None = None
    #: Share of one processor that each process used.
    shares: Mapping[str, float] = MappingProxyType({})
    #: The master's priority under ``SCHED_FIFO``; 0 for an ordinary process.
    real_time_priority: int = 0


#: Nothing counted, for a session without processes and clock.
NO_USE: Final = HostUse()


class ProcessorTime:
    """Processor time of processes and of the hypervisor since this object's creation.

    Parameters
    ----------
    cpus : collection of int
        Processors whose stolen time is measured.
    processes : mapping of str to int
        Process identifiers by name.
    proc : Path, optional
        Folder to read; a test passes its own.
    """

    def __init__(
        self, cpus: Collection[int], processes: Mapping[str, int], proc: Path = PROC
    ) -> None:
        self._cpus, self._processes, self._proc = cpus, processes, proc
        self._began = time.monotonic()
        self._stolen = self._stolen_now()
        self._used = {name: self._used_now(pid) for name, pid in processes.items()}

    def use(self, real_time: bool) -> HostUse:
        """Use until now; stolen time only with `real_time`."""
        return HostUse(self.stolen() if real_time else None, self.shares(), current_priority())

    def stolen(self) -> float | None:
        """Stolen time, mean over the processors, s; None if it is not reported."""
        now = self._stolen_now()
        return None if now is None or self._stolen is None else now - self._stolen

    def shares(self) -> dict[str, float]:
        """Share of one processor that each process used; ended processes are left out."""
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


# File descriptors of a process: their limit, and a check that it suffices for a session.
#
# A process without free descriptors can open no file and accept no connection, and libzmq aborts
# it. The session therefore checks the limit before anything starts, and its sockets limit
# strangers' connections to the number planned for.

if sys.platform != "win32":
    import resource

#: Descriptors of a session without subsystems and with every option on: sockets of its processes,
#: log, timers, views, and briefly opened files. One with a bench, a solver and a page uses 63.
OF_A_SESSION: Final = 96
#: Descriptors of one subsystem: connection, process, its output.
OF_A_SUBSYSTEM: Final = 4
#: Common limit of systems, and enough for a hundred subsystems.
COMMON: Final = 1024


class DescriptorLimit(NamedTuple):
    """Descriptor limit of this process, and the value to which the process may raise it."""

    now: int
    at_most: int


def descriptor_limit() -> DescriptorLimit | None:
    """Return the limit; None if there is no relevant one."""
    if sys.platform == "win32":
        return None
    now, at_most = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    return DescriptorLimit(
        sys.maxsize if now == unlimited else now,
        sys.maxsize if at_most == unlimited else at_most,
    )


def reserve_descriptors(subsystems: int, strangers: int) -> None:
    """Ensure that a session has enough descriptors; raise the limit if that is permitted.

    Parameters
    ----------
    subsystems : int
        Number of subsystems in the session.
    strangers : int
        Permitted number of simultaneous connections from strangers.

    Raises
    ------
    ConfigError
        If the limit is too low and may not be raised.
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
    """Number of open descriptors."""
    for folder in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return len(os.listdir(Path(folder)))
    return 0
