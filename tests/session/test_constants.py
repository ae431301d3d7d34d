"""Constant calculated channels as parameters: from the point of the change on, replay, what if."""

import numpy as np
import pytest

from hilrt.errors import ConfigError
from hilrt.record.reader import load_log
from hilrt.replay.replay_log import replay
from hilrt.studies.what_if import what_if
from tests.session.test_parameters import SESSION, recorded

BOUNDS = """
[monitor.adjust."parameters.calculated.gain"]
min = -5
max = 5
"""
TEXT = (
    SESSION.replace("[monitor.adjust", "[[calculated]]\n[monitor.adjust", 1)
    .replace(
        "[[calculated]]\n",
        """[[calculated]]
name = "gain"
expression = "-2 + 4.0"
[[calculated]]
name = "same"
expression = "2"
[[calculated]]
name = "force"
expression = "gain * body.x + 2"
""",
    )
    .replace('from = "spring.f"', 'from = "calculated.force"')
    + BOUNDS
)
GAIN = "parameters.calculated.gain"


def test_what_is_made_of_a_constant_has_its_new_value_at_that_point(tmp_path):
    path, outcomes = recorded(tmp_path, {29: [(GAIN, -3.0)], 59: [(GAIN, 0.5)]}, TEXT)
    log = load_log(path)
    gain = np.select([log.t < 0.295, log.t < 0.595], [2.0, -3.0], 0.5)
    np.testing.assert_array_equal(log["parameter:calculated.gain"], gain)
    np.testing.assert_array_equal(log["calculated.force"], gain * log["body.x"] + 2.0)
    np.testing.assert_array_equal(log.held("calculated.gain"), gain)
    np.testing.assert_array_equal(log["body.f:sent"], log["calculated.force"])
    assert log["calculated.same"][0] == log.held("calculated.same")[-1] == 2.0  # and not with it
    assert [cause for _, cause, _, _ in outcomes] == ["parameter_changed"] * 2
    assert replay(path).difference is None


def test_what_if_the_constant_had_been_another_from_the_start(tmp_path):
    path, _ = recorded(tmp_path, {29: [(GAIN, -3.0)]}, TEXT)
    log = load_log(path)
    found = {one.name: one for one in what_if(path, [f"{GAIN}=4"]).signals}
    force = found["body.f:sent"]
    changed = np.abs((4.0 - log["parameter:calculated.gain"]) * log["body.x"])
    assert force.largest == pytest.approx(changed.max(), abs=1e-12)
    assert found["parameter:calculated.gain"].largest == 7.0


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("parameters.calculated.gian=4", "did you mean 'calculated.gain'"),
        (f"{GAIN}=much", "is not a number"),
        ("parameters.body.stiffness=1000", "is not a number from 1 to 900"),
    ],
)
def test_what_if_needs_a_parameter_and_a_value_of_it(tmp_path, setting, text):
    path, _ = recorded(tmp_path, {}, TEXT, duration=0.05)
    with pytest.raises(ConfigError, match=text):
        what_if(path, [setting])


def test_what_if_a_models_parameter_had_not_changed(tmp_path):
    """The samples stay as they were recorded, and so does all that follows from them."""
    path, _ = recorded(tmp_path, {49: [("parameters.body.stiffness", 160.0)]})
    found = {one.name for one in what_if(path, ["parameters.body.stiffness=40"]).signals}
    assert found == {"parameter:body.stiffness"}
