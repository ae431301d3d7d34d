"""μ: the table of Rodríguez et al. (2022), 3.3, and where it may be taken from."""

from __future__ import annotations

import numpy as np
import pytest

from hilrt.coupling.mu import bond_mu, derive_mu, spurious_share, table_mu
from hilrt.link import Ports
from hilrt.solver import Port
from tests.stepping import make_network
from tests.two_mass_reference import simulate


@pytest.mark.parametrize(
    ("ratio", "order", "held", "sent"),
    [
        (1.0, 0, 0.5, 0.5),
        (1.0, 1, 0.5, 1.0),
        (10.0, 0, 0.725, 0.725),
        (10.0, 1, 0.5, 1.0),
        (10.0, 2, 0.5, 1.0),
        (0.1, 0, 0.5, 0.5),
        (0.1, 1, 0.05, 0.1),
        (0.1, 2, 0.05, 0.1),
    ],
)
def test_table(ratio, order, held, sent):
    assert table_mu(ratio, order, "held") == pytest.approx(held)
    assert table_mu(ratio, order, "sent") == pytest.approx(sent)


def derive(**changes):
    case = {"residual": "sent", "effort_every": 1, "flow_every": 1, "effort_order": 0}
    return derive_mu(**{**case, "feedthrough_orders": [0, 0], **changes})


@pytest.mark.parametrize(
    ("case", "value", "why"),
    [
        ({}, 0.5, "single rate, one feedthrough side, the effort held"),
        ({"effort_order": 2}, 1.0, "the effort extrapolated, residual 'sent'"),
        ({"effort_order": 2, "residual": "held"}, 0.5, "residual 'held'"),
        ({"feedthrough_orders": []}, 0.0, "nothing to correct"),
        ({"effort_every": 10}, 0.725, "R = 10"),
        ({"effort_every": 6, "flow_every": 2, "effort_order": 1}, 1.0, "R = 3"),
        ({"flow_every": 10}, 0.5, "R = 0.1, one feedthrough side, all inputs held"),
        ({"feedthrough_orders": [], "flow_every": 2}, None, "several rates and no declared"),
        ({"feedthrough_orders": [0, 1]}, None, "input of the effort's feedthrough is extrap"),
        ({"effort_order": 1, "feedthrough_orders": [1]}, None, "is extrapolated"),
        ({"effort_every": 4, "feedthrough_orders": [1]}, None, "is extrapolated"),
        ({"flow_every": 10, "effort_order": 1}, None, "its effort is extrapolated"),
        (
            {"flow_every": 10, "feedthrough_orders": [1, 1]},
            None,
            "little to correct; mu = 0.1 holds",
        ),
        ({"flow_feedthrough": True}, None, "the flow has direct feedthrough"),
    ],
)
def test_derivation(case, value, why):
    mu = derive(**case)
    assert mu.value == (None if value is None else pytest.approx(value))
    assert why in mu.why


@pytest.mark.parametrize("residual", ["held", "sent"])
@pytest.mark.parametrize(
    ("every", "order"), [((1, 1), 0), ((1, 1), 1), ((4, 1), 0), ((4, 1), 1), ((1, 4), 0)]
)
def test_what_is_derived_keeps_the_energy_of_the_linear_oscillator(every, order, residual):
    mu = derive(
        residual=residual, effort_every=every[0], flow_every=every[1], effort_order=order
    ).value
    rate = {"every": every, "base": 1e-3 / max(every), "duration": 5.0, "order_force": order}
    assert simulate(**rate).mean_energy_error() > 0.2
    corrected = simulate(**rate, mu=mu, held=residual == "held")
    assert corrected.mean_energy_error() == pytest.approx(0.0, abs=0.02)


def test_why_the_fast_feedthroughs_entry_is_not_taken():
    # evaluated with the input at the end of the step there is next to nothing to correct
    rate = {"every": (1, 2), "base": 5e-4, "duration": 5.0, "order_motion": 1}
    mu = table_mu(0.5, 1, "sent")
    assert abs(simulate(**rate).mean_energy_error()) < 0.01
    assert simulate(**rate, mu=mu, held=False).mean_energy_error() < -0.1
    # with the last micro step's there is, and it is what the entry is for
    rate["output_with_last_micro_input"] = True
    assert simulate(**rate).mean_energy_error() > 0.1
    assert abs(simulate(**rate, mu=mu, held=False).mean_energy_error()) < 0.02


ONE = Ports(
    (Port("f", "m/s"), Port("x", "m")),
    (Port("e", "N", feedthrough=("x",)), Port("d", "N")),
)
TWO = Ports((Port("e", "N"), Port("d", "N")), (Port("f", "m/s"), Port("x", "m")))
LOAD = Ports((), (Port("e", "N"),))
EFFORT = {"from": "one.e", "to": "two.e", "order": 0}
MOTION = [{"from": "two.f", "to": "one.f"}, {"from": "two.x", "to": "one.x", "order": 0}]


def of_bond(connections=(EFFORT, *MOTION), *, bench=(), ports=None, extra_bonds=(), **tables):
    ports = {"one": ONE, "two": TWO, **(ports or {})}
    bond = {"name": "b", "effort": "one.e", "flow": "two.f"}
    correction = {"method": "energy", **tables.pop("correction", {})}
    network, _ = make_network(
        ports,
        connections=list(connections),
        bonds=[{**bond, "correction": correction}, *extra_bonds],
        **tables,
    )
    return bond_mu(network, 0, np.array([name in bench for name in ports]))


def test_two_subsystems_left_to_themselves():
    # only the input that the effort depends on need be held: the flow's own comes by order 1
    assert of_bond().value == 0.5
    assert of_bond(subsystems={"one": {"every": 10}, "two": {}}).value == pytest.approx(0.725)
    assert of_bond([{**EFFORT, "order": 1}, *MOTION]).value == 1.0
    assert of_bond(correction={"mu": 0.3}) == (0.3, "as given")
    motion = [MOTION[0], {**MOTION[1], "order": 1}]
    assert of_bond([EFFORT, *motion]).value is None


def test_beyond_two_subsystems_it_is_not_known():
    load = {"from": "load.e", "to": "two.d"}
    mu = of_bond([EFFORT, *MOTION, load], ports={"load": LOAD})
    assert mu == (None, "more than two subsystems take part")
    idle = of_bond(ports={"load": LOAD})
    assert idle.value == 0.5
    assert of_bond(bench=["one"]) == (None, "there is a bench")
    assert of_bond(bench=["one"], correction={"mu": 0.1}).value == 0.1


def test_several_bonds_or_efforts_are_not_known():
    second = {"from": "one.d", "to": "two.d"}
    bond = {"name": "c", "effort": "one.d", "flow": "two.f"}
    mu = of_bond([EFFORT, second, *MOTION], extra_bonds=[bond])
    assert mu == (None, "several bonds join the two subsystems")
    network, _ = make_network(
        {"one": ONE, "other": ONE, "two": TWO},
        connections=[
            {
                **link,
                "from": link["from"].replace("one", name),
                "to": link["to"].replace("one", name),
            }
            for name in ("one", "other")
            for link in (EFFORT, *MOTION)
        ],
        bonds=[{"name": "b", "effort": ["one.e", "other.e"], "flow": "two.f"}],
    )
    assert bond_mu(network, 0, np.zeros(3, bool)) == (None, "several efforts add up")


def share_of(connections, every):
    table = {name: {"every": n} for name, n in zip(("one", "two"), every, strict=True)}
    bond = {"name": "b", "effort": "one.e", "flow": "two.f"}
    network, _ = make_network(
        {"one": ONE, "two": TWO}, connections=connections, bonds=[bond], subsystems=table
    )
    return spurious_share(network, 0, np.zeros(2, bool))


def test_share_of_the_residual_that_counts_as_energy_made():
    extrapolated = [EFFORT, MOTION[0], {**MOTION[1], "order": 1}]
    assert share_of([EFFORT, *MOTION], (1, 1)) == 0.5  # μ is known
    assert share_of(extrapolated, (1, 1)) == 1.0
    assert share_of(extrapolated, (4, 1)) == 1.0
    assert share_of(extrapolated, (1, 4)) == 0.25
