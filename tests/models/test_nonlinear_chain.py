"""The nonlinear chain: its equations, its integration, and what order control makes of it."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from bench_configs.models.nonlinear_chain import Segment
from hilrt.check.check import check_file
from hilrt.config.session_file import load_session
from hilrt.solver import InputPolynomial
from tests.stepping import Stepping

SESSION = Path(__file__).parents[2] / "bench_configs" / "nonlinear_chain.toml"


def reference(segments: list[Segment], duration: float):
    """The chain in one piece: a function of times [s] that gives (2, masses, times)."""
    ends = np.cumsum([0] + [s.state.shape[1] for s in segments])

    def derivative(t, flat):
        state = flat.reshape(2, -1)
        walls = np.pad(state, ((0, 0), (1, 1)))
        parts = [
            s.derivative(t, state[:, a:b], np.concatenate((walls[:, a], walls[:, b + 1])))
            for s, a, b in zip(segments, ends[:-1], ends[1:], strict=True)
        ]
        return np.concatenate(parts, axis=1).ravel()

    start = np.concatenate([s.state for s in segments], axis=1)
    solution = solve_ivp(
        derivative,
        (0.0, duration),
        start.ravel(),
        method="DOP853",
        rtol=1e-8,
        atol=1e-10,
        max_step=2e-3,  # sees the impulses
        dense_output=True,
    )
    return lambda t: solution.sol(t).reshape(2, int(ends[-1]), -1)


def test_the_equations():
    segment = Segment([0.01, -0.02], [1.0, 3.0], m=2.0, c=100.0, d=5.0, C=1e4, D=0.5)
    u = np.array([0.05, -1.0, 0.0, 2.0])

    def pull(stretch, rate):
        return 100.0 * stretch + 5.0 * rate + 1e4 * stretch**3 + 0.5 * rate**3

    left, middle, right = pull(0.01 - 0.05, 2.0), pull(-0.03, 2.0), pull(0.02, -1.0)
    change = segment.derivative(0.0, segment.state, u)
    np.testing.assert_allclose(change[0], [1.0, 3.0])
    np.testing.assert_allclose(change[1], [(middle - left) / 2.0, (right - middle) / 2.0])


def test_impulses_come_again_and_again():
    segment = Segment([0.0], [0.0], force=7.0, first=0.1, period=0.4, length=0.05, rise=1e-3)
    for begin in (0.1, 0.5, 4.1):
        assert segment.impulse(begin) == pytest.approx(3.5)
        assert segment.impulse(begin + 0.025) == pytest.approx(7.0)
        assert segment.impulse(begin + 0.05) == pytest.approx(3.5)
        assert segment.impulse(begin + 0.2) == pytest.approx(0.0, abs=1e-6)
        assert segment.impulse(begin - 0.02) == pytest.approx(0.0, abs=1e-6)
    assert segment.impulse(-0.3) == pytest.approx(0.0, abs=1e-6)  # none before the first


def test_integration_is_of_fourth_order_and_follows_the_inputs():
    u = InputPolynomial(0.0, np.array([[0.01, 0.5, 0.0, -1.0], [0.5, 3.0, -1.0, 0.0]]))
    kwargs = {"x": [0.01, -0.01, 0.0], "v": [1.0, 0.0, -1.0], "force": 500.0, "rise": 0.01}
    exact = solve_ivp(
        lambda t, s: Segment(**kwargs).derivative(t, s.reshape(2, 3), u(t)).ravel(),
        (0.0, 0.05),
        Segment(**kwargs).state.ravel(),
        method="DOP853",
        rtol=1e-12,
        atol=1e-14,
    ).y[:, -1]
    errors = []
    for micro_step in (1e-3, 5e-4):
        segment = Segment(**kwargs, micro_step=micro_step)
        segment.advance(0.0, 0.05, u)
        errors.append(np.abs(segment.state.ravel() - exact).max())
    assert errors[0] < 1e-3
    assert 13.0 < errors[0] / errors[1] < 19.0


def test_outputs_are_the_ends_and_the_state_can_be_restored():
    segment = Segment([0.01, 0.02, 0.03], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(segment.initialize(0.0, np.zeros(4)).y, [0.01, 1.0, 0.03, 3.0])
    assert segment.can_restore()
    saved = segment.save_state()
    hold = InputPolynomial(0.0, np.zeros((1, 4)))
    first = segment.advance(0.0, 0.01, hold).y
    assert not np.allclose(first, [0.01, 1.0, 0.03, 3.0])
    segment.restore_state(saved)
    np.testing.assert_array_equal(segment.advance(0.0, 0.01, hold).y, first)


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="2 displacements and 1 velocities"):
        Segment([0.0, 0.0], [0.0])


def test_the_session_can_be_run():
    assert [p for p in check_file(SESSION) if p.level == "error"] == []


DURATION = 0.4


class Run(NamedTuple):
    steps: int
    error: float  #: NRMSE of all outputs over continuous time


def make_segments() -> dict[str, Segment]:
    """The session's segments."""
    tables = load_session(SESSION).tables
    return {
        name: Segment(**{**options.params, "micro_step": 5e-4})
        for name, options in tables.subsystems.items()
    }


@pytest.fixture(scope="module")
def exact():
    return reference(list(make_segments().values()), DURATION + 0.1)


def simulate(exact, rtol: float, order: int | None) -> Run:
    """The session at another tolerance; with a fixed order, or as its order control chooses."""
    ends = ("first", "last"), ("last", "first")
    connections = [
        {"from": f"{a}.{q}_{mine}", "to": f"{b}.{q}_{side}"}
        for (a, b), (mine, _), side in (
            (("left", "middle"), ends[1], "left"),
            (("middle", "right"), ends[1], "left"),
            (("middle", "left"), ends[0], "right"),
            (("right", "middle"), ends[0], "right"),
        )
        for q in "xv"
    ]
    master = {
        "step": 1e-5,
        "step_control": {
            "method": "local",
            "rtol": rtol,
            "atol": {"*.x_*": 1e-2 * rtol, "*.v_*": rtol},
            "maximum": 5e-3,
        },
    }
    if order is None:
        master["order_control"] = {"method": "derivatives", "maximum": 4}
    else:
        master["extrapolation"] = {"order": order}
    stepping = Stepping(make_segments(), master=master, connections=connections)
    rows = stepping.run(DURATION, lambda s: (s.t, s.state.outputs["y"].copy()))
    t = np.array([row[0] for row in rows])
    y = np.array([row[1] for row in rows])
    truth = exact(t)
    picked = [(q, mass) for mass in range(6) for q in (0, 1)]  # two masses each: all are ends
    z = np.array([truth[q, mass] for q, mass in picked]).T
    weight = np.gradient(t)[:, None]
    square = (weight * (y - z) ** 2).sum(0) / (weight * (z - z.mean(0)) ** 2).sum(0)
    return Run(len(rows) - 1, math.sqrt(square.mean()))


def steps_at(error: float, runs: list[Run]) -> float:
    """Steps that a fixed order needs for an error, between runs at several tolerances.

    Where all runs are more accurate, the fewest steps; where all are less, the most, as more yet
    would be needed.
    """
    runs = sorted(runs, key=lambda run: run.error)
    errors = np.log([run.error for run in runs])
    steps = np.log([run.steps for run in runs])
    return float(np.exp(np.interp(np.log(error), errors, steps)))


@pytest.mark.parametrize(
    ("order", "tolerances"),
    [
        (0, [0.09]),  # 0.03 in 750 steps: hopeless
        (1, [3e-3]),  # the errors wanted are far below what it reaches in as many steps
        (2, [1e-2, 3e-4]),
        (3, [1e-2, 3e-4]),
        (4, [1.0]),  # stability alone asks for so many steps
    ],
)
def test_order_control_needs_fewer_steps_than_any_fixed_order(exact, varied, order, tolerances):
    fixed = [simulate(exact, rtol, order) for rtol in tolerances]
    for run in varied:
        assert run.steps < 0.9 * steps_at(run.error, fixed)


@pytest.fixture(scope="module")
def varied(exact) -> list[Run]:
    runs = [simulate(exact, rtol, None) for rtol in (3e-3, 1e-3, 3e-4)]
    assert runs[0].error > runs[1].error > runs[2].error
    assert runs[2].error < 5e-5
    return runs
