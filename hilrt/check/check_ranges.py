"""Checks of declared ranges: what follows from values outside, and limits that lie outside."""

from __future__ import annotations

import math

from hilrt.check.check_topology import Topology
from hilrt.config.from_toml import nearest
from hilrt.config.problems import Findings
from hilrt.solver import Port


def check_ranges(topology: Topology, findings: Findings) -> None:
    """``out_of_range`` names outputs with a range; limits lie within what is declared."""
    for name, ports in topology.ports.items():
        if ports is None or name in topology.refused:
            continue
        _check_policies(topology, name, {port.name: port for port in ports.outputs}, findings)
        _check_inputs(topology, name, {port.name: port for port in ports.inputs}, findings)
    _check_alarms(topology, findings)


def _check_policies(
    topology: Topology, name: str, outputs: dict[str, Port], findings: Findings
) -> None:
    policies = topology.tables.subsystems[name].out_of_range
    for output, policy in policies.items() if isinstance(policies, dict) else ():
        table = f"subsystems.{name}.out_of_range"
        port = outputs.get(output)
        if port is None:
            reason = f"subsystem {name!r} has no such output{nearest(output, outputs)}"
            findings.error(table, output, policy, reason, "rename or remove it")
        elif not _has_range(port) and policy != "use":
            findings.warn(
                table,
                output,
                policy,
                "no range is declared for it, so nothing is ever outside",
                "declare one in the database, or set an alarm",
            )


def _check_inputs(
    topology: Topology, name: str, inputs: dict[str, Port], findings: Findings
) -> None:
    """Bounds of set-points that the subsystem's own ones make useless."""
    for key, entry in topology.tables.subsystems[name].inputs.items():
        port = inputs.get(key)
        if port is None:
            continue
        for bound, value in (("min", entry.min), ("max", entry.max)):
            if value is not None and not port.min <= value <= port.max:
                findings.warn(
                    f"subsystems.{name}.inputs.{key}",
                    bound,
                    value,
                    f"lies outside the declared range, which bounds it {range_text(port)}",
                    "narrow it, or correct the range",
                )


def _check_alarms(topology: Topology, findings: Findings) -> None:
    """Limits beyond what the signal is declared to reach."""
    for i, alarm in enumerate(topology.tables.alarms):
        ports = topology.ports.get(alarm.signal.partition(".")[0])
        outputs = {port.name: port for port in ports.outputs} if ports is not None else {}
        port = outputs.get(alarm.signal.partition(".")[2])
        if port is None or alarm.signal in topology.unclear:
            continue
        for key, limit in (("min", alarm.min), ("max", alarm.max)):
            if limit is not None and not port.min <= limit <= port.max:
                findings.warn(
                    f"alarms.{i}",
                    key,
                    limit,
                    f"lies outside the declared range {range_text(port)} of {alarm.signal}: the "
                    "alarm judges values there, too, but none should come",
                    "correct the limit, or the range",
                )


def _has_range(port: Port) -> bool:
    return math.isfinite(port.min) or math.isfinite(port.max)


def range_text(port: Port) -> str:
    """Declared range of a port, for people."""
    if math.isinf(port.min):
        return f"up to {port.max:g}"
    return f"from {port.min:g}" + ("" if math.isinf(port.max) else f" to {port.max:g}")
