"""The macro step: which stage acts when. The only file that knows this order as a whole.

    critical path (tick -> inputs on the wire)        slack (until the next tick)
    guard -> compensate -> correct_feedthrough        defects -> ledger -> identify
      -> correct_model -> extrapolate                   -> reliability
      -> correct_energy -> limit

`macro_step` and `assess` are functions of a state and a `StepInput` alone: no clock, no socket, no
await. The state's arrays are preallocated and updated in place, so that the same inputs from the
same state give the same decisions, bit for bit. With a variable step the defects are measured on
the way, because the step about to be dispatched depends on them; on a bench, where the step is
fixed, all of `assess` runs in the slack.
"""

from __future__ import annotations

import numpy as np

from hilrt.coupling import correct_energy, defect, power_bond
from hilrt.coupling import extrapolate as ex
from hilrt.coupling import polynomial as poly
from hilrt.coupling.compensate import take_samples
from hilrt.coupling.correct_feedthrough import correct_feedthrough
from hilrt.coupling.intervals import leave
from hilrt.reliability.alarms import evaluate
from hilrt.solver import Floats
from hilrt.step.control import control
from hilrt.step.plan import Plan
from hilrt.step.step_state import StepInput, StepState


def macro_step(plan: Plan, state: StepState, given: StepInput) -> StepState:
    """The critical path: from the samples in the cut to the inputs for the wire."""
    guard(plan, state, given)
    turn_over(state)
    compensate(plan, state, given)
    bridged = predict_late(plan, state, given)
    correct_outputs(plan, state, given, bridged)
    build_polynomials(plan, state, given)
    if plan.variable_step:
        measure_defects(plan, state, given)
    choose_length(plan, state, given)
    add_energy_correction(plan, state, given)
    send(plan, state, given)
    return state


def assess(plan: Plan, state: StepState, given: StepInput) -> StepState:
    """The slack: how good was the interval that ended, and what is to be said of it."""
    if not plan.variable_step:
        measure_defects(plan, state, given)
        if plan.controls.any and not given.rest:
            control(plan, state, given)
    measure_bonds(plan, state, given)
    if state.model is not None:
        sampled = plan.sampled(given.fresh, given.t_valid, given.t)
        state.model.learn(sampled, given.realised, given.learns)
    state.monitor.update(plan, state, given)
    return state


def choose_length(plan: Plan, state: StepState, given: StepInput) -> None:
    """Length of the macro step that begins; from a discontinuity it leads back to the grid.

    No control acts on the shortened step that led there: its length was nobody's choice.
    """
    if given.rest:
        h = min(given.rest, state.control.h) if plan.variable_step else given.rest
        state.h_next = round(h * 1e9) * 1e-9  # time is integer nanoseconds
    elif not plan.variable_step:
        state.h_next = plan.first_step
    elif control(plan, state, given):
        build_polynomials(plan, state, given)


def turn_over(state: StepState) -> None:
    """What was sent at the previous tick is now what was flown; its arrays are used again."""
    state.flown, state.sent = state.sent, state.flown
    state.flown_t0, state.sent_t0 = state.sent_t0, state.flown_t0
    state.flown_added, state.added = state.added, state.flown_added
    state.flown_others, state.others = state.others, state.flown_others


def guard(plan: Plan, state: StepState, given: StepInput) -> None:
    """Alarms, before a value can act."""
    if len(plan.alarms):
        evaluate(plan.alarms, state.alarms, given)


def compensate(plan: Plan, state: StepState, given: StepInput) -> None:
    """Samples that are numbers into the history, and the outputs at the communication point."""
    take_samples(
        given.t,
        given.y,
        given.t_valid,
        given.fresh,
        given.late,
        plan.spacing,
        plan.full_order,
        state.control.output_order,
        plan.network.outputs.owner,
        plan.holds_when_late,
        given.event,
        plan.passes,
        state.jumps,
        state.history.t,
        state.history.y,
        state.history.count,
        state.implausible,
        state.differences,
        state.nodes,
        state.degree,
        state.y,
    )


def predict_late(plan: Plan, state: StepState, given: StepInput) -> Floats | None:
    """Outputs of late subsystems as an identified model foretells them, where one does.

    Returns
    -------
    ndarray or None
        What that adds to the outputs, shape (ny,); their polynomials keep their slopes.
    """
    model = state.model
    if model is None or not plan.predicts_any or given.elapsed <= 0.0:
        return None
    late = given.late & plan.predicts
    if not late.any() or not model.fits(given.elapsed):
        return None
    begin = given.t - given.elapsed
    y = model.predict(late, poly.shift(state.flown, begin - state.flown_t0))
    bridged: Floats = np.where(np.isfinite(y), y - state.y, 0.0)
    state.y += bridged
    state.differences[0] += bridged
    return bridged


def correct_outputs(
    plan: Plan, state: StepState, given: StepInput, bridged: Floats | None = None
) -> None:
    """Take out of the outputs what extrapolated inputs did to them, before they are used."""
    model = state.model
    if (plan.feedthrough is None and model is None) or given.elapsed <= 0.0:
        return
    y = state.y
    if plan.feedthrough is not None:
        sent = poly.evaluate(state.flown, given.t - state.flown_t0)
        y = correct_feedthrough(plan.feedthrough, y, plan.base, sent)
    if model is not None and model.fits(given.elapsed):
        begin = given.t - given.elapsed
        sent = state.flown.copy()
        poly.shift_in_place(sent, begin - state.flown_t0)
        if given.regular:
            y = model.correct(y, sent)
        else:
            model.restart(y, sent)
    elif model is not None:
        model.restart(y)
    if given.apply and not plan.shadow:
        state.history.y[0] += y - state.y
        state.differences, state.nodes = ex.divided_differences(state.history, given.t)
        if bridged is not None:
            state.differences[0] += bridged
        state.y = y
    elif model is not None:
        model.offset = np.zeros_like(model.offset)


def build_polynomials(plan: Plan, state: StepState, given: StepInput) -> None:
    """``ũ = L ỹ``: polynomials through the newest samples, per connection."""
    carry_on(plan, state)
    connections = plan.network.connections
    if plan.taylor:
        ex.taylor_polynomials(connections, state.y, given.dy, state.carried)
    ex.sum_at_inputs(connections, state.carried, plan.base, state.measured)


def carry_on(plan: Plan, state: StepState) -> None:
    """What every connection carries."""
    ex.connection_polynomials(
        state.differences,
        state.nodes,
        state.control.connection_order,
        state.degree,
        plan.network.connections.source,
        state.carried,
    )


def add_energy_correction(plan: Plan, state: StepState, given: StepInput) -> None:
    """Power residual of the interval that ended, and the effort that answers it."""
    bonds, settings = plan.network.bonds, plan.energy
    energy, corrected = state.energy, state.corrected
    if not len(bonds.first) or given.elapsed <= 0.0:
        state.added.fill(0.0)
        return
    tick = -1 if given.rest else given.tick
    acting = settings.active if given.apply else settings.none
    correct_energy.correct_bonds(
        tick,
        given.t,
        state.h_next,
        state.y,
        state.flown,
        state.flown_t0,
        state.flown_added,
        state.flown_others,
        bonds.effort,
        bonds.more,
        bonds.more_of,
        bonds.flow,
        bonds.inputs,
        bonds.shared,
        bonds.effort_gain,
        bonds.flow_gain,
        bonds.every,
        bonds.first,
        bonds.watt,
        settings.mu,
        settings.nu,
        settings.cap,
        settings.cap_abs,
        settings.held,
        acting,
        state.bond_time,
        energy.e,
        energy.f,
        energy.correction,
        energy.in_force,
        energy.budget,
        energy.uncorrected,
        energy.power,
        corrected.due,
        corrected.power,
        corrected.effort,
        corrected.capped,
        corrected.energy,
        corrected.work,
        corrected.applied_work,
        state.added,
    )


def send(plan: Plan, state: StepState, given: StepInput) -> None:
    """What leaves the master: corrected, limited, about the start of each subsystem's interval."""
    bonds = plan.network.bonds
    poly.raise_by(state.measured, state.added, state.sent)
    if state.model is not None:
        state.sent[0] += state.model.offset
        if plan.dithers:
            scale = state.monitor.scale[: len(state.added)]
            state.sent += state.model.excitation(given.tick, scale)
    if bonds.shared:
        np.matmul(state.carried, bonds.others, out=state.others)
        state.others[0] += plan.base[bonds.inputs]
    open_and_limit(plan, state, given)


def open_and_limit(plan: Plan, state: StepState, given: StepInput) -> None:
    """Each subsystem's interval, and the polynomials in it within their limits."""
    net, owner, bonds = plan.network, plan.network.inputs.owner, plan.network.bonds
    at_bonds = bonds.inputs if bonds.shared else bonds.inputs[:0]
    leave(
        given.t,
        state.h_next,
        net.every,
        given.reached,
        given.due,
        given.busy,
        owner,
        plan.lead,
        plan.bounds.low,
        plan.bounds.high,
        plan.bounds.rate,
        plan.bounds.jerk,
        at_bonds,
        state.sent,
        state.sent_t0,
        state.added,
        state.others,
        state.flown,
        state.flown_t0,
        state.flown_added,
        state.flown_others,
        state.last,
        state.last_t,
        state.motion,
        state.limited,
        state.t_start,
        state.h,
        state.dispatch,
    )


def measure_defects(plan: Plan, state: StepState, given: StepInput) -> None:
    """Connection and output defects of the interval that ended."""
    if given.elapsed <= 0.0:
        return
    defect.connection_defect(
        state.flown, state.flown_t0, state.measured, given.t, given.elapsed, state.u_defect
    )
    if given.rest:  # what jumps here was right until here
        state.u_defect[plan.fed[:, given.event].any(axis=1)] = 0.0
    if given.has_middle:
        # Divided differences do not depend on where the polynomial is evaluated; the nodes do.
        order = np.minimum(state.control.output_order, state.degree)
        covered = given.covered[plan.network.outputs.owner]
        expected = ex.newton_value(state.differences, state.nodes + 0.5 * covered, order)
        state.y_defect = defect.output_defect(given.y_mid, expected, order)
        state.defects.add_outputs(state.y_defect, covered)
    state.defects.add_inputs(state.u_defect, given.elapsed)


def measure_bonds(plan: Plan, state: StepState, given: StepInput) -> None:
    """Transmitted power and tracking error of every bond."""
    bonds = plan.network.bonds
    if not len(bonds.first):
        return
    correct_energy.keep_ledger(state.energy, state.corrected)
    power_bond.measure_bonds(
        given.t,
        given.elapsed,
        bonds.first,
        bonds.watt,
        bonds.effort,
        bonds.more,
        bonds.more_of,
        bonds.flow,
        bonds.flow_input,
        bonds.flow_gain,
        state.y,
        state.flown,
        state.flown_t0,
        given.realised,
        state.bond_power,
        state.tracking,
        state.energy.tracking,
    )
