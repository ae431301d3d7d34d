"""The engine's model against the emulated bench that it is the model of."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hilrt.models.engine_on_dyno import EngineOnDyno
from hilrt.solver import InputPolynomial, Solver
from tests.sequences.engine_without_bus import EngineWithoutBus

H, SETTLED = 1e-3, 1000
START = np.array([150.0, 15.0])


def answer(solver: Solver, demand: int, amplitude: float, frequency: float) -> np.ndarray:
    """Torque and speed per unit of a demand at a frequency [Hz]; amplitude and phase."""
    solver.initialize(0.0, START)
    omega, steps, seen = 2.0 * math.pi * frequency, SETTLED + round(2.0 / frequency / H), []
    for k in range(steps):
        u = np.array([START, np.zeros(2)])
        u[0, demand] += amplitude * math.sin(omega * k * H)
        u[1, demand] = amplitude * omega * math.cos(omega * k * H)
        seen.append(solver.advance(k * H, H, InputPolynomial(k * H, u)).y)
    y, t = np.array(seen)[SETTLED:], np.arange(SETTLED + 1, steps + 1) * H
    found: np.ndarray = 2j * np.mean((y - y.mean(axis=0)).T * np.exp(-1j * omega * t), axis=1)
    return found / amplitude


@pytest.mark.parametrize(("demand", "amplitude"), [(0, 4.0), (1, 4.0)])
@pytest.mark.parametrize("frequency", [2.0, 8.0])
def test_the_torque_answers_as_that_of_the_emulated_bench(
    demand: int, amplitude: float, frequency: float
) -> None:
    """With the engine's inertia: a model without one answered a hundredth of that to the speed."""
    bench, model = (
        answer(make(), demand, amplitude, frequency) for make in (EngineWithoutBus, EngineOnDyno)
    )
    assert abs(model[0] - bench[0]) < 0.2 * abs(bench[0])
    if demand == 0:
        assert abs(model[1] - bench[1]) < 0.1


def test_a_step_that_is_taken_back_comes_out_the_same() -> None:
    engine, demands = EngineOnDyno(), InputPolynomial(0.0, START[None] + 10.0)
    engine.initialize(0.0, START)
    state = engine.save_state()
    first = engine.advance(0.0, 2.5e-3, demands).y
    engine.restore_state(state)
    np.testing.assert_array_equal(engine.advance(0.0, 2.5e-3, demands).y, first)
