"""Declared ranges of the outputs in the plan, and which outputs measure what became of inputs."""

from __future__ import annotations

import math

from hilrt.config.structs import Session
from hilrt.tables.network import Network
from hilrt.tables.plan import RANGE_POLICIES, Plan

#: Share of a range by which a value may be outside: what is computed comes to rest at a bound with
#: the errors of rounding.
ROUNDING_SHARE = 1e-6


def fill_ranges(plan: Plan, network: Network, tables: Session) -> None:
    """Range and policy of every output, and `realised_by` of every input."""
    for name, (part, port) in network.outputs.ports.items():
        subsystem, output = tables.split(name)
        bench = bool(plan.subsystems["physical"][plan.outputs["subsystem"][part.start]])
        policy = tables.subsystems[subsystem].range_policy(output, measured=bench)
        slack = (
            ROUNDING_SHARE * (port.max - port.min) if math.isfinite(port.max - port.min) else 0.0
        )
        plan.outputs["low"][part] = port.min - slack
        plan.outputs["high"][part] = port.max + slack
        plan.outputs["range_policy"][part] = RANGE_POLICIES.index(policy)
    plan.inputs["realised_by"] = -1
    for name, (part, _) in network.inputs.ports.items():
        subsystem, key = tables.split(name)
        # Only tables of benches have the key.
        realised = getattr(tables.subsystems[subsystem].inputs.get(key), "realised", None)
        if realised is not None:
            outputs, _ = network.outputs.ports[f"{subsystem}.{realised}"]
            plan.inputs["realised_by"][part] = outputs.start
