"""μ of the energy correction: the share of the power residual that is spurious energy.

Rodríguez et al. (2022), section 3.3, eqs. 20 and 21. The values are valid for one bond between two
linear subsystems without other connections, if the inputs with direct feedthrough are held.
Linearity cannot be detected from outside, and even for linear subsystems the best value depends on
their parameters, as the ledger shows; therefore a session file may set μ. If μ is unknown, the
correction runs in shadow mode.

With ``R`` the communication step of the side with feedthrough over that of the other:

========================  =====================  =========================================
feedthrough side          smaller step uses ZOH  smaller step uses FOH or more
========================  =====================  =========================================
slower or equal, R >= 1   0.5 (1.5 - 0.5 / R)    0.5; residual as sent: 1
faster, R < 1             0.5                    0.5 R; residual as sent: R - see below
========================  =====================  =========================================

The last entry is for an effort evaluated with the input of the *last micro step*. An effort
evaluated with the input at the end of the step, as `hilrt.solver.Solver` requires, has almost no
error to correct there (measured: R = 0.1, uncorrected +0.06 %, with 0.5 R -5.5 %), so that entry is
reported to the user, but not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from hilrt.config import units
from hilrt.errors import ConfigError
from hilrt.tables.network import Network
from hilrt.tables.ports import Bools, Ints

SINGLE_RATE = 0.5


class Mu(NamedTuple):
    """A value, or None if unknown, and the reason as text."""

    value: float | None
    why: str


class SideFlow(NamedTuple):
    """Output of the flow at the effort's side that an adaptive μ may follow.

    -1 if there is none, with the reason as text.
    """

    output: int
    why: str


def table_mu(ratio: float, order: int, residual: Literal["sent", "held"]) -> float:
    """Value of μ from the table above.

    Parameters
    ----------
    ratio : float
        R, step of the feedthrough side over that of the other.
    order : int
        Extrapolation order of the input of the side with the smaller step; for equal steps that of
        the effort.
    residual : {"sent", "held"}
    """
    sent = 2.0 if residual == "sent" and order > 0 else 1.0
    if ratio >= 1.0:
        return SINGLE_RATE * (sent if order > 0 else 1.5 - 0.5 / ratio)
    return SINGLE_RATE * (sent * ratio if order > 0 else 1.0)


def derive_mu(
    *,
    residual: Literal["sent", "held"],
    effort_every: int,
    flow_every: int,
    effort_order: int,
    feedthrough_orders: Sequence[int],
    flow_feedthrough: bool = False,
) -> Mu:
    """μ of a bond between two subsystems without other connections.

    Parameters
    ----------
    effort_every, flow_every : int
        Communication steps of the two sides, in base steps.
    effort_order : int
        Extrapolation order of the effort sent to the flow side.
    feedthrough_orders : sequence of int
        Orders of the inputs that the effort depends on directly; empty without feedthrough.
    flow_feedthrough : bool
        Whether the flow depends directly on any input.
    """
    ratio = effort_every / flow_every
    if flow_feedthrough:
        return Mu(None, "the flow has direct feedthrough")
    if not feedthrough_orders:
        if ratio == 1.0:
            return Mu(0.0, "single rate and no declared feedthrough: nothing to correct")
        return Mu(None, "several rates and no declared feedthrough")
    held = max(feedthrough_orders) == 0
    rate = "single rate" if ratio == 1.0 else f"R = {ratio:g}"
    if ratio >= 1.0:
        if not held:
            return Mu(None, "the input of the effort's feedthrough is extrapolated")
        hold = "the effort extrapolated" if effort_order else "the effort held"
        value = table_mu(ratio, effort_order, residual)
        return Mu(value, f"{rate}, one feedthrough side, {hold}, residual {residual!r}")
    if effort_order > 0:
        return Mu(None, "the faster side has the feedthrough, and its effort is extrapolated")
    if held:
        return Mu(table_mu(ratio, 0, residual), f"{rate}, one feedthrough side, all inputs held")
    value = table_mu(ratio, 1, residual)
    return Mu(
        None,
        f"{rate}, the faster side has the feedthrough, its input extrapolated: little to correct; "
        f"mu = {value:g} holds for an effort evaluated with the input of the last micro step",
    )


def bond_mu(network: Network, b: int, physical: Bools) -> Mu:
    """μ of bond number `b`: from the session file, or else derived, or unknown.

    Parameters
    ----------
    physical : ndarray of bool, shape (n subsystems,)
        Benches, whose direct dependencies are unknown.
    """
    given = network.bonds.tables[b].correction.mu
    return _derived_mu(network, b, physical) if given is None else Mu(given, "as given")


def _derived_mu(network: Network, b: int, physical: Bools) -> Mu:
    bonds, connections = network.bonds, network.connections
    table = bonds.tables[b].correction
    elements = bonds.elements(b)
    effort, flow = bonds.effort[elements], bonds.flow[elements]
    sides = network.outputs.owner[[effort[0], flow[0]]]
    reason = _why_not_isolated(network, b, network.outputs.member[[effort[0], flow[0]]])
    if reason:
        return Mu(None, reason)
    if physical[sides].any():
        return Mu(None, "there is a bench")
    through = sorted({int(u) for y in effort for u in network.feedthrough.neighbours(y)})
    return derive_mu(
        residual=table.residual,
        effort_every=int(network.every[sides[0]]),
        flow_every=int(network.every[sides[1]]),
        effort_order=max(connections.orders_at(bonds.effort_input[elements].tolist())),
        feedthrough_orders=connections.orders_at(through),
        flow_feedthrough=bool(network.feedthrough.in_row[flow].any()),
    )


def find_side_flow(network: Network, b: int, physical: Bools) -> SideFlow:
    """Flow at the effort's side that the adaptive μ of bond number `b` may follow.

    Raises
    ------
    ConfigError
        If the session file names an output that does not exist.
    """
    bonds, table = network.bonds, network.bonds.tables[b].correction
    if table.mu_range is None or table.effort_side_flow is None:
        return SideFlow(-1, "it is not given")
    where = f"[bonds.{bonds.tables[b].name}.correction] effort_side_flow"
    part, _ = network.outputs.find(table.effort_side_flow, where)
    first = bonds.first[b]
    if bonds.elements(b).stop - bonds.elements(b).start > 1:
        return SideFlow(-1, "the effort is not a single number")
    if not same_rate(network, b):
        return SideFlow(-1, "a side does not communicate in every step")
    derived = _derived_mu(network, b, physical)
    if derived.value is None:
        return SideFlow(-1, derived.why)
    if not _depends_on_displacement(network, int(bonds.effort[first]), int(bonds.flow[first])):
        return SideFlow(-1, "the effort depends directly on no integral of the flow")
    return SideFlow(int(part.start), "")


def _depends_on_displacement(network: Network, effort: int, flow: int) -> bool:
    """Whether an effort depends directly on an input with the unit of the flow times a second."""
    for u in network.feedthrough.neighbours(effort):
        try:
            unit = units.product(network.outputs.units[flow], "s")
            units.conversion(unit, network.inputs.units[u])
        except ConfigError:
            continue
        return True
    return False


def same_rate(network: Network, b: int) -> bool:
    """Whether both sides of bond number `b` communicate in every step."""
    bonds, owner = network.bonds, network.outputs.owner
    outputs = [*bonds.effort[bonds.elements(b)], *bonds.flow[bonds.elements(b)]]
    return bool((network.every[owner[outputs]] == 1).all())


def spurious_share(network: Network, b: int, physical: Bools) -> float:
    """Share of the residual energy of bond number `b` that counts as spurious.

    μ if it is known, otherwise 1; but R if the effort's side communicates more often than the
    flow's. Within the flow side's long step the effort's side follows the flow's polynomial, so
    the difference at the end of that step, which the residual measures, acted only briefly (for the
    hydraulic crane μ = R halves the error).
    """
    mu = bond_mu(network, b, physical).value
    if mu is not None:
        return mu
    first = network.bonds.first[b]
    owner = network.outputs.owner
    every = network.every[owner[[network.bonds.effort[first], network.bonds.flow[first]]]]
    return min(1.0, float(every[0] / every[1]))


def _why_not_isolated(network: Network, b: int, sides: Ints) -> str:
    """Reason why a bond's two subsystems have further connections; empty if they have none."""
    if len(network.bonds.tables[b].efforts) > 1:
        return "several efforts add up"
    pair: list[int] = sides.tolist()
    if network.bonds_between[min(pair), max(pair)] > 1:
        return "several bonds join the two subsystems"
    if any(giver not in pair for s in pair for giver in network.givers.neighbours(s)):
        return "more than two subsystems take part"
    return ""
