"""What the kernel has granted, read back from it; each time in a process of its own."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hilrt.timing import scheduler_slice as short_turns

SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
SHORT = short_turns.TURN_NS
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in SCHED_GETATTR, reason="a Linux call"
)


def turn_ns(thread: int = 0) -> int:
    """Turn of a thread, ns; 0 is the calling one."""
    size = short_turns._ATTRIBUTES.size
    buffer = ctypes.create_string_buffer(size)
    number = SCHED_GETATTR[platform.machine()]
    assert ctypes.CDLL(None).syscall(number, thread, buffer, size, 0) == 0
    return short_turns._ATTRIBUTES.unpack(buffer.raw)[5]


def turns_of_a_waiting_thread(change) -> int:
    """Of a thread that was there before the `change`."""
    leave = threading.Event()
    thread = threading.Thread(target=leave.wait)
    thread.start()
    change()
    found = turn_ns(thread.native_id)
    leave.set()
    thread.join()
    return found


def run(code: str) -> list[int]:
    """What `code` prints."""
    head = (
        "import os, subprocess, sys\n"
        "from hilrt.timing.scheduler_slice import give_way, take_short_turns, take_usual_turns\n"
        "from tests.timing.test_scheduler_slice import turn_ns, turns_of_a_waiting_thread\n"
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
    if run("take_short_turns(); print(turn_ns())") != [SHORT]:
        pytest.skip("this kernel grants no turns (Linux 6.12 does)")


@pytest.mark.usefixtures("_granted")
def test_all_threads_and_what_they_start_have_short_turns():
    child = "from tests.timing.test_scheduler_slice import turn_ns; print(turn_ns())"
    assert run(
        "print(turns_of_a_waiting_thread(take_short_turns))\n"
        f"print(subprocess.check_output([sys.executable, '-c', {child!r}], text=True))"
    ) == [SHORT, SHORT]


@pytest.mark.usefixtures("_granted")
def test_usual_turns_come_back():
    usual, after = run("print(turn_ns()); take_short_turns(); take_usual_turns(); print(turn_ns())")
    assert usual == after > SHORT


@pytest.mark.usefixtures("_granted")
def test_who_has_only_what_others_leave_has_usual_turns():
    usual, policy, turn = run(
        "print(turn_ns()); take_short_turns(); give_way(os.getpid())\n"
        "print(os.sched_getscheduler(0), turn_ns())"
    )
    assert (policy, turn) == (os.SCHED_IDLE, usual)


def test_how_nice_a_process_is_does_not_change():
    assert run("nice = os.nice(7); take_short_turns(); print(os.nice(0) - nice)") == [0]


def test_a_thread_with_another_policy_stays_what_it_is():
    policy = run(
        "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))\n"
        "take_short_turns(); print(os.sched_getscheduler(0))"
    )
    assert policy == [os.SCHED_BATCH]
