"""Check of a session file; finds all problems at once.

`hilrt.config.session_file` finds problems of the file's structure, this module problems of its
meaning. Ports that only become known on connecting are checked then (`hilrt.tables.network`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from hilrt.check.check_corrections import check_corrections, check_mu
from hilrt.check.check_expect import check_alarms, check_calculated, check_expect, check_procedures
from hilrt.check.check_faults import check_faults
from hilrt.check.check_host import check_host, check_listen
from hilrt.check.check_master import (
    check_control,
    check_duration,
    check_pace,
    check_pacing,
    check_stepping,
)
from hilrt.check.check_monitor import check_adjusted, check_monitor, check_record
from hilrt.check.check_stimuli import check_stimuli
from hilrt.check.check_subsystems import (
    check_benches,
    check_ranges,
    check_references,
    check_sequences,
    check_traffic,
)
from hilrt.check.check_topology import (
    Topology,
    check_bonds,
    check_connections,
    check_loops,
    located,
    worded,
    worded_line,
)
from hilrt.config import registry
from hilrt.config.from_toml import nearest
from hilrt.config.problems import Findings, Problem
from hilrt.config.read_values import executable, judges_before
from hilrt.config.session_file import SessionFile, read_session
from hilrt.config.structs import InputOptions, Late, Session, SubsystemOptions
from hilrt.documentation import in_documentation
from hilrt.errors import ConfigError
from hilrt.link import Description, Link
from hilrt.solver import Port, Ports

#: Checks of parts of the file, in the order in which findings are listed.
_PARTS: Final[tuple[Callable[[Topology, Findings], None], ...]] = (
    check_calculated,
    check_connections,
    check_bonds,
    check_corrections,
    check_loops,
    check_benches,
    check_control,
    check_alarms,
    check_expect,
    check_ranges,
    check_procedures,
    check_monitor,
    check_adjusted,
    check_record,
    check_mu,
)


def check_file(
    path: str | Path,
    overrides: Iterable[str] = (),
    pace: str | float | None = None,
    code: bool = True,
) -> list[Problem]:
    """Check a file: its structure, and its meaning as `check` does.

    Parameters as for `load_session` and `check`; `ConfigError` only if the file is not TOML.
    """
    draft = read_session(path, overrides, code)
    findings = Findings()
    for name, adapter in draft.foreign.items():
        why = "belongs to another package, which is not imported, so its table cannot be checked"
        findings.unchecked(f"subsystems.{name}", "adapter", adapter, why)
    for line in draft.problems:
        findings.line(line)
    # A value that could not be read is not also reported as missing.
    unread = {(problem.table, problem.key) for problem in findings.problems if problem.key}
    structure = [worded_line(problem, draft.raw) for problem in findings.problems]
    meaning = check(draft.session, pace, draft.broken, code=code)
    return located(
        structure + [p for p in meaning if (p.table, p.key) not in unread], draft.session
    )


def names_code(path: str | Path, overrides: Iterable[str] = ()) -> list[str]:
    """Subsystems whose code `check_file` would run; this function runs none.

    Parameters and error as for `check_file`.
    """
    draft = read_session(path, overrides, code=False)
    subsystems = draft.session.tables.subsystems
    classes = {name: registry.link_class(options.adapter) for name, options in subsystems.items()}
    ours = []
    for name, options in subsystems.items():
        folder = draft.session.folder
        description = _describe(classes[name], name, options, folder, False)
        if description.code is not None or options.reference_model is not None:
            ours.append(name)
    return [*ours, *draft.foreign]


def check(
    session: SessionFile,
    pace: str | float | None = None,
    broken: Collection[str] = (),
    here: bool = False,
    code: bool = True,
) -> list[Problem]:
    """Find mistakes in a session before anything is started.

    Parameters
    ----------
    session : SessionFile
    pace : str or float, optional
        Replaces the session file's.
    broken : collection of str
        Subsystems in the file whose tables could not be read; checks that need them are skipped.
    here : bool
        Whether the session is to run on this host: a missing capability is then an error. Otherwise
        it is a warning, because the session may be meant for another host.
    code : bool
        Run code named in the file where this is the only way to check: models are imported and
        constructed, CAN drivers imported. Otherwise these points are listed as "not checked".

    Returns
    -------
    list of Problem
        Findings; those of level "error" prevent the session from running.
    """
    tables, findings = session.tables, Findings()
    pace = tables.session.pace if pace is None else pace
    classes: dict[str, type[Link]] = {
        name: registry.link_class(options.adapter) for name, options in tables.subsystems.items()
    }
    physical = {name for name, cls in classes.items() if cls.physical}
    descriptions = {
        name: _describe(cls, name, tables.subsystems[name], session.folder, code)
        for name, cls in classes.items()
    }
    check_duration(tables, findings)
    check_pacing(tables.master, findings)
    check_pace(tables, pace, physical, findings)
    _check_repeat(tables, classes, pace, findings)
    final = {name for name, one in descriptions.items() if one.restores is False}
    topology = Topology(tables, dict.fromkeys(broken), physical, final=final)
    for name, link_class in classes.items():
        _check_subsystem(session, name, link_class, descriptions[name], topology, findings)
    topology = check_sequences(topology, findings)
    connected = {connection.target for connection in topology.tables.connections}
    for name, known in topology.ports.items():
        if known is not None:
            _check_inputs(topology, name, known, connected, findings)
    for check_part in _PARTS:
        check_part(topology, findings)
    check_references(topology, session.folder, classes, code, findings)
    check_stimuli(topology, session.folder, findings)
    check_faults(topology, findings, descriptions)
    check_traffic(tables, descriptions, findings)
    check_listen(session, [n for n, c in classes.items() if c.remote], findings)
    check_stepping(tables, pace, descriptions, findings)
    _check_scheme(tables, classes, descriptions, pace, findings)
    check_host(session, descriptions, here, findings)
    return worded(_of_groups(findings.problems, tables), tables)


def _of_groups(problems: Iterable[Problem], tables: Session) -> list[Problem]:
    """Rename the table in findings about groups to ``groups.NAME``."""
    groups = set(tables.group_of.values())
    found = []
    for problem in problems:
        kind, _, rest = problem.table.partition(".")
        if kind == "subsystems" and rest.partition(".")[0] in groups:
            line = problem.line.replace(f"[{problem.table}]", f"[groups.{rest}]", 1)
            problem = dataclasses.replace(problem, table=f"groups.{rest}", line=line)
        found.append(problem)
    return found


def _check_repeat(
    tables: Session, classes: Mapping[str, type[Link]], pace: str | float, findings: Findings
) -> None:
    """Check that a session can be repeated at other steps, if the file requests that."""
    reliability = tables.reliability
    if reliability.repeat != "off" and reliability.reference != "off":
        text = "cannot be combined with reference, which also determines the verdict"
        findings.error("reliability", "repeat", reliability.repeat, text, "leave it out")
    elsewhere = [
        name for name, cls in classes.items() if cls.physical or (cls.called or cls).remote
    ]
    remedies = {
        f"{', '.join(elsewhere)} does not run in this process": bool(elsewhere),
        'it runs against the clock: set [session] pace = "asap"': pace != "asap",
    }
    varies = 'its step varies: use reference = "before" instead, which permits a variable step'
    has_fixed = tables.master.step_control.method == "fixed"
    for key, value, kind, reasons in (
        ("repeat", reliability.repeat, " with a fixed step", remedies | {varies: not has_fixed}),
        ("reference", reliability.reference, "", remedies),
    ):
        for reason in (reason for reason, holds in reasons.items() if holds and value != "off"):
            text = (
                f"only a session without a bench{kind}, as fast as possible, can be repeated, and"
            )
            findings.error("reliability", key, value, f"{text} {reason}", "or leave it out")


def _check_scheme(
    tables: Session,
    classes: Mapping[str, type[Link]],
    descriptions: Mapping[str, Description],
    pace: str | float,
    findings: Findings,
) -> None:
    """Check that steps can be repeated with other inputs, if the session needs that."""
    control, demands = tables.master.step_control, []
    if tables.master.scheme == "implicit":
        demands.append(("master", "scheme", "implicit", '"explicit"'))
    elif judges_before(tables.master):
        key = "repeat" if control.estimator == "inputs" else "estimator"
        value, instead = getattr(control, key), 'estimator = "inputs" without repeat'
        demands.append(("master.step_control", key, value, instead))
    elsewhere = [name for name, cls in classes.items() if cls.physical or cls.remote]
    final = [name for name, one in descriptions.items() if one.restores is False]
    slow = [name for name, options in tables.subsystems.items() if options.every > 1]
    corrected = [bond.name for bond in tables.bonds if bond.correction.method != "none"]
    for names, reason in (
        (elsewhere, "{} does not run in this process"),
        (final, "{} does not save and restore its state, or cannot vary its step"),
        (slow, "{} communicates less often than at every macro step"),
        (corrected, "bond {} has a correction, which is computed for the inputs sent first"),
        ([pace] if pace != "asap" else [], 'the pace is {}: set [session] pace = "asap"'),
    ):
        for table, key, value, instead in demands if names else ():
            why = reason.format(", ".join(map(str, names)))
            text = f"no step can be repeated, because {why}"
            findings.error(table, key, value, text, f"or use {instead}")


def _check_subsystem(
    session: SessionFile,
    name: str,
    link_class: type[Link],
    description: Description,
    topology: Topology,
    findings: Findings,
) -> None:
    """Check a subsystem's own table; add what is known about its ports to the topology."""
    options = session.tables.subsystems[name]
    topology.ports[name] = _ports(session, name, description, topology, findings)
    _check_spawn(name, options, link_class, findings)
    _check_late(name, options.late, link_class, findings)


def _check_spawn(
    name: str, options: SubsystemOptions, link_class: type[Link], findings: Findings
) -> None:
    """Check `spawn`: adapters without it, and gateways, which the session starts by itself."""
    spawn = options.spawn
    if spawn is None:
        return
    starts_gateway = "hilrt gateway" in " ".join(spawn)
    if link_class.spawns and not starts_gateway:
        return
    reason = f"is not used by the adapter {options.adapter!r}"
    remedy = 'leave it out, or set adapter = "zeromq"'
    if link_class.physical or starts_gateway:
        reason = "the session itself starts the gateway of a bench, on this machine; a gateway on "
        reason += "another machine is not supported"
        remedy = 'leave it out, with adapter = "can", and run the session at the bench, with '
        remedy += f"models elsewhere, see {in_documentation('docs/keys.md')}"
    findings.error(f"subsystems.{name}", "spawn", spawn, reason, remedy)


def _check_late(name: str, late: Late, link_class: type[Link], findings: Findings) -> None:
    """Check `late`: a bench has no steps to catch up on; only solver processes can rejoin."""
    if late.steps == "catch_up" and link_class.physical:
        reason = "is a bench, which is not stepped and has nothing to catch up on"
        findings.error(f"subsystems.{name}.late", "steps", late.steps, reason, "leave it out")
    if not late.rejoin:
        return
    if link_class.stops_in_order:
        reason = "is a test sequence, which cannot resume in the middle"
    elif link_class.remote and not link_class.physical:
        return
    elif link_class.physical:
        reason = "is a bench, which is never armed again automatically"
    else:
        reason = "runs in the master's process, which it cannot leave without ending the session"
    findings.error(f"subsystems.{name}.late", "rejoin", True, reason, "leave it out")


def _describe(
    link_class: type[Link], name: str, options: SubsystemOptions, folder: Path, code: bool
) -> Description:
    try:
        return link_class.describe(name, options, folder, code)
    except (Exception, SystemExit) as error:  # a user's model may raise anything
        why = f"its ports cannot be determined: {type(error).__name__}: {error}"
        return Description(problems=[f"[subsystems.{name}]: {why}; correct the model"])


def _ports(
    session: SessionFile,
    name: str,
    description: Description,
    topology: Topology,
    findings: Findings,
) -> Ports | None:
    """Return a subsystem's ports, if known; check its command and description."""
    options = session.tables.subsystems[name]
    table = f"subsystems.{name}"
    if options.spawn is not None:
        try:
            executable(name, options.spawn, session.folder)
        except ConfigError as error:
            findings.line(str(error))
    ports, run = description.ports, description.code
    topology.unclear.update(session.tables.joined(name, port) for port in description.unclear)
    if description.problems:
        for line in description.problems:
            findings.line(line, table)
        if ports is not None:
            topology.refused.add(name)
        return ports
    if run is not None:
        why = f"{run.tells}; only a check that {run.does} can tell"
        findings.unchecked(table, run.key, getattr(options, run.key), why)
        return ports
    for text in description.remarks:
        findings.warn(table, "", None, text, "")
    for reasons, kept in (
        (description.wrong_starts, topology.wrong_starts),
        (description.unsupported_variables, topology.unsupported_variables),
    ):
        kept.update({session.tables.joined(name, k): reason for k, reason in reasons.items()})
    if ports is None:
        findings.info(table, "announces its ports when it connects; they are checked then")
    return ports


def _check_inputs(
    topology: Topology, name: str, ports: Ports, connected: Collection[str], findings: Findings
) -> None:
    """Check that every input is known, bounded if on a bench, and connected or given a value."""
    tables = topology.tables
    options = tables.subsystems[name].inputs
    known = {port.name: port for port in ports.inputs}
    for key in options:
        if key not in known:
            reason = topology.unsupported_variables.get(tables.joined(name, key))
            findings.error(
                f"subsystems.{name}.inputs",
                key,
                None,
                reason or f"subsystem {name!r} has no such input{nearest(key, known)}",
                "remove it" if reason else "rename or remove it",
            )
    for port in ports.inputs:
        entry = options.get(port.name) or InputOptions()
        table = f"subsystems.{name}.inputs.{port.name}"
        full = tables.joined(name, port.name)
        wrong = topology.wrong_starts.get(full)
        if wrong is not None:
            findings.error(table, "start", entry.start, wrong, "")
        elif name not in topology.refused:
            _check_limits(port, entry, table, name in topology.physical, findings)
        if full not in connected and entry.start is None:
            findings.error(
                table,
                "start",
                None,
                f"input {full} is not connected",
                f'add [[connections]] to = "{full}", or start to hold it at a value',
            )


def _check_limits(
    port: Port, entry: InputOptions, table: str, physical: bool, findings: Findings
) -> None:
    """Check the bounds of one input; the session file's override the subsystem's own."""
    low = port.min if entry.min is None else max(port.min, entry.min)
    high = port.max if entry.max is None else min(port.max, entry.max)
    rate = port.max_rate if entry.max_rate is None else min(port.max_rate, entry.max_rate)
    safe = port.safe if entry.safe is None else entry.safe
    if physical:
        given = {
            "min": math.isfinite(low),
            "max": math.isfinite(high),
            "max_rate": math.isfinite(rate) or getattr(entry, "enumerated", False),
            "safe": safe is not None,
        }
        for key, is_given in given.items():
            if not is_given:
                remedy = f"add it in {port.unit}" if port.unit else "add it, without unit"
                findings.error(table, key, None, "is missing; a bench needs it", remedy)
    if low > high:
        findings.error(
            table, "min", low, f"is above max = {high:g}, with the subsystem's own bounds", "widen"
        )
        return
    for key, value in (("start", entry.start), ("safe", safe)):
        if value is not None and not low <= value <= high:
            findings.error(
                table, key, value, f"lies outside {low:g} to {high:g}", "move it inside the bounds"
            )
