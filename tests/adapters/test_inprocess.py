from pathlib import Path

import numpy as np
import pytest

from hilrt.errors import PeerLost
from hilrt_adapters.inprocess import InProcessLink, InProcessOptions
from tests.adapters.link_contract import LinkContract, arrivals
from tests.collected import received

REFERENCE = "tests.adapters.link_contract:Reference"


def make(**table):
    options = InProcessOptions(adapter="inprocess", **{"model": REFERENCE, **table})
    return InProcessLink("model", options, Path(__file__).parent)


class TestInProcess(LinkContract):
    @pytest.fixture
    async def link(self):
        link = make(params={"fail_at": 1000.0})
        yield link
        await link.close()

    async def fail(self, link):
        link.dispatch(9, 2000.0, 0.1, np.zeros((1, 3)))


async def test_the_step_runs_in_the_first_poll_after_dispatch():
    link = make()
    await link.open()
    await link.initialize(0.0, np.zeros(3))
    calls = []
    advance = link.solver.advance
    link.solver.advance = lambda *args: calls.append(args) or advance(*args)
    link.dispatch(0, 0.0, 0.1, np.zeros((1, 3)))
    assert calls == []
    assert len(received(link)) == 1
    assert len(calls) == 1


async def test_what_a_solver_raises_is_told_with_its_place():
    link = make(params={"fail_at": 0.0})
    await link.open()
    link.dispatch(0, 0.0, 0.1, np.zeros((1, 3)))
    with pytest.raises(PeerLost, match=r"ZeroDivisionError: asked to fail \(.*contract.py:\d+\)"):
        await arrivals(link)


async def test_stop_reaches_the_solver_once():
    link = make()
    await link.open()
    await link.stop("finished")
    await link.stop("again")
    await link.close()
    assert link.solver.stopped == ["finished"]


async def test_path_is_relative_to_the_session_file(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "only_in_this_folder.py").write_text(
        "from hilrt import *\n"
        "class Mine(Solver):\n"
        "    outputs = (Port('y'),)\n"
        "    def initialize(self, t0, u0): return Sample([t0])\n"
        "    def advance(self, t, h, u): return Sample([t + h])\n"
    )
    options = InProcessOptions(adapter="inprocess", model="only_in_this_folder:Mine", path="models")
    ports = InProcessLink.describe("model", options, tmp_path).ports
    assert [port.name for port in ports.outputs] == ["y"]
    options.path = "modells"
    (problem,) = InProcessLink.describe("model", options, tmp_path).problems
    assert "modells" in problem


def test_wrong_params_are_found_without_running():
    link = make(params={"fail_att": 1.0})
    (problem,) = InProcessLink.describe("model", link.options, link.folder).problems
    assert "did you mean 'fail_at'" in problem


def test_nothing_is_imported_without_leave_to_run_code():
    link = make(params={"fail_att": 1.0})
    description = InProcessLink.describe("model", link.options, link.folder, run_code=False)
    assert description.code is not None
    assert description.code.key == "model"
    assert not description.problems
    assert description.ports is None
