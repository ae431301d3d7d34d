"""Errors of signals that the session calculates from the motion of both masses.

Truth: the exponential of the coupled system's matrix, or an integration with tight tolerances, both
by scipy.
"""

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from hilrt import simulate
from hilrt.reliability.estimates import GAIN_RANGE_CHANNELS, PROBED, RENEWED

MODELS = Path(__file__).parents[2] / "bench_configs" / "models"
OWN, COUPLING, CUBIC = 10.0, 100.0, 40.0  # N/m, N/m, N/m^3
SESSION = """
session = {{ name = "calculated", duration = 3.0, pace = "asap" }}
master = {{ step = {step}, extrapolation = {{ order = {order} }} }}
[subsystems]
one = {{ adapter = "inprocess", model = "contact_oscillator:ContactMass", path = "{models}", \
params = {{ x = 1.0, v = 0.0, m = 1.0, c = 10.0 }} }}
two = {{ adapter = "inprocess", model = "contact_oscillator:ContactMass", path = "{models}", \
params = {{ x = 0.0, v = 0.0, m = 2.0, c = 10.0 }}, every = {every} }}
[[calculated]]
name = "stretch"
unit = "m"
expression = "two.x - one.x"
[[calculated]]
name = "f"
unit = "N"
expression = "{force}"
[[connections]]
from = "calculated.f"
to = "one.f"
[[connections]]
from = "calculated.f"
to = "two.f"
gain = -1.0
"""
LINEAR = "unit(100, 'N/m') * stretch"
HARDENING = "unit(100, 'N/m') * stretch + unit(40, 'N/m^3') * stretch ** 3"
LAG = 1e-3  # s
FILTERED = f"unit(100, 'N/m') * lowpass(stretch, {LAG})"
EVIDENCE = '[reliability]\nrepeat = "half"\n'


def linear_motion(t):
    A = np.zeros((4, 4))
    A[0, 1] = A[2, 3] = 1.0
    A[1, [0, 2]] = -(OWN + COUPLING), COUPLING
    A[3, [0, 2]] = COUPLING / 2.0, -(OWN + COUPLING) / 2.0
    return np.array([expm(A * at) @ [1.0, 0.0, 0.0, 0.0] for at in t])


def filtered_motion(t):
    """With the low pass of the stretch, which is part of the system, as a fifth state."""
    A = np.zeros((5, 5))
    A[0, 1] = A[2, 3] = 1.0
    A[1, [0, 4]] = -OWN, COUPLING
    A[3, [2, 4]] = -OWN / 2.0, -COUPLING / 2.0
    A[4, [0, 2, 4]] = -1.0 / LAG, 1.0 / LAG, -1.0 / LAG
    return np.array([expm(A * at) @ [1.0, 0.0, 0.0, 0.0, -1.0] for at in t])


def hardening_motion(t):
    def change(_, s):
        f = COUPLING * (s[2] - s[0]) + CUBIC * (s[2] - s[0]) ** 3
        return [s[1], f - OWN * s[0], s[3], 0.5 * (-f - OWN * s[2])]

    found = solve_ivp(
        change, (0.0, t[-1]), [1.0, 0.0, 0.0, 0.0], "DOP853", t, rtol=1e-10, atol=1e-12
    )
    return found.y.T


def run(folder, force, step, order=0, every=1, more=""):
    path = folder / "forces.toml"
    keys = {"step": step, "order": order, "every": every, "force": force, "models": MODELS}
    path.write_text(SESSION.format(**keys) + more)
    return simulate(path)


def true_errors(log, motion, force, names=("calculated.f", "one.x", "two.x")):
    """Error and spread of each named signal, RMS over time."""
    s = motion(log.t)
    found = {}
    for name, truth in (("calculated.f", force(s)), ("one.x", s[:, 0]), ("two.x", s[:, 2])):
        if name in names:
            error = (log[name] - truth)[np.isfinite(log[name])]
            found[name] = float(np.sqrt(np.mean(error**2))), float(np.std(truth))
    return found


def linear_force(s):
    return COUPLING * (s[:, 2] - s[:, 0])


def hardening_force(s):
    return linear_force(s) + CUBIC * (s[:, 2] - s[:, 0]) ** 3


@pytest.mark.parametrize(
    ("step", "order", "least", "most"),
    [(0.01, 0, 0.7, 1.1), (0.002, 0, 0.1, 0.15), (0.005, 1, 5e-4, 0.02)],
)
def test_it_is_followed_like_that_of_a_plain_connection(tmp_path, step, order, least, most):
    result = run(tmp_path, LINEAR, step, order)
    for name, (true, spread) in true_errors(result.log, linear_motion, linear_force).items():
        estimated = result.summary["estimated_error"][name]
        assert least * spread < true < most * spread
        assert estimated["how"] == PROBED
        assert estimated["low"] <= true <= estimated["high"]
        assert 0.9 * true <= estimated["value"] <= 1.1 * true
    assert (result.verdict == "good") == (most < 0.05)


@pytest.mark.parametrize(
    ("step", "order", "least", "most"), [(0.001, 0, 0.1, 0.5), (0.0025, 1, 0.003, 0.01)]
)
def test_that_of_a_hardening_spring_is_followed_along_the_way(tmp_path, step, order, least, most):
    result = run(tmp_path, HARDENING, step, order)
    for name, (true, spread) in true_errors(result.log, hardening_motion, hardening_force).items():
        estimated = result.summary["estimated_error"][name]
        assert least * spread < true < most * spread
        assert estimated["how"].startswith(RENEWED)
        assert estimated["low"] <= true <= estimated["high"]
        assert 0.5 * true <= estimated["value"] <= 2.0 * true
    assert (result.verdict == "good") == (most < 0.05)


@pytest.mark.parametrize("more", ["", EVIDENCE])
def test_behind_a_filter_it_is_not_taken_for_zero(tmp_path, more):
    result = run(tmp_path, FILTERED, 0.002, more=more)
    names = ("calculated.f",)  # all that a repeated session keeps
    errors = true_errors(result.log, filtered_motion, lambda s: COUPLING * s[:, 4], names)
    true, spread = errors["calculated.f"]
    assert true > 0.1 * spread
    estimated = result.summary["estimated_error"]["calculated.f"]
    assert result.verdict != "good"
    assert true <= estimated["high"]
    if not more:
        assert estimated["how"] == GAIN_RANGE_CHANNELS


def test_a_slow_source_of_a_channel_is_seen_at_its_own_points(tmp_path):
    """A mass that communicates every tenth step makes the channel wrong between its points."""
    result = run(tmp_path, LINEAR, 0.001, every=10)
    assert result.verdict != "good"
    for name, (true, spread) in true_errors(result.log, linear_motion, linear_force).items():
        estimated = result.summary["estimated_error"][name]
        assert true > 0.05 * spread
        assert estimated["how"] == GAIN_RANGE_CHANNELS
        assert true <= estimated["high"]
