"""Checks of what is watched and waited for: alarms, matches, and the steps of start and stop."""

from __future__ import annotations

from hilrt.check_topology import Topology
from hilrt.problems import Findings


def check_alarms(topology: Topology, findings: Findings) -> None:
    """``[[alarms]]``: a known output, at least one limit, in order."""
    for i, alarm in enumerate(topology.tables.alarms):
        table = f"alarms.{i}"
        topology.find(alarm.signal, "output", table, "signal", findings)
        limits = (alarm.min, alarm.max, alarm.max_rate)
        if all(limit is None for limit in limits):
            findings.error(
                table, "signal", alarm.signal, "has no limit", "give min, max or max_rate"
            )
        check_order(alarm.min, alarm.max, table, findings)
        if alarm.action in ("stop", "safe") and not topology.physical:
            findings.info(table, f'action = "{alarm.action}" ends the session: there is no bench')


def check_order(low: float | None, high: float | None, table: str, findings: Findings) -> None:
    """A lower bound below the upper one."""
    if low is not None and high is not None and not low < high:
        findings.error(table, "min", low, f"is not below max = {high:g}", "exchange them")
