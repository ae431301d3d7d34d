import numpy as np
import pytest

from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.step.plan import build_plan
from hilrt.tables.network import build_network
from tests.stepping import make_plan, make_session

BENCH = Ports(
    (Port("speed", "rad/s", start=5.0), Port("pedal", start=7.0, max=100.0)),
    (Port("torque", "N*m"), Port("extra")),
)
CAR = Ports((Port("torque", "N*m"),), (Port("speed", "rad/s"), Port("pedal")))
PORTS = {"bench": BENCH, "car": CAR}
TORQUE = {"from": "bench.torque", "to": "car.torque"}
SPEED = {"from": "car.speed", "to": "bench.speed", "offset": 2.0}


def plan(correction=None, *, physical=(), effort="bench.torque", flow="car.speed", **tables):
    bond = {"name": "shaft", "effort": effort, "flow": flow, "correction": correction or {}}
    tables.setdefault("connections", [TORQUE, SPEED])
    return make_plan(PORTS, physical=physical, bonds=[bond], **tables)


def test_depth_follows_the_highest_order_of_any_connection():
    connections = [{**TORQUE, "order": 0}, {**SPEED, "order": 3}]
    assert plan(connections=connections).depth == 4
    assert plan(master={"step": 1e-3, "extrapolation": {"order": 2}}).depth == 3


def test_inputs_rest_on_offsets_or_start_values():
    np.testing.assert_array_equal(plan().base, [2.0, 7.0, 0.0])


def test_benches_space_their_samples_and_act_after_their_delay():
    subsystems = {"bench": {"every": 4}, "car": {}}
    session = make_session({"master": {"step": 1e-3}, "subsystems": subsystems})
    physical, lead = np.array([True, False]), np.array([0.002, 0.0])
    p = build_plan(build_network(PORTS, session), session, physical, lead)
    np.testing.assert_allclose(p.spacing, [0.002, 0.002, 0.0, 0.0])
    np.testing.assert_allclose(p.lead, [0.002, 0.002, 0.0])


def test_bounds_of_the_session_file_narrow_those_of_the_port():
    free = {"a": Ports((Port("u"),), ()), "b": Ports((), (Port("y"),))}
    narrowed = {"a": {"inputs": {"u": {"max_rate": 1.0}}}, "b": {}}
    assert make_plan(free).bounds.rate[0] == np.inf
    assert make_plan(free, subsystems=narrowed).bounds.rate[0] == 1.0


def test_outputs_that_go_nowhere_are_not_coupled():
    np.testing.assert_array_equal(plan().coupled, [True, False, True, False])


def test_fixed_and_variable_steps():
    fixed = plan(master={"step": 1e-3, "step_control": {"initial": 1e-5}})
    assert (fixed.variable_step, fixed.first_step, fixed.at_minimum(1e-9)) == (False, 1e-3, False)
    control = {"method": "pi", "minimum": 1e-4}
    varied = plan(master={"step": 1e-3, "step_control": control})
    assert (varied.variable_step, varied.first_step) == (True, 1e-3)
    assert varied.at_minimum(1e-4)
    assert not varied.at_minimum(2e-4)
    assert (
        plan(master={"step": 1e-3, "step_control": {**control, "initial": 1e-5}}).first_step == 1e-5
    )


ENERGY = {"method": "energy", "mu": 0.5}


@pytest.mark.parametrize(
    ("correction", "physical", "active"),
    [
        (ENERGY, (), True),
        ({"method": "energy"}, (), True),  # μ is known: 0, without feedthrough
        ({"method": "energy"}, ("bench",), False),  # μ is not known: shadow
        ({"method": "none", "mu": 0.5}, (), False),
        (ENERGY, ("bench",), True),  # the bench is the effort side: the virtual side is corrected
        (ENERGY, ("car",), False),  # the flow side is an actuator
        ({**ENERGY, "permit_on_bench": True}, ("car",), False),  # without an absolute cap
        ({**ENERGY, "permit_on_bench": True, "cap_abs": 3.0}, ("car",), True),
    ],
)
def test_a_correction_acts_only_where_it_may(correction, physical, active):
    p = plan(correction, physical=physical)
    assert p.energy.active.tolist() == [active]
    assert p.energy.wanted.tolist() == [correction["method"] == "energy"]


def test_shadow_keeps_every_correction_from_acting():
    session = make_session(
        {
            "master": {"step": 1e-3},
            "subsystems": {"bench": {}, "car": {}},
            "connections": [TORQUE, SPEED],
            "bonds": [
                {"name": "s", "effort": "bench.torque", "flow": "car.speed", "correction": ENERGY}
            ],
        }
    )
    nothing = np.zeros(2)
    p = build_plan(
        build_network(PORTS, session), session, nothing.astype(bool), nothing, shadow=True
    )
    assert not p.energy.active.any()
    assert p.energy.wanted.all()


def test_caps_without_a_number_are_infinite():
    energy = plan({**ENERGY, "cap": 0.25, "nu": 0.1, "residual": "held"}).energy
    assert (energy.cap[0], energy.cap_abs[0], energy.nu[0]) == (0.25, np.inf, 0.1)
    assert energy.held.tolist() == [True]
    assert plan({**ENERGY, "cap_abs": 15.0}).energy.cap_abs[0] == 15.0


def test_a_bond_corrected_by_a_model_makes_spurious_energy_while_any_of_its_efforts_is_not():
    """Of a bond of two elements one untrusted Jacobian is enough, whichever it is."""
    arm = Ports((Port("v", "m/s", size=2),), (Port("f", "N", size=2),))
    crane = Ports((Port("f", "N", size=2),), (Port("v", "m/s", size=2),))
    p = make_plan(
        {"arm": arm, "crane": crane},
        connections=[{"from": "arm.f", "to": "crane.f"}, {"from": "crane.v", "to": "arm.v"}],
        bonds=[
            {
                "name": "hook",
                "effort": "arm.f",
                "flow": "crane.v",
                "correction": {"method": "model", "mu": 0.5},
            }
        ],
    )
    trusted, first, second = np.zeros(4), np.array([1.0, 0, 0, 0]), np.array([0, 1.0, 0, 0])
    assert p.spurious == 0.5
    assert p.spurious_shares(trusted, applied=True) == 0.0
    for untrusted in (first, second):
        assert p.spurious_shares(untrusted, applied=True) == 0.5
    assert p.spurious_shares(trusted, applied=False) == 0.5
