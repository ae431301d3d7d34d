"""Launcher of a subsystem's command; a script run by `hilrt.session.spawn` on Linux.

``launch.py PARENT_PID SIGNAL CPUS NICE COMMAND [ARGUMENT …]`` drops a Ctrl-C for the parent, has
the kernel send SIGNAL when the parent ends, sets processors and niceness, and replaces itself by
COMMAND. It is a separate process and not a ``preexec_fn``, because Python code between fork and
exec may deadlock in a process with threads. It imports only the standard library, to start quickly.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Prepare the process, then exec; failures are reported on stderr, which goes to the log."""
    if sys.platform != "linux":
        sys.exit("launch.py is for Linux")
    drop_interrupts()
    parent, death_signal, cpus, niceness, *command = arguments
    take_place(int(parent), int(death_signal), cpus, int(niceness))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error.strerror}")


def drop_interrupts() -> None:
    """Drop a Ctrl-C sent before this process had its own group, and unblock Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # drops a pending one
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def take_place(parent: int, death_signal: int, cpus: str, niceness: int) -> None:
    """Set the signal sent at the parent's end, the processors (``"0,1"``) and the niceness."""
    if death_signal:
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(death_signal), 0, 0, 0)
        if os.getppid() != parent:
            sys.exit("the process that started this one has already ended")
    if cpus:
        try:
            os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(",")])
        except OSError as error:
            print(f"affinity {cpus} is ignored: {error.strerror}", file=sys.stderr, flush=True)
    if niceness:
        try:
            os.nice(niceness)
        except OSError as error:
            print(f"niceness {niceness} is ignored: {error.strerror}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
