"""The `State` before the first tick."""

from __future__ import annotations

import numpy as np

from hilrt.config.structs import Reliability
from hilrt.expressions.program import Program
from hilrt.solver import Floats
from hilrt.tables import state as rows
from hilrt.tables.given import THRESHOLDS
from hilrt.tables.model import ModelState, no_model_state
from hilrt.tables.network import Network
from hilrt.tables.plan import Plan
from hilrt.tables.record import table
from hilrt.tables.state import State


def start_state(
    plan: Plan,
    network: Network,
    thresholds: Reliability,
    y0: Floats,
    u0: Floats,
    program: Program,
    model: ModelState | None = None,
) -> State:
    """State before the first tick, at session time 0.

    Parameters
    ----------
    plan : Plan
    network : Network
    thresholds : Reliability
        Of the session file.
    y0, u0 : ndarray, shape (ny,), (nu,)
        Outputs and inputs of the initialized subsystems.
    program : Program
        Of the session's expressions.
    model : ModelState, optional
        Where the plan has a model.
    """
    state = State(
        session=table(rows.SESSION, 1),
        subsystems=table(rows.SUBSYSTEMS, len(plan.subsystems)),
        outputs=table(rows.OUTPUTS, len(plan.outputs)),
        inputs=table(rows.INPUTS, len(plan.inputs)),
        connections=table(rows.CONNECTIONS, len(plan.connections)),
        drives=table(rows.DRIVES, len(plan.drives)),
        stimuli=table(rows.STIMULI, len(plan.stimuli)),
        faults=table(rows.FAULTS, len(plan.faults)),
        alterations=table(rows.ALTERATIONS, len(plan.alterations)),
        underway=table(rows.UNDERWAY, int(plan.alterations["slots"].sum())),
        parameters=table(rows.PARAMETERS, len(plan.parameters)),
        bonds=table(rows.BONDS, len(plan.bonds)),
        elements=table(rows.ELEMENTS, len(plan.elements)),
        errors=table(rows.ERRORS, plan.session[0].error_states),
        answers=table(
            rows.ANSWERS, len(plan.error_paths) + len(plan.error_answers) + len(plan.direct)
        ),
        checks=table(rows.CHECKS, len(plan.checks)),
        causes=table(rows.CAUSES, len(plan.causes)),
        alarms=table(rows.ALARMS, len(plan.alarms)),
        registers=program.registers.copy(),
        memory=program.memory.copy(),
        model=model or no_model_state(),
    )
    first_step = plan.session["first_step"]
    state.session["h_next"] = state.session["controlled_step"] = first_step
    state.session["step_integral"] = np.log(first_step)
    state.session["error"] = np.nan
    state.session["alarm_level"] = -1
    for name in THRESHOLDS:
        state.session[name] = getattr(thresholds, name)
    state.subsystems["h"], state.subsystems["dispatch"] = plan.session["step"], 1
    _start_ports(plan, state, y0, u0)
    _start_orders(plan, state)
    _start_drives(plan, state)
    for b, bond in enumerate(network.bonds.tables):
        cap_abs = bond.correction.cap_abs
        state.bonds[b].cap = bond.correction.cap
        state.bonds[b].cap_abs = np.inf if cap_abs is None else cap_abs
    state.bonds["share"] = state.bonds["acting_share"] = 1.0
    state.elements["e"], state.elements["f"] = network.bonds.efforts(y0), y0[network.bonds.flow]
    state.checks["last_high"] = -np.inf
    state.alarms["previous"] = state.alarms["previous_t"] = np.nan
    state.alarms["since"] = np.inf
    return state


def _start_ports(plan: Plan, state: State, y0: Floats, u0: Floats) -> None:
    outputs, inputs = state.outputs, state.inputs
    outputs["t_past"] = -np.arange(outputs["t_past"].shape[1])  # keeps differences finite
    outputs["y_past"] = y0[:, None]
    outputs["count"] = 1
    outputs["sample"] = y0
    outputs["newest"] = outputs["t_newest"] = np.nan
    outputs["t_newest"][plan.calculated["output"]] = -np.inf
    outputs["y"], outputs["defect"] = y0, np.nan
    outputs["kept"] = 1.0
    for name in ("extrapolated", "polynomial", "previous"):
        inputs[name][:, 0] = u0
    inputs["last"] = inputs["approach_asked"] = u0
    inputs["expected_defect"] = -1.0
    for records, values in ((outputs, y0), (inputs, u0)):
        for name in ("magnitude", "scale", "peak"):
            records[name] = np.abs(values)


def _start_drives(plan: Plan, state: State) -> None:
    """Connections act, but those of sequences that do not drive yet."""
    state.connections["acts"] = plan.connections["driven"] < 0
    state.connections["gain"] = plan.connections["gain"]
    state.drives["kept"] = 1.0
    state.drives["own"][:, 0] = plan.inputs["constant"][plan.drives["input"]]
    state.drives["rate"] = np.inf


def _start_orders(plan: Plan, state: State) -> None:
    """Orders in force: those of the session file, or the first one of the order control."""
    session = plan.session[0]
    first = min(max(session.initial_order, session.minimum_order), session.maximum_order)
    state.session["order"] = first if session.controls_order else 0
    free = plan.connections["free"] != 0
    order = np.where(free, state.session["order"], plan.connections["order"])
    state.connections["order"] = order
    np.maximum.at(state.outputs["order"], plan.connections["source"], order)
