"""Priority, memory and the kernel's throttling."""

import os
import subprocess
import sys

import pytest

from hilrt.config.structs import Pacing
from hilrt.timing import realtime

linux = pytest.mark.skipif(sys.platform != "linux", reason="a Linux call")


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_nothing_is_done_that_was_not_asked_for():
    before = os.sched_getscheduler(0) if sys.platform == "linux" else None
    assert realtime.enter_real_time(Pacing(priority=0), 0.99) == []
    assert realtime.set_priority(0) is None
    if before is not None:
        assert os.sched_getscheduler(0) == before


@linux
def test_priority_takes_effect_or_says_how_to_get_it():
    done = run_python(
        "import os, subprocess, sys; from hilrt.timing import realtime\n"
        "from hilrt.config.structs import Pacing\n"
        "said = [p for p in realtime.enter_real_time(Pacing(priority=7), 0.1)]\n"
        "if said:\n"
        "    assert 'rtprio' in said[0] or 'ignored' in said[0], said\n"
        "else:\n"
        "    assert os.sched_getparam(0).sched_priority == 7\n"
        "    child = 'import os; print(os.sched_getscheduler(0))'\n"
        "    out = subprocess.run([sys.executable, '-c', child], capture_output=True, text=True)\n"
        "    assert int(out.stdout) == os.SCHED_OTHER, 'children inherit it'\n"
        "    realtime.leave_real_time()\n"
        "    assert os.sched_getscheduler(0) == os.SCHED_OTHER\n"
    )
    assert done.returncode == 0, done.stderr


@linux
def test_an_automatic_priority_is_the_lowest_or_none_without_a_warning(monkeypatch):
    asked = []
    monkeypatch.setattr(os, "sched_setscheduler", lambda *args: asked.append(args))
    monkeypatch.setattr(realtime, "throttle_share", lambda: 0.95)
    monkeypatch.setattr(realtime, "may_have_priority", lambda: False)
    assert realtime.enter_real_time(Pacing(), 0.1) == []
    assert not asked
    monkeypatch.setattr(realtime, "may_have_priority", lambda: True)
    assert realtime.enter_real_time(Pacing(), 0.9) == []
    assert not asked, "the kernel would stop the master for a part of each second"
    assert realtime.enter_real_time(Pacing(), 0.1) == []
    assert [(policy, what.sched_priority) for _, policy, what in asked] == [
        (os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, 1)
    ]


@linux
@pytest.mark.parametrize(("effective", "permitted"), [("0000000000800000", True), ("0", False)])
def test_a_priority_is_permitted_by_a_capability(monkeypatch, tmp_path, effective, permitted):
    import resource

    status = tmp_path / "status"
    status.write_text(f"Name:\tx\nCapEff:\t{effective}\nCapBnd:\t0\n")
    monkeypatch.setattr(realtime, "_STATUS", status)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (0, 0))
    assert realtime.may_have_priority() is permitted
    monkeypatch.setattr(resource, "getrlimit", lambda which: (60, 60))
    assert realtime.may_have_priority()


@linux
@pytest.mark.parametrize("text", [None, "Name:\tx\n"])
def test_without_a_status_of_the_kernel_there_is_no_automatic_priority(monkeypatch, tmp_path, text):
    import resource

    if text is not None:
        (tmp_path / "status").write_text(text)
    monkeypatch.setattr(realtime, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (0, 0))
    assert realtime.granted_priority("auto") == 0


@linux
def test_priority_without_permission_is_a_warning(monkeypatch):
    def refuse(*args):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    said = realtime.set_priority(50)
    assert said is not None
    assert "priority 50 is ignored" in said
    assert "rtprio" in said


@linux
def test_memory_is_locked_or_the_limit_is_named():
    done = run_python(
        "import re; from hilrt.timing import realtime\n"
        "said = realtime.lock_memory()\n"
        "kb = int(re.search(r'VmLck:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "assert (kb > 0) == (said is None), (kb, said)\n"
        "assert said is None or 'memlock' in said\n"
        "realtime.leave_real_time()\n"
        "kb = int(re.search(r'VmLck:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "assert kb == 0\n"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("runtime", "period", "share"),
    [("950000", "1000000", 0.95), ("-1", "1000000", 1.0), ("x", "1", None)],
)
def test_throttle_share(tmp_path, runtime, period, share):
    (tmp_path / "sched_rt_runtime_us").write_text(f"{runtime}\n")
    (tmp_path / "sched_rt_period_us").write_text(f"{period}\n")
    assert realtime.throttle_share(tmp_path) == share


def test_throttle_share_is_unknown_without_the_files(tmp_path):
    assert realtime.throttle_share(tmp_path / "none") is None


def test_throttling_is_announced_before_it_happens():
    assert realtime.throttle_warning(0.5, 0.95) is None
    assert realtime.throttle_warning(0.9, None) is None
    said = realtime.throttle_warning(0.9, 0.95)
    assert said is not None
    assert "90%" in said
    assert "95%" in said
