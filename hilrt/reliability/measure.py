"""Stage: compute the reliability of the step, as ratios "measure over threshold" of all checks.

An unknown measure is NaN; it compares as false and raises nothing.
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled, stage
from hilrt.link import SWITCHES, UNSEEN
from hilrt.reliability.causes import (
    ALARM,
    CLOCK_UNCERTAIN,
    CONNECTION_DEFECT,
    CORRECTION_CAPPED,
    CORRECTION_HARMFUL,
    CORRECTION_SHADOW,
    CORRECTION_UNVERIFIED,
    CORRECTION_WRONG,
    DEADLINE_MISSED,
    DEMAND_CUT,
    ENERGY_DRIFT,
    ERROR_ESTIMATE,
    ERROR_FEEDS_SPREAD,
    EVENT_INSIDE_STEP,
    INPUT_LIMITED,
    INPUTS_IGNORED,
    INSIDE_UNKNOWN,
    LEAST_SPREAD,
    MODEL_UNEXCITED,
    MODEL_UNTRUSTED,
    OUT_OF_RANGE,
    OUTPUT_DEFECT,
    POWER_RESIDUAL,
    REJOINED,
    RELATIVE,
    SAMPLE_IMPLAUSIBLE,
    SAMPLE_LATE,
    SENSITIVITIES_CHANGED,
    STEP_MINIMUM,
    STEPS_FINAL,
    SUBSYSTEM_SILENT,
    SWITCHES_INSIDE,
    TRACKING_ERROR,
)
from hilrt.tables.given import Slack, StepInput
from hilrt.tables.plan import UNVERIFIED, WRONG, OutputPlan, Plan
from hilrt.tables.record import Table
from hilrt.tables.state import DEMAND_LIMITED, BondState, CheckState, InputState, OutputState, State

#: Lower bound of a running scale, as a share of its peak.
SCALE_FLOOR = 0.02
#: Lower bound of a bond's energy scale, in steps at its highest power, because a motion from rest
#: has not transmitted any energy yet.
LEAST_STEPS = 50.0
#: Silence after which the state of a subsystem counts as unknown, s.
SILENCE_S = 0.2
#: Sensitivities have changed if the errors that they propagate differ by this share between two
#: trials.
CHANGED = 0.5
#: If the estimated error of a signal exceeds this share of the signal's variation (both RMS over
#: the session so far), much of the variation may be error. At this share, the error relative to the
#: variation without it is larger by a seventh.
FED = 0.5
#: Shortest time over which a signal's variation is meaningful, s.
SPREAD_S = 1.0
#: Keeps ratios of signals that have always been zero finite.
TINY = 1e-200


@stage
def measure_reliability(plan: Plan, state: State, given: StepInput, slack: Table[Slack]) -> None:
    """Compute the ratios of all checks, after updating the running scales."""
    follow_scales(plan, state, given)
    measure_inputs(plan, state, given, slack)
    measure_outputs(plan, state, given)
    measure_subsystems(plan, state, given)
    measure_session(plan, state, given, slack)
    for b in range(len(state.bonds)):
        measure_bond(plan, state, given, b)
    if given.session[0].t < plan.session[0].warm_up:
        clear_relative_measures(plan, state)


@stage
def follow_scales(plan: Plan, state: State, given: StepInput) -> None:
    """Update the running scales of inputs, outputs and the bonds' power."""
    keep = math.exp(-given.session[0].elapsed / plan.session[0].scale_time)
    for i in range(len(state.inputs)):
        follow_scale(state.inputs[i], state.inputs[i].extrapolated[0], keep)
    for i in range(len(state.outputs)):
        follow_scale(state.outputs[i], state.outputs[i].y, keep)
    for b in range(len(state.bonds)):
        follow_scale(state.bonds[b], state.bonds[b].power, keep)


@compiled
def follow_scale(record: OutputState | InputState | BondState, value: float, keep: float) -> None:
    """Update a scale, which decays by the factor `keep`, rises with the value, and has a floor."""
    record.magnitude = abs(value)
    if record.magnitude > record.peak:
        record.peak = record.magnitude
    floor = SCALE_FLOOR * record.peak + TINY
    record.scale = max(record.scale * keep, floor)
    if record.magnitude > record.scale:
        record.scale = record.magnitude


@stage
def measure_inputs(plan: Plan, state: State, given: StepInput, slack: Table[Slack]) -> None:
    """Connection defects, limits, and estimated errors of steps that failed their test."""
    checks, causes = state.checks, plan.causes
    threshold, failed = state.session[0].connection_defect, state.session[0].failed
    for i in range(len(state.inputs)):
        u = state.inputs[i]
        # The addition of a correction is intended, and not an error of the exchange. The log
        # contains the whole defect.
        unexplained = max(u.defect - abs(u.previous_correction), 0.0)
        if slack[0].missed:
            unexplained = max(unexplained, u.left_behind)
        if plan.inputs[i].connections == 0 and u.limited == DEMAND_LIMITED:
            unexplained = 0.0  # what its limits cut off is no error of an exchange
        check = checks[causes[CONNECTION_DEFECT].first + i]
        check.ratio = unexplained / (u.scale * threshold)
        count_gap(check, u, given.session[0].elapsed)
        checks[causes[INPUT_LIMITED].first + i].ratio = u.limited != 0
        checks[causes[DEMAND_CUT].first + i].ratio = u.limited == DEMAND_LIMITED
        if plan.session[0].tests_errors:
            checks[causes[ERROR_ESTIMATE].first + i].ratio = u.error_ratio * failed


@compiled
def count_gap(check: CheckState, u: InputState, elapsed: float) -> None:
    """Extend a measured defect over the preceding time that no flag has counted yet.

    The time since a late sample is not measured yet.
    """
    check.before = 0.0
    if u.measured:
        check.before = u.uncounted
        u.uncounted = 0.0 if check.ratio >= 1.0 else min(u.uncounted, u.unmeasured)
    elif not check.ratio >= 1.0:
        u.uncounted += elapsed


@stage
def measure_outputs(plan: Plan, state: State, given: StepInput) -> None:
    """Output defects, implausible values, untrusted corrections, and alarms."""
    checks, causes, threshold = state.checks, plan.causes, state.session[0].output_defect
    for i in range(len(state.outputs)):
        out = state.outputs[i]
        checks[causes[SAMPLE_IMPLAUSIBLE].first + i].ratio = out.implausible
        checks[causes[OUT_OF_RANGE].first + i].ratio = out.outside
        untrusted = out.reason != 0
        checks[causes[MODEL_UNEXCITED].first + i].ratio = untrusted and out.unexcited
        checks[causes[MODEL_UNTRUSTED].first + i].ratio = untrusted and not out.unexcited
        checks[causes[ERROR_FEEDS_SPREAD].first + i].ratio = fed_share(plan.outputs[i], out) / FED
        sample = given.outputs[i]
        if math.isfinite(sample.y_mid) or math.isfinite(sample.y_mean):
            state.subsystems[plan.outputs[i].subsystem].reported = 1
        if given.session[0].has_middle:
            checks[causes[OUTPUT_DEFECT].first + i].ratio = out.defect / (out.scale * threshold)
    for a in range(len(state.alarms)):
        checks[causes[ALARM].first + a].ratio = state.alarms[a].active


@compiled
def fed_share(port: OutputPlan, out: OutputState) -> float:
    """Estimated error of an output over its spread, both over the session so far.

    The spread is as in `hilrt.reliability.estimates`. 0 where the error is not estimated, while the
    output has been zero, and before `SPREAD_S` have been observed.
    """
    seconds = out.moment_seconds
    if not (port.followed and port.coupled and seconds >= SPREAD_S):
        return 0.0
    mean = out.moment / seconds
    variance = max(out.square_moment / seconds - mean * mean, 0.0)
    square = max(variance, LEAST_SPREAD**2 * (variance + (out.origin + mean) ** 2))
    return math.sqrt(out.error_square / seconds / square) if square > 0.0 else 0.0


@stage
def measure_subsystems(plan: Plan, state: State, given: StepInput) -> None:
    """Late and returned subsystems, uncertain clocks, and steps across a discontinuity."""
    checks, causes, cuts = state.checks, plan.causes, given.subsystems
    across = causes[EVENT_INSIDE_STEP].first
    for s in range(len(plan.subsystems)):
        checks[causes[SAMPLE_LATE].first + s].ratio = cuts[s].late
        silent = follow_silence(plan, state, given, s)
        checks[causes[SUBSYSTEM_SILENT].first + s].ratio = silent / SILENCE_S
        checks[causes[REJOINED].first + s].ratio = cuts[s].rejoined
        limit = plan.session[0].clock_limit * plan.subsystems[s].every
        checks[causes[CLOCK_UNCERTAIN].first + s].ratio = cuts[s].clock_error / limit
        checks[across + s].ratio = 0.0
        checks[causes[STEPS_FINAL].first + s].ratio = plan.subsystems[s].steps_final
        checks[causes[INPUTS_IGNORED].first + s].ratio = plan.subsystems[s].inputs_ignored
        inside, reported = state.subsystems[s].inside, state.subsystems[s].reported
        unseen = inside == UNSEEN and not reported and given.session[0].elapsed > 0.0
        checks[causes[INSIDE_UNKNOWN].first + s].ratio = unseen
        checks[causes[SWITCHES_INSIDE].first + s].ratio = inside == SWITCHES and not reported
    # At a discontinuity, a subsystem that did not stop there is still computing.
    on_grid = given.session[0].rest == 0.0
    for k in range(len(plan.receives)):
        s = plan.receives[k].subsystem
        if cuts[plan.receives[k].giver].event and (on_grid or cuts[s].busy):
            checks[across + s].ratio = 1.0


@stage
def follow_silence(plan: Plan, state: State, given: StepInput, s: int) -> float:
    """Time without a sample from a subsystem that should have sent one, s."""
    subsystem, ports, elapsed = state.subsystems[s], plan.subsystems[s], given.session[0].elapsed
    if ports.calculated:
        return 0.0
    received = not given.subsystems[s].late
    for i in range(ports.first_output, ports.first_output + ports.outputs):
        if state.outputs[i].arrived:
            received = True
    subsystem.silent = 0.0 if received else subsystem.silent + elapsed
    if plan.session[0].variable_step:
        return float(subsystem.silent)
    return max(float(subsystem.silent), elapsed - plan.session[0].step)  # the master was suspended


@stage
def measure_session(plan: Plan, state: State, given: StepInput, slack: Table[Slack]) -> None:
    """Checks of the session: shortest step, missed deadline, changed sensitivities."""
    checks, causes, settings = state.checks, plan.causes, plan.session[0]
    at_minimum = state.session[0].h_next <= settings.minimum_step
    checks[causes[STEP_MINIMUM].first].ratio = settings.variable_step and at_minimum
    checks[causes[DEADLINE_MISSED].first].ratio = slack[0].missed
    cut, changed = given.session[0], checks[causes[SENSITIVITIES_CHANGED].first]
    changed.ratio = changed.before = 0.0
    if cut.answers_renewed:  # the time of their change since the last trial is unknown
        changed.ratio = cut.answers_change / CHANGED
        changed.before = max(cut.t - cut.answers_since - cut.elapsed, 0.0)


@stage
def measure_bond(plan: Plan, state: State, given: StepInput, b: int) -> None:
    """Power residual, tracking error, energy drift and correction of a bond."""
    checks, causes = state.checks, plan.causes
    session, bond, settings = state.session[0], state.bonds[b], plan.bonds[b]
    residual = bond.residual_power / (bond.scale * session.power_residual)
    checks[causes[POWER_RESIDUAL].first + b].ratio = abs(residual)
    tracking = bond.tracking / (bond.scale * session.tracking)
    checks[causes[TRACKING_ERROR].first + b].ratio = abs(tracking)
    if settings.tried or bond.sure:
        stays = bond.error_energy
    else:
        stays = staying_share(plan, state, given, b) * bond.made + bond.applied_work
    stays += settings.spurious * gap_energy(plan, state, given, b)
    follow_energy(bond, stays, given.session[0].elapsed)
    allowed = bond.through * session.energy_drift
    checks[causes[ENERGY_DRIFT].first + b].ratio = abs(bond.drift) / allowed
    unverified = settings.verification == UNVERIFIED and not plan.session[0].shadow
    doubtful = abs(bond.added_energy) / allowed if unverified else 0.0
    checks[causes[CORRECTION_UNVERIFIED].first + b].ratio = doubtful
    wrong = settings.verification == WRONG or bond.contradicted
    checks[causes[CORRECTION_WRONG].first + b].ratio = wrong
    checks[causes[CORRECTION_HARMFUL].first + b].ratio = bond.harmful
    acts = settings.active and given.session[0].apply
    checks[causes[CORRECTION_CAPPED].first + b].ratio = settings.active and bond.capped
    checks[causes[CORRECTION_SHADOW].first + b].ratio = settings.wanted and not acts


@compiled
def follow_energy(bond: BondState, stays: float, elapsed: float) -> None:
    """Add the interval of `elapsed` [s] to a bond's energies, and to its transmitted energy.

    `stays` [J] is the energy created in it and not removed by a correction. The carried energy is
    the range of the energy transmitted in both directions: for an oscillation the energy that the
    system stores, for a drive the energy delivered. The sum of magnitudes was rejected as a scale:
    in an oscillation it grows without bound, and would hide a doubling of the stored energy.
    """
    bond.drift += stays
    bond.carried += bond.power * elapsed
    bond.least_carried = min(bond.least_carried, bond.carried)
    bond.most_carried = max(bond.most_carried, bond.carried)
    least = LEAST_STEPS * elapsed * bond.peak
    bond.through = max(bond.most_carried - bond.least_carried, least) + TINY


@stage
def gap_energy(plan: Plan, state: State, given: StepInput, b: int) -> float:
    """Energy created by a bond's interface while an end was late, beyond that of the last step, J.

    Until a sample arrives the prediction shows no residual. The residual is assumed to have risen
    linearly from zero to its final value. A variable step has no late samples.
    """
    bond, at = state.bonds[b], plan.bonds[b]
    bond.unmeasured += given.session[0].elapsed
    for i in range(at.first, at.first + at.elements):
        ends = plan.elements[i]
        if not (state.outputs[ends.effort].arrived and state.outputs[ends.flow].arrived):
            return 0.0
    beyond = bond.unmeasured - at.every * plan.session[0].step
    bond.unmeasured = 0.0
    if plan.session[0].variable_step or not beyond > 0.0:
        return 0.0
    return float(0.5 * beyond * bond.residual_power)


@stage
def staying_share(plan: Plan, state: State, given: StepInput, b: int) -> float:
    """Share of a bond's residual energy that stays in the system.

    Zero if its effort is corrected by feedthrough or a model, unless that correction is inactive.
    """
    bond = plan.bonds[b]
    share: float = bond.spurious
    if plan.session[0].shadow or not given.session[0].apply or not bond.corrected_elsewhere:
        return share
    for i in range(bond.first, bond.first + bond.elements):
        if state.outputs[plan.elements[i].effort].reason != 0:
            return share
    return 0.0


@stage
def clear_relative_measures(plan: Plan, state: State) -> None:
    """Clear measures relative to a scale, as a motion from rest has no scale yet."""
    for cause in RELATIVE:
        group = plan.causes[cause]
        for i in range(group.first, group.first + group.checks):
            state.checks[i].ratio = 0.0
