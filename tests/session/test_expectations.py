"""Expectations of sessions that run: what they come to, and what follows from it."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

import hilrt
from hilrt.config.session_file import open_session
from hilrt.expect.expectation import expectations_of
from hilrt.expect.judge import Judge
from hilrt.expect.log_signals import LogSignals

TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"
EXPECTED = """
[[expect]]
name = "flag"
always = 'signal("flag:sample_late") == 0'

[[expect]]
name = "steps"
when = "rising(mass2.x > 1)"
eventually = 'signal("master:step") > 0 and time > 0.0'
within = 0.05
"""


@pytest.fixture
def session(tmp_path):
    """Function that writes the session of two masses, with expectations."""

    def write(more=""):
        path = tmp_path / "session.toml"
        path.write_text(TWO_MASS.read_text("utf-8") + EXPECTED + more, encoding="utf-8")
        return path

    return write


def of_log(path, log):
    """Outcomes of the recorded rows, as the summary has them."""
    expectations = expectations_of(open_session(path).tables.expect)
    judge = Judge(expectations, LogSignals(log.units, True), log.names, 0.001)
    judge.take_rows(log.time_ns(log.names[0]), np.column_stack([log[name] for name in log.names]))
    return msgspec.to_builtins(judge.finish())


def test_a_session_and_its_log_agree_bit_for_bit(session):
    path = session('[[expect]]\nname = "far"\nalways = "mass2.x < 100"\n')
    result = hilrt.simulate(path, {"session.duration": 0.3})
    results = result.summary["results"]
    assert results == of_log(path, result.log)
    assert [one["name"] for one in results] == ["flag", "steps", "far"]
    assert results[0]["result"] == results[1]["result"] == "passed"


def test_the_exit_status_tells_that_an_expectation_failed(session):
    path = session('[[expect]]\nname = "no"\nalways = \'signal("master:step") > 1\'\n')
    result = hilrt.simulate(path, {"session.duration": 0.1}, record=False)
    assert result.exit_status == 1
    failed = result.summary["results"][-1]
    assert (failed["result"], failed["robustness"]) == ("failed", pytest.approx(-0.999))
    assert "flag" not in failed["reason"]
    passed = hilrt.simulate(session(), {"session.duration": 0.1}, record=False)
    assert passed.exit_status == 0


def test_what_passes_on_a_good_coupling_is_inconclusive_on_a_bad_one(session):
    """The bad one's own robustness is positive, too: its estimated error is larger."""
    path = session('[[expect]]\nname = "near"\nalways = "abs(mass2.x) < 5.6"\n')
    short = {"session.duration": 1.0}
    good = hilrt.simulate(path, short)
    passed = good.summary["results"][-1]
    assert (good.exit_status, passed["result"]) == (0, "passed")
    assert 0.0 < passed["error"] < 0.1 < passed["robustness"]
    bad = hilrt.simulate(path, {**short, "master.step": 0.01})
    unsure = bad.summary["results"][-1]
    assert (bad.exit_status, unsure["result"]) == (4, "inconclusive")
    assert 0.0 < unsure["robustness"] < unsure["error"]
    assert "larger than the distance" in unsure["reason"]
    assert bad.summary["results"] == of_log(path, bad.log)


SEQUENCE = """
import hilrt
from hilrt import Port


class Watch(hilrt.Sequence):
    reads = ("mass2.x",)

    async def run(self, bench):
        await bench.wait(0.05)
        bench.expect("slow", always="mass2.x < 1000", for_=0.05)
        here = bench.read("mass2.x")
        bench.measure("here", here, unit="m", max=-1000.0)
        bench.measure("at the limit", here, unit="m", max=here + 1e-9)
        bench.measure("time", bench.now, unit="s", max=1.0)
        await bench.wait(0.1)
"""


def test_what_a_sequence_expects_and_measures_is_among_the_results(tmp_path):
    (tmp_path / "watch.py").write_text(SEQUENCE)
    text = TWO_MASS.read_text("utf-8")
    text += '[subsystems.watch]\nadapter = "sequence"\nsequence = "watch.py:Watch"\n'
    path = tmp_path / "session.toml"
    path.write_text(text, encoding="utf-8")
    result = hilrt.simulate(path, {"session.duration": 0.25})
    found = {one["name"]: one for one in result.summary["results"]}
    assert {name: (one["result"], one["of"]) for name, one in found.items()} == {
        "slow": ("passed", "watch"),
        "here": ("failed", "watch"),
        "at the limit": ("inconclusive", "watch"),
        "time": ("passed", "watch"),
    }
    log = result.log
    errors = log["mass2.x:estimated_error"][np.searchsorted(log.t, found["here"]["t"]) :][:3]
    assert errors.min() <= found["here"]["error"] <= errors.max()
    assert found["time"]["error"] == 0.0
    assert found["slow"]["since"] == pytest.approx(0.05, abs=0.003)
    assert (found["here"]["source"], found["here"]["unit"]) == ("measure", "m")
    assert result.exit_status == 1
