"""Real-time scheduling and locked memory: on request, Linux only.

Under ``SCHED_FIFO`` a process runs before all ordinary ones until it sleeps. The kernel therefore
stops all real-time processes once they have used their share of a period
(``kernel.sched_rt_runtime_us`` of ``sched_rt_period_us``): a stall of tens of milliseconds. The
master sleeps in every tick and so stays below the limit, see `throttle_share`.

Measured as the lateness of a ``timerfd`` at 1 kHz beside a busy process on the same processor, in
alternating blocks of 1000 wake-ups: p99 36 µs with real-time priority, 2.7 ms without (8 blocks
each).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from hilrt.config.structs import Pacing

_MCL_CURRENT, _MCL_FUTURE = 1, 2
_PROC = Path("/proc/sys/kernel")
_STATUS = Path("/proc/self/status")
_CAP_SYS_NICE = 23

#: ``priority = "auto"``: above all ordinary processes, below all other real-time ones.
AUTOMATIC_PRIORITY = 1


def enter_real_time(pacing: Pacing, busy_share: float) -> list[str]:
    """Set priority and lock memory as configured; `leave_real_time` undoes it.

    Parameters
    ----------
    pacing : Pacing
        Nothing is done without ``priority`` and ``lock_memory``. An automatic priority is not set
        if the kernel would throttle it.
    busy_share : float
        Expected share of time in which the master is busy, including spinning.

    Returns
    -------
    list of str
        Settings without effect, and possible problems.
    """
    problems = [lock_memory() if pacing.lock_memory else None]
    throttled = throttle_warning(busy_share, throttle_share())
    if pacing.priority != "auto":
        problems.append(set_priority(pacing.priority))
        problems.append(throttled if pacing.priority else None)
    elif throttled is None:
        set_priority(granted_priority(pacing.priority))
    return [problem for problem in problems if problem is not None]


def granted_priority(wanted: Literal["auto"] | int) -> int:
    """Priority to request: `wanted`; for "auto" the lowest if permitted, otherwise 0."""
    if wanted != "auto":
        return wanted
    return AUTOMATIC_PRIORITY if may_have_priority() else 0


def may_have_priority() -> bool:
    """Whether an rtprio limit or CAP_SYS_NICE permits this process to use ``SCHED_FIFO``."""
    if sys.platform != "linux":
        return False
    import resource

    if resource.getrlimit(resource.RLIMIT_RTPRIO)[0] != 0:
        return True
    try:
        status = _STATUS.read_text()
        capable = int(status.partition("CapEff:")[2].split(maxsplit=1)[0], 16)
    except (OSError, IndexError):  # no /proc, or one that does not report it
        return False
    return bool(capable >> _CAP_SYS_NICE & 1)


def current_priority() -> int:
    """Real-time priority of the calling thread; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK != os.SCHED_FIFO:
        return 0
    return os.sched_getparam(0).sched_priority


def leave_real_time() -> None:
    """Return this process to ordinary scheduling, if it was real-time."""
    if sys.platform != "linux":
        return
    if current_priority():
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).munlockall()


def throttle_share(proc: Path = _PROC) -> float | None:
    """Share of time that real-time processes may use; 1 without throttling.

    None if unknown (not Linux, or a kernel that does not report it).
    """
    try:
        runtime = int((proc / "sched_rt_runtime_us").read_text())
        period = int((proc / "sched_rt_period_us").read_text())
    except (OSError, ValueError):
        return None
    return 1.0 if runtime < 0 or period <= 0 else min(runtime / period, 1.0)


def set_priority(priority: int) -> str | None:
    """Run the calling thread under ``SCHED_FIFO``; processes started from it stay ordinary.

    Parameters
    ----------
    priority : int
        1 (lowest) to 99; 0 changes nothing. Interrupt threads of a preemptible kernel
        have 50.

    Returns
    -------
    str or None
        A warning if it did not take effect.
    """
    if not priority:
        return None
    if sys.platform != "linux":
        return f"priority {priority} is ignored: only Linux has SCHED_FIFO here"
    try:
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(priority))
    except PermissionError:
        return (
            f"priority {priority} is ignored: not permitted; give the user an rtprio limit "
            "(/etc/security/limits.d, then log in again) or the capability CAP_SYS_NICE"
        )
    except OSError as error:
        return f"priority {priority} is ignored: {error.strerror}"
    return None


def lock_memory() -> str | None:
    """Lock all memory of this process, so that no tick waits for a page.

    Returns
    -------
    str or None
        A warning if it did not take effect.
    """
    if sys.platform != "linux":
        return "lock_memory is ignored: only Linux can lock memory here"
    import resource

    unlimited = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    # With a limit, later allocations would fail once they exceed it.
    flags = _MCL_CURRENT | (_MCL_FUTURE if unlimited else 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(flags) == 0:
        return None
    reason = os.strerror(ctypes.get_errno())
    return (
        f"lock_memory is ignored: {reason}; raise the user's memlock limit to unlimited "
        "(/etc/security/limits.d, then log in again) or give the capability CAP_IPC_LOCK"
    )


def throttle_warning(busy_share: float, share: float | None) -> str | None:
    """Warn that a master busy for `busy_share` of the time may be throttled at `share`."""
    if share is None or busy_share < 0.9 * share:
        return None
    return (
        f"with real-time priority the master would be busy for {busy_share:.0%} of the time, and "
        "the kernel suspends real-time processes at"
        f" {share:.0%}: stalls of tens of milliseconds; "
        "make [master.pacing] spin shorter or [master] step longer"
    )


# Limit of the processors' wake-up latency (``pacing.awake``): on request, Linux only.
#
# Measured as the lateness of a ``timerfd`` at 100 Hz, in 12 alternating blocks of 1000 wake-ups: no
# difference on a virtual machine (median 30 µs instead of 31), where the hypervisor decides on idle
# states. It is meant for machines whose processors are not shared.

#: While this file is open, the value written to it limits the wake-up time; the kernel (PM QoS)
#: chooses the idle states of all processors by the strictest limit.
_LATENCY = Path("/dev/cpu_dma_latency")


@contextlib.contextmanager
def cpu_latency_limit(wanted: bool, device: Path = _LATENCY) -> Iterator[str | None]:
    """Keep the host's processors out of idle states with a long wake-up time.

    A sleeping processor, or a virtual one that the hypervisor has withdrawn, takes tens to hundreds
    of microseconds to return; `cyclictest` sets the same limit.

    Parameters
    ----------
    wanted : bool
        Do nothing if False.
    device : Path
        File through which the limit is requested.

    Yields
    ------
    str or None
        A warning if it did not take effect.
    """
    if not wanted:
        yield None
        return
    if sys.platform != "linux":
        yield "awake is ignored: only Linux can keep its processors awake here"
        return
    try:
        request = os.open(device, os.O_WRONLY)
    except OSError as error:
        yield (
            f"awake is ignored: {device}: {error.strerror}; let the user write it "
            "(a udev rule), or remove pacing.awake"
        )
        return
    try:
        os.write(request, bytes(4))  # int32: at most 0 us
        yield None
    finally:
        os.close(request)


# Shorter scheduler slices on shared processors, requested without privileges.
#
# Linux lets ordinary processes run in slices of one to several milliseconds. A process woken by a
# message may have to wait for the end of another one's slice: longer than a macro step. Since 6.12
# a process may request a shorter slice; it then runs earlier, and yields earlier, for the same
# share of the processor. Older kernels accept the request and ignore it.
#
# Measured with a process that computes for 0.4 ms every 2 ms, on one processor with two busy ones
# (10 alternating blocks of 500 turns): it finishes 33 µs late (median) with the short slice and
# 323 µs late with the usual one.

#: Requested slice: the shortest that the kernel grants, ns.
SLICE_NS = 100_000
#: Number of the system call ``sched_setattr``, which the C library lacks before 2.41.
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
#: ``struct sched_attr``: size, policy, flags, nice, priority, runtime, deadline, period.
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")


def request_short_slice() -> None:
    """Request a short slice for this process and those that it starts from now on.

    Threads with a real-time priority keep it; a kernel without support ignores the request.
    """
    _request_for_all_threads(SLICE_NS)


def request_usual_slice() -> None:
    """Undo `request_short_slice` for this process."""
    _request_for_all_threads(0)


def schedule_when_idle(thread: int) -> None:
    """Give a thread of any process idle priority and usual slices.

    With a short slice it would run earlier, even before ordinary threads.

    Raises
    ------
    OSError
        If it has just ended.
    """
    _request(thread, 0)  # must come first: the kernel refuses it for idle threads
    os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


def _request_for_all_threads(slice_ns: int) -> None:
    if sys.platform != "linux":
        return
    for name in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # the thread has just ended
            if os.sched_getscheduler(int(name)) == os.SCHED_OTHER:
                _request(int(name), slice_ns)


def _request(thread: int, slice_ns: int) -> None:
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None:
        return
    policy, nice = os.sched_getscheduler(thread), os.getpriority(os.PRIO_PROCESS, thread)
    request = _ATTRIBUTES.pack(_ATTRIBUTES.size, policy, 0, nice, 0, slice_ns, 0, 0)
    ctypes.CDLL(None).syscall(number, thread, request, 0)
