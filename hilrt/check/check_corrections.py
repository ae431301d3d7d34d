"""Checks of the bonds' corrections: keys, permission to act, and mu."""

from __future__ import annotations

import numpy as np

from hilrt.check.check_topology import Place, Topology
from hilrt.config.problems import Findings
from hilrt.config.structs import Bond, Correction
from hilrt.coupling.mu import SideFlow, bond_mu, find_side_flow, same_rate
from hilrt.errors import ConfigError
from hilrt.tables.network import Network, build_network


def check_corrections(topology: Topology, findings: Findings) -> None:
    """Check that corrections are complete, permitted, and have no superfluous keys."""
    for bond in topology.tables.bonds:
        table, flow = f"bonds.{bond.name}.correction", _output(topology, bond.flow)
        if flow is not None and all(_output(topology, effort) for effort in bond.efforts):
            _check_keys(bond, table, findings)
            _check_adaptation(topology, bond, table, findings)
            _check_permission(bond, flow.subsystem in topology.physical, table, findings)


def _output(topology: Topology, name: str) -> Place | None:
    """Place of an output; None if it does not exist, which is reported elsewhere."""
    return topology.find(name, "output", "", "", Findings())


def _check_keys(bond: Bond, table: str, findings: Findings) -> None:
    correction = bond.correction
    if correction.method != "energy":
        for key in ("mu", "nu", "cap", "cap_abs"):
            if (value := getattr(correction, key)) != getattr(Correction(), key):
                message, remedy = "has no effect on this correction", 'set method = "energy"'
                findings.warn(table, key, value, message, f"{remedy}, or leave it out")


def _check_adaptation(topology: Topology, bond: Bond, table: str, findings: Findings) -> None:
    """Check the bounds of an adaptive mu, and the flow that it may follow."""
    correction = bond.correction
    if correction.mu_range is None:
        if correction.effort_side_flow is not None:
            message = "has no effect, as mu does not adapt"
            value, remedy = correction.effort_side_flow, "give mu_range, or leave it out"
            findings.warn(table, "effort_side_flow", value, message, remedy)
        return
    if correction.method == "none":
        return
    least, most = correction.mu_range
    if correction.method != "energy":
        findings.error(table, "mu_range", None, 'is for method = "energy"', "leave it out")
    elif not least <= (least if correction.mu is None else correction.mu) <= most:
        message = "must be two bounds, the lower one first, with mu between them"
        findings.error(table, "mu_range", correction.mu_range, message, "correct it")
    if correction.effort_side_flow is not None:
        _check_side_flow(topology, bond, correction.effort_side_flow, table, findings)


def _check_side_flow(
    topology: Topology, bond: Bond, name: str, table: str, findings: Findings
) -> None:
    """Check that an output is a flow like the bond's, on the side of its effort."""
    side = topology.find(name, "output", table, "effort_side_flow", findings)
    effort, flow = (_output(topology, end) for end in (bond.efforts[0], bond.flow))
    if side is None or effort is None or flow is None:
        return
    if side.member != effort.member:
        message = f"belongs to {side.member!r}, the effort to {effort.member!r}"
        remedy = "name an output of the effort's subsystem"
        findings.error(table, "effort_side_flow", name, message, remedy)
    elif side.port and flow.port and (side.port.unit, side.port.size) != (flow.port.unit, 1):
        message = f"must be a single value in the unit of {bond.flow!r}, {flow.port.unit!r}"
        findings.error(table, "effort_side_flow", name, message, "name another output")


def _check_permission(bond: Bond, on_bench: bool, table: str, findings: Findings) -> None:
    """Check that a correction may act on a bench."""
    correction = bond.correction
    if correction.method == "none" or not on_bench:
        return
    if correction.method != "energy":
        findings.error(
            table,
            "method",
            correction.method,
            f"would act on the physical bench of {bond.flow!r} without its own bound",
            'only method = "energy" has caps; use it, or correct the virtual side',
        )
    elif not correction.permit_on_bench:
        findings.error(
            table,
            "method",
            correction.method,
            f"the corrected effort would act on the physical bench of {bond.flow!r}",
            "put the correction on a bond whose flow is virtual, or set permit_on_bench = true "
            "and cap_abs",
        )
    elif correction.cap_abs is None:
        findings.error(
            table,
            "cap_abs",
            None,
            "is missing; a correction that acts on a bench needs an absolute bound",
            "add it, in the effort's unit",
        )


def check_mu(topology: Topology, findings: Findings) -> None:
    """Report the μ of each energy correction with its origin; the topology must have no errors."""
    bonds = topology.tables.bonds
    wanted = [b for b, bond in enumerate(bonds) if bond.correction.method == "energy"]
    ports = {name: known for name, known in topology.ports.items() if known is not None}
    if not wanted or any(problem.level == "error" for problem in findings.problems):
        return
    if len(ports) < len(topology.ports):
        for b in wanted:
            table = f"bonds.{bonds[b].name}.correction"
            findings.info(table, "mu is determined when all subsystems have announced their ports")
        return
    try:
        network = build_network(ports, topology.tables)
    except ConfigError as error:
        for line in error.problems:
            findings.line(line)
        return
    physical = np.array([name in topology.physical for name in network.subsystems])
    for b in wanted:
        table, correction = f"bonds.{bonds[b].name}.correction", bonds[b].correction
        mu = bond_mu(network, b, physical)
        if mu.value is None and correction.mu_range is None:
            message = (
                f"is not given and not known ({mu.why}), so the correction only runs in shadow"
            )
            findings.warn(table, "mu", None, message, "set mu")
        elif mu.value is not None:
            findings.info(table, f"uses mu = {mu.value:g}: {mu.why}")
        if correction.mu_range is not None:
            if mu.value is None:
                least = correction.mu_range[0]
                findings.info(table, f"begins with mu = {least:g}, the lower bound: {mu.why}")
            _report_adaptation(topology, network, b, find_side_flow(network, b, physical), findings)


def _report_adaptation(
    topology: Topology, network: Network, b: int, side: SideFlow, findings: Findings
) -> None:
    """Say what an adaptive mu will follow, and what it does without that."""
    bond = network.bonds.tables[b]
    table, correction = f"bonds.{bond.name}.correction", bond.correction
    value, effort = correction.mu_range, bond.efforts[0]
    if not same_rate(network, b):
        message = "mu stays: it adapts only if both sides communicate in every step"
        findings.warn(table, "mu_range", value, message, "leave it out, or use equal steps")
        return
    owner, first = topology.tables.split(effort)[0], "from the probed direct response of the effort"
    if owner in topology.final:
        first = f"{owner!r} cannot be probed by a trial, as it does not save and restore its state"
    if side.output >= 0:
        least = correction.mu_range[0] if correction.mu_range else 0.0
        text = f"otherwise from {effort}, {correction.effort_side_flow} and {bond.flow}"
        text += f"; it is {least:g} until these show what it should be"
        findings.info(table, f"mu adapts: {first}; {text}")
        return
    if correction.effort_side_flow is not None:
        first += f"; effort_side_flow is not used: {side.why}"
    if owner not in topology.final:
        findings.info(table, f"mu adapts: {first}; without a trial, it stays")
        return
    remedy = "give save_state and restore_state, or an FMU with directional derivatives"
    if correction.effort_side_flow is None:
        remedy += ", or effort_side_flow"
    findings.warn(table, "mu_range", value, f"mu stays: {first}", remedy)
