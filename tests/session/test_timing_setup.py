"""What [master.pacing] asks for is put into effect, and undone."""

import os
import sys

import pytest

from hilrt.config.structs import Pacing
from hilrt.session import opened as timing
from hilrt.session.opened import LONGEST_SPIN, LONGEST_SPIN_REAL_TIME, TimingSetup
from hilrt.timing import realtime

STEP = 1e-3


@pytest.fixture
def made():
    pacemakers = []

    def make(real_time=True, **pacing):
        pacemakers.append(TimingSetup(Pacing(**pacing), STEP, real_time))
        return pacemakers[-1]

    yield make
    for one in pacemakers:
        one.release()


async def test_as_fast_as_possible_there_is_no_clock(made):
    pacing = made(real_time=False)
    assert await pacing.take_place() == []
    assert pacing.clock is None
    assert pacing.enter_real_time() == []


@pytest.mark.parametrize(
    ("pacing", "permitted", "longest"),
    [
        ({"priority": 0}, True, LONGEST_SPIN),
        ({"priority": 5}, True, LONGEST_SPIN_REAL_TIME),
        ({}, True, LONGEST_SPIN_REAL_TIME),
        ({}, False, LONGEST_SPIN),
    ],
)
async def test_the_spin_is_measured_and_bounded(made, monkeypatch, pacing, permitted, longest):
    async def late() -> int:
        return 5_000_000

    monkeypatch.setattr(timing, "measure_spin_ns", late)
    monkeypatch.setattr(realtime, "may_have_priority", lambda: permitted)
    one = made(**pacing)
    await one.take_place()
    assert one.clock.spin_ns == pytest.approx(longest * STEP * 1e9)


async def test_a_spin_that_is_given_is_taken(made):
    one = made(spin=120)
    await one.take_place()
    assert one.clock.spin_ns == 120_000


@pytest.mark.parametrize("real_time", [True, False])
async def test_processes_that_can_wait_get_leftover_time_beside_a_clock(
    made, monkeypatch, real_time
):
    got = []
    monkeypatch.setattr(timing, "give_idle_priority", lambda pid, cpus: got.append(pid))
    one = made(real_time=real_time, spin=50)
    await one.take_place()
    one.give_idle_priority([11, 12])
    assert got == ([11, 12] if real_time else [])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can pin a process here")
async def test_processors_are_taken_and_given_back(made):
    before = os.sched_getaffinity(0)
    cpu = min(before)
    one = made(spin=50, affinity=[cpu])
    assert await one.take_place() == []
    assert os.sched_getaffinity(0) == {cpu}
    assert set(one.cpus_for_children) == (before - {cpu} or {cpu})
    one.release()
    assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can pin a process here")
async def test_processors_that_are_not_there_are_a_warning(made):
    (problem,) = await made(spin=50, affinity=[4095]).take_place()
    assert "affinity [4095] is ignored" in problem
