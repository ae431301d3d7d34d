"""Measures that depend on what is corrected, and on the step control."""

import pytest

from hilrt.link import Ports
from hilrt.reliability.causes import CAUSES
from hilrt.reliability.measure import measure_session, staying_share
from hilrt.solver import Port
from tests.stepping import make_numerics


@pytest.fixture
def hook():
    """A bond of two elements that is corrected by a model."""
    arm = Ports((Port("v", "m/s", size=2),), (Port("f", "N", size=2),))
    crane = Ports((Port("f", "N", size=2),), (Port("v", "m/s", size=2),))
    correction = {"method": "model", "mu": 0.5}
    bond = {"name": "hook", "effort": "arm.f", "flow": "crane.v", "correction": correction}
    connections = [{"from": "arm.f", "to": "crane.f"}, {"from": "crane.v", "to": "arm.v"}]
    return make_numerics({"arm": arm, "crane": crane}, connections=connections, bonds=[bond])


@pytest.mark.parametrize(
    ("untrusted", "applied", "share"),
    [((), True, 0.0), ((0,), True, 0.5), ((1,), True, 0.5), ((), False, 0.5)],
)
def test_energy_is_spurious_while_any_effort_of_a_bond_is_not_corrected(
    hook, untrusted, applied, share
):
    """Of a bond of two elements one untrusted Jacobian is enough, whichever it is."""
    for output in untrusted:
        hook.state.outputs[output].reason = 1
    hook.given.session["apply"] = applied
    assert staying_share(hook.plan, hook.state, hook.given, 0) == share


@pytest.mark.parametrize(
    ("method", "h", "at_minimum"), [("fixed", 1e-9, 0), ("pi", 1e-4, 1), ("pi", 2e-4, 0)]
)
def test_a_step_is_at_its_minimum_only_where_it_is_chosen(method, h, at_minimum):
    control = {"method": method, "minimum": 1e-4}
    numerics = make_numerics({"s": Ports((), ())}, master={"step": 1e-3, "step_control": control})
    numerics.state.session["h_next"] = h
    measure_session(numerics.plan, numerics.state, numerics.given, numerics.slack)
    cause = list(CAUSES).index("step_minimum")
    assert numerics.state.checks[numerics.plan.causes[cause].first].ratio == at_minimum
