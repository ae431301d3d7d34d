"""The two-mass oscillator with contact (paper, section 6.1), by all five estimators.

The contact is softer than the paper's (B = 1e4 instead of 1e7 1/m), which would last 4 ns: session
time has a resolution of 1 ns.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from hilrt.session.simulate import simulate

SESSION = Path(__file__).parents[2] / "bench_configs" / "contact_oscillator.toml"
DURATION = 0.1  # s; with two contacts
ESTIMATORS = {
    "ExLocal": ("explicit", "higher_degree"),
    "ExMilne": ("explicit", "milne"),
    "ExSLocal": ("explicit", "inputs"),
    "ImMilne": ("implicit", "milne"),
    "ImSLocal": ("implicit", "inputs"),
}
SIMPLIFIED = ("ExSLocal", "ImSLocal")
OTHERS = ("ExLocal", "ExMilne", "ImMilne")


def rates(t: float, y: np.ndarray) -> list[float]:
    """Eq. 35, monolithic; x1, v1, x2, v2."""
    x1, v1, x2, v2 = y.tolist()
    f = 1e5 * (x2 - x1) + 1e5 * (x2 - x1) ** 3 + 1e-2 * (v2 - v1) ** 3
    contact = -1e-2 * math.exp(min(1e4 * x1, 30.0))
    return [v1, (f - 1e5 * x1 + contact) / 50.0, v2, -f - 1e3 * x2]


class Run(NamedTuple):
    """Steps, degrees and repetitions of a run, where a contact is near, and the error (eq. 36)."""

    h: np.ndarray
    order: np.ndarray
    repetitions: np.ndarray
    near: np.ndarray
    error: float


@pytest.fixture(scope="module")
def reference() -> Any:
    y0 = [-2.0, 100.0, 0.0, -200.0]
    options = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-11, "max_step": 2e-5}
    return solve_ivp(rates, (0.0, DURATION + 0.01), y0, dense_output=True, **options)


@pytest.fixture(scope="module")
def runs(reference: Any) -> dict[str, Run]:
    turned = reference.t[1:][np.diff(np.sign(reference.y[1])) < 0]
    contacts = turned[(np.abs(reference.sol(turned)[0]) < 0.01) & (turned < DURATION)]
    assert len(contacts) == 2
    found = {}
    for name, (scheme, estimator) in ESTIMATORS.items():
        result = simulate(
            SESSION,
            {
                "session.duration": DURATION,
                "master.scheme": scheme,
                "master.step_control.estimator": estimator,
            },
        )
        assert not result.fault
        log = result.log
        assert log["cut:error"][1:].max() <= 1.0
        z = np.array([log[signal] for signal in ("one.x", "one.v", "two.x", "two.v")])
        truth = reference.sol(log.t)
        spread = ((truth - truth.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        error = float(np.linalg.norm(np.sqrt(((truth - z) ** 2).sum(axis=1) / spread)))
        near = np.abs(log.t[:-1, None] - contacts).min(axis=1) < 1e-4
        order, again = log["master:order"][:-1], log["cut:repetitions"]
        found[name] = Run(np.diff(log.t), order, again, near, error)
    return found


@pytest.mark.parametrize("name", ESTIMATORS)
def test_step_and_order_fall_at_the_contacts(runs: dict[str, Run], name: str) -> None:
    """Figs 12 and 13."""
    h, order, repetitions, near, _ = runs[name]
    assert h[near].min() < 0.05 * np.median(h[~near])
    assert order[near].min() <= np.median(order[~near]) - 2
    assert repetitions[1:][near].sum() > 0


def test_the_simplified_estimators_step_smallest_there(runs: dict[str, Run]) -> None:
    """Fig. 12: the coupling force jumps, and the states do not."""
    smallest = {name: run.h[run.near].min() for name, run in runs.items()}
    most = max(smallest[name] for name in SIMPLIFIED)
    assert most < 0.3 * min(smallest[name] for name in OTHERS)


def test_the_global_errors(runs: dict[str, Run]) -> None:
    """The explicit ones of states learn of a contact by the samples after it, others within it."""
    errors = {name: run.error for name, run in runs.items()}
    assert max(errors["ImMilne"], errors["ImSLocal"]) < 3e-4
    assert errors["ExSLocal"] < 3e-3
    assert max(errors["ExLocal"], errors["ExMilne"]) < 0.05
    assert min(errors["ExLocal"], errors["ExMilne"]) > 3.0 * errors["ExSLocal"]


def test_the_implicit_scheme_by_states_needs_the_fewest_steps(runs: dict[str, Run]) -> None:
    steps = {name: len(run.h) for name, run in runs.items()}
    assert min(steps, key=steps.__getitem__) == "ImMilne"


def test_both_estimates_of_a_step_made_twice_agree(runs: dict[str, Run]) -> None:
    """Masses answer to L^k and L^{k+1} alike but for the constants: the steps are the same."""
    one, two = runs["ExLocal"], runs["ExMilne"]
    assert len(one.h) == pytest.approx(len(two.h), rel=0.02)
    assert one.error == pytest.approx(two.error, rel=0.05)
