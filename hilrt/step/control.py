"""Order and length of the next macro step, from how the last one went (METHODS sections 6, 7).

The rules are in `hilrt.coupling.control_step` and `control_order`; here is what they are told and
what follows from their answer. Nothing here runs in a session with fixed step, fixed order and no
error tolerances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hilrt.config.port_patterns import names_channel
from hilrt.config.structs import MasterTable, OrderControl, StepControl
from hilrt.coupling import control_order, control_step
from hilrt.coupling import polynomial as poly
from hilrt.coupling.power_bond import as_used, power_residual, transmitted_power
from hilrt.errors import ConfigError
from hilrt.solver import Floats
from hilrt.tables.network import Bools, Ints, Network, Side

if TYPE_CHECKING:
    from hilrt.step.plan import Plan
    from hilrt.step.step_state import StepInput, StepState

#: A step shorter than this share of the one before counts as reduced, for the order control.
REDUCED = 0.95


@dataclass(frozen=True)
class Controls:
    """Constants of step and order control.

    Attributes
    ----------
    step, order : StepControl, OrderControl
        The session file's tables.
    u_atol, u_rtol, y_atol, y_rtol : ndarray or float
        Tolerances of the inputs (nu,) and outputs (ny,).
    tolerances : bool
        Whether the session file gives any.
    connected : ndarray of int
        Inputs with a connection.
    free : ndarray, shape (n free, ny)
        From the outputs to the inputs that have a connection whose order is controlled, through
        these connections alone; `free_inputs` and `free_sources` are their indices.
    all_free : bool
        Whether that is all connections.
    connection_order, output_order : list of ndarray of int, shape (nc,), (ny,)
        For every order that the control may choose: order of each connection, and the highest
        order of each output's connections. One entry without order control.
    """

    step: StepControl
    order: OrderControl
    u_atol: Floats
    y_atol: Floats
    rtol: float
    tolerances: bool
    connected: Ints
    coupled: Bools
    free: Floats
    free_inputs: Ints
    free_sources: Ints
    all_free: bool
    connection_order: list[Ints]
    output_order: list[Ints]

    @cached_property
    def orders(self) -> bool:
        """Whether the order is controlled."""
        return self.order.method != "fixed" and len(self.free_inputs) > 0

    @cached_property
    def tests(self) -> bool:
        """Whether the local error of the inputs is estimated and tested at every step."""
        return self.tolerances and self.step.method in ("fixed", "local")

    @cached_property
    def any(self) -> bool:
        """Whether anything is to be done here in a session with a fixed step."""
        return self.orders or self.tests

    @cached_property
    def highest(self) -> int:
        """Highest degree of a polynomial that is sent."""
        return int(max((int(o.max(initial=0)) for o in self.connection_order), default=0))

    @cached_property
    def depth(self) -> int:
        """Samples of each output that are needed: for SDN(k + 2), or the highest degree."""
        return self.highest + (3 if self.orders else 1)

    @cached_property
    def lowest(self) -> list[int]:
        """Lowest degree of a connection, for every order of the control."""
        return [int(o.min(initial=self.highest)) for o in self.connection_order]

    def weight(self, u: Floats) -> Floats:
        """``W = atol + rtol |u|``, shape (nu,); infinite where that is zero."""
        weight: Floats = self.u_atol + self.rtol * np.abs(u)
        weight[weight <= 0.0] = np.inf
        return weight


def build_controls(network: Network, master: MasterTable) -> Controls:
    """Constants of step and order control, from the session file."""
    table, order = master.step_control, master.order_control
    connections, nu, ny = network.connections, len(network.inputs), len(network.outputs)
    target = np.repeat(
        connections.target, np.diff(np.append(connections.first, len(connections.source)))
    )
    free = connections.free if order.method != "fixed" else np.zeros(len(target), dtype=bool)
    L = np.zeros((nu, ny))
    np.add.at(L, (target[free], connections.source[free]), connections.gain[free])
    free_inputs = np.unique(target[free])
    known = network.inputs.names + network.outputs.names
    per_port = isinstance(table.atol, dict)
    energy = table.method == "ecco"  # whose tolerances are of energy
    atol = 0.0 if energy or table.atol is None else table.atol
    orders = list(range(order.maximum + 1)) if free.any() else [0]
    connection_order = [np.where(free, k, connections.order) for k in orders]
    return Controls(
        step=table,
        order=order,
        u_atol=_per_channel(atol, network.inputs, known),
        y_atol=_per_channel(atol, network.outputs, known),
        rtol=0.0 if energy or table.rtol is None else table.rtol,
        tolerances=not energy and (per_port or table.atol is not None or table.rtol is not None),
        connected=np.flatnonzero(network.connected),
        coupled=(network.L != 0.0).any(axis=0),
        free=L[free_inputs],
        free_inputs=free_inputs,
        free_sources=np.unique(connections.source[free]),
        all_free=bool(free.all()),
        connection_order=connection_order,
        output_order=[_highest_of_outputs(network, o) for o in connection_order],
    )


def _per_channel(atol: float | Mapping[str, float], side: Side, known: list[str]) -> Floats:
    """`atol` for every channel of a side; keys are port names, ``*`` standing for anything."""
    values = np.full(len(side), 0.0)
    if not isinstance(atol, Mapping):
        values[:] = atol
        return values
    for pattern, value in atol.items():
        if not any(names_channel(pattern, name) for name in known):
            raise ConfigError(
                f"[master.step_control] atol: no port is named {pattern!r}; "
                'write "subsystem.port", with * for any characters'
            )
        for i, name in enumerate(side.names):
            if names_channel(pattern, name):
                values[i] = value
    return values


def _highest_of_outputs(network: Network, order: Ints) -> Ints:
    highest = np.zeros(len(network.outputs), dtype=np.intp)
    np.maximum.at(highest, network.connections.source, order)
    return highest


def order_index(controls: Controls, order: int) -> int:
    """Position of an `order` in ``controls.connection_order``."""
    return order if len(controls.connection_order) > 1 else 0


@dataclass(slots=True)
class ControlState:
    """State of step and order control.

    Attributes
    ----------
    pi, h, ecco
        State of each method of step control; `h` is the step in force [s].
    order : OrderState
    connection_order, output_order : ndarray of int, shape (nc,), (ny,)
        In force for what leaves at this tick.
    degree : int
        Lowest degree of a connection in what left at the previous tick, start-up included.
    before : float
        Length of the step before the one that ended, s.
    error : float
        What the step control acted on: worst defect, WRMS error or, with its sign, worst
        relative energy residual; NaN before the first step. The tolerated value is
        ``tolerance`` for the defect, else 1.
    ratio : ndarray, shape (nu,)
        Estimated error of each input over its tolerance.
    failed : bool
        Whether the step that ended failed its error test.
    steps_of_order : list of int
        Steps made with each order.
    """

    pi: control_step.PIState
    h: float
    ecco: control_step.EccoState
    order: control_order.OrderState
    connection_order: Ints
    output_order: Ints
    degree: int
    before: float
    error: float
    ratio: Floats
    failed: bool
    steps_of_order: list[int]

    @property
    def highest(self) -> int:
        """Highest order of a connection, of what leaves at this tick."""
        return int(self.output_order.max(initial=0))

    @classmethod
    def start(cls, controls: Controls, h0: float, n_inputs: int, n_bonds: int) -> ControlState:
        """State before the first step of size `h0` [s]."""
        table = controls.order
        order = min(max(table.initial, table.minimum), table.maximum) if controls.orders else 0
        index = order_index(controls, order)
        return cls(
            pi=control_step.pi_start(h0),
            h=h0,
            ecco=control_step.ecco_start(h0, n_bonds),
            order=control_order.OrderState(order),
            connection_order=controls.connection_order[index],
            output_order=controls.output_order[index],
            degree=0,
            before=0.0,
            error=float("nan"),
            ratio=np.zeros(n_inputs),
            failed=False,
            steps_of_order=[0] * len(controls.connection_order),
        )


def control(plan: Plan, state: StepState, given: StepInput) -> bool:
    """Choose order and length of the next step; whether the order has changed."""
    controls, memory = plan.controls, state.control
    available = int(state.degree.min(initial=controls.depth - 1))
    if given.elapsed <= 0.0:
        memory.degree = min(controls.lowest[order_index(controls, memory.order.order)], available)
        return False
    if controls.tests:
        estimate_error(plan, state, given)
    changed = controls.orders and choose_order(plan, state, given)
    if plan.variable_step:
        choose_step(plan, state, given, changed)
    memory.degree = min(controls.lowest[order_index(controls, memory.order.order)], available)
    memory.before = given.elapsed
    return changed


def estimate_error(plan: Plan, state: StepState, given: StepInput) -> None:
    """ExSLocal: the inputs as sent, at the end of the step, against what they turned out to be.

    Where the output behind an input has feedthrough, it was evaluated with the very inputs that
    are in question: the difference is then an indicator, not an estimate (paper 000, section 4.3).
    """
    controls, memory = plan.controls, state.control
    u = state.measured[0]
    end = poly.evaluate(state.flown, given.t - state.flown_t0)
    memory.ratio = np.abs(end - u) / controls.weight(u)
    connected = memory.ratio[controls.connected]
    memory.error = control_step.weighted_rms(connected, np.ones_like(connected))
    memory.failed = memory.error > 1.0


def choose_order(plan: Plan, state: StepState, given: StepInput) -> bool:
    """Order of the next step; whether it is another one."""
    controls, memory = plan.controls, state.control
    now = memory.order.order
    available = int(state.degree[controls.free_sources].min())
    terms = min(now + 2, available)
    norms = control_order.scaled_derivative_norms(
        state.differences[1 : terms + 1] @ controls.free.T, free_weight(plan, state), given.elapsed
    )
    memory.order = control_order.next_order(
        memory.order,
        norms,
        failed=memory.failed,
        reduced=given.elapsed < REDUCED * memory.before,
        minimum=controls.order.minimum,
        maximum=controls.order.maximum,
    )
    order = memory.order.order
    memory.steps_of_order[order] += 1
    if order == now:
        return False
    memory.connection_order = controls.connection_order[order]
    memory.output_order = controls.output_order[order]
    return True


def free_weight(plan: Plan, state: StepState) -> Floats:
    """Weights of the inputs whose order is controlled: their tolerances, or else their scales."""
    controls = plan.controls
    if controls.tolerances:
        return controls.weight(state.measured[0])[controls.free_inputs]
    # The scales are those of the tick before; a signal that has been zero so far weighs nothing.
    u = np.abs(state.measured[0])
    weight: Floats = np.fmax(state.monitor.scale[: len(u)], u)[controls.free_inputs]
    weight[weight < np.finfo(np.float64).eps] = np.inf
    return weight


def choose_step(plan: Plan, state: StepState, given: StepInput, order_changed: bool) -> None:
    """Size of the step about to be dispatched."""
    memory, table = state.control, plan.step_control
    low, high = table.minimum, table.maximum
    if table.method == "pi":
        memory.error = worst_defect(plan.controls, state)
        memory.pi = control_step.pi_step(memory.pi, memory.error, table.tolerance, low, high)
        h = memory.pi.h
    elif table.method == "local":
        error, degree = memory.error, memory.degree
        if order_changed:
            error, degree = expected_error(plan, state, given.elapsed)
        h = control_step.local_step(memory.h, error, degree, plan.safety, low, high)
        memory.h = h
    else:
        power = transmitted_power(
            plan.network.bonds,
            plan.network.bonds.efforts(state.y),
            state.y[plan.network.bonds.flow],
        )
        mean = control_step.mean_power(
            memory.ecco, power, given.elapsed, given.t, plan.reliability.scale_time
        )
        memory.ecco = control_step.ecco_step(
            memory.ecco,
            residual_power(plan, state, given),
            mean,
            memory.degree,
            atol=table.atol if isinstance(table.atol, float) else 0.0,
            rtol=table.rtol or 0.0,
            safety=plan.safety,
            low=low,
            high=high,
        )
        memory.error, h = memory.ecco.error, memory.ecco.h
    state.h_next = max(round(h * 1e9), 1) * 1e-9  # time is integer nanoseconds


def worst_defect(controls: Controls, state: StepState) -> float:
    """Largest defect over all connected ports; over ``atol + rtol |value|`` where given."""
    ins, outs = controls.connected, controls.coupled
    defects = np.concatenate((state.u_defect[ins], np.nan_to_num(state.y_defect[outs])))
    if controls.tolerances:
        value = np.abs(np.concatenate((state.measured[0][ins], state.y[outs])))
        scale = np.concatenate((controls.u_atol[ins], controls.y_atol[outs]))
        scale += controls.rtol * value
        defects = defects / np.where(scale > 0.0, scale, np.inf)
    return float(defects.max(initial=0.0))


def expected_error(plan: Plan, state: StepState, h: float) -> tuple[float, int]:
    """WRMS norm of the error to expect of the new order at a step `h` [s], and that order.

    Where the samples do not suffice, or other connections keep their order, the error of the step
    that ended counts (too).
    """
    controls, memory = plan.controls, state.control
    order = memory.order.order
    degree = controls.lowest[order_index(controls, order)]
    if int(state.degree[controls.free_sources].min()) <= order:
        return memory.error, memory.degree
    missed = control_step.expected_error(state.differences, state.nodes, order, h)
    error = control_step.weighted_rms(controls.free @ missed, free_weight(plan, state))
    return (error if controls.all_free else max(error, memory.error)), degree


def residual_power(plan: Plan, state: StepState, given: StepInput) -> Floats:
    """Power residual [W], shape (nb,), of the interval that ended, corrections left out."""
    bonds = plan.network.bonds
    age = given.t - state.flown_t0
    e_used, f_used = as_used(bonds, state.flown, age, state.flown_added, state.flown_others)
    return power_residual(bonds, bonds.efforts(state.y), state.y[bonds.flow], e_used, f_used)
