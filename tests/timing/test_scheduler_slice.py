"""What the kernel has granted, read back from it; each time in a separate process."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hilrt.timing import realtime

SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
#: ``struct sched_attr``: size, policy, flags, nice, priority, runtime, deadline, period.
ATTRIBUTES = struct.Struct("=IIQiIQQQ")
SHORT = realtime.SLICE_NS
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in SCHED_GETATTR, reason="a Linux call"
)


def slice_ns(thread: int = 0) -> int:
    """Slice of a thread, ns; 0 is the calling one."""
    size = ATTRIBUTES.size
    buffer = ctypes.create_string_buffer(size)
    number = SCHED_GETATTR[platform.machine()]
    assert ctypes.CDLL(None).syscall(number, thread, buffer, size, 0) == 0
    return ATTRIBUTES.unpack(buffer.raw)[5]


def slice_of_a_waiting_thread(change) -> int:
    """Of a thread that was there before the `change`."""
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    change()
    found = slice_ns(thread.native_id)
    leave.set()
    thread.join()
    return found


def run(code: str) -> list[int]:
    """What `code` prints."""
    head = (
        "import os, subprocess, sys\n"
        "from hilrt.timing.realtime import schedule_when_idle\n"
        "from hilrt.timing.realtime import request_short_slice, request_usual_slice\n"
        "from tests.timing.test_scheduler_slice import slice_ns, slice_of_a_waiting_thread\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", head + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=root,
    )
    return [int(word) for word in done.stdout.split()]


@pytest.fixture(scope="module")
def _granted():
    if run("request_short_slice(); print(slice_ns())") != [SHORT]:
        pytest.skip("this kernel grants no slices (Linux 6.12 does)")


@pytest.mark.usefixtures("_granted")
def test_all_threads_and_what_they_start_have_short_slices():
    child = "from tests.timing.test_scheduler_slice import slice_ns; print(slice_ns())"
    assert run(
        "print(slice_of_a_waiting_thread(request_short_slice))\n"
        f"print(subprocess.check_output([sys.executable, '-c', {child!r}], text=True))"
    ) == [SHORT, SHORT]


@pytest.mark.usefixtures("_granted")
def test_the_usual_slice_comes_back():
    usual, after = run(
        "print(slice_ns()); request_short_slice(); request_usual_slice(); print(slice_ns())"
    )
    assert usual == after > SHORT


@pytest.mark.usefixtures("_granted")
def test_a_thread_that_runs_when_idle_has_the_usual_slice():
    usual, policy, slice_ = run(
        "print(slice_ns()); request_short_slice(); schedule_when_idle(os.getpid())\n"
        "print(os.sched_getscheduler(0), slice_ns())"
    )
    assert (policy, slice_) == (os.SCHED_IDLE, usual)


def test_how_nice_a_process_is_does_not_change():
    assert run("nice = os.nice(7); request_short_slice(); print(os.nice(0) - nice)") == [0]


def test_a_thread_with_another_policy_stays_what_it_is():
    policy = run(
        "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))\n"
        "request_short_slice(); print(os.sched_getscheduler(0))"
    )
    assert policy == [os.SCHED_BATCH]
