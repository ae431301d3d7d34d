"""What an input may be: its limits are part of what the session asks for.

The coupled system that a session stands for has them, too. What an input differs by from its
sources because of them is no error of the exchange, and makes no energy that a correction should
take out again.
"""

from __future__ import annotations

from hilrt.compilation.compiled import compiled, stage
from hilrt.tables.plan import Plan
from hilrt.tables.record import Table
from hilrt.tables.state import State


@compiled
def allowed(at: Table, value: float) -> float:
    """A value of an input within its limits; `at` is the input's record in `Plan`.

    Not of one that something else than its connections can act on, too.
    """
    return float(value if at.drive >= 0 else min(max(value, at.low), at.high))


@stage
def energy_of_limits(plan: Plan, state: State, i: int, e: float, f: float) -> float:
    """Power that the limits of the inputs make at element `i` with that effort and flow, W."""
    ends = plan.elements[i]
    at_flow, at_effort = state.inputs[ends.effort_input], state.inputs[ends.flow_input]
    more_e = cut_off(plan.inputs[ends.effort_input], at_flow) / ends.effort_gain
    more_f = cut_off(plan.inputs[ends.flow_input], at_effort) / ends.flow_gain
    return float(ends.watt * (more_e * f - e * more_f))


@compiled
def cut_off(at: Table, u: Table) -> float:
    """What its limits add to an input that its sources make `u.extrapolated`."""
    return allowed(at, u.extrapolated[0]) - u.extrapolated[0]
