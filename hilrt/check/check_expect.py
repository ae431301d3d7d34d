"""Checks of expectations: keys that go together, signals that there are, units that fit."""

from __future__ import annotations

from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.config.structs import CALCULATED, Expect
from hilrt.config.units import UNSTATED
from hilrt.errors import ConfigError
from hilrt.expect.expectation import Expectation, read_expectation
from hilrt.expressions.parse import parse
from hilrt.expressions.program import Program


def check_expect(topology: Topology, findings: Findings) -> None:
    """``[[expect]]``: names of their own, formulas that can be judged within the session."""
    tables = topology.tables
    names: set[str] = set()
    for i, table in enumerate(tables.expect):
        place = f"expect.{i}"
        if table.name in names:
            findings.error(place, "name", table.name, "another one has that name", "rename one")
        names.add(table.name)
        try:
            expectation = read_expectation(table)
        except ConfigError as error:
            for line in error.problems:
                findings.line(line, place)
            continue
        _check_signals(topology, expectation, place, findings)
        _check_time(table, tables.session.duration, place, findings)


def _check_signals(
    topology: Topology, expectation: Expectation, place: str, findings: Findings
) -> None:
    texts = [atom.text for atom in expectation.atoms]
    expressions = [parse(text) for text in texts]
    units = _units(topology)
    for expression in expressions:
        for name in expression.signals:
            calculated = f"{CALCULATED}.{name}"
            if name not in units and calculated in units:
                units[name] = units[calculated]
            elif _only_later(topology, name):
                units.setdefault(name, UNSTATED)
    try:
        Program.from_texts(expressions, units, step=topology.tables.master.step)
    except ConfigError as error:
        for line in dict.fromkeys(error.problems):
            findings.error(place, "", None, *_parts(line))


def _parts(line: str) -> tuple[str, str]:
    message, _, remedy = line.partition("; ")
    return message, remedy


def _units(topology: Topology) -> dict[str, str]:
    """Outputs and inputs as the log has them, with their units."""
    units = topology.units("output")
    units |= {f"{name}:corrected": unit for name, unit in units.items()}
    for name, unit in topology.units("input").items():
        units[f"{name}:sent"] = units[f"{name}:realised"] = unit
    return units


def _only_later(topology: Topology, name: str) -> bool:
    """Whether there is such a signal only shows in the session."""
    base, colon, _ = name.partition(":")
    subsystem, dot, _ = base.partition(".")
    if not dot:  # of a bond, a flag, the master, a subsystem's timing
        return bool(colon)
    known = subsystem in topology.ports
    return known and (topology.ports[subsystem] is None or bool(colon))


def _check_time(table: Expect, duration: float, place: str, findings: Findings) -> None:
    """What the session is too short for."""
    for key, since in (("from", table.from_), ("after", table.from_ + table.after)):
        if since >= duration:
            value = getattr(table, key.replace("from", "from_"))
            message = f"is not before the end of the session, at {duration:g} s: nothing is judged"
            findings.error(place, key, value, message, "make it earlier, or the session longer")
            return
    needs = table.from_ + max(table.after, table.within or 0.0) + (table.for_ or 0.0)
    if needs > duration:
        findings.warn(
            place,
            "within" if table.within is not None else "for",
            table.within if table.within is not None else table.for_,
            f"reaches to {needs:g} s, and the session ends at {duration:g} s: what has not come by "
            "then stays inconclusive",
            "make it shorter, or the session longer",
        )
