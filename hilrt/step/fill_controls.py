"""Fill the plan's tables with constants of step and order control and with ranges of outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from hilrt.config.read_values import (
    errors_are_tested,
    has_tolerances,
    judges_before,
    names_channel,
)
from hilrt.config.structs import MasterTable, Session
from hilrt.errors import ConfigError
from hilrt.solver import Floats
from hilrt.tables.network import Network
from hilrt.tables.plan import ECCO, FIXED, LOCAL, PI, RANGE_POLICIES, Plan
from hilrt.tables.ports import Bools

METHODS = {"fixed": FIXED, "pi": PI, "local": LOCAL, "ecco": ECCO}
#: Default of ``master.step_control.safety`` by method.
SAFETY = {"local": 6.0, "ecco": 0.95}
#: Samples kept beyond the highest order: one for the polynomial, one for a polynomial of one degree
#: more, and with order control those for the scaled derivative norm of order + 2.
SAMPLES_OF_ORDER, SAMPLES_OF_COMPARISON, SAMPLES_OF_ORDER_CONTROL = 1, 2, 3


def fill_controls(plan: Plan, network: Network, master: MasterTable) -> None:
    """Fill in the settings of step and order control, and the coefficients and samples they need.

    Raises
    ------
    ConfigError
        If a tolerance names no port.
    """
    table, session = master.step_control, plan.session
    free = network.connections.free & (master.order_control.method != "fixed")
    _fill_orders(plan, network, master, free)
    session["step_method"] = METHODS[table.method]
    session["variable_step"] = table.method != "fixed"
    if table.method != "fixed":
        session["first_step"] = table.initial or min(master.step, table.maximum)
    session["minimum_step"], session["maximum_step"] = table.minimum, table.maximum
    session["tolerance"], session["growth"] = table.tolerance, table.growth
    default = SAFETY.get(table.method, 1.0)
    session["safety"] = default if table.safety is None else table.safety
    if table.method == "ecco":
        session["energy_atol"] = table.atol if isinstance(table.atol, float) else 0.0
        session["energy_rtol"] = table.rtol if isinstance(table.rtol, float) else 0.0
    session["has_tolerances"] = has_tolerances(master)
    session["tests_errors"] = errors_are_tested(master)
    session["judges_before"] = judges_before(master)
    for key in ("atol", "rtol"):
        plan.inputs[key], plan.outputs[key] = _tolerances(key, master, network)


def _fill_orders(plan: Plan, network: Network, master: MasterTable, free: Bools) -> None:
    """Fill in the controlled orders, their bounds, and the highest of all orders."""
    order, session, connections = master.order_control, plan.session, network.connections
    controls = bool(free.any())
    session["controls_order"] = controls
    session["initial_order"] = order.initial
    session["minimum_order"], session["maximum_order"] = order.minimum, order.maximum
    session["all_free"] = free.all()
    plan.connections["free"] = free
    plan.inputs["free"][connections.targets()[free]] = 1
    plan.outputs["free"][connections.source[free]] = 1
    degrees = np.where(free, order.maximum, connections.order)
    highest = int(max(degrees.max(initial=0), plan.drives["degree"].max(initial=0)))
    session["coefficients"] = highest + 1
    own = SAMPLES_OF_COMPARISON if judges_before(master) else SAMPLES_OF_ORDER
    session["samples"] = highest + (SAMPLES_OF_ORDER_CONTROL if controls else own)
    session["derivatives"] = highest if connections.taylor.any() else 0


def _tolerances(key: str, master: MasterTable, network: Network) -> tuple[Floats, Floats]:
    """``atol`` or ``rtol`` of every input and output, shapes (nu,) and (ny,)."""
    values = getattr(master.step_control, key) if has_tolerances(master) else None
    inputs, outputs = network.inputs, network.outputs
    if isinstance(values, dict):
        for pattern in values:
            if not any(names_channel(pattern, name) for name in inputs.names + outputs.names):
                raise ConfigError(
                    f"[master.step_control] {key}: no port is named {pattern!r}; "
                    'write "subsystem.port", with * for any characters'
                )
    values = values or 0.0
    return per_channel(values, inputs.names), per_channel(values, outputs.names)


def per_channel(given: float | Mapping[str, float], names: Sequence[str]) -> Floats:
    """Tolerance of each named channel; keys are port names, ``*`` matching anything."""
    if not isinstance(given, Mapping):
        return np.full(len(names), given)
    values = np.zeros(len(names))
    for pattern, value in given.items():
        for i, name in enumerate(names):
            if names_channel(pattern, name):
                values[i] = value
    return values


#: Tolerance of a range, relative to its width, for rounding errors of computed values at a bound.
ROUNDING_SHARE = 1e-6


def fill_ranges(plan: Plan, network: Network, tables: Session) -> None:
    """Fill in range and policy of every output, and `realised_by` of every input."""
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
