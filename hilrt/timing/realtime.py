"""Real-time scheduling and locked memory: on request, Linux only.

Under ``SCHED_FIFO`` a process runs before all ordinary ones and until it gives way by itself. The
kernel therefore stops all real-time processes together when they have used their share of a period
(``kernel.sched_rt_runtime_us`` of ``sched_rt_period_us``): a stall of tens of milliseconds. The
master sleeps in every tick, so it stays below; `throttle_share` says what the limit is.

Measured as the lateness of a ``timerfd`` at 1 kHz, in alternating blocks of 1000 wake-ups with and
without. Real-time priority beside a busy process on the same processor: p99 36 µs instead of 2.7 ms
(8 blocks each).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path

from hilrt.config.structs import Pacing

_MCL_CURRENT, _MCL_FUTURE = 1, 2
_PROC = Path("/proc/sys/kernel")


def enter_real_time(pacing: Pacing, busy_share: float) -> list[str]:
    """Priority and memory as the session file asks for; `leave_real_time` undoes it.

    Parameters
    ----------
    pacing : Pacing
        Nothing is done without ``priority`` and ``lock_memory``.
    busy_share : float
        Share of the time in which the master will be busy, spinning included.

    Returns
    -------
    list of str
        What did not take effect, and what may go wrong.
    """
    problems = [lock_memory() if pacing.lock_memory else None]
    if pacing.priority:
        problems.append(set_priority(pacing.priority))
        problems.append(throttle_warning(busy_share, throttle_share()))
    return [problem for problem in problems if problem is not None]


def leave_real_time() -> None:
    """An ordinary process again, as far as this one ever was another."""
    if sys.platform != "linux":
        return
    if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).munlockall()


def throttle_share(proc: Path = _PROC) -> float | None:
    """Share of time that the kernel leaves to real-time processes; 1 without throttling.

    None where it cannot be found out (not Linux, or a kernel that does not tell).
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
        1 (lowest) to 99; 0 leaves everything as it is. Interrupt threads of a preemptible kernel
        have 50.

    Returns
    -------
    str or None
        A warning for people when it did not take effect.
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
    """Keep all of this process in memory, so that no tick waits for a page.

    Returns
    -------
    str or None
        A warning for people when it did not take effect.
    """
    if sys.platform != "linux":
        return "lock_memory is ignored: only Linux can lock memory here"
    import resource

    unlimited = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    # Below a limit, locking what is allocated later would let allocations fail.
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
    """What to say when a master busy for `busy_share` of the time may be throttled at `share`."""
    if share is None or busy_share < 0.9 * share:
        return None
    return (
        f"with real-time priority the master would be busy for {busy_share:.0%} of the time, and "
        f"the kernel stops real-time processes at {share:.0%}: stalls of tens of milliseconds; "
        "make [master.pacing] spin shorter or [master] step longer"
    )
