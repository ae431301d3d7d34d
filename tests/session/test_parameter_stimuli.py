"""Stimuli of parameters: their values, the exact course of the model, bounds, release, replay."""

from pathlib import Path

import numpy as np
import pytest

import hilrt
from hilrt.check.check import check_file
from hilrt.config.session_file import session_of_text
from hilrt.errors import ConfigError
from hilrt.record.reader import load_log
from hilrt.replay.replay_log import replay
from hilrt.studies.what_if import what_if
from tests.session.test_parameters import SESSION, recorded

PLAIN = SESSION.partition("[monitor.adjust")[0]
STIFFNESS = """
[[stimuli]]
name = "stiff"
input = "parameters.body.stiffness"
mode = "replace"
start = 0.1
segments = [
    { shape = "ramp", to = 200.0, duration = 0.2 },
    { shape = "hold", duration = 0.1 },
    { shape = "step", to = 2000.0, duration = 0.1 },
]
[[stimuli]]
name = "swing"
input = "parameters.body.stiffness"
start_when = "body.x < -0.7"
segments = [{ shape = "sine", amplitude = 10.0, frequency = 5.0, duration = 0.2 }]
"""
H = 0.01


def _file(text):
    return session_of_text(Path(__file__).with_name("session.toml"), text, ())


def piecewise(stiffness):
    """Exact course of a mass that starts at 1, at rest, whose spring changes at each point."""
    x, v, course = 1.0, 0.0, []
    for w in np.sqrt(stiffness):
        course.append(x)
        c, s = np.cos(w * H), np.sin(w * H)
        x, v = x * c + v / w * s, -w * x * s + v * c
    return np.array(course)


def expected(log):
    """By numpy: the ramp and the steps until 0.5 s, then the swing from its condition on."""
    t = np.arange(len(log.t)) * H
    value = np.interp(t, [0.1, 0.3], [40.0, 200.0])
    value[t > 0.4 - 1e-9] = 900.0  # its bound
    value[t > 0.5 - 1e-9] = 40.0
    late = np.flatnonzero((log["body.x"] < -0.7) & (t >= 0.5))
    swings = (t >= t[late[0] + 1] - 1e-9) & (t < t[late[0] + 1] + 0.2 - 1e-9)
    value[swings] += 10.0 * np.sin(2.0 * np.pi * 5.0 * (t[swings] - t[late[0] + 1]))
    return value


def test_the_model_follows_the_stimulus(tmp_path):
    path, _ = recorded(tmp_path, {}, PLAIN + STIFFNESS, duration=2.0)
    log = load_log(path)
    stiffness = log["parameter:body.stiffness"]
    np.testing.assert_allclose(stiffness, expected(log), rtol=0, atol=1e-9)
    np.testing.assert_allclose(log["body.x"], piecewise(stiffness), rtol=0, atol=1e-11)
    assert np.isnan(log["body.x:estimated_error"][12:50]).all()  # withdrawn
    assert replay(path).difference is None
    later = {one.name: one for one in what_if(path, ["stimuli.stiff.start=0.2"]).signals}
    assert later["parameter:body.stiffness"].largest > 700.0


def test_its_beginning_and_its_end_are_events():
    log = hilrt.simulate(_file(PLAIN + STIFFNESS)).log
    told = [(round(e.t, 9), e.text) for e in log.events if "stimulus stiff " in e.text]
    place = "at parameters.body.stiffness"
    assert told == [(0.1, f"stimulus stiff begins {place}"), (0.5, f"stimulus stiff ends {place}")]
    assert log["parameter:body.stiffness"][20] == pytest.approx(120.0)


def test_a_refusal_is_said_once():
    text = (
        PLAIN
        + """
[subsystems.other]
adapter = "inprocess"
model = "tests.adjustable_masses:Mass2"
params = { m = 1.0, k = 10.0, x = 0.0, v = 1.0 }
inputs = { force = { start = 0.0 } }
[[stimuli]]
name = "light"
input = "parameters.other.m"
mode = "replace"
segments = [{ shape = "ramp", to = -1.0, duration = 0.5 }]
"""
    )
    log = hilrt.simulate(_file(text)).log
    told = [e.text for e in log.events if e.cause == "parameter_refused"]
    assert len(told) == 1
    assert "of its stimulus is refused: a mass is positive" in told[0]


def test_constants_are_stimulated_too():
    text = (
        PLAIN
        + """
[[calculated]]
name = "gain"
expression = "2"
[[calculated]]
name = "twice"
expression = "gain * body.x"
[[stimuli]]
name = "more"
input = "parameters.calculated.gain"
segments = [{ shape = "ramp", from = 0.0, to = 1.0, duration = 1.0 }]
"""
    )
    log = hilrt.simulate(_file(text)).log
    gain = 2.0 + np.arange(len(log.t) - 1) * H
    np.testing.assert_allclose(log["calculated.twice"][:-1], gain * log["body.x"][:-1], atol=1e-12)


@pytest.mark.parametrize(
    ("name", "said"),
    [("body.stifness", "did you mean 'body.stiffness'"), ("boby.stiffness", "no subsystem 'boby'")],
)
def test_there_must_be_such_a_parameter(name, said):
    text = PLAIN + STIFFNESS.replace("body.stiffness", name)
    with pytest.raises(ConfigError, match=said):
        hilrt.simulate(_file(text))


def test_check_knows_the_subsystem(tmp_path):
    path = tmp_path / "session.toml"
    path.write_text(PLAIN + STIFFNESS)
    assert [str(p) for p in check_file(path) if p.level == "error"] == []
    path.write_text(PLAIN + STIFFNESS.replace("parameters.body", "parameters.boby"))
    assert "no subsystem 'boby'" in " ".join(map(str, check_file(path)))
