"""A coupling force that the session calculates from the motion of both masses has an error.

Truth: the exponential of the coupled system's matrix, by scipy.
"""

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm

from hilrt import simulate
from hilrt.reliability.estimates import GAIN_RANGE_CHANNELS

MODELS = Path(__file__).parents[2] / "bench_configs" / "models"
OWN, COUPLING = 10.0, 100.0  # N/m
SESSION = """
session = {{ name = "calculated", duration = 3.0, pace = "asap" }}
master = {{ step = {step}, extrapolation = {{ order = 0 }} }}
[subsystems]
one = {{ adapter = "inprocess", model = "contact_oscillator:ContactMass", path = "{models}", \
params = {{ x = 1.0, v = 0.0, m = 1.0, c = 10.0 }} }}
two = {{ adapter = "inprocess", model = "contact_oscillator:ContactMass", path = "{models}", \
params = {{ x = 0.0, v = 0.0, m = 2.0, c = 10.0 }} }}
[[calculated]]
name = "stretch"
unit = "m"
expression = "two.x - one.x"
[[calculated]]
name = "f"
unit = "N"
expression = "unit(100, 'N/m') * stretch"
[[connections]]
from = "calculated.f"
to = "one.f"
[[connections]]
from = "calculated.f"
to = "two.f"
gain = -1.0
"""
EVIDENCE = '[reliability]\nrepeat = "half"\n'


def true_force(t):
    A = np.zeros((4, 4))
    A[0, 1] = A[2, 3] = 1.0
    A[1, [0, 2]] = -(OWN + COUPLING), COUPLING
    A[3, [0, 2]] = COUPLING / 2.0, -(OWN + COUPLING) / 2.0
    states = np.array([expm(A * at) @ [1.0, 0.0, 0.0, 0.0] for at in t])
    return COUPLING * (states[:, 2] - states[:, 0])


@pytest.mark.parametrize(("step", "most"), [(0.01, 2.0), (0.002, 0.5)])
def test_its_error_is_not_taken_for_zero(tmp_path, step, most):
    path = tmp_path / "forces.toml"
    outcomes = []
    for more in ("", EVIDENCE):
        path.write_text(SESSION.format(step=step, models=MODELS) + more)
        result = simulate(path)
        outcomes.append((result.verdict, result.summary["estimated_error"]["calculated.f"]))
        log = result.log
    error = log["calculated.f"] - true_force(log.t)
    true, spread = np.sqrt(np.mean(error**2)), np.std(true_force(log.t))
    assert 0.05 * spread < true < most * spread
    (word, guessed), (repeated_word, repeated) = outcomes
    assert word != "good"
    assert guessed["how"] == GAIN_RANGE_CHANNELS
    assert true <= guessed["high"]
    assert repeated_word != "good"
    assert repeated["low"] <= true <= repeated["high"]
