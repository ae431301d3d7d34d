"""Checks of alarms, matches, and the steps of start and stop sequences."""

from __future__ import annotations

from hilrt.check.check_topology import Place, Topology
from hilrt.config import units
from hilrt.config.problems import Findings
from hilrt.config.structs import Match, Step
from hilrt.errors import ConfigError


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


def check_procedures(topology: Topology, findings: Findings) -> None:
    """``[[start]]``, ``[[stop]]`` and ``[[match]]``: set-points of benches, known outputs."""
    tables = topology.tables
    for kind, steps in (("start", tables.start), ("stop", tables.stop)):
        for i, step in enumerate(steps):
            table = f"{kind}.{i}"
            for name, value in step.ramp.items():
                _check_set_point(topology, name, value, f"{table}.ramp", findings)
            if step.wait is not None:
                _check_measured(topology, step.wait, table, "wait", findings)
                if step.min is None and step.max is None:
                    findings.error(table, "wait", step.wait, "has no limit", "give min or max")
            elif not step.ramp:
                findings.error(table, "", None, "does nothing", "give ramp, or wait, or both")
            else:
                _check_unused(step, table, findings)
            check_order(step.min, step.max, table, findings)
            _check_hold(step, table, findings)
    for i, match in enumerate(tables.match):
        table = f"match.{i}"
        measured = _check_measured(topology, match.signal, table, "signal", findings)
        _check_hold(match, table, findings)
        if isinstance(match.to, str):
            target = topology.find(match.to, "output", table, "to", findings)
            _check_units(match, target, measured, table, findings)


def _check_units(
    match: Match, target: Place | None, measured: Place | None, table: str, findings: Findings
) -> None:
    if target is None or measured is None or target.port is None or measured.port is None:
        return
    try:
        units.conversion(target.port.unit, measured.port.unit)
    except ConfigError as error:
        message = f"for signal {match.signal!r}: {error}"
        findings.error(table, "to", match.to, message, "match two quantities of one kind")


def _check_unused(step: Step, table: str, findings: Findings) -> None:
    """Keys of a wait, in a step that does not wait."""
    given = {"min": step.min, "max": step.max, "hold": step.hold or None}
    for key, value in given.items():
        if value is not None:
            message = "is of no use: the step waits for nothing"
            findings.error(table, key, value, message, "give wait, or leave it out")


def _check_hold(entry: Step | Match, table: str, findings: Findings) -> None:
    if entry.hold > entry.timeout:
        findings.error(
            table,
            "hold",
            entry.hold,
            f"is longer than timeout = {entry.timeout:g}: the wait can only fail",
            "raise timeout above it",
        )


def _check_measured(
    topology: Topology, signal: str, table: str, key: str, findings: Findings
) -> Place | None:
    """Outside the ticks, only a bench's outputs change."""
    place = topology.find(signal, "output", table, key, findings)
    if place is not None and place.subsystem not in topology.physical:
        findings.error(
            table, key, signal, "does not change while no ticks run", "name an output of a bench"
        )
    return place


def _check_set_point(
    topology: Topology, name: str, value: float, table: str, findings: Findings
) -> None:
    place = topology.find(name, "input", table, f'"{name}"', findings)
    if place is None:
        return
    if place.subsystem not in topology.physical:
        findings.error(table, f'"{name}"', value, "is no set-point of a bench", "leave it out")
    elif place.port is not None and not place.port.min <= value <= place.port.max:
        findings.error(
            table,
            f'"{name}"',
            value,
            f"lies outside {place.port.min:g} to {place.port.max:g}",
            "move it inside the bounds",
        )


def check_order(low: float | None, high: float | None, table: str, findings: Findings) -> None:
    """A lower bound below the upper one."""
    if low is not None and high is not None and not low < high:
        findings.error(table, "min", low, f"is not below max = {high:g}", "exchange them")
