"""Growth of errors by the explicit exchange, against characteristic polynomials."""

import math

import numpy as np
import pytest
from scipy.linalg import expm

from hilrt.coupling.jacobian import LinearSubsystem
from hilrt.coupling.open_loop import OpenLoop

J1, J2, H = 0.2, 1.0, 2e-3


def clutch(rate: float, slope: float = 1.0) -> OpenLoop:
    """Two inertias and a viscous clutch that equalises them at `rate` per step of `H`."""
    k = rate / H / (1.0 / J1 + 1.0 / J2)
    # Outputs w1, w2, torque; inputs torque of each inertia, w1 and w2 of the clutch.
    B = np.array([[-1.0 / J1, 0.0, 0.0, 0.0], [0.0, 1.0 / J2, 0.0, 0.0]])
    C = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    D = np.array([[0.0] * 4, [0.0] * 4, [0.0, 0.0, k, -k]])
    L = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    return OpenLoop(LinearSubsystem(np.zeros((2, 2)), B, C, D), L, np.full(4, slope), 1)


@pytest.mark.parametrize(
    ("order", "slope", "polynomial"),
    [
        (0, 1.0, lambda a: [1.0, -1.0, a]),  # the torque is a step old
        (1, 1.0, lambda a: [1.0, -1.0, 3.0 * a, -2.5 * a, 0.5 * a]),  # both go on along lines
        (1, 0.0, lambda a: [1.0, -1.0, a]),  # both ignore the slope of their inputs
    ],
)
@pytest.mark.parametrize("rate", [0.2, 0.39, 0.41, 0.99, 1.01, 3.0])
def test_growth_is_that_of_the_characteristic_polynomial(order, slope, polynomial, rate):
    radius = np.abs(np.roots(polynomial(rate))).max()
    expected = max(math.log(radius), 0.0) / H
    assert clutch(rate, slope).growth(H, order) == pytest.approx(expected, rel=1e-6, abs=1e-4)


def test_a_longer_communication_step_counts_for_all():
    assert clutch(0.5)._replace(every=3).growth(H / 3.0, 0) == clutch(0.5).growth(H, 0)


def test_growth_of_the_coupled_system_itself_does_not_count():
    # x' = x + u, u = x: the coupled system grows at 2/s, held inputs at less
    one = np.ones((1, 1))
    loop = OpenLoop(LinearSubsystem(one, one, one, 0.0 * one), one, np.ones(1), 1)
    assert loop.coupled().A.item() == pytest.approx(2.0)
    assert expm(np.array([[1.0, 1.0], [0.0, 0.0]]) * 0.1)[0].sum() < math.exp(0.2)
    assert loop.growth(0.1, 0) == 0.0


def test_the_longest_stable_step_is_where_the_radius_crosses_one():
    assert clutch(0.2).longest_stable(H, 0, 100.0) == pytest.approx(5.0 * H, rel=0.03)
    assert clutch(0.2).longest_stable(H, 1, 100.0) == pytest.approx(1.996 * H, rel=0.03)
    assert clutch(0.02).longest_stable(H, 0, 100.0) == pytest.approx(10.0 * H)


def test_gain_orders_clutches_by_their_stiffness_and_knows_no_units():
    gains = [clutch(rate).gain(H) for rate in (0.1, 0.4, 0.9)]
    assert gains == pytest.approx(np.sqrt([0.1, 0.4, 0.9]), rel=0.05)
    whole, L, slope, every = clutch(0.4)
    unit = np.array([1.0, 1.0, 1e3])  # torque in mN m
    other = LinearSubsystem(whole.A, whole.B, whole.C * unit[:, None], whole.D * unit[:, None])
    assert OpenLoop(other, L / unit, slope, every).gain(H) == pytest.approx(gains[1])


def test_an_algebraic_loop_without_a_solution_is_unknown():
    one = np.ones((1, 1))
    loop = OpenLoop(LinearSubsystem(-one, one, one, one), one, np.ones(1), 1)
    assert loop.coupled() is None
    assert math.isnan(loop.growth(0.1, 0))
    assert loop.longest_stable(0.1, 0, 1.0) is None
