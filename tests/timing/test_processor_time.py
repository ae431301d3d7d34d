"""Which processes had the processors, from what Linux counts."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from hilrt.timing.host import PROC, ProcessorTime, stolen_s, used_s

ROW = "cpu{cpu} 10 0 10 100 0 0 0 {stolen} 0 0"
#: A process may call itself anything.
PROCESS = "77 (a) b (c) S 1 77 77 0 -1 4194304 9 9 9 9 {user} {system} 9 9 20 0 1 0 9"


def told(*stolen: int) -> str:
    rows = [ROW.format(cpu=cpu, stolen=value) for cpu, value in enumerate(stolen)]
    return "\n".join(["cpu  1 1 1 1 1 1 1 999 0 0", *rows, "intr 1 2 3", ""])


@pytest.fixture(autouse=True)
def hundredths(monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: 100, raising=False)


def test_stolen_is_the_mean_over_the_given_processors():
    text = told(100, 300, 5000)
    assert stolen_s(text, [0, 1]) == 2.0
    assert stolen_s(text, [1]) == 3.0
    assert stolen_s(text, [7]) is None
    assert stolen_s("cpu0 1 2 3 4", [0]) is None  # a kernel that does not count it


def test_used_is_both_in_the_process_and_in_the_kernel_for_it():
    assert used_s(PROCESS.format(user=120, system=30)) == 1.5


def test_only_what_is_taken_from_now_on_counts(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text(told(500))
    had = ProcessorTime([0], {}, tmp_path)
    stat.write_text(told(530))
    assert had.stolen() == pytest.approx(0.3)
    stat.unlink()
    assert had.stolen() is None
    assert ProcessorTime([0], {}, tmp_path).stolen() is None


def test_shares_leave_out_processes_that_ended(tmp_path, monkeypatch):
    for pid in ("77", "78"):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "stat").write_text(PROCESS.format(user=100, system=0))
    now = 5.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    had = ProcessorTime([0], {"gateway": 77, "solver": 78, "never": 79}, tmp_path)
    now = 15.0
    (tmp_path / "77" / "stat").write_text(PROCESS.format(user=300, system=50))
    (tmp_path / "78" / "stat").unlink()
    assert had.shares() == {"gateway": pytest.approx(0.25)}


@pytest.mark.skipif(not (PROC / "stat").exists(), reason="Linux tells it")
def test_this_machine_tells_it(monkeypatch):
    monkeypatch.undo()
    code = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    child = subprocess.Popen([sys.executable, "-c", code + "\ninput()"], stdin=subprocess.PIPE)
    try:
        had = ProcessorTime(range(os.cpu_count() or 1), {"busy": child.pid})
        taken, deadline = 0.0, time.monotonic() + 30.0
        began = time.monotonic()
        while taken < 0.4:
            assert time.monotonic() < deadline
            time.sleep(0.05)
            taken = had.shares()["busy"] * (time.monotonic() - began)
        stolen = had.stolen()
        assert stolen is not None
        assert stolen >= 0.0
    finally:
        child.communicate(b"\n", timeout=30.0)
