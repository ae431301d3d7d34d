"""The first step of a variable one: the step to which the control converges at the start."""

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import brentq

import hilrt
from hilrt.config.session_file import open_session
from hilrt.studies.advise_session import advise_session
from hilrt.studies.first_step import first_step_by_tolerance
from tests.studies.test_settings_advice import WHOLE

CONFIGS = Path(__file__).resolve().parents[2] / "bench_configs"
CONTROL = "master.step_control"
#: The masses as they are, and held before they are released: no output has a first derivative.
MOVING, RELEASED = {}, {"v": 0.0, "x": 1.0}
PLAIN = {
    "session.duration": 0.3,
    "master.extrapolation.order": 0,
    "bonds.spring.correction.method": "none",
    f"{CONTROL}.method": "local",
}


def masses(start, **control):
    """The two-mass session from other initial values, its first mass at `start`."""
    keys = {f"{CONTROL}.{key}": value for key, value in control.items()}
    keys |= {f"subsystems.mass1.params.{key}": value for key, value in start.items()}
    keys |= {"subsystems.mass2.params.v": 0.0} if start else {}
    return PLAIN | keys


def steps(name, settings, initial, duration=1.0):
    """Steps that the control makes from a first one, s."""
    more = {f"{CONTROL}.initial": initial, "session.duration": duration}
    file = open_session(CONFIGS / name, settings | more)
    log = hilrt.simulate(file).log
    return np.diff(log.time(next(iter(log))))


@pytest.mark.parametrize("start", [MOVING, RELEASED], ids=["moving", "released"])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-3])
def test_it_is_the_step_to_which_the_local_error_leads_from_a_tiny_one(start, tolerance):
    settings = masses(start, rtol=tolerance, atol=50.0 * tolerance)
    found = first_step_by_tolerance(open_session(CONFIGS / "two_mass.toml", settings), 0.01)
    assert found is not None
    long = 40.0 * found.step_s
    h = steps("two_mass.toml", settings, 1e-2 * found.step_s, long)
    risen = np.flatnonzero(h[1:] < 1.9 * h[:-1])[0]
    settled = h[risen + 8]
    assert 0.5 * found.step_s < settled < 2.0 * found.step_s
    # From the step that is advised it settles at once; a held force lags by its direct answer.
    after = steps("two_mass.toml", settings, found.step_s, long)[:8]
    assert ((after > 0.7 * found.step_s) & (after < 2.1 * found.step_s)).all()


def test_a_released_mass_is_bound_as_in_the_exact_solution():
    """Nothing has a first derivative, and the force answers both masses at once.

    The error of one of three inputs counts 1/√3, times the control's factor of 6.
    """
    settings = masses(RELEASED, rtol=0.0)
    settings |= {f"subsystems.mass{i}.params.integrator": "exact" for i in (1, 2)}
    settings[f"{CONTROL}.atol"] = {"mass2.force": 0.5}
    found = first_step_by_tolerance(open_session(CONFIGS / "two_mass.toml", settings), 0.1)
    start = np.array([1.0, 0.0, 0.0, 0.0])

    def force_moved(h):
        return abs(np.array([100.0, 0.0, -100.0, 0.0]) @ (expm(WHOLE * h) @ start - start))

    exact = brentq(lambda h: force_moved(h) - 0.5 * np.sqrt(3.0) / 6.0, 1e-6, 0.1)
    assert found is not None
    assert found.step_s == pytest.approx(exact, rel=0.03)
    assert found.signal == "mass2.force"


def test_defects_of_the_first_step_are_those_tolerated():
    """The example of Glumac and Kovačić (2023), whose control begins with 0.1 ms and rises."""
    settings = {f"{CONTROL}.method": "pi", f"{CONTROL}.tolerance": 0.003}
    name = "two_mass_rotational.toml"
    found = first_step_by_tolerance(open_session(CONFIGS / name, settings), 1.0)
    assert found is not None
    h = steps(name, settings, found.step_s)
    assert h[1] == pytest.approx(h[0], rel=0.1)
    shorter = steps(name, settings, 0.25 * found.step_s)
    assert shorter[1] > 1.1 * shorter[0]
    assert len(h) < len(steps(name, settings, 1e-4))


def test_what_does_not_move_bounds_nothing_and_what_is_not_known_is_not_guessed():
    still = masses({"v": 0.0, "x": 0.0}, rtol=1e-3, atol=1e-3)
    file = open_session(CONFIGS / "two_mass.toml", still)
    assert first_step_by_tolerance(file, 0.01) == (0.01, "")
    for method in ("fixed", "ecco"):
        other = open_session(file, {f"{CONTROL}.method": method})
        assert first_step_by_tolerance(other, 0.01) is None


def test_advice_begins_with_it():
    settings = masses(RELEASED, rtol=1e-2, atol=0.5)
    file = open_session(CONFIGS / "two_mass.toml", settings)
    found = advise_session(file, 0.05, budget=1e6, search_s=1e6)
    assert found.first_step == first_step_by_tolerance(file, 0.3 / 40.0).step_s
    assert "is wrong by what the control tolerates" in found.notes[-1]
