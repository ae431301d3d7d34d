from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linearise import (
    CannotLinearise,
    Constant,
    Differentiated,
    Exact,
    leaves,
    rebuilt,
)
from hilrt.link import Ports
from hilrt.models.linear import Linear
from hilrt.models.two_mass import Mass1
from hilrt.solver import InputPolynomial, Port, Sample, Solver

A = [[0.0, 1.0, 0.0], [-50.0, -0.5, 3.0], [0.0, -2.0, -1.0]]
B = [[0.0, 0.1], [1.0, 0.0], [0.5, -1.0]]
C = [[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]
D = [[0.0, 0.3], [0.0, 0.0]]


class Pair(NamedTuple):
    x: float
    v: float


def differentiated(solver: Solver, u0: Any = None, h: float = 0.01) -> Differentiated:
    hosted = HostedSolver(solver)
    u0 = np.zeros(hosted.n_inputs) if u0 is None else np.array(u0, dtype=float)
    hosted.initialize(0.0, u0)
    return Differentiated(hosted, u0, h)


def exact() -> Exact:
    return Exact(LinearSubsystem(*(np.array(m) for m in (A, B, C, D))), "")


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_a_linear_solver_differentiated_is_its_exact_step(rows: int) -> None:
    solver = Linear(A, B, C, D, x0=[1e3, -2.0, 0.4])
    found = differentiated(solver, u0=[5.0, -7.0])
    assert found.linear
    assert found.states == 3
    expected = exact().step_map(0.02, rows, 1)
    np.testing.assert_allclose(found.step_map(0.02, rows, 1), expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(solver.x, [1e3, -2.0, 0.4])  # left as it was


def test_the_exact_step_is_what_the_solver_does() -> None:
    solver = Linear(A, B, C, D, x0=[1.0, 2.0, 3.0])
    a = np.array([[0.5, -1.0], [2.0, 0.3]])
    h = 0.1
    sample = solver.advance(0.0, h, InputPolynomial(0.0, a / np.array([[1.0], [h]])))
    end = exact().step_map(h, 2, 0) @ np.concatenate([[1.0, 2.0, 3.0], a.ravel()])
    np.testing.assert_allclose(end, np.concatenate([solver.x, sample.y]), rtol=1e-12)


class Pendulum(Solver):
    """Not linear, with a gear that is no state, and states first written as whole numbers."""

    inputs = (Port("torque"),)
    outputs = (Port("angle"),)

    def __init__(self, angle: float = 1, speed: float = 0) -> None:
        self.motion, self.gear, self.label = {"angle": angle, "speed": speed}, 2, "up"

    def initialize(self, t0: float, u0: np.ndarray) -> Sample:
        return Sample(np.array([float(self.motion["angle"])]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        ratio = [1.0, 2.0, 3.0][self.gear]
        angle, speed = self.motion["angle"], self.motion["speed"]
        speed = speed + h * (ratio * float(u(t)[0]) - np.sin(angle))
        self.motion = {"angle": float(angle + h * speed), "speed": float(speed)}
        return Sample(np.array([self.motion["angle"]]))

    def save_state(self) -> Any:
        return dict(self.motion), self.gear, self.label

    def restore_state(self, state: Any) -> None:
        motion, self.gear, self.label = state
        self.motion = dict(motion)


def test_about_its_state_where_a_solver_is_not_linear() -> None:
    found = differentiated(Pendulum())
    assert not found.linear
    assert "not linear" in found.source
    h, stiffness = 0.01, np.cos(1.0)
    speed = [-h * stiffness, 1.0, 3.0 * h]
    angle = [1.0 - h * h * stiffness, h, 3.0 * h * h]
    np.testing.assert_allclose(found.step_map(h, 1, 0), [angle, speed, angle], atol=1e-8)


def test_what_a_linear_solver_only_adds_up_leaves_it_linear() -> None:
    class Counting(Linear):
        energy = 0.0

        def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
            sample = super().advance(t, h, u)
            self.energy += h * float(sample.y[0] * sample.y[1])
            return sample

        def save_state(self) -> Any:
            return super().save_state(), self.energy

        def restore_state(self, state: Any) -> None:
            super().restore_state(state[0])
            self.energy = state[1]

    found = differentiated(Counting(A, B, C, D, x0=[1.0, -2.0, 0.4]))
    assert found.states == 4
    assert found.linear


class Bent(Solver):
    """A lag whose output a function bends; at its start it looks linear."""

    inputs, outputs = (Port("u"),), (Port("y"),)

    def __init__(self, bend: Callable[[float], float], x: float = 0.0) -> None:
        self.bend, self.x = bend, x

    def initialize(self, t0: float, u0: np.ndarray) -> Sample:
        return Sample(np.array([self.bend(self.x)]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.x += h * (float(u(t)[0]) - self.x)
        return Sample(np.array([self.bend(self.x)]))

    def save_state(self) -> float:
        return self.x

    def restore_state(self, state: float) -> None:
        self.x = state


@pytest.mark.parametrize(
    ("bend", "x", "linear"),
    [
        (lambda x: 3.0 * x - 40.0, 20.0, True),
        (lambda x: 500.0 if x < 21.0 else 0.0, 20.0, False),  # a relay
        (lambda x: min(max(x, 0.0), 100.0), 130.0, False),  # a valve at its stop
        (lambda x: min(max(x, -100.0), 100.0), 0.0, False),  # and one that is far from it
        (lambda x: max(x - 0.005, 0.0) * 1e5, 0.0, False),  # a gap, and a stiff contact behind it
        (abs, 1.5, False),
    ],
)
def test_what_looks_linear_where_it_starts_is_tried_far_from_there(
    bend: Callable[[float], float], x: float, linear: bool
) -> None:
    assert differentiated(Bent(bend, x), [x]).linear == linear


def test_inputs_stay_in_their_declared_range_when_they_are_tried() -> None:
    class Clipped(Bent):
        inputs = (Port("u", min=-2.0, max=50.0),)

        def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
            assert -2.0 <= u(t)[0] <= 50.0
            return super().advance(t, h, u)

    assert differentiated(Clipped(lambda x: 2.0 * x)).linear


def test_derivatives_that_are_not_known_have_no_effect() -> None:
    class Telling(Mass1):
        def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
            sample = super().advance(t, h, u)
            sample.dy = np.array([[np.nan, self.v, np.nan], [1.0, np.nan, self.v]])
            return sample

    found = differentiated(Telling(micro_step=1.0)).step_map(0.01, 1, 3)
    y_and_dy = found[2:].reshape(4, 3, -1)
    np.testing.assert_allclose(y_and_dy[1, 1], found[1])  # x' is v
    assert not y_and_dy[1, [0, 2]].any()
    assert not y_and_dy[2:].any()


class Hidden(Mass1):
    """Forgets to save one of its states."""

    def save_state(self) -> Any:
        return (self.x,)

    def restore_state(self, state: Any) -> None:
        (self.x,) = state


class Handle(Mass1):
    def save_state(self) -> Any:
        return (self.x, self.v, object())


class Growing(Mass1):
    def __init__(self) -> None:
        super().__init__()
        self.past: list[float] = []

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        self.past.append(self.x)
        return super().advance(t, h, u)

    def save_state(self) -> Any:
        return self.x, self.v, self.past

    def restore_state(self, state: Any) -> None:
        self.x, self.v, self.past = state


class Stays(Mass1):
    save_state = Solver.save_state


@pytest.mark.parametrize(
    ("solver", "reason"),
    [
        (Hidden(), "is incomplete"),
        (Handle(), "contains a object"),
        (Growing(), "changes from step to step"),
        (Stays(), "does not save and restore"),
    ],
)
def test_solvers_whose_step_cannot_be_differentiated(solver: Solver, reason: str) -> None:
    with pytest.raises(CannotLinearise, match=reason):
        differentiated(solver)


def test_a_solver_that_fails_far_from_its_state_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Careful(Pendulum):
        def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
            if abs(self.motion["angle"] - 1.0) > 0.1:
                raise ValueError("too far")
            return super().advance(t, h, u)

    with caplog.at_level(logging.DEBUG):
        assert not differentiated(Careful()).linear
    assert not caplog.records
    assert not logging.getLogger("hilrt.solver").disabled


def test_saved_states_taken_apart_and_put_together() -> None:
    state = ([1.5, (2, None)], {"a": np.array([[1.0, 2.0]]), "b": True}, Pair(3.0, 4.0))
    assert leaves(state) == [1.5, 2, None, 1.0, 2.0, True, 3.0, 4.0]
    again = rebuilt(state, iter([9.0, *leaves(state)[1:]]))
    assert leaves(again) == [9.0, *leaves(state)[1:]]
    assert again[1]["a"].shape == (1, 2)
    assert isinstance(again[2], Pair)


def test_a_constant_answers_with_nothing() -> None:
    ports = Ports((Port("u", size=2),), (Port("y"), Port("z", size=3)))
    assert not Constant(ports, "").step_map(0.1, 3, 1).any()
    assert Constant(ports, "").step_map(0.1, 3, 1).shape == (8, 6)


class Sensed(Linear):
    """A linear system whose first output has an offset that no saved state holds."""

    def __init__(self, offset: Callable[[int], float]) -> None:
        super().__init__(A, B, C, D)
        self.offset, self.calls = offset, 0

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        sample = super().advance(t, h, u)
        self.calls += 1
        sample.y[0] += self.offset(self.calls)
        return sample


def test_little_noise_of_a_sensor_leaves_the_map() -> None:
    random = np.random.default_rng(7)
    noisy = differentiated(Sensed(lambda n: 1e-7 * random.standard_normal()))
    exact = differentiated(Linear(A, B, C, D))
    assert not noisy.linear
    found, expected = noisy.step_map(0.01, 1, 0), exact.step_map(0.01, 1, 0)
    np.testing.assert_allclose(found[:3], expected[:3], atol=1e-9)
    np.testing.assert_allclose(found[3:], expected[3:], atol=5e-5)


@pytest.mark.parametrize(
    "offset",
    [
        lambda n: 1e-2 * np.random.default_rng(n).standard_normal(),  # as large as its answers
        lambda n: 1e-2 * n,  # counts on, by the same in both trials
    ],
)
def test_what_is_not_saved_and_decides_the_map_is_refused(offset: Callable[[int], float]) -> None:
    with pytest.raises(CannotLinearise, match="is incomplete"):
        differentiated(Sensed(offset))
