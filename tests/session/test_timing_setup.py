"""What [master.pacing] asks for is put into effect, and undone."""

import os
import sys
from types import SimpleNamespace

import pytest

from hilrt.config.structs import Pacing
from hilrt.session import timing_setup as pacemaker
from hilrt.session.assembly import Numerics
from hilrt.session.timing_setup import (
    DRAFT_SHARE,
    DRAFT_SHARE_REAL_TIME,
    LONGEST_SPIN,
    LONGEST_SPIN_REAL_TIME,
    Pacemaker,
)
from tests.stepping import MemoryLink, Recorded, Stepping

STEP = 1e-3


@pytest.fixture
def made():
    pacemakers = []

    def make(real_time=True, **pacing):
        pacemakers.append(Pacemaker(Pacing(**pacing), STEP, real_time))
        return pacemakers[-1]

    yield make
    for one in pacemakers:
        one.release()


@pytest.fixture
def numerics():
    s = Stepping({"a": MemoryLink("a", Recorded({"y": lambda t: t}))})
    return Numerics(s.plan, s.state, s.exchange)


async def test_as_fast_as_possible_there_is_no_clock(made, numerics):
    pacing = made(real_time=False, draft=True)
    assert await pacing.take_place() == []
    assert pacing.clock is None
    assert pacing.prepare_ticks(numerics, []) is None
    assert pacing.enter_real_time() == []


@pytest.mark.parametrize(
    ("pacing", "longest"), [({}, LONGEST_SPIN), ({"priority": 5}, LONGEST_SPIN_REAL_TIME)]
)
async def test_the_spin_is_measured_and_bounded(made, monkeypatch, pacing, longest):
    async def late() -> int:
        return 5_000_000

    monkeypatch.setattr(pacemaker, "measure_spin_ns", late)
    one = made(**pacing)
    await one.take_place()
    assert one.clock.spin_ns == pytest.approx(longest * STEP * 1e9)


async def test_a_spin_that_is_given_is_taken(made):
    one = made(spin=120)
    await one.take_place()
    assert one.clock.spin_ns == 120_000


@pytest.mark.parametrize(("priority", "share"), [(0, DRAFT_SHARE), (5, DRAFT_SHARE_REAL_TIME)])
@pytest.mark.parametrize("draft", [True, False])
async def test_drafts_are_made_on_request(made, numerics, draft, priority, share):
    one = made(spin=50, draft=draft, priority=priority)
    await one.take_place()
    assert (one.prepare_ticks(numerics, []) is not None) is draft
    assert one.clock.before_spin is not None
    assert one.clock.early_ns == (round(share * STEP * 1e9) if draft else 0)


async def test_a_model_corrector_is_too_much_to_draft(made, numerics):
    one = made(spin=50, draft=True)
    await one.take_place()
    modelled = SimpleNamespace(model=object())
    assert one.prepare_ticks(numerics._replace(state=modelled), []) is None


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
