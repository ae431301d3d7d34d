"""What a session records each tick: the topics, and how a row is filled from the state."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hilrt.compiled import compiled
from hilrt.record.messages import Signal, Topic
from hilrt.solver import Floats
from hilrt.step.plan import Plan
from hilrt.step.step_state import StepInput, StepState
from hilrt.tables.network import Bools, Ints
from hilrt.timing.timeline import STAGES

#: "effort" stands for the unit of the bond's effort. For a vector bond corrections add up.
BOND_SIGNALS = (
    ("power", "W"),
    ("residual_power", "W"),
    ("tracking_power", "W"),
    ("correction", "effort"),
    ("correction_computed", "effort"),
    ("residual_energy", "J"),
    ("tracking_energy", "J"),
    ("corrected_energy", "J"),
    ("uncorrected_energy", "J"),
)
MASTER_SIGNALS = (
    ("step", "s"),
    ("lateness", "us"),
    ("compute", "us"),
    ("missed", ""),
    *((stage, "us") for stage in STAGES),  # the slack is that of the tick before
)
#: Only where step or order are controlled, or the error is tested: what was acted on, and how.
CONTROL_SIGNALS = (("error", ""), ("order", ""))
PEER_SIGNALS = (("age", "s"), ("compute", "us"), ("wire", "us"), ("late", ""))
#: The rest of the `StepInput`, so that a replay can make every decision again.
CUT_SIGNALS = (
    *(("tick", ""), ("elapsed", "s"), ("apply", ""), ("regular", ""), ("has_middle", "")),
    *(("learns", ""), ("rest", "s")),
)
PEER_CUT_SIGNALS = (
    ("busy", ""),
    ("due", ""),
    ("reached", "s"),
    ("covered", "s"),
    ("clock_error", "s"),
    ("event", ""),
    ("rejoined", ""),
)
#: Signals of the topic "timing" that are no decisions of the step: they depend on the clock.
CIRCUMSTANCES = ("lateness", "compute", "missed", "age", "wire", "late", *STAGES)


class Peers(Protocol):
    """What is known of the subsystems at a tick.

    Age of the samples [s], time to compute and time on the wire [us].
    """

    age: Floats
    compute_us: Floats
    wire_us: Floats


def build_topics(plan: Plan) -> list[Topic]:
    """Topics of a session's log; `RowWriter` writes a row in the same order.

    Signals are named ``subsystem.port`` (as measured, NaN without a fresh sample),
    ``subsystem.port:corrected``, ``subsystem.port:sent`` (``:sent_d1`` … for its derivatives) and
    so on; bonds ``name:power``; the master ``master:lateness``.
    """
    net = plan.network
    outputs, inputs = net.outputs, net.inputs
    bonds = [bond.name for bond in net.bonds.tables]
    efforts = [outputs.units[i] for i in net.bonds.effort[net.bonds.first]]
    sent = [
        Signal(f"{name}:sent" + _suffix(m), _per_time(unit, m))
        for m in range(plan.rows)
        for name, unit in zip(inputs.names, inputs.units, strict=True)
    ]
    return [
        Topic("outputs", _signals(outputs.names, outputs.units)),
        Topic("corrected", _signals(outputs.names, outputs.units, ":corrected")),
        Topic("sent", sent),
        Topic("realised", _signals(inputs.names, inputs.units, ":realised")),
        Topic(
            "defects",
            _signals(inputs.names, inputs.units, ":connection_defect")
            + _signals(outputs.names, outputs.units, ":output_defect"),
        ),
        Topic(
            "bonds",
            [
                Signal(f"{bond}:{key}", effort if unit == "effort" else unit)
                for key, unit in BOND_SIGNALS
                for bond, effort in zip(bonds, efforts, strict=True)
            ],
        ),
        Topic("flags", [Signal(f"flag:{cause}", "") for cause in plan.checks.causes]),
        Topic(
            "timing",
            [Signal(f"master:{key}", unit) for key, unit in MASTER_SIGNALS + _control(plan)]
            + [Signal(f"{s}:{key}", unit) for key, unit in PEER_SIGNALS for s in net.subsystems],
        ),
        Topic("arrivals", _arrivals(plan)),
    ]


def _arrivals(plan: Plan) -> list[Signal]:
    derivatives = plan.rows - 1 if plan.taylor else 0
    net, outputs = plan.network, plan.network.outputs
    return [
        *_signals(outputs.names, ["s"] * len(outputs), ":t_valid"),
        *_signals(outputs.names, outputs.units, ":middle"),
        *(
            Signal(f"{name}:arrived" + _suffix(m), _per_time(unit, m))
            for m in range(1, derivatives + 1)
            for name, unit in zip(outputs.names, outputs.units, strict=True)
        ),
        *(Signal(f"{s}:{key}", unit) for key, unit in PEER_CUT_SIGNALS for s in net.subsystems),
        *(Signal(f"cut:{key}", unit) for key, unit in CUT_SIGNALS),
    ]


def _suffix(m: int) -> str:
    return f"_d{m}" if m else ""


def _per_time(unit: str, m: int) -> str:
    return unit + (f"/s^{m}" if m else "")


def _signals(names: list[str], units: list[str], suffix: str = "") -> list[Signal]:
    return [Signal(name + suffix, unit) for name, unit in zip(names, units, strict=True)]


def _control(plan: Plan) -> tuple[tuple[str, str], ...]:
    return CONTROL_SIGNALS if plan.controls.any or plan.variable_step else ()


class RowWriter:
    """Fills the recorder's row from the state of a tick, in the order of `build_topics`."""

    def __init__(self, plan: Plan, row: Floats) -> None:
        self.plan, self.row = plan, row
        self._control = bool(_control(plan))
        control = CONTROL_SIGNALS if self._control else ()
        self._of_master = np.zeros(len(MASTER_SIGNALS) + len(control))
        self._of_cut = np.zeros(len(CUT_SIGNALS))

    def fill(
        self,
        state: StepState,
        given: StepInput,
        exchange: Peers,
        step: float,
        lateness_ns: int,
        compute_ns: int,
        parts_us: tuple[float, ...] = (0.0,) * len(STAGES),
    ) -> None:
        """Write everything about this tick into the row."""
        control: tuple[float, ...] = ()
        if self._control:
            control = (state.control.error, state.control.highest)
        times = (step, lateness_ns * 1e-3, compute_ns * 1e-3, given.missed, *parts_us)
        self._of_master[:] = times + control
        self._of_cut[:] = (
            given.tick,
            given.elapsed,
            given.apply,
            given.regular,
            given.has_middle,
            given.learns,
            given.rest,
        )
        filled = write_row(
            self.plan, state, given, exchange, self._of_master, self._of_cut, self.row
        )
        assert filled == len(self.row), "the row has other signals than `build_topics`"


def write_row(
    plan: Plan,
    state: StepState,
    given: StepInput,
    peers: Peers,
    master: Floats,
    cut: Floats,
    row: Floats,
) -> int:
    """Write a row, with what is of the master and of the cut; how many values it has."""
    bonds, energy = plan.network.bonds, state.energy
    return _fill(
        given.y,
        given.t_valid,
        given.fresh,
        state.implausible,
        state.y,
        state.sent,
        given.realised,
        state.u_defect,
        state.y_defect,
        bonds.first,
        state.bond_power,
        state.corrected.power,
        state.tracking,
        state.corrected.effort,
        energy.correction,
        energy.residual,
        energy.tracking,
        energy.corrected,
        energy.uncorrected,
        state.monitor.any_active,
        master,
        peers.age,
        peers.compute_us,
        peers.wire_us,
        given.late,
        given.has_middle,
        given.y_mid,
        given.dy,
        given.busy,
        given.due,
        given.reached,
        given.covered,
        given.clock_error,
        given.event,
        given.rejoined,
        cut,
        row,
    )


@compiled
def _fill(
    y: Floats,
    t_valid: Floats,
    fresh: Bools,
    implausible: Bools,
    used: Floats,
    sent: Floats,
    realised: Floats,
    u_defect: Floats,
    y_defect: Floats,
    first: Ints,
    power: Floats,
    residual_power: Floats,
    tracking_power: Floats,
    effort: Floats,
    computed: Floats,
    residual: Floats,
    tracking: Floats,
    corrected: Floats,
    uncorrected: Floats,
    flags: Bools,
    master: Floats,
    age: Floats,
    compute_us: Floats,
    wire_us: Floats,
    late: Bools,
    has_middle: bool,
    middle: Floats,
    derivatives: Floats,
    busy: Bools,
    due: Bools,
    reached: Floats,
    covered: Floats,
    clock_error: Floats,
    event: Bools,
    rejoined: Bools,
    cut: Floats,
    row: Floats,
) -> int:
    """Write the row; how many values it has."""
    k = _put_arrived(y, fresh, implausible, row, 0)
    k = _put(used, row, k)
    for coefficients in sent:
        k = _put(coefficients, row, k)
    k = _put(realised, row, k)
    k = _put(u_defect, row, k)
    k = _put(y_defect, row, k)
    k = _put(power, row, k)
    k = _put(residual_power, row, k)
    k = _put(tracking_power, row, k)
    k = _put_per_bond(effort, first, row, k)
    k = _put_per_bond(computed, first, row, k)
    k = _put(residual, row, k)
    k = _put(tracking, row, k)
    k = _put(corrected, row, k)
    k = _put(uncorrected, row, k)
    k = _put(flags, row, k)
    k = _put(master, row, k)
    k = _put(age, row, k)
    k = _put(compute_us, row, k)
    k = _put(wire_us, row, k)
    k = _put(late, row, k)
    k = _put_arrived(t_valid, fresh, implausible, row, k)
    for i in range(len(middle)):
        row[k + i] = middle[i] if has_middle else np.nan
    k += len(middle)
    for derivative in derivatives:
        k = _put(derivative, row, k)
    k = _put(busy, row, k)
    k = _put(due, row, k)
    k = _put(reached, row, k)
    k = _put(covered, row, k)
    k = _put(clock_error, row, k)
    k = _put(event, row, k)
    k = _put(rejoined, row, k)
    return _put(cut, row, k)


@compiled
def _put(values: Floats | Bools, row: Floats, k: int) -> int:
    """Write values from column `k` on; the column after them."""
    for i in range(len(values)):
        row[k + i] = values[i]
    return k + len(values)


@compiled
def _put_arrived(values: Floats, fresh: Bools, implausible: Bools, row: Floats, k: int) -> int:
    """NaN where no sample arrived. The guard takes what is not finite out of `fresh`; it came."""
    for i in range(len(values)):
        row[k + i] = values[i] if fresh[i] or implausible[i] else np.nan
    return k + len(values)


@compiled
def _put_per_bond(elements: Floats, first: Ints, row: Floats, k: int) -> int:
    """The sum over each bond's elements, whose first ones are `first`."""
    for b in range(len(first)):
        row[k + b] = 0.0
        stop = first[b + 1] if b + 1 < len(first) else len(elements)
        for i in range(first[b], stop):
            row[k + b] += elements[i]
    return k + len(first)
