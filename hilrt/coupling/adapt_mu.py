"""Adaptive mu: the share of a bond's residual energy that its interface creates.

Where the direct responses D of the efforts were probed, the created energy is known at every step.
Otherwise the ledger contains the whole residual only, and the created share of it follows from the
effort and the flows at both ends of the coupling, if the session file names the second one and the
effort changes with their difference (docs/methods.md#adaptive-μ).
"""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled
from hilrt.tables.plan import BondPlan, SessionPlan
from hilrt.tables.state import BondState

#: Smallest change of an adaptive mu.
MU_STEP = 0.02
#: Least steps in a row before the flows count.
LEAST_STEPS = 20
#: Least share of the effort's changes that the flows' difference must explain: R^2 of a fit through
#: the origin. 0.1 % of noise on all samples leaves 0.98 at 600 steps per oscillation.
EXPLAINED = 0.9
#: A coupling has changed if the squared error of the fit exceeds the mean squared change of the
#: effort by this factor.
JUMP = 8.0
#: The fit forgets this many times faster than the energies.
FASTER = 4.0
#: By the flows, energy that was recently created is removed this many times faster than it is
#: forgotten.
SOONER = 2.0


@compiled
def remember_energies(settings: SessionPlan, bond: BondState, elapsed: float) -> None:
    """Add the interval's energies to the recent ones; `settings` is the plan's session."""
    keep = math.exp(-elapsed / settings.scale_time)
    bond.recent_created = bond.recent_created * keep + bond.error_energy
    bond.recent_without = bond.recent_without * keep + bond.error_energy - bond.added_in_interval
    bond.recent_residual = bond.recent_residual * keep + bond.made


@compiled
def adapt_mu(settings: BondPlan, bond: BondState, repaid: float) -> None:
    """Set mu to the share of the residual energy that the interface has recently created.

    For an undamped linear system that is the required share, ``<v2^2> / (2 (<v2^2> - <v1 v2>))``.
    Energy that was recently created despite the correction is removed `repaid` times as fast as it
    decays from the sums, as far as the correction acts: in shadow nothing is removed. mu changes by
    at least `MU_STEP`, so that each change can be an event.
    """
    if bond.recent_residual == 0.0:
        return
    repaid *= bond.in_force
    wanted = (bond.recent_without + repaid * bond.recent_created) / bond.recent_residual
    wanted = max(settings.mu_least, min(wanted, settings.mu_most))
    if abs(wanted - bond.mu) >= MU_STEP:
        bond.mu, bond.mu_turned = wanted, 1


@compiled
def doubt_mu(settings: BondPlan, bond: BondState, elapsed: float) -> None:
    """Set mu to its lower bound if nothing shows what it should be.

    Without evidence a correction may create energy, and nothing would show that. While the fit
    begins anew, mu stays for a while.
    """
    bond.trusted -= elapsed
    if bond.followed > LEAST_STEPS:  # the effort does not follow the flows
        bond.trusted = 0.0
    if bond.trusted > 0.0:
        return
    bond.recent_created = bond.recent_without = bond.recent_residual = 0.0
    if bond.mu != settings.mu_least:
        bond.mu, bond.mu_turned = settings.mu_least, 1


@compiled
def forget_fit(bond: BondState) -> None:
    """Forget how the effort followed the flows, because the coupling has changed."""
    bond.followed = bond.sure = 0
    bond.fit_weight = bond.fit_effort = bond.fit_flows = bond.fit_both = 0.0


@compiled
def follow_flows(
    bond: BondState, values: tuple[float, float, float], watt: float, elapsed: float, keep: float
) -> None:
    """Compute the energies that the interface created and the correction moved in the interval.

    `values` are the effort, the flow v2 of the bond and the flow v1 at the effort's side; `watt` is
    the product of their units, `keep` the weight left to earlier steps. With the held input of a
    coupling of stiffness K, the effort is wrong by ``K H v2`` at the end of a step. K is found by
    the fit ``de = K H (v1 - v2)``. While the fit is not sure, the share mu is assumed to be right,
    but that is no evidence for it.
    """
    effort, flow, side_flow = values
    if bond.followed:
        change = effort - bond.effort_before
        moved = elapsed * ((side_flow + bond.side_flow_before) / 2.0 - bond.flow_before)
        fit_change(bond, change, moved, keep)
    bond.followed += 1
    bond.effort_before, bond.flow_before, bond.side_flow_before = effort, flow, side_flow
    explained = bond.fit_both * abs(bond.fit_both)
    bond.sure = (
        bond.followed > LEAST_STEPS and explained > EXPLAINED * bond.fit_effort * bond.fit_flows
    )
    made = bond.mu * bond.made
    if bond.sure:
        moved = elapsed * flow
        made = watt * (bond.fit_both / bond.fit_flows) * moved * moved
    bond.error_energy = made + bond.applied_work
    bond.added_in_interval = bond.applied_work


@compiled
def fit_change(bond: BondState, change: float, moved: float, keep: float) -> None:
    """Add a step to the fit of the effort's change; begin anew with the next one after a jump."""
    if bond.sure:
        error = change - bond.fit_both / bond.fit_flows * moved
        if error * error * bond.fit_weight > JUMP * bond.fit_effort:
            forget_fit(bond)
            return
    bond.fit_weight = bond.fit_weight * keep + 1.0
    bond.fit_effort = bond.fit_effort * keep + change * change
    bond.fit_flows = bond.fit_flows * keep + moved * moved
    bond.fit_both = bond.fit_both * keep + change * moved
