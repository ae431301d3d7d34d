import numpy as np

from hilrt.coupling.power_bond import (
    measure_bonds,
    per_bond,
    power_residual,
    transmitted_power,
)
from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.tables.network import Bonds
from tests.stepping import make_network


def make_bonds(*sizes: int, effort: str = "N*m", flow: str = "rad/s") -> Bonds:
    """Bonds of the given sizes between two subsystems."""
    numbers = range(len(sizes))
    e = [Port(f"e{i}", effort, size=n) for i, n in enumerate(sizes)]
    f = [Port(f"f{i}", flow, size=n) for i, n in enumerate(sizes)]
    network, _ = make_network(
        {"a": Ports(tuple(f), tuple(e)), "b": Ports(tuple(e), tuple(f))},
        connections=[{"from": f"a.e{i}", "to": f"b.e{i}"} for i in numbers]
        + [{"from": f"b.f{i}", "to": f"a.f{i}"} for i in numbers],
        bonds=[{"name": f"bond{i}", "effort": f"a.e{i}", "flow": f"b.f{i}"} for i in numbers],
    )
    return network.bonds


MIXED = make_bonds(1, 3, 2)
E = np.array([2.0, 1.0, -1.0, 0.5, 3.0, 4.0])
F = np.array([10.0, 2.0, 3.0, 4.0, 0.0, -1.0])


def test_sums_run_over_the_elements_of_each_bond():
    np.testing.assert_array_equal(per_bond(MIXED, np.arange(6.0)), [0.0, 6.0, 9.0])
    np.testing.assert_array_equal(per_bond(make_bonds(1, 1), np.array([3.0, 4.0])), [3.0, 4.0])


def test_transmitted_power_is_effort_times_flow():
    np.testing.assert_allclose(transmitted_power(MIXED, E, F), [20.0, 1.0, -4.0])


def test_power_counts_in_watts_whatever_the_units():
    bonds = make_bonds(1, effort="kN", flow="mm/s")
    np.testing.assert_allclose(transmitted_power(bonds, E[:1], F[:1]), [20.0])
    bonds = make_bonds(1, effort="N*m", flow="rpm")
    np.testing.assert_allclose(transmitted_power(bonds, E[:1], F[:1]), [20.0 * np.pi / 30.0])


def test_residual_is_what_the_two_sides_disagree_on():
    np.testing.assert_array_equal(power_residual(MIXED, E, F, E, F), np.zeros(3))
    e_used, f_used = E + 1.0, F.copy()
    # one unit too much effort used by the flow side: energy is created where it moves forward
    np.testing.assert_allclose(power_residual(MIXED, E, F, e_used, f_used), [10.0, 9.0, -1.0])
    # the effort side saw a flow one unit too high: it paid for more than arrived
    np.testing.assert_allclose(power_residual(MIXED, E, F, E, F + 1.0), [-2.0, -0.5, -7.0])


def measured(bonds: Bonds, e, f, sent, realised, t=2.0):
    """Transmitted and tracking power, and the latter's energy over half a second."""
    nb, ne = len(bonds), len(bonds.effort)
    y = np.zeros(2 * ne)
    y[bonds.effort], y[bonds.flow] = e, f
    flown, became = np.zeros((2, 2 * ne)), np.full(2 * ne, np.nan)
    # What was sent half a second ago, rising by 4 per second, is `sent` now.
    flown[0, bonds.flow_input], flown[1, bonds.flow_input] = sent - 2.0, 4.0
    became[bonds.flow_input] = realised
    power, tracking, energy = np.zeros((3, nb))
    measure_bonds(
        t, 0.5, bonds.first, bonds.watt, bonds.effort, bonds.more, bonds.more_of, bonds.flow,
        bonds.flow_input, bonds.flow_gain, y, flown, np.full(2 * ne, t - 0.5), became,
        power, tracking, energy,
    )  # fmt: skip
    np.testing.assert_allclose(energy, 0.5 * tracking)
    return power, tracking


def test_tracking_counts_what_is_measured():
    realised = F - 1.0
    realised[[0, 2]] = np.nan
    power, tracking = measured(MIXED, E, F, F, realised)
    np.testing.assert_allclose(tracking, [0.0, -1.5, -7.0])
    np.testing.assert_allclose(power, transmitted_power(MIXED, E, F))
