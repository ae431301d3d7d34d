"""Processors, garbage collection, and the report."""

import gc
import json
import os
import subprocess
import sys

import pytest

from hilrt.timing import host

linux = pytest.mark.skipif(sys.platform != "linux", reason="a Linux call")


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


@linux
def test_affinity_pins_this_process():
    done = run_python(
        "import os; from hilrt.timing import host; first = host.available_cpus()[0]\n"
        "assert host.set_affinity([first]) is None\n"
        "assert os.sched_getaffinity(0) == {first}, os.sched_getaffinity(0)\n"
        "assert first not in host.other_cpus([first]) or len(host.ALL_CPUS) == 1\n"
    )
    assert done.returncode == 0, done.stderr


@linux
@pytest.mark.skipif(len(host.ALL_CPUS) < 2, reason="there is one processor only")
def test_other_threads_leave_the_processor_to_the_caller():
    first, second = host.ALL_CPUS[:2]
    done = run_python(
        "import os, threading\n"
        "from hilrt.timing import host\n"
        "end = threading.Event()\n"
        "thread = threading.Thread(target=end.wait)\n"
        "thread.start()\n"
        f"host.set_affinity([{first}])\n"
        f"host.move_other_threads([{second}])\n"
        f"assert os.sched_getaffinity(0) == {{{first}}}\n"
        f"assert os.sched_getaffinity(thread.native_id) == {{{second}}}\n"
        "end.set()\n"
    )
    assert done.returncode == 0, done.stderr


@linux
def test_a_process_of_idle_priority_never_delays_another():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        try:
            host.give_idle_priority(child.pid, host.ALL_CPUS[:1])
            assert os.sched_getaffinity(child.pid) == set(host.ALL_CPUS[:1])
            assert os.sched_getscheduler(child.pid) == os.SCHED_IDLE
        finally:
            child.kill()
    host.give_idle_priority(child.pid, host.ALL_CPUS)  # gone: nothing happens


def test_affinity_that_is_not_possible_is_a_warning():
    before = os.sched_getaffinity(0)
    warning = host.set_affinity([1000])
    assert warning is not None
    assert "[1000] is ignored" in warning
    assert os.sched_getaffinity(0) == before
    assert host.set_affinity([]) is None


def test_other_cpus(monkeypatch):
    monkeypatch.setattr(host, "ALL_CPUS", [0, 1, 2])
    assert host.other_cpus([1]) == [0, 2]
    assert host.other_cpus([]) == [0, 1, 2]
    assert host.other_cpus([0, 1, 2]) == [0, 1, 2]


def test_freeze_gc_restores_the_collector():
    assert gc.isenabled()
    with host.freeze_gc():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    gc.disable()
    try:
        with host.freeze_gc():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_freeze_gc_restores_after_an_error():
    with pytest.raises(ZeroDivisionError), host.freeze_gc():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_what_is_loaded_is_never_looked_through():
    frozen = gc.get_freeze_count()
    with host.load_without_gc():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen
    gc.disable()
    try:
        with host.load_without_gc():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()


def test_cycles_are_collected_only_where_they_fit(monkeypatch):
    collections = []
    ticks = iter([0, 1000, 0, 1000])  # each collection takes 1 µs
    monkeypatch.setattr(host.time, "perf_counter_ns", lambda: next(ticks))
    with host.freeze_gc() as collect:
        monkeypatch.setattr(host.gc, "collect", lambda generation: collections.append(generation))
        assert collect(1)  # nothing known yet
        assert not collect(2000)
        assert collect(2001)
        monkeypatch.undo()
    assert collections == [1, 1]


def test_host_report_is_plain_data():
    report = host.host_report()
    assert json.loads(json.dumps(report)) == report
    assert report["versions"].keys() >= {"hilrt", "numpy", "pyzmq", "msgspec"}
    assert report["cpus"] >= 1
