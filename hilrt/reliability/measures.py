"""How reliability measures: compiled loops over the checks, and what hands them their arrays.

Arrays have one element per input, output, subsystem or bond, or stand for all checks (`ratio`,
`last_high`, `active`); what is described as measured or moved is overwritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hilrt.compiled import compiled
from hilrt.solver import Floats
from hilrt.tables.network import Bools, Ints

if TYPE_CHECKING:
    from hilrt.reliability.flags import Monitor
    from hilrt.step.plan import Plan
    from hilrt.step.step_state import StepInput, StepState

#: Share of the running scale's peak below which the scale does not fall.
SCALE_FLOOR = 0.02
#: Steps at a bond's highest power that are the least scale of its energy: a motion from rest has
#: carried none yet.
LEAST_STEPS = 50.0
#: Keeps ratios of signals that were never other than zero finite.
TINY = 1e-200


@compiled
def measure_always(
    first: Ints,
    u_defect: Floats,
    added: Floats,
    scale: Floats,
    defect_limit: float,
    late: Bools,
    rejoined: Bools,
    implausible: Bools,
    event: Bools,
    receives: Bools,
    busy: Bools,
    rest: float,
    limited: Bools,
    alarms: Bools,
    clock_error: Floats,
    clock_limit: float,
    every: Ints,
    at_minimum: bool,
    missed: bool,
    ratio: Floats,
) -> None:
    """Ratios of the causes `ALWAYS`, whose first checks are `first`, in that order."""
    for i in range(len(u_defect)):
        # What a correction added on purpose is no error of the exchange; the log has it all.
        unexplained = max(u_defect[i] - abs(added[i]), 0.0)
        ratio[first[0] + i] = unexplained / (scale[i] * defect_limit)
        ratio[first[1] + i] = limited[i]
    for i in range(len(implausible)):
        ratio[first[2] + i] = implausible[i]
    for i in range(len(alarms)):
        ratio[first[3] + i] = alarms[i]
    for s in range(len(late)):
        ratio[first[4] + s] = late[s]
        ratio[first[5] + s] = rejoined[s]
        ratio[first[6] + s] = clock_error[s] / (clock_limit * every[s])
        # At a point put at a discontinuity, who did not stop is still under way to the next one.
        across = False
        for other in range(len(event)):
            across |= event[other] and receives[s, other] and (busy[s] or rest == 0.0)
        ratio[first[7] + s] = across
    ratio[first[8]] = at_minimum
    ratio[first[9]] = missed


@compiled
def follow_scales(
    measured: Floats,
    y: Floats,
    power: Floats,
    keep: float,
    magnitude: Floats,
    peak: Floats,
    scale: Floats,
) -> None:
    """Let the running scales decay by `keep`, rise with the values, and stay above a floor."""
    nu, ny = measured.shape[1], len(y)
    for i in range(len(magnitude)):
        if i < nu:
            value = measured[0, i]
        elif i < nu + ny:
            value = y[i - nu]
        else:
            value = power[i - nu - ny]
        magnitude[i] = abs(value)
        if magnitude[i] > peak[i]:
            peak[i] = magnitude[i]
        floor = SCALE_FLOOR * peak[i] + TINY
        scale[i] = max(scale[i] * keep, floor)
        if magnitude[i] > scale[i]:
            scale[i] = magnitude[i]


@compiled
def measure_bond_causes(
    first: Ints,
    residual_limit: float,
    tracking_limit: float,
    drift_limit: float,
    scale: Floats,
    residual: Floats,
    tracking: Floats,
    capped: Bools,
    wanted: Bools,
    active: Bools,
    apply: bool,
    power: Floats,
    made: Floats,
    taken: Floats,
    share: Floats,
    elapsed: float,
    peak: Floats,
    drift: Floats,
    carried: Floats,
    low: Floats,
    high: Floats,
    ratio: Floats,
) -> None:
    """Ratios of the causes `OF_BONDS`, whose first checks are `first`, in that order.

    `scale` and `peak` are those of the bonds' power. The interval is added to the energies `drift`
    and `carried`.

    What a bond carries is the range of the energy that has gone through it, to and fro: for an
    oscillation about what the system stores, for a drive what it has delivered. The sum of
    magnitudes was rejected as a scale: in an oscillation it grows without end, and would hide that
    the energy stored has doubled.
    """
    for b in range(len(power)):
        ratio[first[0] + b] = abs(residual[b] / (scale[b] * residual_limit))
        ratio[first[1] + b] = abs(tracking[b] / (scale[b] * tracking_limit))
        drift[b] += share[b] * made[b] + taken[b]
        carried[b] += power[b] * elapsed
        low[b], high[b] = min(low[b], carried[b]), max(high[b], carried[b])
        size = max(high[b] - low[b], LEAST_STEPS * elapsed * peak[b]) + TINY
        ratio[first[2] + b] = abs(drift[b]) / (size * drift_limit)
        ratio[first[3] + b] = capped[b] and active[b]
        ratio[first[4] + b] = wanted[b] and not (active[b] and apply)


@compiled
def staying_shares(
    spurious: Floats,
    elsewhere: Bools,
    of_element: Ints,
    effort: Ints,
    untrusted: Floats,
    shares: Floats,
) -> None:
    """Share of each bond's residual energy that stays in the system, (nb,), into `shares`.

    None where a bond is corrected `elsewhere` than by energy, unless the correction of one of its
    efforts (outputs, as `untrusted`) is inactive.
    """
    for b in range(len(shares)):
        shares[b] = 0.0 if elsewhere[b] else spurious[b]
    for i in range(len(effort)):
        if untrusted[effort[i]] != 0.0:
            shares[of_element[i]] = spurious[of_element[i]]


@compiled
def move_flags(
    ratio: Floats,
    t: float,
    elapsed: float,
    clear_time: float,
    used: Ints,
    first: Ints,
    last_high: Floats,
    active: Bools,
    any_active: Bools,
    seconds: Floats,
    moved: Ints,
) -> int:
    """Raise and clear flags; returns how many have moved, their checks standing in `moved`."""
    count = 0
    for i in range(len(ratio)):
        if ratio[i] >= 0.5:
            last_high[i] = t
        up = ratio[i] >= 1.0 or (active[i] and last_high[i] > t - clear_time)
        if up != active[i]:
            active[i] = up
            moved[count] = i
            count += 1
    for c in range(len(used)):
        stop = first[c + 1] if c + 1 < len(first) else len(active)
        up = False
        for i in range(first[c], stop):
            up = up or active[i]
        any_active[used[c]] = up
        if up:
            seconds[used[c]] += elapsed
    return count


def measure(
    monitor: Monitor,
    plan: Plan,
    state: StepState,
    given: StepInput,
    keep: float,
    at_minimum: bool,
) -> None:
    """Ratios of the causes `ALWAYS`.

    Parameters
    ----------
    keep : float
        Share of a running scale that is left after the interval.
    at_minimum : bool
        Whether the next step is the shortest one allowed.
    """
    limits = plan.reliability
    follow_scales(
        state.measured,
        state.y,
        state.bond_power,
        keep,
        monitor.magnitude,
        monitor.peak,
        monitor.scale,
    )
    # A NaN, where a measure is unknown, compares as false and raises nothing.
    measure_always(
        monitor.checks.always,
        state.u_defect,
        state.flown_added,
        monitor.scale,
        limits.connection_defect,
        given.late,
        given.rejoined,
        state.implausible,
        given.event,
        plan.receives,
        given.busy,
        given.rest,
        state.limited,
        state.alarms.active,
        given.clock_error,
        limits.clock * plan.step,
        plan.network.every,
        at_minimum,
        given.missed,
        monitor.ratio,
    )


def measure_at_bonds(
    monitor: Monitor, plan: Plan, state: StepState, given: StepInput, shares: Floats
) -> None:
    """Ratios of the causes `OF_BONDS`; `shares` (nb,) of their residual energy stay."""
    limits, corrected, energy = plan.reliability, state.corrected, plan.energy
    first = len(monitor.scale) - len(monitor.drift)
    measure_bond_causes(
        monitor.checks.of_bonds,
        limits.power_residual,
        limits.tracking,
        limits.energy_drift,
        monitor.scale[first:],
        corrected.power,
        state.tracking,
        corrected.capped,
        energy.wanted,
        energy.active,
        given.apply,
        state.bond_power,
        corrected.energy,
        corrected.applied_work,
        shares,
        given.elapsed,
        monitor.peak[first:],
        monitor.drift,
        monitor.carried,
        monitor.low,
        monitor.high,
        monitor.ratio,
    )


def raise_and_clear(monitor: Monitor, t: float, elapsed: float, clear_time: float) -> int:
    """Move the flags; how many have moved, their checks standing in `moved`."""
    checks = monitor.checks
    return move_flags(
        monitor.ratio,
        t,
        elapsed,
        clear_time,
        checks.used,
        checks.first,
        monitor.last_high,
        monitor.active,
        monitor.any_active,
        monitor.seconds,
        monitor.moved,
    )
