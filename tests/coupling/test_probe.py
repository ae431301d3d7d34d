"""Probed Jacobians against matrices whose Jacobians are known."""

from __future__ import annotations

import numpy as np
import pytest

from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.models.linear import Linear
from hilrt.models.two_mass import Mass1
from hilrt.solver import Floats, Sample, Solver

H = 2e-4


def paper_side() -> Linear:
    """Mass 2 of the oscillator of Haid et al. (2022): displacement and velocity in, force out."""
    return Linear(
        A=[[0.0, 1.0], [-1.02e6, -50.2]],
        B=[[0.0, 0.0], [2e4, 50.0]],
        C=[[2e5, 500.0]],
        D=[[-2e5, -500.0]],
        x0=[0.6, 0.1],
    )


@pytest.mark.parametrize("order", [0, 1, 3])
def test_probe_finds_the_matrices_jacobians(order: int) -> None:
    solver = paper_side()
    hosted = HostedSolver(solver)
    before = solver.save_state()
    probed = hosted.jacobian("probe", 0.0, H, order, np.array([0.3, -2.0]))
    known = hosted.jacobian("solver", 0.0, H, order, np.zeros(2))
    assert probed is not None
    assert known is not None
    np.testing.assert_allclose(probed, known, rtol=1e-6, atol=1e-4)
    np.testing.assert_array_equal(solver.save_state(), before)


def test_an_instant_step_leaves_the_feedthrough() -> None:
    """D of the two-mass oscillator is −kc for the displacement and 0 for the velocity."""
    gamma = HostedSolver(Mass1(kc=100.0)).jacobian("probe", 0.0, 1e-9, 0, np.zeros(2))
    assert gamma is not None
    np.testing.assert_allclose(gamma[0, 0], [-100.0, 0.0], rtol=1e-6, atol=1e-6)


def test_a_solver_that_cannot_go_back_has_no_probed_jacobian() -> None:
    class Forward(Solver):
        inputs = ()
        outputs = ()

        def initialize(self, t0, u0):
            return Sample(np.zeros(0))

        def advance(self, t, h, u):
            return Sample(np.zeros(0))

    hosted = HostedSolver(Forward())
    assert hosted.jacobian("probe", 0.0, H, 0, np.zeros(0)) is None
    assert hosted.jacobian("solver", 0.0, H, 0, np.zeros(0)) is None


class Noisy(Mass1):
    """The first mass with a sensor's noise on its force, N, whose generator no state holds."""

    def __init__(self, noise: float) -> None:
        super().__init__(kc=100.0)
        self.noise, self._random = noise, np.random.default_rng(3)

    def _sample(self, u: Floats) -> Sample:
        sample = super()._sample(u)
        sample.y[0] += self.noise * self._random.standard_normal()
        return sample


def test_a_trial_under_little_noise_is_repeated_and_believed() -> None:
    """A ten-thousandth of an input is 1e-4 here, and its answer 0.01 N."""
    gamma = HostedSolver(Noisy(1e-6)).jacobian("probe", 0.0, 1e-9, 0, np.zeros(2))
    assert gamma is not None
    np.testing.assert_allclose(gamma[0, 0], [-100.0, 0.0], atol=0.05)


@pytest.mark.parametrize("noise", [1e-3, 1e-2, 1.0])
def test_a_trial_that_noise_decides_is_not_believed(noise: float) -> None:
    for seed in range(50):
        solver = Noisy(noise)
        solver._random = np.random.default_rng(seed)
        assert HostedSolver(solver).jacobian("probe", 0.0, 1e-9, 0, np.zeros(2)) is None
