"""The macro step: which stage acts when. The only file that knows this order.

    critical path (tick -> inputs on the wire)        slack (until the next tick)
    guard -> compensate -> extrapolate                defects -> ledger -> reliability
      -> correct_energy -> limit

`macro_step` and `assess` are functions of a state and a `StepInput` alone: no clock, no socket, no
await. The state's arrays are preallocated and updated in place, so that the same inputs from the
same state give the same decisions, bit for bit. With a variable step the defects are measured on
the way, because the step about to be dispatched depends on them; on a bench, where the step is
fixed, all of `assess` runs in the slack.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hilrt.control import ControlState, control
from hilrt.coupling import correct_energy, defect
from hilrt.coupling import extrapolate as ex
from hilrt.coupling import polynomial as poly
from hilrt.coupling.compensate import outputs_at
from hilrt.coupling.correct_feedthrough import correct_feedthrough
from hilrt.coupling.limit import limit
from hilrt.coupling.model_corrector import ModelCorrector
from hilrt.coupling.power_bond import as_used, tracking_power, transmitted_power
from hilrt.network import Bools, Ints
from hilrt.plan import Plan
from hilrt.reliability import Monitor
from hilrt.solver import Floats


@dataclass(slots=True)
class StepInput:
    """Everything the decisions of one macro step depend on.

    Attributes
    ----------
    tick : int
        Number of the grid point.
    t, elapsed : float
        Session time of the communication point, and time since the previous one, s.
    y, t_valid : ndarray, shape (ny,)
        Newest sample of every output and when it is valid [s]; used where `fresh`.
    fresh : ndarray of bool, shape (ny,)
        Outputs that have arrived since the previous cut.
    y_mid : ndarray, shape (ny,)
        Outputs in the middle of the interval that their sample ends, NaN where unknown.
    dy : ndarray, shape (n, ny)
        Time derivatives of the outputs, NaN where unknown.
    realised : ndarray, shape (nu,)
        What a bench made of each input, NaN where it is not measured.
    busy, late, due : ndarray of bool, shape (n subsystems,)
        Still computing; without the sample that was due; communicating at this tick.
    reached, covered : ndarray, shape (n subsystems,)
        Session time each subsystem has been advanced to, and length of the interval that its
        newest sample ends, s.
    has_middle : bool
        Whether any `y_mid` is known.
    regular : bool
        Every subsystem is due, has answered, and stands at `t`: the common case.
    apply : bool
        Whether corrections act (False: shadow, or not yet armed).
    missed : bool
        Whether this tick missed its dispatch deadline; known in the slack.
    """

    tick: int
    t: float
    elapsed: float
    y: Floats
    t_valid: Floats
    fresh: Bools
    y_mid: Floats
    dy: Floats
    realised: Floats
    busy: Bools
    late: Bools
    due: Bools
    reached: Floats
    covered: Floats
    has_middle: bool = False
    regular: bool = True
    apply: bool = True
    missed: bool = False

    @classmethod
    def empty(
        cls, n_outputs: int, n_inputs: int, n_subsystems: int, n_derivatives: int
    ) -> StepInput:
        """A `StepInput` with arrays of the right shape, nothing fresh."""
        return cls(
            tick=0,
            t=0.0,
            elapsed=0.0,
            y=np.zeros(n_outputs),
            t_valid=np.zeros(n_outputs),
            fresh=np.zeros(n_outputs, dtype=bool),
            y_mid=np.full(n_outputs, np.nan),
            dy=np.full((n_derivatives, n_outputs), np.nan),
            realised=np.full(n_inputs, np.nan),
            busy=np.zeros(n_subsystems, dtype=bool),
            late=np.zeros(n_subsystems, dtype=bool),
            due=np.ones(n_subsystems, dtype=bool),
            reached=np.zeros(n_subsystems),
            covered=np.zeros(n_subsystems),
        )


@dataclass(slots=True)
class StepState:
    """What the macro step remembers. All arrays are updated in place.

    Attributes
    ----------
    history : History
        Newest samples of every output.
    differences, nodes, degree : ndarray, shape (depth, ny), (depth, ny), (ny,)
        Newton's form of the polynomials through them, and the degree that is used of it.
    y : ndarray, shape (ny,)
        Outputs at the communication point, compensated and corrected.
    carried : ndarray, shape (order + 1, nc)
        What every connection carries, before its gain, about `t`.
    measured : ndarray, shape (order + 1, nu)
        Input polynomials through the newest samples, nothing added, about `t`.
    sent, flown : ndarray, shape (order + 1, nu)
        Input polynomials that leave the master now, and those of the interval that has ended, each
        about its own start `sent_t0`, `flown_t0` (nu,) [s].
    added, flown_added : ndarray, shape (nu,)
        The correction in `sent` and in `flown`.
    others, flown_others : ndarray, shape (order + 1, 2 ne)
        What of `sent` and `flown` at the bonds' inputs came from connections outside the bond.
    energy, corrected
        State and latest result of the energy correction.
    bond_time, bond_power, tracking : ndarray, shape (nb,)
        Previous communication point of each bond [s]; transmitted and tracking power, W.
    u_defect, y_defect : ndarray, shape (nu,), (ny,)
        RMS defects of the interval that ended; NaN where unknown. Over the run: `defects`.
    limited, implausible : ndarray of bool, shape (nu,), (ny,)
    control, monitor, model
        State of step and order control, of the flags and of the model-based corrector.
    last, last_t : ndarray, shape (nu,)
        Start value of the polynomial sent last, and when that was, s.
    t_start, h : ndarray, shape (n subsystems,)
        Start and length of the interval each subsystem is dispatched with, s.
    dispatch : ndarray of bool, shape (n subsystems,)
        Subsystems that get their inputs at this tick.
    h_next : float
        Macro step from this communication point, s.
    """

    history: ex.History
    differences: Floats
    nodes: Floats
    degree: Ints
    y: Floats
    measured: Floats
    carried: Floats
    sent: Floats
    sent_t0: Floats
    flown: Floats
    flown_t0: Floats
    added: Floats
    flown_added: Floats
    others: Floats
    flown_others: Floats
    last: Floats
    last_t: Floats
    t_start: Floats
    h: Floats
    dispatch: Bools
    h_next: float
    energy: correct_energy.EnergyState
    corrected: correct_energy.Corrected
    bond_time: Floats
    bond_power: Floats
    tracking: Floats
    u_defect: Floats
    y_defect: Floats
    defects: defect.DefectTotals
    limited: Bools
    implausible: Bools
    control: ControlState
    monitor: Monitor
    model: ModelCorrector | None = None


def start(
    plan: Plan, t0: float, y0: Floats, u0: Floats, model: ModelCorrector | None = None
) -> StepState:
    """State before the first tick, from the initialized outputs (ny,) and inputs (nu,)."""
    net, bonds = plan.network, plan.network.bonds
    depth, orders, nu, n = plan.depth, plan.rows, len(net.inputs), len(net.subsystems)
    zero = np.zeros((orders, nu))
    sent = zero.copy()
    sent[0] = u0
    e, f = bonds.efforts(y0), y0[bonds.flow]
    nb = len(bonds)
    return StepState(
        history=ex.History.start(depth, t0, y0),
        differences=np.zeros((depth, len(y0))),
        nodes=np.zeros((depth, len(y0))),
        degree=np.zeros(len(y0), dtype=np.intp),
        y=y0.copy(),
        measured=sent.copy(),
        carried=np.zeros((orders, len(net.connections.source))),
        sent=sent,
        sent_t0=np.full(nu, t0),
        flown=sent.copy(),
        flown_t0=np.full(nu, t0),
        added=np.zeros(nu),
        flown_added=np.zeros(nu),
        others=np.zeros((orders, len(bonds.inputs))),
        flown_others=np.zeros((orders, len(bonds.inputs))),
        last=u0.copy(),
        last_t=np.full(nu, t0),
        t_start=np.full(n, t0),
        h=np.full(n, plan.step),
        dispatch=np.ones(n, dtype=bool),
        h_next=plan.first_step,
        energy=correct_energy.EnergyState.start(e, f, nb),
        corrected=correct_energy.Corrected.nothing(nb, len(e)),
        bond_time=np.full(nb, t0),
        bond_power=np.zeros(nb),
        tracking=np.zeros(nb),
        u_defect=np.zeros(nu),
        y_defect=np.full(len(y0), np.nan),
        defects=defect.DefectTotals.start(nu, len(y0)),
        limited=np.zeros(nu, dtype=bool),
        implausible=np.zeros(len(y0), dtype=bool),
        control=ControlState.start(plan.controls, plan.first_step, nu, nb),
        monitor=Monitor.start(plan.checks, y0, u0, nb),
        model=model,
    )


def macro_step(plan: Plan, state: StepState, given: StepInput) -> StepState:
    """The critical path: from the samples in the cut to the inputs for the wire."""
    guard(state, given)
    turn_over(state)
    state.history.push(given.t_valid, given.y, given.fresh, plan.spacing)
    state.differences, state.nodes = ex.divided_differences(state.history, given.t)
    state.degree = degree_now(plan.full_order, plan, state, given)
    order = np.minimum(state.control.output_order, state.degree)
    state.y = outputs_at(state.differences, state.nodes, order)
    correct_outputs(plan, state, given)
    build_polynomials(plan, state, given)
    if plan.variable_step:
        measure_defects(plan, state, given)
        if control(plan, state, given):
            build_polynomials(plan, state, given)
    add_energy_correction(plan, state, given)
    send(plan, state, given)
    return state


def assess(plan: Plan, state: StepState, given: StepInput) -> StepState:
    """The slack: how good was the interval that ended, and what is to be said of it."""
    if not plan.variable_step:
        measure_defects(plan, state, given)
        if plan.controls.any:
            control(plan, state, given)
    measure_bonds(plan, state, given)
    if state.model is not None:
        state.model.learn(given.tick, plan.sampled(given.fresh, given.t_valid, given.t))
    state.monitor.update(plan, state, given)
    return state


def turn_over(state: StepState) -> None:
    """What was sent at the previous tick is now what was flown; its arrays are used again."""
    state.flown, state.sent = state.sent, state.flown
    state.flown_t0, state.sent_t0 = state.sent_t0, state.flown_t0
    state.flown_added, state.added = state.added, state.flown_added
    state.flown_others, state.others = state.others, state.flown_others


def guard(state: StepState, given: StepInput) -> None:
    """A sample that is not a finite number does not act: the output counts as not arrived."""
    finite = np.isfinite(given.y)
    np.greater(given.fresh, finite, out=state.implausible)
    given.fresh &= finite


def degree_now(order: Ints, plan: Plan, state: StepState, given: StepInput) -> Ints:
    """Degrees (ny,) that the samples at hand allow; hold for late subsystems with that policy."""
    degree = state.history.degree(order)
    if np.count_nonzero(given.late):
        hold = plan.holds_when_late & given.late
        degree = np.where(hold[plan.network.outputs.owner], 0, degree)
    return degree


def correct_outputs(plan: Plan, state: StepState, given: StepInput) -> None:
    """Take out of the outputs what extrapolated inputs did to them, before they are used."""
    model = state.model
    if (plan.feedthrough is None and model is None) or given.elapsed <= 0.0:
        return
    y = state.y
    if plan.feedthrough is not None:
        sent = poly.evaluate(state.flown, given.t - state.flown_t0)
        y = correct_feedthrough(plan.feedthrough, y, plan.base, sent)
    if model is not None and given.regular and abs(given.elapsed - model.h) < 0.5e-9:
        begin = given.t - given.elapsed
        y = model.correct(y, poly.shift(state.flown, begin - state.flown_t0))
    elif model is not None:
        model.restart(y)
    if given.apply and not plan.shadow:
        state.history.y[0] += y - state.y
        state.differences, state.nodes = ex.divided_differences(state.history, given.t)
        state.y = y
    elif model is not None:
        model.offset = np.zeros_like(model.offset)


def build_polynomials(plan: Plan, state: StepState, given: StepInput) -> None:
    """``ũ = L ỹ``: polynomials through the newest samples, per connection."""
    connections = plan.network.connections
    source = connections.source
    degree = np.minimum(state.control.connection_order, state.degree[source])
    ex.connection_polynomials(state.differences, state.nodes, degree, source, state.carried)
    if plan.taylor:
        ex.taylor_polynomials(connections, state.y, given.dy, state.carried)
    ex.sum_at_inputs(connections, state.carried, plan.base, state.measured)


def add_energy_correction(plan: Plan, state: StepState, given: StepInput) -> None:
    """Power residual of the interval that ended, and the effort that answers it."""
    bonds = plan.network.bonds
    state.added[:] = 0.0
    if not len(bonds) or given.elapsed <= 0.0:
        return
    age = given.t - state.flown_t0
    e_sent, f_sent = as_used(bonds, state.flown, age, state.flown_added, state.flown_others)
    due = given.tick % bonds.every == 0
    ahead: Floats = np.multiply(bonds.every, state.h_next)
    state.corrected = correct_energy.correct_energy(
        bonds,
        plan.energy,
        state.energy,
        bonds.efforts(state.y),
        state.y[bonds.flow],
        e_sent,
        f_sent,
        given.t - state.bond_time,
        ahead,
        due,
        given.apply,
    )
    state.bond_time[due] = given.t
    effort = state.corrected.effort * bonds.effort_gain
    if bonds.own_inputs:
        state.added[bonds.effort_input] = effort
    else:  # several bonds act on one summed effort
        np.add.at(state.added, bonds.effort_input, effort)


def send(plan: Plan, state: StepState, given: StepInput) -> None:
    """What leaves the master: corrected, limited, about the start of each subsystem's interval."""
    net, owner = plan.network, plan.network.inputs.owner
    bonds = net.bonds
    np.copyto(state.sent, state.measured)
    state.sent[0] += state.added
    if state.model is not None:
        state.sent[0] += state.model.offset
        if plan.dithers:
            scale = state.monitor.scale[: len(state.added)]
            state.sent += state.model.excitation(given.tick, scale)
    np.multiply(net.every, state.h_next, out=state.h)
    # A bench acts `lead` after the tick; a merged step of a late solver starts before it.
    moved, elapsed = plan.lead, given.t - state.last_t
    leaves: Bools | bool = True
    if given.regular:
        state.t_start[:] = given.t
        state.dispatch[:] = True
    else:
        np.copyto(state.t_start, given.reached)
        np.logical_and(given.due, ~given.busy, out=state.dispatch)
        state.h += given.t - given.reached
        moved = moved + (state.t_start[owner] - given.t)
        leaves = state.dispatch[owner]
    if plan.leads or not given.regular:
        state.sent[:] = poly.shift(state.sent, moved)
    if bonds.shared:
        others = state.carried @ bonds.others
        others[0] += plan.base[bonds.inputs]
        state.others[:] = poly.shift(others, np.broadcast_to(moved, owner.shape)[bonds.inputs])
    np.add(given.t, moved, out=state.sent_t0)
    if plan.limits:
        end = poly.evaluate(state.flown, given.t - state.flown_t0 + plan.lead)
        interval = state.h[owner]
        limited = limit(state.sent, interval, elapsed, state.last, end, plan.bounds)
        np.copyto(state.limited, limited, where=leaves)
    if not given.regular:
        keep_undispatched(state, ~state.dispatch[owner], bonds.inputs)
    np.copyto(state.last, state.sent[0], where=leaves)
    np.copyto(state.last_t, given.t, where=leaves)


def keep_undispatched(state: StepState, kept: Bools, bond_inputs: Ints) -> None:
    """Inputs (nu,) of subsystems that are not dispatched go on with what they have."""
    state.others[:, kept[bond_inputs]] = state.flown_others[:, kept[bond_inputs]]
    state.sent[:, kept] = state.flown[:, kept]
    state.sent_t0[kept] = state.flown_t0[kept]
    state.added[kept] = state.flown_added[kept]


def measure_defects(plan: Plan, state: StepState, given: StepInput) -> None:
    """Connection and output defects of the interval that ended."""
    if given.elapsed <= 0.0:
        return
    then = poly.shift(state.flown, given.t - state.flown_t0)
    state.u_defect = defect.connection_defect(then, state.measured, given.elapsed)
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
    if not len(bonds):
        return
    e, f = bonds.efforts(state.y), state.y[bonds.flow]
    state.bond_power = transmitted_power(bonds, e, f)
    correct_energy.keep_ledger(state.energy, state.corrected)
    demanded = poly.evaluate(state.flown, given.t - state.flown_t0)[bonds.flow_input]
    realised = given.realised[bonds.flow_input]
    state.tracking = tracking_power(
        bonds, e, realised / bonds.flow_gain, demanded / bonds.flow_gain
    )
    state.energy.tracking += state.tracking * given.elapsed
