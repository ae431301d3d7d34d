"""Parameters that change while a session runs: exact solutions, refusals, what is withdrawn."""

import numpy as np
import pytest

import hilrt
from hilrt.errors import ConfigError
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.record.reader import load_log
from hilrt.replay.replay_log import replay
from hilrt.session.run import RunOptions
from hilrt.solver import Parameter
from hilrt.step.observer import Observer
from tests.adjustable_masses import Mass2, Oscillator
from tests.replay.recording_tools import record_file

SESSION = """
[session]
name = "stiffened"
duration = 1.0
pace = "asap"
[master]
step = 0.01
[subsystems.body]
adapter = "inprocess"
model = "tests.adjustable_masses:Oscillator"
[subsystems.spring]
adapter = "inprocess"
model = "tests.adjustable_masses:Spring"
[[connections]]
from = "body.x"
to = "spring.x"
[[connections]]
from = "spring.f"
to = "body.f"
[monitor.adjust."parameters.body.stiffness"]
min = 10
max = 500
"""


class Changing(Observer):
    """Changes numbers after ticks."""

    name = "changing"

    def __init__(self, changes, asked):
        self.changes, self.asked, self.outcomes = changes, asked, []

    def stepped(self, turn):
        for number, value in self.asked.get(turn.point.tick, ()):
            self.changes.add(number, value)


def recorded(tmp_path, asked, text=SESSION, duration=1.0, *, logged=False):
    """Log of a session in which numbers are changed after ticks, and what became of it.

    `logged`: that stands in the log, and is not returned.
    """
    path, outcomes = tmp_path / "session.toml", []
    path.write_text(text)

    def watch(master):
        changes = master.numerics.changes
        outcomes.append(changes.outcomes)
        master.observers.present = (
            *(o for o in master.observers.present if logged or o.name != "flags"),
            Changing(changes, asked),
        )

    log = record_file(str(path), tmp_path / "log", duration=duration, on_master=watch)
    return log, [(level, cause, where, text) for level, cause, where, text in outcomes[0]]


def stiffened(t, *, at, before=40.0, after):
    """Exact course of a mass that starts at 1, at rest, whose spring changes at a time."""
    w, w2 = np.sqrt(before), np.sqrt(after)
    x0, v0 = np.cos(w * at), -w * np.sin(w * at)
    late = x0 * np.cos(w2 * (t - at)) + v0 / w2 * np.sin(w2 * (t - at))
    return np.where(t <= at, np.cos(w * t), late)


def test_the_model_has_the_new_value_from_the_next_communication_point_on(tmp_path):
    path, outcomes = recorded(tmp_path, {29: [("parameters.body.stiffness", 160.0)]})
    log = load_log(path)
    expected = stiffened(log.t, at=0.3, after=160.0)
    np.testing.assert_allclose(log["body.x"], expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(
        log["parameter:body.stiffness"], np.where(log.t < 0.295, 40.0, 160.0)
    )
    ((level, cause, where, text),) = outcomes
    assert (level, cause, where) == ("info", "parameter_changed", "body")
    assert text.startswith("parameter body.stiffness = 160 from now on")
    assert replay(path).difference is None


def test_what_was_probed_before_is_withdrawn(tmp_path):
    path, _ = recorded(tmp_path, {49: [("parameters.body.stiffness", 160.0)]})
    log = load_log(path)
    known = np.isfinite(log["body.x:estimated_error"])
    assert known[1:50].all()
    assert not known[50:].any()


def test_the_summary_says_why_the_error_is_not_known(tmp_path):
    path = tmp_path / "session.toml"
    path.write_text(SESSION.replace('pace = "asap"', "pace = 2.0"))
    options = RunOptions(out=tmp_path / "runs")
    with hilrt.LiveSession(path, options=options) as session:
        session.wait_until(lambda s: s.t > 0.1)
        session.set("parameters.body.stiffness", 90.0)
        with pytest.raises(hilrt.errors.CommandRefused, match="outside"):
            session.set("parameters.body.stiffness", 5.0)
        result = session.wait()
    how = result.summary["estimated_error"]["body.x"]["how"]
    assert how.startswith("unknown: a parameter of body was changed during the session")
    causes = [event.cause for event in result.log.events]
    assert causes.count("parameter_changed") == 1


def test_a_solver_may_refuse():
    hosted = HostedSolver(Mass2(m=1.0, k=10.0, x=0.0, v=0.0))
    assert hosted.set_parameter("m", 2.0) == ""
    assert hosted.solver.m == 2.0
    assert hosted.set_parameter("m", -1.0) == "a mass is positive"
    assert hosted.set_parameter("k", -1.0) == "-1 is outside 0 to 100000"
    assert hosted.set_parameter("mm", 1.0).startswith("there is no parameter 'mm'")
    assert (hosted.solver.m, hosted.solver.k) == (2.0, 10.0)
    assert [p.default for p in hosted.parameters] == [10.0, 2.0]


def test_a_refused_change_is_an_event_with_its_reason(tmp_path):
    text = (
        SESSION.replace('"parameters.body.stiffness"', '"parameters.other.m"')
        .replace(
            "[monitor.adjust",
            """[subsystems.other]
adapter = "inprocess"
model = "tests.adjustable_masses:Mass2"
params = { m = 1.0, k = 10.0, x = 0.0, v = 1.0 }
inputs = { force = { start = 0.0 } }
[monitor.adjust""",
        )
        .replace("min = 10", "min = -10")
    )
    path, outcomes = recorded(tmp_path, {20: [("parameters.other.m", -1.0)]}, text)
    told = "parameter other.m = -1 kg is refused: a mass is positive"
    assert outcomes == [("warning", "parameter_refused", "other", told)]
    assert set(load_log(path)["parameter:other.m"]) == {1.0}


@pytest.mark.parametrize(
    ("name", "low", "text"),
    [
        ("parameters.body.stifness", 10, "no such parameter; did you mean 'body.stiffness'"),
        ("parameters.body.stiffness", 0, "0 to 500 is not within 1 to 900"),
    ],
)
def test_bounds_are_within_those_of_the_parameter(tmp_path, name, low, text):
    changed = SESSION.replace("parameters.body.stiffness", name).replace("min = 10", f"min = {low}")
    with pytest.raises(ConfigError, match=text):
        recorded(tmp_path, {}, changed)


def test_a_parameter_has_its_default_within_its_bounds():
    with pytest.raises(ValueError, match="5 is outside 0 to 1"):
        Parameter("k", default=5.0, min=0.0, max=1.0)
    assert [p.name for p in Oscillator.parameters] == ["stiffness"]
