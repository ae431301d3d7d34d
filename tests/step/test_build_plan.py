import numpy as np
import pytest

from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.step.build_plan import Platform
from hilrt.step.numerics import Numerics, build_numerics
from hilrt.tables.network import build_network
from tests.stepping import make_numerics, make_session

BENCH = Ports(
    (Port("speed", "rad/s", start=5.0), Port("pedal", start=7.0, max=100.0)),
    (Port("torque", "N*m"), Port("extra")),
)
CAR = Ports((Port("torque", "N*m"),), (Port("speed", "rad/s"), Port("pedal")))
PORTS = {"bench": BENCH, "car": CAR}
TORQUE = {"from": "bench.torque", "to": "car.torque"}
SPEED = {"from": "car.speed", "to": "bench.speed", "offset": 2.0}


def numerics(correction=None, *, effort="bench.torque", flow="car.speed", **tables) -> Numerics:
    bond = {"name": "shaft", "effort": effort, "flow": flow, "correction": correction or {}}
    tables.setdefault("connections", [TORQUE, SPEED])
    return make_numerics(PORTS, bonds=[bond], **tables)


def plan(correction=None, **tables):
    return numerics(correction, **tables).plan


def test_samples_kept_follow_the_highest_order_of_any_connection():
    connections = [{**TORQUE, "order": 0}, {**SPEED, "order": 3}]
    assert plan(connections=connections).session["samples"] == 4
    assert plan(master={"step": 1e-3, "extrapolation": {"order": 2}}).session["samples"] == 3


def test_inputs_rest_on_offsets_or_start_values():
    np.testing.assert_array_equal(plan().inputs["constant"], [2.0, 7.0, 0.0])


def test_benches_space_their_samples_and_act_after_their_delay():
    subsystems = {"bench": {"every": 4}, "car": {}}
    session = make_session({"master": {"step": 1e-3}, "subsystems": subsystems})
    platform = Platform(np.array([True, False]), np.array([0.002, 0.0]))
    network = build_network(PORTS, session)
    p = build_numerics(network, session, platform, np.zeros(4), np.zeros(3)).plan
    np.testing.assert_allclose(p.outputs["spacing"], [0.002, 0.002, 0.0, 0.0])
    np.testing.assert_allclose(p.inputs["lead"], [0.002, 0.002, 0.0])


def test_bounds_of_the_session_file_narrow_those_of_the_port():
    free = {"a": Ports((Port("u"),), ()), "b": Ports((), (Port("y"),))}
    narrowed = {"a": {"inputs": {"u": {"max_rate": 1.0}}}, "b": {}}
    assert make_numerics(free).plan.inputs["max_rate"][0] == np.inf
    assert make_numerics(free, subsystems=narrowed).plan.inputs["max_rate"][0] == 1.0


def test_outputs_that_go_nowhere_are_not_coupled():
    np.testing.assert_array_equal(plan().outputs["coupled"], [True, False, True, False])


def test_a_jump_passes_through_feedthrough_and_reaches_those_that_it_feeds():
    through = Ports((Port("u"),), (Port("y", feedthrough=("u",)), Port("z")))
    source = Ports((Port("w"),), (Port("y"),))
    p = make_numerics(
        {"source": source, "through": through},
        connections=[{"from": "source.y", "to": "through.u"}],
    ).plan
    assert p.feeds.tolist() == [(1, 0)]  # input through.u, by source
    assert p.passes.tolist() == [(1, 0)]  # output through.y
    assert p.receives.tolist() == [(1, 0)]


def test_fixed_and_variable_steps():
    fixed = plan(master={"step": 1e-3, "step_control": {"initial": 1e-5}}).session[0]
    assert (fixed.variable_step, fixed.first_step) == (False, 1e-3)
    control = {"method": "pi", "minimum": 1e-4}
    varied = plan(master={"step": 1e-3, "step_control": control}).session[0]
    assert (varied.variable_step, varied.first_step, varied.minimum_step) == (True, 1e-3, 1e-4)
    initial = plan(master={"step": 1e-3, "step_control": {**control, "initial": 1e-5}})
    assert initial.session[0].first_step == 1e-5


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
    assert p.bonds["active"].tolist() == [active]
    assert p.bonds["wanted"].tolist() == [correction["method"] == "energy"]


def test_shadow_keeps_every_correction_from_acting():
    p = plan(ENERGY, shadow=True)
    assert not p.bonds["active"].any()
    assert p.bonds["wanted"].all()


def test_caps_without_a_number_are_infinite():
    made = numerics({**ENERGY, "cap": 0.25, "nu": 0.1, "residual": "held"})
    bond = made.state.bonds[0]
    assert (bond.cap, bond.cap_abs, made.plan.bonds["nu"][0]) == (0.25, np.inf, 0.1)
    assert made.plan.bonds["held"].tolist() == [True]
    assert numerics({**ENERGY, "cap_abs": 15.0}).state.bonds["cap_abs"][0] == 15.0
