from pathlib import Path

import numpy as np
import pytest

import hilrt
from hilrt.link import Ports
from hilrt.reliability.guard import DIVERGED, guard
from hilrt.session.ending import describe_divergence, shortest_loop
from hilrt.solver import Port
from hilrt.tables.given import LARGEST
from tests.stepping import make_numerics

ROOT = Path(__file__).parents[2]
IN, OUT = (Port("u"),), (Port("y"), Port("z"))
PORTS = {name: Ports(IN, OUT) for name in ("a", "b", "c", "alone")}
CONNECTIONS = [
    {"from": "a.y", "to": "b.u"},
    {"from": "b.z", "to": "c.u"},
    {"from": "c.y", "to": "a.u"},
    {"from": "c.z", "to": "alone.u"},
]


@pytest.fixture
def numerics():
    return make_numerics(PORTS, connections=CONNECTIONS)


def give(numerics, **samples):
    given, names = numerics.given, numerics.network.outputs.names
    given.outputs["fresh"], given.outputs["y"] = 1, 0.0
    for name, value in samples.items():
        given.outputs["y"][names.index(name.replace("_", "."))] = value
    guard(numerics.plan, numerics.state, given)
    return int(numerics.state.session["alarm_level"][0])


@pytest.mark.parametrize("value", [1e53, -1e31])
def test_a_value_beyond_every_quantity_ends_the_loop_and_names_it(numerics, value):
    assert give(numerics, b_z=LARGEST) == -1
    assert give(numerics, b_y=1.01 * LARGEST, b_z=value) == DIVERGED
    text = describe_divergence(numerics.network, numerics.given)
    assert f"b.z = {value:.3g}, in the loop b.z -> c.u, c.y -> a.u, a.y -> b.u;" in text


def test_outside_a_loop_the_subsystem_is_named(numerics):
    assert give(numerics, alone_y=1e40) == DIVERGED
    text = describe_divergence(numerics.network, numerics.given)
    assert "alone.y = 1e+40; no connection leads back to alone" in text


def test_an_output_that_is_not_connected_has_the_loop_of_its_subsystem(numerics):
    network = numerics.network
    assert shortest_loop(network, network.outputs.names.index("a.z")) == shortest_loop(network, 0)


def test_a_sample_that_is_not_fresh_or_no_number_is_none(numerics):
    assert give(numerics, b_z=np.nan) == -1
    numerics.given.outputs["y"][0], numerics.given.outputs["fresh"][0] = 1e53, 0
    guard(numerics.plan, numerics.state, numerics.given)
    assert numerics.state.session["alarm_level"][0] == -1


def test_of_a_bench_such_a_sample_is_none_but_ends_nothing():
    numerics = make_numerics(PORTS, connections=CONNECTIONS, physical={"b"})
    assert give(numerics, b_y=1e53) == -1
    numerics.macro_step()
    out = numerics.state.outputs[numerics.network.outputs.names.index("b.y")]
    assert (out.implausible, out.arrived) == (1, 0)


def test_a_diverging_session_ends_in_a_fault():
    """Two masses with a macro step that explicit coupling does not bear."""
    session = ROOT / "bench_configs" / "two_mass.toml"
    overrides = {"master.step": 0.05, "bonds.spring.correction.method": "none"}
    result = hilrt.simulate(session, {**overrides, "session.duration": 1e3})
    assert result.exit_status == 3
    assert result.fault.startswith("divergence: mass")
    assert "mass1.force -> mass2.force" in result.fault
    assert result.verdict == "unreliable"
    assert np.nanmax(np.abs(result.log["mass1.force"])) < 1e53
