"""What a session records each tick: the topics, and how a row is filled from the state."""

from __future__ import annotations

import numpy as np

from hilrt.coupling.power_bond import per_bond
from hilrt.exchange import Exchange
from hilrt.plan import Plan
from hilrt.record.messages import Signal, Topic
from hilrt.solver import Floats
from hilrt.step_state import StepInput, StepState

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
MASTER_SIGNALS = (("step", "s"), ("lateness", "us"), ("compute", "us"), ("missed", ""))
#: Only where step or order are controlled, or the error is tested: what was acted on, and how.
CONTROL_SIGNALS = (("error", ""), ("order", ""))
PEER_SIGNALS = (("age", "s"), ("compute", "us"), ("late", ""))


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
        Signal(f"{name}:sent" + (f"_d{m}" if m else ""), unit + (f"/s^{m}" if m else ""))
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
    ]


def _signals(names: list[str], units: list[str], suffix: str = "") -> list[Signal]:
    return [Signal(name + suffix, unit) for name, unit in zip(names, units, strict=True)]


def _control(plan: Plan) -> tuple[tuple[str, str], ...]:
    return CONTROL_SIGNALS if plan.controls.any or plan.variable_step else ()


class RowWriter:
    """Fills the recorder's row from the state of a tick; the slices are computed once."""

    def __init__(self, plan: Plan, row: Floats) -> None:
        self.plan = plan
        ny, nu, nb = len(plan.network.outputs), len(plan.network.inputs), len(plan.network.bonds)
        n = len(plan.network.subsystems)
        lengths = {
            "raw": ny,
            "corrected": ny,
            "sent": plan.rows * nu,
            "realised": nu,
            "u_defect": nu,
            "y_defect": ny,
            **{key: nb for key, _ in BOND_SIGNALS},
            "flags": len(plan.checks.causes),
            "master": len(MASTER_SIGNALS),
            "control": len(_control(plan)),
            **{f"peer_{key}": n for key, _ in PEER_SIGNALS},
        }
        stops = np.cumsum(list(lengths.values()))
        self.part: dict[str, Floats] = {
            key: row[stop - length : stop]
            for (key, length), stop in zip(lengths.items(), stops, strict=True)
        }

    def fill(
        self,
        state: StepState,
        given: StepInput,
        exchange: Exchange,
        step: float,
        lateness_ns: int,
        compute_ns: int,
    ) -> None:
        """Write everything about this tick into the row."""
        part, energy = self.part, state.energy
        np.copyto(part["raw"], np.where(given.fresh, given.y, np.nan))
        part["corrected"][:] = state.y
        part["sent"][:] = state.sent.ravel()
        part["realised"][:] = given.realised
        part["u_defect"][:] = state.u_defect
        part["y_defect"][:] = state.y_defect
        if len(self.plan.network.bonds):
            part["power"][:] = state.bond_power
            part["residual_power"][:] = state.corrected.power
            part["tracking_power"][:] = state.tracking
            part["correction"][:] = per_bond(self.plan.network.bonds, state.corrected.effort)
            part["correction_computed"][:] = per_bond(self.plan.network.bonds, energy.correction)
            part["residual_energy"][:] = energy.residual
            part["tracking_energy"][:] = energy.tracking
            part["corrected_energy"][:] = energy.corrected
            part["uncorrected_energy"][:] = energy.uncorrected
        part["flags"][:] = state.monitor.any_active
        part["master"][:] = (step, lateness_ns * 1e-3, compute_ns * 1e-3, given.missed)
        if len(part["control"]):
            part["control"][:] = (state.control.error, state.control.highest)
        part["peer_age"][:] = exchange.age
        part["peer_compute"][:] = exchange.compute_us
        part["peer_late"][:] = given.late
