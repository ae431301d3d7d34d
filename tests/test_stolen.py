"""What a virtual machine's host takes, from what Linux counts."""

from __future__ import annotations

import os

import pytest

from hilrt.stolen import STAT, StolenTime, stolen_s

ROW = "cpu{cpu} 10 0 10 100 0 0 0 {stolen} 0 0"


def told(*stolen: int) -> str:
    rows = [ROW.format(cpu=cpu, stolen=value) for cpu, value in enumerate(stolen)]
    return "\n".join(["cpu  1 1 1 1 1 1 1 999 0 0", *rows, "intr 1 2 3", ""])


def test_it_is_the_mean_over_the_given_processors(monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: 100, raising=False)
    text = told(100, 300, 5000)
    assert stolen_s(text, [0, 1]) == 2.0
    assert stolen_s(text, [1]) == 3.0
    assert stolen_s(text, [7]) is None
    assert stolen_s("cpu0 1 2 3 4", [0]) is None  # a kernel that does not count it


def test_only_what_is_taken_from_now_on_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: 100, raising=False)
    stat = tmp_path / "stat"
    stat.write_text(told(500))
    taken = StolenTime([0], stat)
    stat.write_text(told(530))
    assert taken.seconds() == pytest.approx(0.3)
    stat.unlink()
    assert taken.seconds() is None
    assert StolenTime([0], stat).seconds() is None


@pytest.mark.skipif(not STAT.exists(), reason="Linux tells it")
def test_this_machine_tells_it():
    taken = StolenTime(range(os.cpu_count() or 1)).seconds()
    assert taken is not None
    assert taken >= 0.0
