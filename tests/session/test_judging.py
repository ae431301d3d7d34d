"""Expectations of sessions that run: what they come to, and what follows from it."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

import hilrt
from hilrt.config.session_file import open_session
from hilrt.expect.judge import Judge
from hilrt.expect.log_signals import LogSignals
from hilrt.expect.spec import expectations_of

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
