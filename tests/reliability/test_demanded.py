"""What a test sequence sets is demanded, as a stimulus is: neither is an error of the coupling.

Two masses, of which one owns the spring and damper between them; both are exact. Their truth is the
coupled system's, by its matrix exponential.
"""

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm

import hilrt
from hilrt.session.result import Result

H, DURATION, AT, FORCE = 0.002, 2.0, 0.2, 50.0
M1, K1, KC, CC, M2, K2 = 1.0, 40.0, 100.0, 2.0, 0.5, 60.0
SESSION = f"""
[session]
name = "pushed"
duration = {DURATION}
pace = "asap"

[master]
step = {H}
extrapolation = {{ order = 1 }}

[subsystems.mass]
adapter = "inprocess"
model = "hilrt.models.linear:Linear"
inputs = {{ push = {{ start = 0.0 }} }}
[subsystems.mass.params]
A = [[0.0, 1.0], [{-(K1 + KC) / M1}, {-CC / M1}]]
B = [[0.0, 0.0, 0.0], [{KC / M1}, {CC / M1}, {1.0 / M1}]]
C = [[{KC}, {CC}], [1.0, 0.0]]
D = [[{-KC}, {-CC}, 0.0], [0.0, 0.0, 0.0]]
inputs = ["x2 [m]", "v2 [m/s]", "push [N]"]
outputs = ["force [N]", "x [m]"]

[subsystems.wall]
adapter = "inprocess"
model = "hilrt.models.linear:Linear"
[subsystems.wall.params]
A = [[0.0, 1.0], [{-K2 / M2}, 0.0]]
B = [[0.0], [{1.0 / M2}]]
C = [[1.0, 0.0], [0.0, 1.0]]
inputs = ["force [N]"]
outputs = ["x [m]", "v [m/s]"]

[[connections]]
from = "mass.force"
to = "wall.force"
[[connections]]
from = "wall.x"
to = "mass.x2"
[[connections]]
from = "wall.v"
to = "mass.v2"
"""
SEQUENCE = f"""
[subsystems.test]
adapter = "sequence"
sequence = "{Path(__file__).with_name("push_sequence.py")}:Push"
params = {{ force = {FORCE}, at = {AT} }}
[[connections]]
from = "test.push"
to = "mass.push"
"""
STIMULUS = f"""
[[stimuli]]
name = "push"
input = "mass.push"
start = {AT}
segments = [{{ shape = "hold", value = {FORCE} }}]
"""


def pushed(folder: Path, text: str) -> Result:
    path = folder / "pushed.toml"
    path.write_text(SESSION + text, encoding="utf-8")
    return hilrt.simulate(path)


def true_velocity(t: np.ndarray) -> np.ndarray:
    """Of the second mass, m/s, from rest under a force that is stepped at `AT`."""
    A = np.array(
        [
            [0.0, 1.0, 0.0, 0.0],
            [-(K1 + KC) / M1, -CC / M1, KC / M1, CC / M1],
            [0.0, 0.0, 0.0, 1.0],
            [KC / M2, CC / M2, -(KC + K2) / M2, -CC / M2],
        ]
    )
    rest = np.linalg.solve(A, -np.array([0.0, FORCE / M1, 0.0, 0.0]))
    away = [rest - expm(A * max(s, 0.0)) @ rest for s in t - AT]
    return np.array(away)[:, 3]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pushed")
    return pushed(folder, SEQUENCE), pushed(folder, STIMULUS)


def test_a_sequence_has_the_estimate_of_a_stimulus(both):
    by_sequence, by_stimulus = (result.summary["estimated_error"] for result in both)
    assert both[0].verdict == both[1].verdict == "good", both[0].summary["reasons"]
    for name, expected in by_stimulus.items():
        assert by_sequence[name]["how"] == expected["how"] == "sensitivities"
        assert by_sequence[name]["value"] == pytest.approx(expected["value"], rel=0.02)


def test_the_estimate_beside_a_sequence_is_the_true_error(both):
    log, found = both[0].log, both[0].summary["estimated_error"]["wall.v"]
    push = log["mass.push:sent"]
    assert log.t[np.flatnonzero(push)[0]] == pytest.approx(AT, abs=2.5 * H)
    late = log.t[np.flatnonzero(push)[0]] - AT
    error = log["wall.v"] - true_velocity(log.t - late)
    assert found["value"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=0.15)


def test_what_a_sequence_sets_has_no_error(both):
    assert both[0].summary["estimated_error"]["test.push"]["value"] == 0.0
    assert not both[0].log["test.push:estimated_error"].any()
