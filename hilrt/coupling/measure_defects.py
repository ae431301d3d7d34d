"""Stage: connection and output defects of the interval that ended.

The connection defect is the effect of extrapolation and corrections on an input (Glumac and Kovačić
2023, eq. 17); the output defect measures whether the step resolves the motion of the subsystem
within it (eqs. 30 and 32).

An input can be compared with its sources once these have sent new samples. Between two points of a
slow source it keeps the defect of the previous interval. While a source is late the defect is
unknown; its bound follows from the input's earlier defects, and grows like the error of a
polynomial of its connections' order. With the source's next sample the whole gap is measured.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.coupling.extrapolate import copy, shift, value_at
from hilrt.coupling.limit import allowed
from hilrt.solver import Floats
from hilrt.tables.given import GivenOutput, StepInput
from hilrt.tables.plan import Plan
from hilrt.tables.state import InputState, OutputState, State


@stage
def measure_defects(plan: Plan, state: State, given: StepInput) -> None:
    """Measure RMS defects of the interval that ended; add them to their totals over the session."""
    if given.session[0].elapsed <= 0.0:
        return
    measure_connection_defects(plan, state, given)
    if not plan.session[0].variable_step:
        measure_left_behind(plan, state, given)
    measure_output_defects(plan, state, given)


@stage
def measure_connection_defects(plan: Plan, state: State, given: StepInput) -> None:
    """Measure the defect of every input: its previous polynomial less the outputs now known."""
    elapsed = given.session[0].elapsed
    keep = math.exp(-elapsed / plan.session[0].scale_time)
    for i in range(len(state.inputs)):
        u = state.inputs[i]
        late = check_sources(plan, state, given, i)
        u.unmeasured += elapsed
        u.expected_defect *= keep
        if plan.inputs[i].exact:
            u.defect = u.unmeasured = 0.0
        elif u.measured:
            measure_input(plan, state, given, i)
            u.unmeasured = behind(plan, state, given, i)
        elif late:
            bound = u.expected_defect * growth(plan, state, i)
            u.defect = bound if bound >= 0.0 else math.nan
    if given.session[0].rest > 0.0:  # an input that jumps at this point was correct until then
        for k in range(len(plan.feeds)):
            if given.subsystems[plan.feeds[k].giver].event:
                state.inputs[plan.feeds[k].input].defect = 0.0
    for i in range(len(state.inputs)):
        if math.isfinite(state.inputs[i].defect):
            add_to_totals(state.inputs[i], state.inputs[i].defect, elapsed)


@stage
def measure_left_behind(plan: Plan, state: State, given: StepInput) -> None:
    """Measure errors of a bench's inputs if the tick is missed and they are not updated.

    These are the errors at the end of the step. A solver has no such errors: even if it is late, it
    computes each step with the inputs of that step.
    """
    end, coefficients = given.session[0].t + state.session[0].h_next, plan.session[0].coefficients
    for i in range(len(state.inputs)):
        u, subsystem = state.inputs[i], plan.inputs[i].subsystem
        u.left_behind = 0.0
        if plan.subsystems[subsystem].physical and state.subsystems[subsystem].dispatch:
            before = value_at(u.previous, coefficients, end - u.previous_t0)
            now = value_at(u.polynomial, coefficients, end - u.t0)
            u.left_behind = abs(now - u.correction - (before - u.previous_correction))


@stage
def check_sources(plan: Plan, state: State, given: StepInput, i: int) -> bool:
    """Set whether all sources of input `i` have new samples; return whether one of them is late."""
    u, at, late = state.inputs[i], plan.inputs[i], False
    u.measured = 1
    for c in range(at.first_connection, at.first_connection + at.connections):
        source = plan.connections[c].source
        out = state.outputs[source]
        if state.connections[c].acts and (not out.arrived or out.waits > 0):
            u.measured = 0
            source_late = given.subsystems[plan.outputs[source].subsystem].late != 0
            if source_late or out.unusable or out.waits == 2:
                late = True
    return late


@stage
def measure_input(plan: Plan, state: State, given: StepInput, i: int) -> None:
    """Measure the RMS difference between input `i` as sent and by the outputs now known.

    With one source, the polynomial has not changed since the previous sample, and the whole gap is
    measured. With several, or a calculated one, it has changed: only the last step, whose error is
    the largest, is measured and used for the whole gap.
    """
    t, u, settings = given.session[0].t, state.inputs[i], plan.session[0]
    first = plan.inputs[i].first_connection
    alone = plan.inputs[i].connections == 1
    if alone and not plan.outputs[plan.connections[first].source].calculated:
        span = u.unmeasured
    else:
        span = given.session[0].elapsed
    copy(u.previous, settings.coefficients, u.difference)
    shift(u.difference, settings.coefficients, t - u.previous_t0)
    limited = allowed(plan.inputs[i], u.extrapolated[0])
    for m in range(settings.coefficients):
        # At its limit an input does not change with its sources.
        u.difference[m] -= u.extrapolated[m] if limited == u.extrapolated[0] else 0.0
    u.difference[0] -= limited if limited != u.extrapolated[0] else 0.0
    u.defect = root_mean_square(u.difference, settings.coefficients, span, settings.gram_factor)
    u.expected_defect = max(u.expected_defect, u.defect / growth(plan, state, i))


@stage
def behind(plan: Plan, state: State, given: StepInput, i: int) -> float:
    """Largest age of the newest samples of late sources of input `i`, s; 0 if none is late."""
    at, age = plan.inputs[i], 0.0
    for c in range(at.first_connection, at.first_connection + at.connections):
        source = plan.connections[c].source
        late = given.subsystems[plan.outputs[source].subsystem].late
        if late and state.connections[c].acts:
            age = max(age, given.session[0].t - state.outputs[source].t_past[0])
    return age


@stage
def growth(plan: Plan, state: State, i: int) -> float:
    """Growth factor of an input's error over the time without a measurement, at least 1.

    The error of a polynomial of degree p grows with the power p + 1 of the time since its newest
    sample, in intervals of the slowest source.
    """
    at, every, order = plan.inputs[i], 1, 0
    for c in range(at.first_connection, at.first_connection + at.connections):
        source = plan.outputs[plan.connections[c].source].subsystem
        every = max(every, plan.subsystems[source].every)
        order = max(order, state.connections[c].order)
    intervals = state.inputs[i].unmeasured / (every * plan.session[0].step)
    factor = max(intervals, 1.0)
    for _ in range(order):
        factor *= max(intervals, 1.0)
    return factor


@compiled
def root_mean_square(c: Floats, count: int, h: float, factor: Floats) -> float:
    """RMS over ``[t - h, t]`` of the polynomial with the Taylor coefficients `c` about `t` [s].

    `factor` is that of `hilrt.coupling.extrapolate.gram_factor`; `c` is scaled in place.
    """
    power = 1.0
    for m in range(count):
        c[m] *= power
        power *= h
    square = 0.0
    for k in range(count):  # the factor is upper triangular
        part = 0.0
        for m in range(k, count):
            part += factor[k, m] * c[m]
        square += part * part
    return math.sqrt(square)


@stage
def measure_output_defects(plan: Plan, state: State, given: StepInput) -> None:
    """Measure the defect of every output.

    It is NaN if no value of the output inside the interval is known, or if its newest sample is
    withheld.
    """
    elapsed = given.session[0].elapsed
    for i in range(len(state.outputs)):
        out, sample = state.outputs[i], given.outputs[i]
        out.defect = math.nan
        if not given.session[0].has_middle or out.withheld:
            continue
        covered = given.subsystems[plan.outputs[i].subsystem].covered
        if plan.session[0].derivatives:
            order = known_derivatives(sample, out.order)
            middle = taylor_before(sample, out.y, order, 0.5 * covered)
            start = taylor_before(sample, out.y, order, covered)
        else:
            order = min(out.order, out.degree)
            middle = value_before(out, order, 0.5 * covered)
            start = value_before(out, order, covered)
        mean = (start + 4.0 * middle + out.y) / 6.0
        by_middle = output_defect(sample.y_mid, middle, order)
        by_mean = mean_defect(sample.y_mean, mean, order)
        out.defect = by_mean if by_mean > by_middle or math.isnan(by_middle) else by_middle
        if math.isfinite(out.defect):
            add_to_totals(out, out.defect, elapsed)


@compiled
def value_before(out: OutputState, degree: int, before: float) -> float:
    """Value of an output's polynomial of that degree, `before` [s] earlier than the present point.

    The nodes are relative to the present point; divided differences do not depend on it.
    """
    above = 0.0
    for j in range(degree, 0, -1):
        above = (out.differences[j] + above) * -(out.nodes[j - 1] + before)
    return float(out.differences[0] + above)


@compiled
def known_derivatives(sample: GivenOutput, order: int) -> int:
    """Number of successive derivatives of an output that are known, at most `order`."""
    known = 0
    while known < order and math.isfinite(sample.dy[known]):
        known += 1
    return known


@compiled
def taylor_before(sample: GivenOutput, y: float, degree: int, before: float) -> float:
    """Value of the Taylor polynomial of `y` and its derivatives, `before` [s] earlier than now."""
    above = 0.0
    for m in range(degree, 0, -1):
        above = (sample.dy[m - 1] + above) * (-before / m)
    return y + above


@compiled
def output_defect(middle: float, expected: float, order: int) -> float:
    """RMS over the interval of the output defect; NaN if `middle` is.

    Over an interval h that ends at tau, the defect is ``D ((t - tau) / (h/2))^(n + 1)``, with D its
    value in the middle and n = `order`. Its RMS is ``|D| 2^(n + 1) / sqrt(2 n + 3)``
    (Glumac and Kovačić 2023, eqs. 30 and 32, integrated).

    Parameters
    ----------
    middle : float
        Output in the middle of the interval.
    expected : float
        Value at that time of the output's polynomial of degree `order` about the interval's end.
    """
    factor = 2.0
    for _ in range(order):
        factor *= 2.0
    return abs(middle - expected) * (factor / math.sqrt(2.0 * order + 3.0))


@compiled
def mean_defect(reported: float, expected: float, order: int) -> float:
    """RMS over the interval of the output defect, from its mean; NaN if `reported` is.

    The mean of ``D ((t - tau) / (h/2))^(n + 1)`` is ``|D| 2^(n + 1) / (n + 2)``.

    Parameters
    ----------
    reported : float
        Mean of the output over the interval.
    expected : float
        Mean of the output's polynomial of degree `order` about the interval's end.
    """
    return abs(reported - expected) * ((order + 2.0) / math.sqrt(2.0 * order + 3.0))


@compiled
def add_to_totals(port: OutputState | InputState, defect: float, h: float) -> None:
    """Add a step of length `h` [s] with that RMS defect to the totals of an input or output."""
    port.defect_seconds += h
    port.defect_square += defect * defect * h
    port.defect_max = max(port.defect_max, defect)
