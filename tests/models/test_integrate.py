"""Benchmark problems without an error of integration, against scipy's and against tiny steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from bench_configs.models.coupled_pendula import Pendulum1, Pendulum2
from bench_configs.models.hydraulic_crane import FORCE0, LENGTH0, Hydraulics, Mechanics
from bench_configs.models.nonlinear_chain import Segment
from bench_configs.models.nonlinear_coupling import NonlinearCoupling
from bench_configs.models.nonlinear_oscillator import NonlinearMass1, NonlinearMass2
from bench_configs.models.two_mass_rotational import Side1, Side2
from hilrt.models.integrate import ExactSteps, tight_step
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.solver import InputPolynomial, Solver
from tests.stepping import Stepping


def test_the_adaptive_steps_are_those_of_scipy_with_a_tight_tolerance():
    # stiff at times: the step has to shrink on the way
    def rate(t, x, u):
        return np.array([x[1], (20.0 * (1.0 - x[0] ** 2)) * x[1] - x[0] + u[0]])

    u = InputPolynomial(0.3, np.array([[0.2], [1.0], [-3.0]]))
    expected = solve_ivp(
        lambda t, x: rate(t, x, u(t)), (0.3, 1.8), [2.0, 0.0], "Radau", rtol=1e-11, atol=1e-12
    ).y[:, -1]
    found = tight_step(rate, np.array([2.0, 0.0]), 0.3, 1.5, u)
    np.testing.assert_allclose(found, expected, rtol=2e-7)


def test_from_rest_without_any_motion():
    u = InputPolynomial(0.0, np.zeros((1, 1)))
    found = tight_step(lambda t, x, u: -x, np.zeros(2), 0.0, 0.1, u)
    np.testing.assert_array_equal(found, 0.0)


def test_exact_steps_under_a_variable_step_keep_only_so_many_matrices():
    steps = ExactSteps(np.array([[-1.0]]), np.array([[1.0]]))
    for n in range(200):
        h = 0.01 + 1e-4 * n
        after = steps.step(np.ones(1), h, InputPolynomial(0.0, np.zeros((1, 1))))
        assert after[0] == pytest.approx(np.exp(-h))
    assert len(steps.discretized) <= 65


MODELS: dict[str, tuple[Callable[..., Solver], Any, float]] = {
    # model with its parameters, inputs (value and slope), and the tolerance of the comparison
    "mass 1": (lambda **p: Mass1(c=0.3, cc=0.2, x=1.0, **p), [[2.0, 3.0], [-5.0, 7.0]], 2e-6),
    "mass 2": (lambda **p: Mass2(c=0.3, x=0.2, **p), [[30.0], [500.0]], 2e-6),
    "root 1": (lambda **p: NonlinearMass1(x=1.0, cc=0.2, **p), [[2.0, 3.0], [-5.0, 7.0]], 2e-6),
    "root 2": (lambda **p: NonlinearMass2(x=0.2, **p), [[30.0], [500.0]], 2e-6),
    "pendulum 1": (
        lambda **p: Pendulum1([3.0, 0.0], cc=0.5, **p),
        [[2, 1, 0, 1], [0, 1, 1, 0]],
        1e-5,
    ),
    "pendulum 2": (lambda **p: Pendulum2(**p), [[1.0, 2.0], [-30.0, 10.0]], 2e-6),
    "mechanics": (lambda **p: Mechanics(**p), [[FORCE0], [1e5]], 2e-6),
    "hydraulics": (lambda **p: Hydraulics(**p), [[0.1, LENGTH0], [1.0, 0.1]], 2e-6),
    "nonlinear coupling": (
        lambda **p: NonlinearCoupling(1.5, v=3.0, **p),
        [[0.1, 2.0], [2.0, 50.0]],
        2e-6,
    ),
    "segment": (
        lambda **p: Segment([0.01, 0.0], [1.0, -1.0], force=9.0, **p),
        [[0.01, 0.5, 0, -1]] * 2,
        1e-8,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_papers_method_comes_to_the_exact_step_as_its_own_shrink(name):
    make, inputs, tolerance = MODELS[name]
    u = InputPolynomial(0.0, np.array(inputs, dtype=float))
    h = 0.004
    exact = make(integrator="exact").advance(0.0, h, u).y
    found = []
    for parts in (200, 400):
        fine = make(micro_step=h / parts)
        fine.initialize(0.0, u(0.0))
        found.append(fine.advance(0.0, h, u).y)
    # Richardson: what first order leaves of both is gone; higher orders are not harmed
    limit = 2.0 * found[1] - found[0]
    np.testing.assert_allclose(limit, exact, rtol=tolerance, atol=tolerance)


def test_rotational_sides_with_their_middle():
    for make, u in ((Side1, [[0.3], [4.0]]), (Side2, [[1.0], [-20.0]])):
        inputs, h = InputPolynomial(0.0, np.array(u)), 0.2
        sample = make(integrator="exact").advance(0.0, h, inputs)
        whole, half = make(), make()
        for n in range(4000):
            t = n * h / 4000
            y = whole.advance(t, h / 4000, InputPolynomial(t, np.array([inputs(t), u[1]]))).y
            if n < 2000:
                half = y
        np.testing.assert_allclose(sample.y, y, rtol=3e-4)
        np.testing.assert_allclose(sample.y_mid, half, rtol=3e-4)


@pytest.mark.parametrize("order", [0, 1])  # beyond, the first steps with fewer samples tell
def test_what_is_left_is_the_couplings_error_which_falls_with_its_order(order):
    whole = np.array([[0, 1, 0, 0], [-110, 0, 100, 0], [0, 0, 0, 1], [100, 0, -1100, 0.0]])
    errors, steps = [], np.array([2e-3, 1e-3, 5e-4])
    for h in steps:
        one, two = Mass1(integrator="exact"), Mass2(integrator="exact")
        s = Stepping(
            {"one": one, "two": two},
            master={"step": float(h), "extrapolation": {"order": order}},
            connections=[
                {"from": "one.force", "to": "two.force"},
                {"from": "two.x", "to": "one.x2"},
                {"from": "two.v", "to": "one.v2"},
            ],
        )
        s.run(0.2)
        exact = expm(whole * s.t) @ [0.0, 100.0, 0.0, -100.0]
        errors.append(np.abs(np.array([one.x, one.v, two.x, two.v]) - exact).max())
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert slope == pytest.approx(order + 1, abs=0.35)
