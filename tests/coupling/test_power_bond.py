import numpy as np
import pytest

from hilrt.coupling.power_bond import measure_bonds, power_residual, transmitted_power
from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.step.numerics import Numerics
from tests.stepping import make_numerics


def make_bonds(*sizes: int, effort: str = "N*m", flow: str = "rad/s", **bond) -> Numerics:
    """Bonds of the given sizes between two subsystems, of which `bond` is said more."""
    numbers = range(len(sizes))
    e = [Port(f"e{i}", effort, size=n) for i, n in enumerate(sizes)]
    f = [Port(f"f{i}", flow, size=n) for i, n in enumerate(sizes)]
    ends = [{"name": f"bond{i}", "effort": f"a.e{i}", "flow": f"b.f{i}"} for i in numbers]
    return make_numerics(
        {"a": Ports(tuple(f), tuple(e)), "b": Ports(tuple(e), tuple(f))},
        connections=[{"from": f"a.e{i}", "to": f"b.e{i}"} for i in numbers]
        + [{"from": f"b.f{i}", "to": f"a.f{i}"} for i in numbers],
        bonds=[{**end, **bond} for end in ends],
    )


def measure(numerics: Numerics, e, f) -> None:
    """Make `e` and `f` (ne,) the efforts and flows now."""
    elements, y = numerics.plan.elements, numerics.state.outputs["y"]
    y[elements["effort"]], y[elements["flow"]] = e, f


def use(numerics: Numerics, e, f) -> None:
    """Make `e` and `f` (ne,) what the receivers have used up to now, in the outputs' units."""
    elements, previous = numerics.plan.elements, numerics.state.inputs["previous"]
    previous[elements["effort_input"], 0] = e * elements["effort_gain"]
    previous[elements["flow_input"], 0] = f * elements["flow_gain"]


E = np.array([2.0, 1.0, -1.0, 0.5, 3.0, 4.0])
F = np.array([10.0, 2.0, 3.0, 4.0, 0.0, -1.0])


def powers(numerics: Numerics) -> list[float]:
    bonds = range(len(numerics.plan.bonds))
    return [transmitted_power(numerics.plan, numerics.state, b) for b in bonds]


def residuals(numerics: Numerics, t: float = 0.0) -> list[float]:
    bonds = range(len(numerics.plan.bonds))
    return [power_residual(numerics.plan, numerics.state, t, b) for b in bonds]


def test_transmitted_power_is_effort_times_flow_over_the_elements_of_each_bond():
    mixed = make_bonds(1, 3, 2)
    measure(mixed, E, F)
    np.testing.assert_allclose(powers(mixed), [20.0, 1.0, -4.0])


@pytest.mark.parametrize(
    ("effort", "flow", "watt"), [("kN", "mm/s", 20.0), ("N*m", "rpm", 20.0 * np.pi / 30.0)]
)
def test_power_counts_in_watts_whatever_the_units(effort, flow, watt):
    bonds = make_bonds(1, effort=effort, flow=flow)
    measure(bonds, E[:1], F[:1])
    np.testing.assert_allclose(powers(bonds), [watt])


def test_residual_is_what_the_two_sides_disagree_on():
    mixed = make_bonds(1, 3, 2)
    measure(mixed, E, F)
    use(mixed, E, F)
    np.testing.assert_array_equal(residuals(mixed), np.zeros(3))
    # one unit too much effort used by the flow side: energy is created where it moves forward
    use(mixed, E + 1.0, F)
    np.testing.assert_allclose(residuals(mixed), [10.0, 9.0, -1.0])
    # the effort side saw a flow one unit too high: it paid for more than arrived
    use(mixed, E, F + 1.0)
    np.testing.assert_allclose(residuals(mixed), [-2.0, -0.5, -7.0])


def test_a_correction_is_no_part_of_what_the_bond_itself_sent():
    bond = make_bonds(1)
    measure(bond, E[:1], F[:1])
    use(bond, E[:1] + 0.5, F[:1])
    bond.state.inputs["previous_correction"][bond.plan.elements["effort_input"]] = 0.5
    np.testing.assert_array_equal(residuals(bond), [0.0])


def test_tracking_counts_what_is_measured():
    mixed = make_bonds(1, 3, 2)
    plan, state, given = mixed.plan, mixed.state, mixed.given
    measure(mixed, E, F)
    flow_inputs, realised = plan.elements["flow_input"], F - 1.0
    realised[[0, 2]] = np.nan
    # What was sent half a second ago, rising by 4 per second, is F now.
    state.inputs["previous"][flow_inputs, 0], state.inputs["previous"][flow_inputs, 1] = (
        F - 2.0,
        4.0,
    )
    state.inputs["previous_t0"] = 1.5
    given.inputs["realised"][flow_inputs] = realised
    given.session["t"], given.session["elapsed"] = 2.0, 0.5
    measure_bonds(plan, state, given)
    np.testing.assert_allclose(state.bonds["tracking"], [0.0, -1.5, -7.0])
    np.testing.assert_allclose(state.bonds["tracking_energy"], 0.5 * state.bonds["tracking"])
    np.testing.assert_allclose(state.bonds["power"], powers(mixed))
