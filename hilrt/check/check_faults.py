"""Checks of faults: places, values and times, and that benches allow those that reach them."""

from __future__ import annotations

from hilrt.check.check_topology import Direction, Topology
from hilrt.config.from_toml import nearest
from hilrt.config.problems import Findings
from hilrt.config.session_tables import FaultTable
from hilrt.config.structs import CALCULATED
from hilrt.step.fill_faults import ARROW, MAX_UNDERWAY, benches_reached, steps_underway

PLACES = ("output", "input", "connection")
#: Kinds that do nothing with a value of 0, and make no sense below.
POSITIVE = ("noise", "quantise", "delay", "jitter", "loss")


def check_faults(topology: Topology, findings: Findings) -> None:
    """List problems of ``[[faults]]`` and of ``allow_faults``."""
    faults = topology.tables.faults
    names = [fault.name for fault in faults]
    for i, fault in enumerate(faults):
        table = f"faults.{i}"
        if fault.name in names[:i]:
            findings.error(table, "name", fault.name, "is there twice", "rename one")
        _check_value(fault, table, findings)
        if (steps := steps_underway(fault, topology.tables)) > MAX_UNDERWAY:
            text = f"delays by {steps:,} steps"
            findings.error(table, "value", fault.value, text, f"give {MAX_UNDERWAY:,} at most")
        _check_time(topology, fault, table, findings)
        key = _check_place(topology, fault, table, findings)
        for bench in benches_reached(topology.tables, fault, topology.physical) if key else ():
            text = f"acts on the bench {bench!r}, which does not allow it"
            remedy = f'write allow_faults = ["{fault.name}"] into [subsystems.{bench}]'
            findings.error(table, key, fault.place, text, f"{remedy} if its machine bears that")
    for name, options in topology.tables.subsystems.items():
        for allowed in options.allow_faults:
            if allowed not in names:
                text = f"is the name of no fault{nearest(allowed, names)}"
                findings.error(f"subsystems.{name}", "allow_faults", allowed, text, "")


def _check_value(fault: FaultTable, table: str, findings: Findings) -> None:
    if (fault.kind == "stuck") != (fault.value is None):
        text = "is no key of a value that is stuck" if fault.kind == "stuck" else "is missing"
        remedy = "leave it out" if fault.kind == "stuck" else f"say how much of {fault.kind!r}"
        findings.error(table, "value", fault.value, text, remedy)
    elif fault.kind in POSITIVE and not (fault.value or 0.0) > 0.0:
        text = f"makes no fault of kind {fault.kind!r}"
        findings.error(table, "value", fault.value, text, "give more than 0")
    elif fault.kind == "loss" and not (fault.value or 0.0) <= 1.0:
        findings.error(table, "value", fault.value, "is no share", "give 1 at most")


def _check_time(topology: Topology, fault: FaultTable, table: str, findings: Findings) -> None:
    start, duration = fault.start or 0.0, topology.tables.session.duration
    if fault.end is not None and fault.end <= start:
        text = f"is not after its start at {start:g} s"
        findings.error(table, "end", fault.end, text, "end it later")
    if start >= duration:
        text = f"is not before the session's end at {duration:g} s: it never begins"
        findings.warn(table, "start", fault.start, text, "start it earlier")
    by_itself = fault.start is not None or fault.start_when is not None
    if not by_itself and f"faults.{fault.name}" not in topology.tables.monitor.adjust:
        text = "is missing, and so is a condition: it never begins"
        remedy = f'give one, or allow operators to begin it: [monitor.adjust] "faults.{fault.name}"'
        findings.warn(table, "start", None, text, f"{remedy} = {{ min = 0, max = 1 }}")


def _check_place(topology: Topology, fault: FaultTable, table: str, findings: Findings) -> str:
    """Key of a fault's place; empty where it has none."""
    given = [key for key in PLACES if getattr(fault, key) is not None]
    if len(given) != 1:
        text = f"has {' and '.join(given) or 'no place'}"
        findings.error(table, "", None, text, f"give one of {', '.join(PLACES)}")
        return ""
    (key,) = given
    if key == "connection":
        ends = [end.strip() for end in fault.place.split(ARROW.strip())]
        if ends not in [[c.source, c.target] for c in topology.tables.connections]:
            remedy = 'write it as its "from" and "to", like "a.output -> b.input"'
            findings.error(table, key, fault.place, "is no connection of this session", remedy)
            return ""
        return key
    name = fault.place.partition("[")[0]
    if key == "output" and name.startswith(f"{CALCULATED}."):
        text = "is calculated, and has no sensor"
        findings.error(table, key, name, text, "alter what it is made of, or a connection")
        return ""
    direction: Direction = "output" if key == "output" else "input"
    topology.find(name, direction, table, key, findings)
    return key
