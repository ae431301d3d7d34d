"""Stage of the slack: disturbances, the deviations of inputs from their sources.

``Δu = ũ − L y``: the input polynomial as it acted, less the outputs within the last interval. At
both ends of the interval the outputs are known: at its end before their inputs jump, and at its
start after the jump, by the probed direct responses, or as corrected. In between, the mean or the
middle value is used if the subsystem reports it (`Sample.y_mid`, `y_mean`), otherwise an
interpolation with the curvature of the last three ends. A held value thus has an error between two
communication points even if it is correct at both.

A subsystem that integrates in few internal steps samples the disturbance at their starts. With
`fineness` κ = 1 − 1/n (n steps) the mean of s over these is κ/2, that of s² is κ(1 + κ)/6; for
κ = 1 they are those of the whole interval. A subsystem that is exact for held inputs and reads them
once uses the polynomial's value at the start of the interval: only a share of the polynomial's
change within the interval acts, the `slope`.

A source with direct feedthrough and unknown responses is assumed to respond to the inputs at the
interval's start; their change during the interval is then not considered.

A bench reacts to a set-point after a dead time: the error of the input is then its source's change
during that time.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.extrapolate import value_at
from hilrt.coupling.limit import allowed
from hilrt.tables.given import StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import InputState, OutputState, State

#: Intervals whose lengths differ by less than this share count as equal.
EQUAL = 1e-6


@stage
def measure_disturbances(plan: Plan, state: State, given: StepInput) -> None:
    """Measure disturbances of all inputs, and energies of interfaces; compute start values."""
    if given.session[0].elapsed > 0.0:
        keep = math.exp(-given.session[0].elapsed / plan.session[0].scale_time)
        for i in range(len(state.inputs)):
            d = plan.inputs[i].drive
            # Nothing is known across a change of source or gain.
            turned = d >= 0 and (state.drives[d].turned != 0 or state.drives[d].regained != 0)
            if turned:
                state.inputs[i].true_ends = 0
            elif plan.inputs[i].connected:
                state.inputs[i].disturbance_peak *= keep
                measure_disturbance(plan, state, given, i)
        for b in range(len(state.bonds)):
            if plan.bonds[b].integrated:
                integrate_interface(plan, state, given, b)
    start_outputs(plan, state, given)
    for i in range(len(state.inputs)):
        u = state.inputs[i]
        used = u.measured and not is_behind(plan, state, given, plan.inputs[i].subsystem)
        if used or given.session[0].elapsed <= 0.0:
            u.true_start, u.true_t = source_value(plan, state, i, False), given.session[0].t
            follow_moments(u, u.true_start, given.session[0].elapsed)


@stage
def start_outputs(plan: Plan, state: State, given: StepInput) -> None:
    """Compute outputs after the jump of their inputs: start values of the next interval."""
    t, count = given.session[0].t, plan.session[0].coefficients
    for i in range(len(state.outputs)):
        out = state.outputs[i]
        out.start = out.y
        if plan.outputs[i].answers_known:
            out.start -= out.corrected_by
        follow_moments(out, out.y, given.session[0].elapsed)
        away, since = out.y - out.origin, out.moment_seconds
        out.late_moment += since * since * away * given.session[0].elapsed
        out.late_square_moment += since * since * away * away * given.session[0].elapsed
    for k in range(len(plan.direct)):
        answer = plan.direct[k]
        if state.subsystems[plan.outputs[answer.output].subsystem].reparametrised:
            continue
        u = state.inputs[answer.input]
        jump = value_at(u.polynomial, count, t - u.t0) - value_at(
            u.previous, count, t - u.previous_t0
        )
        factor = state.answers[len(plan.error_paths) + len(plan.error_answers) + k].factor
        if factor != 0.0:
            state.outputs[answer.output].start += factor * jump


@stage
def source_value(plan: Plan, state: State, i: int, at_end: bool) -> float:
    """Value of input `i` by its sources, at the end of an interval or the next one's start.

    The input's limits are applied, because they are intended. Contributions besides connections are
    intended, too; they are excluded both here and from the input.
    """
    at = plan.inputs[i]
    value = at.constant if at.drive < 0 else 0.0
    for c in range(at.first_connection, at.first_connection + at.connections):
        if not state.connections[c].acts:
            continue
        out = state.outputs[plan.connections[c].source]
        source = out.y - out.corrected_by if at_end else out.start
        value += state.connections[c].gain * source
    return allowed(at, value)


@stage
def reported_inside(
    plan: Plan, state: State, given: StepInput, i: int, span: float, expected: float
) -> float:
    """Middle value of input `i` by its sources within the last `span` [s].

    If a source reports its mean, the middle of the parabola with that mean is used; `expected` if
    no source reports either.
    """
    at, known = plan.inputs[i], False
    value = at.constant if at.drive < 0 else 0.0
    for c in range(at.first_connection, at.first_connection + at.connections):
        if not state.connections[c].acts:
            continue
        o = plan.connections[c].source
        out, sample = state.outputs[o], given.outputs[o]
        ends = out.start + out.y - out.corrected_by
        inside = 0.5 * ends
        covered = given.subsystems[plan.outputs[o].subsystem].covered
        if abs(covered - span) < EQUAL * span and not out.withheld:
            if math.isfinite(sample.y_mean):
                inside, known = 1.5 * sample.y_mean - 0.25 * ends, True
            elif math.isfinite(sample.y_mid):
                inside, known = sample.y_mid, True
        value += state.connections[c].gain * inside
    return allowed(at, value) if known else expected


@stage
def carried(plan: Plan, state: State, i: int, t: float, before: float) -> float:
    """Value of input `i` by its connections, `before` [s] before the interval's end `t` [s]."""
    u, count, d = state.inputs[i], plan.session[0].coefficients, plan.inputs[i].drive
    value = value_at(u.previous, count, t - before - u.previous_t0)
    return value - value_at(state.drives[d].past, count, -before) if d >= 0 else value


@stage
def measure_disturbance(plan: Plan, state: State, given: StepInput, i: int) -> None:
    """Measure the disturbance of input `i` if all its sources have new samples; else bound it."""
    u, elapsed = state.inputs[i], given.session[0].elapsed
    if plan.inputs[i].exact:
        fit_parabola(u, 0.0, 0.0, 0.0, plan.inputs[i].fineness)
        u.disturbance_due = 0.0
        add_disturbance(u, elapsed)
        return
    if u.measured and not is_behind(plan, state, given, plan.inputs[i].subsystem):
        end, span = source_value(plan, state, i, True), given.session[0].t - u.true_t
        if not plan.subsystems[plan.inputs[i].subsystem].physical:
            span = min(span, max(given.session[0].t - u.previous_t0, elapsed))
        bend = curvature(u, end, span, elapsed, plan.session[0].variable_step)
        now = given.session[0].t
        begin, slope = carried(plan, state, i, now, span), plan.inputs[i].slope
        first = begin - u.true_start
        inside = 0.5 * (u.true_start + end) - 0.125 * bend
        if given.session[0].has_middle:
            inside = reported_inside(plan, state, given, i, span, inside)
        middle = begin + slope * (carried(plan, state, i, now, 0.5 * span) - begin) - inside
        last = begin + slope * (carried(plan, state, i, now, 0.0) - begin) - end
        late = plan.inputs[i].dead_time * (end - u.true_start) / span
        first, middle, last = first - late, middle - late, last - late
        change = end - u.true_start
        if plan.inputs[i].lags:
            first, middle, last = (
                lagged(first, change),
                lagged(middle, change),
                lagged(last, change),
            )
        before = u.disturbance_mean
        fit_parabola(u, first, middle, last, plan.inputs[i].fineness)
        u.disturbance_due = u.disturbance_mean
        u.disturbance_due += (span / elapsed - 1.0) * (u.disturbance_mean - before)
        add_disturbance(u, span)
        # Products of values from two intervals are not biased by noise.
        u.delay_work -= u.disturbance_mean * u.change_before
        u.change_before = change
        return
    u.disturbance_due = u.disturbance_mean  # until it is measured over the whole gap
    if not math.isfinite(u.defect) or u.defect > u.disturbance:
        u.disturbance = u.defect  # its source is late: a bound, or unknown
    u.disturbance_peak = max(u.disturbance_peak, u.disturbance)


@compiled
def lagged(disturbance: float, change: float) -> float:
    """Disturbance by a source with a lag, at least its `change` over the interval."""
    return disturbance if abs(disturbance) > abs(change) else -change


@compiled
def add_disturbance(u: InputState, span: float) -> None:
    """Add measurements over `span` [s] to the totals of an input."""
    u.disturbance_seconds += span
    u.disturbance_square += u.disturbance * u.disturbance * span
    u.disturbance_max = max(u.disturbance_max, u.disturbance)
    u.disturbance_peak = max(u.disturbance_peak, u.disturbance)


@stage
def is_behind(plan: Plan, state: State, given: StepInput, s: int) -> bool:
    """Whether a solver has not used the inputs sent for the last interval.

    A solver that was suspended catches up in one step with the newest inputs; inputs sent in the
    meantime never act.
    """
    at, cut = plan.subsystems[s], given.subsystems[s]
    if at.physical:
        return False
    behind = cut.reached < given.session[0].t - EQUAL * plan.session[0].step
    return bool(cut.late or (at.every == 1 and behind))


@compiled
def curvature(u: InputState, end: float, span: float, elapsed: float, variable: int) -> float:
    """Second difference of the last three ends, `span` [s] apart; 0 until there are three.

    With a fixed step they are equidistant.
    """
    regular = abs(span - elapsed) < EQUAL * elapsed
    u.true_ends = u.true_ends + 1 if regular else 1
    bend = 0.0
    if u.true_ends > 3:
        change = end - u.true_end
        before = u.true_end - u.true_end_before
        if variable:  # twice the divided difference, times the square of the span
            bend = 2.0 * (change - before * span / u.true_span) * span / (span + u.true_span)
        else:
            bend = end - 2.0 * u.true_end + u.true_end_before
    u.true_end_before, u.true_end, u.true_span = u.true_end, end, span
    return bend


@compiled
def fit_parabola(u: InputState, first: float, middle: float, last: float, fineness: float) -> None:
    """Set mean, end and RMS of a disturbance from the parabola through three values."""
    b = 2.0 * (first - 2.0 * middle + last)
    a = last - first - b
    u.disturbance_mean = first + fineness * (0.5 * a + (1.0 + fineness) * b / 6.0)
    u.disturbance_end = last
    inside = (first * first + 4.0 * middle * middle + last * last) / 6.0
    u.disturbance = math.sqrt((1.0 - fineness) * first * first + fineness * inside)


@compiled
def follow_moments(port: OutputState | InputState, value: float, elapsed: float) -> None:
    """Update the moments over time of a port's value, about its first one."""
    if port.moment_seconds == 0.0:
        port.origin = value
    away = value - port.origin
    port.moment += away * elapsed
    port.square_moment += away * away * elapsed
    port.moment_seconds += elapsed


@stage
def integrate_interface(plan: Plan, state: State, given: StepInput, b: int) -> None:
    """Add the energy created by a bond's interface in the interval: ``∫ (ẽ f − e f̃) dt``, J.

    Each side's product is evaluated at the mean time at which its subsystem reads its input.
    """
    t, elapsed = given.session[0].t, given.session[0].elapsed
    bond = plan.bonds[b]
    for i in range(bond.first, bond.first + bond.elements):
        ends = plan.elements[i]
        of_effort, of_flow = plan.inputs[ends.effort_input], plan.inputs[ends.flow_input]
        at_flow, at_effort = 0.5 * of_effort.fineness, 0.5 * of_flow.fineness
        flow = between(state.outputs[ends.flow], at_flow)
        effort = between(state.outputs[ends.effort], at_effort)
        for k in range(len(plan.summands)):
            if plan.summands[k].element == i:
                effort += between(state.outputs[plan.summands[k].output], at_effort)
        e_read = t - (1.0 - at_flow * of_effort.slope) * elapsed
        f_read = t - (1.0 - at_effort * of_flow.slope) * elapsed
        e_used = acted(plan, state, i, True, e_read) / ends.effort_gain
        f_used = acted(plan, state, i, False, f_read) / ends.flow_gain
        # The inputs' limits are intended, and part of the coupled system, too.
        e_used -= beyond_limits(plan, state, ends.effort_input, at_flow) / ends.effort_gain
        f_used -= beyond_limits(plan, state, ends.flow_input, at_effort) / ends.flow_gain
        made = ends.watt * (e_used * flow - effort * f_used)
        if not state.elements[i].previous_cut:
            state.bonds[b].interface += made * elapsed


@compiled
def between(out: OutputState, share: float) -> float:
    """Output at a share of the interval that ended, interpolated linearly between its ends."""
    return float((1.0 - share) * out.start + share * (out.y - out.corrected_by))


@stage
def beyond_limits(plan: Plan, state: State, i: int, share: float) -> float:
    """Change of input `i` by its limits inside the interval."""
    at = plan.inputs[i]
    if at.low == -math.inf and at.high == math.inf:
        return 0.0
    value = at.constant
    for c in range(at.first_connection, at.first_connection + at.connections):
        if state.connections[c].acts:
            source = state.outputs[plan.connections[c].source]
            value += state.connections[c].gain * between(source, share)
    return allowed(at, value) - value


@stage
def acted(plan: Plan, state: State, i: int, at_flow_side: bool, t: float) -> float:
    """Part of the previous input of element `i` at `t` [s] due to the bond and its correction."""
    ends, element, count = plan.elements[i], state.elements[i], plan.session[0].coefficients
    u = state.inputs[ends.effort_input if at_flow_side else ends.flow_input]
    value = value_at(u.previous, count, t - u.previous_t0)
    if plan.session[0].shared_inputs:
        if at_flow_side:
            value -= value_at(element.previous_effort_others, count, t - u.previous_t0)
        else:
            value -= value_at(element.previous_flow_others, count, t - u.previous_t0)
    return value
