"""What a session records each tick: the topics, and how a row is filled from the state."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hilrt.coupling.power_bond import per_bond
from hilrt.network import Bools
from hilrt.plan import Plan
from hilrt.record.messages import Signal, Topic
from hilrt.solver import Floats
from hilrt.step_state import StepInput, StepState
from hilrt.timeline import STAGES

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
        self._unknown = np.full(len(plan.network.outputs), np.nan)
        self._parts: list[Floats] = []  # of the row, one for each value of `fill`

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
        """Write everything about this tick into the row.

        Assigned part by part: `np.concatenate` takes twice the time, for it makes arrays of the
        tuples and converts what is true or false.
        """
        control: tuple[float, ...] = ()
        if self._control:
            control = (state.control.error, state.control.highest)
        # The guard has taken what is not finite out of `fresh`; it has arrived all the same.
        arrived, y, t_valid = given.fresh | state.implausible, given.y, given.t_valid
        if not all(arrived.tolist()):
            y, t_valid = np.where(arrived, y, np.nan), np.where(arrived, t_valid, np.nan)
        values = (
            y,
            state.y,
            state.sent.ravel(),
            given.realised,
            state.u_defect,
            state.y_defect,
            *self._bonds(state),
            state.monitor.any_active,
            (step, lateness_ns * 1e-3, compute_ns * 1e-3, given.missed, *parts_us, *control),
            exchange.age,
            exchange.compute_us,
            exchange.wire_us,
            given.late,
            t_valid,
            *self._arrivals(given),
        )
        if not self._parts:
            ends = np.cumsum([np.size(value) for value in values])
            self._parts = np.split(self.row, ends[:-1])
        for part, value in zip(self._parts, values, strict=True):
            part[...] = value

    def _arrivals(self, given: StepInput) -> tuple[Floats | Bools | tuple[float, ...], ...]:
        return (
            given.y_mid if given.has_middle else self._unknown,
            given.dy.ravel(),
            given.busy,
            given.due,
            given.reached,
            given.covered,
            given.clock_error,
            given.event,
            given.rejoined,
            (
                given.tick,
                given.elapsed,
                given.apply,
                given.regular,
                given.has_middle,
                given.learns,
                given.rest,
            ),
        )

    def _bonds(self, state: StepState) -> tuple[Floats, ...]:
        bonds, energy = self.plan.network.bonds, state.energy
        if not len(bonds):
            return ()
        return (
            state.bond_power,
            state.corrected.power,
            state.tracking,
            per_bond(bonds, state.corrected.effort),
            per_bond(bonds, energy.correction),
            energy.residual,
            energy.tracking,
            energy.corrected,
            energy.uncorrected,
        )
