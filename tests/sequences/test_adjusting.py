"""Faults and parameters that a test sequence changes: when they act, refusals, and the replay."""

import numpy as np
import pytest

import hilrt
from hilrt import Sequence
from hilrt.check.check_monitor import check_adjusted
from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.replay.replay_log import replay
from hilrt.session.run import RunOptions
from tests.sequences.driving import Driven
from tests.session.test_parameters import SESSION, stiffened
from tests.session.test_simulate import assert_equal

FAULTY = """
[subsystems.test]
adapter = "sequence"
sequence = "adjusting.py:Faulty"
adjust = ["faults.offset", "faults.gain"]
[[faults]]
name = "offset"
kind = "offset"
value = 0.25
output = "body.x"
[[faults]]
name = "gain"
kind = "gain"
value = 3.0
output = "body.x"
"""
STIFFENING = """
[subsystems.test]
adapter = "sequence"
sequence = "adjusting.py:Stiffening"
adjust = ["parameters.body.stiffness"]
"""


@pytest.fixture
def session(tmp_path, request):
    """Session file with the sequence beside it."""
    source = request.path.with_name("adjusting.py").read_text()
    (tmp_path / "adjusting.py").write_text(source)

    def write(more):
        path = tmp_path / "session.toml"
        path.write_text(SESSION.partition("[monitor.adjust")[0] + more)
        return path

    return write


def test_faults_act_from_the_point_after_the_one_at_which_they_are_asked_for(session):
    log = hilrt.simulate(session(FAULTY)).log
    k = np.arange(len(log.t))
    expected = np.where((k > 10) & (k <= 20), log["body.x"] + 0.25, log["body.x"])
    expected = np.where((k > 20) & (k <= 30), 3.0 * log["body.x"], expected)
    np.testing.assert_array_equal(log["body.x:faulted"], expected)
    np.testing.assert_array_equal(log["fault:gain"], (k > 20) & (k <= 30))
    told = [(e.t, e.text) for e in log.events if e.cause == "sequence_set"]
    assert [text for _, text in told] == [
        "faults.offset = 1.0",
        "faults.gain = 1.0",
        "faults.offset = 0.0",
        "faults.gain = nan",
    ]


def test_in_its_own_process_the_log_is_the_same_and_replays(session, tmp_path):
    path = session(FAULTY)
    called = hilrt.simulate(path)
    recorded = hilrt.run_session(path, options=RunOptions(out=tmp_path / "runs"))
    assert (recorded.fault, recorded.warnings) == (None, [])
    assert_equal(called.log, recorded.log)
    assert replay(recorded.folder).identical


def test_a_parameter_has_its_new_value_from_the_next_point_on(session):
    log = hilrt.simulate(session(STIFFENING)).log
    np.testing.assert_allclose(
        log["body.x"], stiffened(log.t, at=0.3, after=160.0), rtol=0, atol=1e-12
    )
    (refused,) = [e.text for e in log.events if e.cause == "parameter_refused"]
    assert refused.endswith("is refused: it lies outside 1 to 900")


@pytest.mark.parametrize(
    ("number", "value", "error", "text"),
    [
        ("faults.stuk", 1.0, LookupError, "did you mean 'faults.stuck'"),
        ("faults.stuck", 0.5, ValueError, "1 begins a fault, 0 ends it"),
        ("parameters.a.k", None, ValueError, "must be a finite number"),
        ("parameters.a.k", float("inf"), ValueError, "must be a finite number"),
    ],
)
def test_the_line_that_sets_what_cannot_be_set_raises(number, value, error, text):
    class Wrong(Sequence):
        async def run(self, bench):
            with pytest.raises(error, match=text):
                bench.set(number, value)
            bench.log("done")
            await bench.wait(0.1)

    driven = Driven(Wrong(), adjust=("faults.stuck", "parameters.a.k")).step()
    assert len(driven.told("sequence_log")) == 1
    assert driven.told("sequence_set") == []


def test_check_names_what_there_is_none_of(session):
    text = FAULTY.replace('"faults.offset", ', '"faults.ofset", "parameters.boby.k", ')
    tables = hilrt.load_session(session(text)).tables
    findings = Findings()
    check_adjusted(Topology(tables, {}, set()), findings)
    found = [str(problem) for problem in findings.problems]
    assert len(found) == 2
    assert "did you mean 'faults.offset'" in found[0]
    assert "no subsystem 'boby'" in found[1]
