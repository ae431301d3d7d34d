import numpy as np
import pytest

from hilrt.config.structs import InputOptions
from hilrt.errors import ConfigError
from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.tables.network import narrow
from tests.stepping import make_network


def ports(inputs: str = "", outputs: str = "", **changes: Port) -> Ports:
    """Ports by name, in one string each; `changes` replaces some."""

    def of(names: str) -> tuple[Port, ...]:
        return tuple(changes.get(name, Port(name)) for name in names.split())

    return Ports(of(inputs), of(outputs))


def link(source: str, target: str, **more) -> dict:
    return {"from": source, "to": target, **more}


def test_connections_become_the_coupling_matrix():
    network, _ = make_network(
        {"a": ports("u v", "y"), "b": ports("w", "p q")},
        connections=[
            link("b.q", "a.v", gain=2.0, offset=1.0),
            link("a.y", "b.w", order=3),
            link("b.p", "a.v", gain=-1.0, offset=0.5),
        ],
    )
    assert network.outputs.names == ["a.y", "b.p", "b.q"]
    assert network.inputs.names == ["a.u", "a.v", "b.w"]
    np.testing.assert_array_equal(network.L.dense(), [[0, 0, 0], [0, -1, 2], [1, 0, 0]])
    np.testing.assert_array_equal(network.offset, [0.0, 1.5, 0.0])
    np.testing.assert_array_equal(network.connected, [False, True, True])
    np.testing.assert_array_equal(network.outputs.owner, [0, 1, 1])
    assert network.inputs.slices == [slice(0, 2), slice(2, 3)]
    c = network.connections
    dense = np.zeros((3, 3))
    np.add.at(dense, (np.repeat(c.target, np.diff([*c.first, 3])), c.source), c.gain)
    np.testing.assert_array_equal(dense, network.L.dense())  # the sparse form says the same
    np.testing.assert_array_equal(c.order, [1, 1, 3])


def test_units_convert_with_factor_and_offset():
    network, _ = make_network(
        {
            "a": ports(outputs="n T", n=Port("n", "rpm"), T=Port("T", "degC")),
            "b": ports("w K", w=Port("w", "rad/s"), K=Port("K", "K")),
        },
        connections=[link("a.n", "b.w", gain=2.0), link("a.T", "b.K", gain=0.5, offset=3.0)],
    )
    u = network.L @ [60.0, 20.0] + network.offset
    np.testing.assert_allclose(u, [2.0 * 2.0 * np.pi, 0.5 * 293.15 + 3.0])


def test_vectors_connect_element_by_element():
    network, _ = make_network(
        {
            "a": ports(outputs="s y", y=Port("y", size=3)),
            "b": ports("u", u=Port("u", size=3, start=4.0, min=-1.0)),
        },
        connections=[link("a.y", "b.u")],
    )
    np.testing.assert_array_equal(network.L.dense(), np.eye(3, 4, 1))
    assert network.inputs.names == ["b.u[0]", "b.u[1]", "b.u[2]"]
    np.testing.assert_array_equal(network.u_start, [4.0] * 3)
    np.testing.assert_array_equal(network.u_min, [-1.0] * 3)


@pytest.mark.parametrize(
    ("connection", "complaint"),
    [
        (link("a.y", "b.uu"), r"\[connections 1: a\.y -> b\.uu\].*no port 'b.uu'.*b\.u"),
        (link("a.z", "b.u"), r"no port 'a\.z'"),
        (link("a.v", "b.u"), r"2 elements do not fit 1"),
        (link("a.y", "b.T"), r"\[connections 1: a\.y -> b\.T\].*K"),
    ],
)
def test_a_connection_that_does_not_fit_is_named(connection, complaint):
    with pytest.raises(ConfigError, match=complaint):
        make_network(
            {
                "a": ports(outputs="y v", y=Port("y", "m"), v=Port("v", size=2)),
                "b": ports("u T", u=Port("u", "m"), T=Port("T", "K")),
            },
            connections=[connection],
        )


E, F = Port("e", "N*m", size=2), Port("f", "rad/s", size=2)
BOTH_WAYS = [link("a.e", "b.e"), link("b.f", "a.f")]
BOND = {"name": "shaft", "effort": "a.e", "flow": "b.f"}


def bonded(connections=BOTH_WAYS, bonds=(BOND,), f_in="rpm", **tables):
    return make_network(
        {
            "a": ports("f", "x e", e=E, f=Port("f", f_in, size=2)),
            "b": ports("e", "f", e=E, f=F),
            "c": ports("e", "e", e=E),
        },
        connections=list(connections),
        bonds=list(bonds),
        **tables,
    )[0]


def test_a_bond_knows_its_ports_on_both_sides():
    subsystems = {"a": {"every": 5}, "b": {"every": 2}, "c": {}}
    bonds = bonded([*BOTH_WAYS, link("a.e", "c.e")], subsystems=subsystems).bonds
    np.testing.assert_array_equal(bonds.effort, [1, 2])
    np.testing.assert_array_equal(bonds.flow, [3, 4])
    np.testing.assert_array_equal(bonds.effort_input, [2, 3])  # those of b, not those of c
    np.testing.assert_array_equal(bonds.flow_input, [0, 1])
    np.testing.assert_allclose(bonds.flow_gain, [30.0 / np.pi] * 2)
    np.testing.assert_array_equal(bonds.effort_gain, [1.0, 1.0])
    np.testing.assert_array_equal(bonds.every, [5])  # the slower side's grid
    np.testing.assert_array_equal(bonds.watt, [1.0, 1.0])


@pytest.mark.parametrize(
    ("connections", "bond", "complaint"),
    [
        (BOTH_WAYS[:1], BOND, r"bonds.shaft.*flow = 'b.f'.*connected to 0 inputs"),
        (BOTH_WAYS, {**BOND, "flow": "b.g"}, r"bonds.shaft.*flow.*no port 'b.g'"),
        (BOTH_WAYS, {**BOND, "effort": "a.x"}, r"effort has 1 elements, flow 2"),
    ],
)
def test_a_bond_that_does_not_fit_is_named(connections, bond, complaint):
    with pytest.raises(ConfigError, match=complaint):
        bonded(connections, [bond])


def through(names: str) -> Port:
    return Port("y", feedthrough=tuple(names.split()))


def test_outputs_with_feedthrough_initialize_after_what_they_need():
    network, _ = make_network(
        {
            "a": ports("u", "y", y=through("u")),
            "b": ports("u", "y", y=through("u")),
            "c": ports("u", "y"),
        },
        connections=[link("b.y", "a.u"), link("c.y", "b.u"), link("a.y", "c.u")],
    )
    assert network.initialization_order() == [2, 1, 0]
    np.testing.assert_array_equal(network.feedthrough.dense(), np.diag([True, True, False]))


def test_members_of_a_feedthrough_loop_come_last():
    network, _ = make_network(
        {
            "a": ports("u", "y", y=through("u")),
            "b": ports("u", "y", y=through("u")),
            "c": ports("", "y"),
        },
        connections=[link("b.y", "a.u"), link("a.y", "b.u"), link("c.y", "b.u")],
    )
    assert network.initialization_order() == [2, 0, 1]


def junction(effort=("x.e", "y.e"), extra=(), flows=({}, {}), subsystems=None, **e):
    """x and y push the mass together; y's effort port can be made to differ."""
    efforts = {"x": Port("e", "N"), "y": Port("e", **{"unit": "N", **e})}
    network, _ = make_network(
        {
            **{name: ports("f", "e", e=port, f=Port("f", "m/s")) for name, port in efforts.items()},
            "load": ports(outputs="e", e=Port("e", "N")),
            "mass": ports(
                "e free", "f", e=Port("e", "N"), free=Port("free", "N"), f=Port("f", "m/s")
            ),
        },
        connections=[
            link("x.e", "mass.e"),
            link("y.e", "mass.e"),
            *(link("mass.f", f"{name}.f", **flow) for name, flow in zip("xy", flows, strict=True)),
            *extra,
        ],
        bonds=[{"name": "pushes", "effort": list(effort), "flow": "mass.f"}],
        subsystems=subsystems or {name: {} for name in ("x", "y", "load", "mass")},
    )
    return network


def test_an_effort_may_be_a_sum():
    bonds = junction().bonds
    assert len(bonds) == len(bonds.effort) == 1
    np.testing.assert_array_equal(bonds.efforts(np.array([1.0, 20.0, 300.0, 4.0])), [21.0])
    assert not bonds.shared
    np.testing.assert_array_equal(bonds.efforts(np.array([1.0, 20.0, 300.0, 4.0])), [21.0])


def test_what_else_arrives_at_a_bonds_input_is_known():
    load = link("load.e", "mass.e", gain=-2.0)
    y = np.array([1.0, 20.0, 300.0, 4.0])
    for effort, other in ((["x.e", "y.e"], -600.0), (["x.e"], 20.0 - 600.0)):
        network = junction(effort, [load])
        carried = y[network.connections.source]
        assert network.bonds.shared
        np.testing.assert_array_equal(carried @ network.bonds.others.dense(), [other, 0.0])


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"unit": "kN"}, r"bonds.pushes.*effort = 'y.e'.*size and the unit of.*'x.e'"),
        ({"size": 2, "effort": ["x.e"]}, "do not fit"),
        ({"flows": ({}, {"order": 0})}, r"effort = 'y.e'.*'mass.f'.*unit and order.*equal"),
        ({"effort": ("x.e", "load.e")}, r"effort = 'load.e'.*connected to 0 inputs"),
        (
            {"effort": ("x.e", "load.e"), "extra": [link("load.e", "mass.free")]},
            r"effort = 'load.e'.*not connected to the same input",
        ),
        (
            {"subsystems": {"x": {}, "y": {"every": 2}, "load": {}, "mass": {}}},
            r"effort = 'y.e'.*same `every`",
        ),
    ],
)
def test_summands_that_do_not_fit_are_named(changes, complaint):
    with pytest.raises(ConfigError, match=complaint):
        junction(**changes)


def test_feedthrough_of_an_input_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"output 'a.y' feedthrough = 'w'.*'a.w'"):
        make_network({"a": ports("u", "y", y=through("w"))})


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ({"uu": {"max": 1.0}}, r"\[subsystems.a.inputs.uu\]: there is no such input.*u"),
        ({"u": {"min": 2.0}}, r"\[subsystems.a.inputs\] port 'u': min 2.0 is above max 1.0"),
    ],
)
def test_bounds_that_do_not_fit_the_port_are_named(inputs, complaint):
    with pytest.raises(ConfigError, match=complaint):
        make_network({"a": ports("u", u=Port("u", max=1.0))}, subsystems={"a": {"inputs": inputs}})


def test_the_session_file_narrows_what_a_port_allows():
    port = Port(
        "u", "%", start=50.0, min=0.0, max=100.0, max_rate=200.0, max_jerk=1e3, safe=0.0, size=2
    )
    assert narrow(port, None) is port
    narrowed = narrow(
        port, InputOptions(min=-10.0, max=40.0, max_rate=500.0, max_jerk=9.0, safe=5.0)
    )
    assert (narrowed.min, narrowed.max) == (0.0, 40.0)
    assert (narrowed.max_rate, narrowed.max_jerk) == (200.0, 9.0)
    assert (narrowed.start, narrowed.safe, narrowed.size, narrowed.unit) == (40.0, 5.0, 2, "%")
    network, _ = make_network(
        {"a": Ports((port,), ())},
        subsystems={"a": {"inputs": {"u": {"max": 30.0, "max_rate": 10.0, "start": 20.0}}}},
    )
    np.testing.assert_array_equal(network.u_max, [30.0, 30.0])
    np.testing.assert_array_equal(network.max_rate, [10.0, 10.0])
    np.testing.assert_array_equal(network.max_jerk, [1e3, 1e3])
    np.testing.assert_array_equal(network.u_start, [20.0, 20.0])


def test_names_with_dots_may_have_dependencies():
    crane = {"P[1].e": Port("P[1].e"), "P[1].f": Port("P[1].f", feedthrough=("P[1].e",))}
    network, _ = make_network(
        {"crane": ports("P[1].e z", "P[1].f", **crane), "b": ports("w", "q")},
        connections=[link("b.q", "crane.P[1].e"), link("crane.P[1].f", "b.w")],
    )
    np.testing.assert_array_equal(network.feedthrough.dense(), [[True, False, False], [False] * 3])
