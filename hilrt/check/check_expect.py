"""Check `[[expect]]`, alarms, conditions and calculated channels."""

from __future__ import annotations

from hilrt.check.check_topology import Place, Topology
from hilrt.config import units
from hilrt.config.problems import Findings
from hilrt.config.structs import CALCULATED, Expect, Match, Step
from hilrt.config.units import UNSTATED
from hilrt.errors import ConfigError
from hilrt.expect.expectation import Expectation, read_expectation
from hilrt.expressions.parse import parse
from hilrt.expressions.program import Program
from hilrt.expressions.session_program import conditional, program_of


def check_alarms(topology: Topology, findings: Findings) -> None:
    """Check ``[[alarms]]``: a known output, at least one limit, limits in order."""
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
    """Check ``[[start]]``, ``[[stop]]`` and ``[[match]]``: set-points of benches, known outputs."""
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
        findings.error(table, "to", match.to, message, "match two values of the same quantity")


def _check_unused(step: Step, table: str, findings: Findings) -> None:
    """Report keys of a wait in a step that does not wait."""
    given = {"min": step.min, "max": step.max, "hold": step.hold or None}
    for key, value in given.items():
        if value is not None:
            message = "has no effect: the step waits for nothing"
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
    """Check that a signal is a bench's output; others do not change while no ticks run."""
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
        findings.error(table, f'"{name}"', value, "is not a set-point of a bench", "leave it out")
    elif place.port is not None and not place.port.min <= value <= place.port.max:
        findings.error(
            table,
            f'"{name}"',
            value,
            f"lies outside {place.port.min:g} to {place.port.max:g}",
            "move it inside the bounds",
        )


def check_order(low: float | None, high: float | None, table: str, findings: Findings) -> None:
    """Check that the lower bound is below the upper one."""
    if low is not None and high is not None and not low < high:
        findings.error(table, "min", low, f"is not below max = {high:g}", "swap them")


def check_calculated(topology: Topology, findings: Findings) -> None:
    """Check that expressions can be parsed, name existing outputs and have consistent units."""
    tables, units = topology.tables, topology.units("output")
    texts = [entry.expression for entry in tables.calculated]
    for _, _, entry in conditional(tables):
        texts += [text for text in (entry.start_when, entry.end_when) if text]
    for text in texts:  # signals of subsystems whose ports are not known yet
        try:
            names = parse(text).signals
        except ConfigError:
            continue
        for name in names:
            if topology.ports.get(tables.split(name)[0], ()) is None:
                units.setdefault(name, UNSTATED)
    try:
        program_of(units, tables)
    except ConfigError as error:
        for line in error.problems:
            findings.line(line)
    for i, bond in enumerate(tables.bonds):
        for key, name in (*(("effort", e) for e in bond.efforts), ("flow", bond.flow)):
            if name.startswith(CALCULATED + "."):
                findings.error(
                    f"bonds.{bond.name or i}",
                    key,
                    name,
                    "is a calculated channel: no subsystem supplies or absorbs its power",
                    "name an output of a subsystem",
                )


def check_expect(topology: Topology, findings: Findings) -> None:
    """Check ``[[expect]]``: unique names, valid formulas, and times within the session."""
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
    """Names of outputs and inputs as in the log, with their units."""
    units = topology.units("output")
    units |= {f"{name}:corrected": unit for name, unit in units.items()}
    for name, unit in topology.units("input").items():
        units[f"{name}:sent"] = units[f"{name}:realised"] = unit
    return units


def _only_later(topology: Topology, name: str) -> bool:
    """Whether only the running session shows if the signal exists."""
    base, colon, _ = name.partition(":")
    subsystem, _ = topology.tables.split(base)
    if "." not in base:  # signal of a bond, a flag, the master, a subsystem's timing
        return bool(colon)
    known = subsystem in topology.ports
    return known and (topology.ports[subsystem] is None or bool(colon))


def _check_time(table: Expect, duration: float, place: str, findings: Findings) -> None:
    """Report expectations for which the session is too short."""
    for key, since in (("from", table.from_), ("after", table.from_ + table.after)):
        if since >= duration:
            value = getattr(table, key.replace("from", "from_"))
            message = f"is not before the end of the session, at {duration:g} s: nothing is checked"
            findings.error(place, key, value, message, "make it earlier, or the session longer")
            return
    needs = table.from_ + max(table.after, table.within or 0.0) + (table.for_ or 0.0)
    if needs > duration:
        findings.warn(
            place,
            "within" if table.within is not None else "for",
            table.within if table.within is not None else table.for_,
            f"needs time until {needs:g} s, but the session ends at {duration:g} s: later "
            "occurrences remain inconclusive",
            "make it shorter, or the session longer",
        )
