"""Coupled pendula: a vector bond in a nonlinear problem (paper 001, Figs 32 to 34)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hilrt.models.coupled_pendula import Pendulum1, Pendulum2
from hilrt.solver import InputPolynomial
from tests.stepping import Stepping

ENERGY = {"method": "energy", "residual": "held", "mu": 0.5, "cap": 1.0}


def run(correction, *, order=0, duration=10.0):
    """Times, energy, x of tip 2, and power residual."""
    two = Pendulum2()
    one = Pendulum1(two.tip().tolist())
    s = Stepping(
        {"one": one, "two": two},
        master={"step": 1e-3, "extrapolation": {"order": order}},
        connections=[
            {"from": "one.force", "to": "two.force"},
            {"from": "two.x", "to": "one.x2"},
            {"from": "two.v", "to": "one.v2"},
        ],
        bonds=[
            {"name": "spring", "effort": "one.force", "flow": "two.v", "correction": correction}
        ],
    )

    def look(s):
        tip = two.tip()
        total = one.energy() + two.energy() + one.coupling_energy(tip)
        return s.t, total, tip[0], s.state.corrected.power[0]

    return np.array(s.run(duration, look)).T


def test_the_spring_starts_unloaded_and_pulls_along_its_axis():
    two = Pendulum2()
    one = Pendulum1(two.tip().tolist(), kc=3.0, cc=2.0)
    at_rest = np.array([*two.tip(), 0.0, 0.0])
    np.testing.assert_allclose(one.force(at_rest), 0.0, atol=1e-12)
    axis = (two.tip() - one.tip()) / one.natural
    moved = np.concatenate((two.tip() + 0.5 * axis, 0.25 * axis))
    np.testing.assert_allclose(one.force(moved), -(3.0 * 0.5 + 2.0 * 0.25) * axis, rtol=1e-12)
    assert one.coupling_energy(moved[:2]) == pytest.approx(0.5 * 3.0 * 0.25)


def test_a_free_pendulum_swings_and_keeps_its_energy():
    two = Pendulum2(length=1.0, angle=0.01, micro_step=1e-4)
    start = two.energy()
    half = math.pi * math.sqrt(1.0 / 9.81)
    two.advance(0.0, half, InputPolynomial(0.0, np.zeros((1, 2))))
    assert two.angle == pytest.approx(-0.01, rel=1e-3)
    assert two.energy() == pytest.approx(start, rel=1e-8)


@pytest.fixture(scope="module")
def right():
    """First order on both sides: next to no error of the coupling."""
    t, energy, x, _ = run({"method": "none"}, order=1)
    assert np.ptp(energy) < 0.01
    return t, energy, x


def test_spurious_energy_accumulates_and_the_correction_takes_some_out(right):
    """Figs 32 to 34. The paper, with parameters that are lost, shows all of it taken out."""
    t, energy, x = right
    _, plain_energy, plain_x, power = run({"method": "none"})
    _, corrected_energy, corrected_x, _ = run(ENERGY)
    spurious = [part.mean() for part in np.array_split(plain_energy - energy, 5)]
    assert np.all(np.diff(spurious) > 0.0)
    assert power.mean() > 0.0
    late = t > 8.0
    left = (corrected_energy - energy)[late].mean() / (plain_energy - energy)[late].mean()
    assert 0.5 < left < 0.7
    assert np.abs(corrected_x - x).max() < 0.75 * np.abs(plain_x - x).max()
