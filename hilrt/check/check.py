"""All problems of a session file, found at once.

`hilrt.config.session_file` finds problems of the file's structure; problems of its meaning are
found here. Ports that are known only after connecting are checked then
(`hilrt.tables.network`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from pathlib import Path

from hilrt.check.check_alarms import check_alarms, check_procedures
from hilrt.check.check_bench import check_benches
from hilrt.check.check_calculated import check_calculated
from hilrt.check.check_control import check_control
from hilrt.check.check_expect import check_expect
from hilrt.check.check_host import check_host
from hilrt.check.check_listen import check_listen
from hilrt.check.check_monitor import check_monitor
from hilrt.check.check_ranges import check_ranges
from hilrt.check.check_record import check_record
from hilrt.check.check_sequences import check_sequences
from hilrt.check.check_stepping import check_stepping
from hilrt.check.check_stimuli import check_stimuli
from hilrt.check.check_topology import (
    Topology,
    check_bonds,
    check_connections,
    check_loops,
    check_mu,
)
from hilrt.check.places import located, worded, worded_line
from hilrt.config import registry
from hilrt.config.from_toml import nearest
from hilrt.config.problems import Findings, Problem
from hilrt.config.session_file import SessionFile, read_session
from hilrt.config.spawn_command import executable
from hilrt.config.structs import InputOptions, Late, MasterTable, Session
from hilrt.errors import ConfigError
from hilrt.link import Link, PortsError
from hilrt.peers.remote_link import RemoteLink
from hilrt.solver import Port, Ports
from hilrt.timing import host

_NS = 1_000_000_000
#: Largest distance of a step from a whole number of ns: in seconds it is a binary fraction.
_NS_TOLERANCE = 1e-3


def check_file(
    path: str | Path,
    overrides: Iterable[str] = (),
    pace: str | float | None = None,
    code: bool = True,
) -> list[Problem]:
    """`check` for a file, together with the problems of its structure.

    Parameters as for `load_session` and `check`; `ConfigError` only if the file is not TOML.
    """
    draft = read_session(path, overrides, code)
    findings = Findings()
    for name, adapter in draft.foreign.items():
        why = "is of another package, which is not imported, so that nothing of the table is known"
        findings.unchecked(f"subsystems.{name}", "adapter", adapter, why)
    for line in draft.problems:
        findings.line(line)
    # A value that could not be read is not reported as missing, too.
    unread = {(problem.table, problem.key) for problem in findings.problems if problem.key}
    structure = [worded_line(problem, draft.raw) for problem in findings.problems]
    meaning = check(draft.session, pace, draft.broken, code=code)
    return located(
        structure + [p for p in meaning if (p.table, p.key) not in unread], draft.session
    )


def names_code(path: str | Path, overrides: Iterable[str] = ()) -> list[str]:
    """Subsystems of a file whose code `check_file` would run; none of it runs here.

    Parameters and error as for `check_file`.
    """
    draft = read_session(path, overrides, code=False)
    subsystems = draft.session.tables.subsystems
    classes = {name: registry.link_class(options.adapter) for name, options in subsystems.items()}
    ours = [name for name, options in subsystems.items() if classes[name].runs_code(options)]
    return [*ours, *draft.foreign]


def check(
    session: SessionFile,
    pace: str | float | None = None,
    broken: Collection[str] = (),
    here: bool = False,
    code: bool = True,
) -> list[Problem]:
    """Find what is wrong with a session before anything is started.

    Parameters
    ----------
    session : SessionFile
    pace : str or float, optional
        Instead of the session file's.
    broken : collection of str
        Subsystems in the file whose tables could not be read; checks that need them are left out.
    here : bool
        The session is to run on this host, so that what the host lacks is an error. Otherwise it is
        a warning, for it may be another host's session.
    code : bool
        Run what the file names and only running tells: models are imported and constructed, CAN
        drivers imported. Otherwise what they would tell is listed as "not checked".

    Returns
    -------
    list of Problem
        Those of level "error" keep the session from running.
    """
    tables = session.tables
    findings = Findings()
    classes: dict[str, type[Link]] = {
        name: registry.link_class(options.adapter) for name, options in tables.subsystems.items()
    }
    physical = {name for name, cls in classes.items() if cls.physical}
    _check_time(tables, findings)
    _check_pacing(tables.master, findings)
    _check_excluded(tables, tables.session.pace if pace is None else pace, physical, findings)
    ports: dict[str, Ports | None] = dict.fromkeys(broken)
    topology = Topology(tables, ports, physical)
    for name, link_class in classes.items():
        ports[name] = _ports(session, name, link_class, topology, findings, code)
        spawn = tables.subsystems[name].spawn
        if spawn is not None and not link_class.spawns:
            findings.error(
                f"subsystems.{name}",
                "spawn",
                spawn,
                f"is not used by the adapter {tables.subsystems[name].adapter!r}",
                'leave it out, or set adapter = "zeromq"',
            )
        _check_late(name, tables.subsystems[name].late, link_class, findings)
    topology = check_sequences(topology, findings)
    ports = topology.ports
    for name, known in ports.items():
        if known is not None:
            _check_inputs(topology, name, known, findings)
    check_calculated(topology, findings)
    check_connections(topology, findings)
    check_bonds(topology, findings)
    check_loops(topology, findings)
    check_benches(topology, findings)
    check_control(topology, findings)
    check_stimuli(topology, session.folder, findings)
    check_alarms(topology, findings)
    check_expect(topology, findings)
    check_ranges(topology, findings)
    check_procedures(topology, findings)
    check_listen(session, [n for n, c in classes.items() if issubclass(c, RemoteLink)], findings)
    check_monitor(topology, findings)
    check_record(topology, findings)
    check_mu(topology, findings)
    told = {n: c for n, c in classes.items() if code or not c.runs_code(tables.subsystems[n])}
    made = {name: cls for name, cls in told.items() if ports[name] is not None}
    check_stepping(
        tables, session.folder, tables.session.pace if pace is None else pace, made, findings
    )
    check_host(session, told, here, findings)
    return worded(findings.problems, tables)


def _check_late(name: str, late: Late, link_class: type[Link], findings: Findings) -> None:
    """A bench misses no steps; only a solver in a process of its own can come back."""
    if late.steps == "catch_up" and link_class.physical:
        reason = "is a bench, which runs by itself and has nothing to catch up with"
        findings.error(f"subsystems.{name}.late", "steps", late.steps, reason, "leave it out")
    if not late.rejoin:
        return
    if link_class.stops_in_order:
        reason = "is a test sequence, which cannot go on in the middle"
    elif issubclass(link_class, RemoteLink) and not link_class.physical:
        return
    elif link_class.physical:
        reason = "is a bench, which is never armed again by itself"
    else:
        reason = "runs in the master's process, which it cannot leave without ending the session"
    findings.error(f"subsystems.{name}.late", "rejoin", True, reason, "leave it out")


def _check_time(tables: Session, findings: Findings) -> None:
    """Steps and duration."""
    master, control = tables.master, tables.master.step_control
    step_ns = master.step * _NS
    if step_ns < 1.0:
        findings.error("master", "step", master.step, "is below a nanosecond", "make it longer")
    elif control.method == "fixed" and abs(step_ns - round(step_ns)) > _NS_TOLERANCE:
        findings.error(
            "master",
            "step",
            master.step,
            "is not a whole number of nanoseconds",
            f"take {round(step_ns) / _NS:.9f}",
        )
    if tables.session.duration < (master.step if control.method == "fixed" else 0.0):
        findings.error(
            "session",
            "duration",
            tables.session.duration,
            f"is shorter than one step of {master.step:g} s",
            "run for at least one step",
        )
    if control.minimum > control.maximum:
        findings.error(
            "master.step_control",
            "minimum",
            control.minimum,
            f"is above maximum = {control.maximum:g}",
            "exchange them",
        )
    elif control.initial is not None and not control.minimum <= control.initial <= control.maximum:
        findings.error(
            "master.step_control",
            "initial",
            control.initial,
            f"lies outside minimum = {control.minimum:g} to maximum = {control.maximum:g}",
            "move it between them",
        )


def _check_pacing(master: MasterTable, findings: Findings) -> None:
    """The busy-wait before a tick, and the processors."""
    pacing = master.pacing
    if pacing.spin != "auto" and pacing.spin * 1e-6 >= master.step:
        findings.error(
            "master.pacing",
            "spin",
            pacing.spin,
            f"is not shorter than one step of {master.step:g} s: the master would never sleep",
            'take "auto", or give less (µs)',
        )
    missing = sorted(set(pacing.affinity) - set(host.available_cpus()))
    if missing:
        findings.warn(
            "master.pacing",
            "affinity",
            pacing.affinity,
            f"this host does not offer processors {missing}",
            f"choose among {host.available_cpus()}",
        )


def _check_excluded(
    tables: Session, pace: str | float, physical: set[str], findings: Findings
) -> None:
    """Combinations that the scheme does not support."""
    method = tables.master.step_control.method
    if pace not in ("realtime", 1.0) and physical:
        findings.error(
            "session",
            "pace",
            pace,
            f"{_names(physical)} keeps real time and cannot be hurried or held",
            'take "realtime"',
        )
    if method == "fixed":
        return
    if pace != "asap":
        findings.error(
            "master.step_control",
            "method",
            method,
            "a variable step is not possible against the wall clock",
            'take method = "fixed", or [session] pace = "asap" if no bench takes part',
        )
    for name, options in tables.subsystems.items():
        if options.every > 1:
            findings.error(
                f"subsystems.{name}",
                "every",
                options.every,
                f'needs a fixed step, but [master.step_control] method = "{method}"',
                "leave it out, or fix the step",
            )


def _ports(
    session: SessionFile,
    name: str,
    link_class: type[Link],
    topology: Topology,
    findings: Findings,
    code: bool,
) -> Ports | None:
    """Ports of a subsystem where they are known, with its command and adapter checked."""
    options = session.tables.subsystems[name]
    table = f"subsystems.{name}"
    if options.spawn is not None:
        try:
            executable(name, options.spawn, session.folder)
        except ConfigError as error:
            findings.line(str(error))
    try:
        find = link_class.ports if code else link_class.ports_without_code
        ports = find(name, options, session.folder)
    except ConfigError as error:
        for line in error.problems:
            findings.line(line, table)
        if not isinstance(error, PortsError):
            return None
        topology.refused.add(name)
        topology.unclear.update(f"{name}.{port}" for port in error.unclear)
        return error.ports
    except (Exception, SystemExit) as error:  # a user's model may raise anything
        text = f"{type(error).__name__}: {error}"
        findings.error(
            table, "", None, f"its ports cannot be determined: {text}", "correct the model"
        )
        return None
    run = link_class.runs_code(options)
    if run is not None and not code:
        why = f"{run.tells}; only a check that {run.does} tells"
        findings.unchecked(table, run.key, getattr(options, run.key), why)
        return ports
    _hear(session, name, link_class, topology, findings)
    if ports is None:
        findings.info(table, "tells its ports when it connects; what concerns them is checked then")
    return ports


def _hear(
    session: SessionFile,
    name: str,
    link_class: type[Link],
    topology: Topology,
    findings: Findings,
) -> None:
    """What else the adapter says of its table."""
    options = session.tables.subsystems[name]
    for text in link_class.remarks(name, options, session.folder):
        findings.warn(f"subsystems.{name}", "", None, text, "")
    for reasons, kept in (
        (link_class.wrong_starts(name, options, session.folder), topology.wrong_starts),
        (link_class.no_numbers(name, options, session.folder), topology.no_numbers),
    ):
        kept.update({f"{name}.{key}": reason for key, reason in reasons.items()})


def _check_inputs(topology: Topology, name: str, ports: Ports, findings: Findings) -> None:
    """Every input: known, bounded where a bench needs it, connected or given a value."""
    options = topology.tables.subsystems[name].inputs
    known = {port.name: port for port in ports.inputs}
    for key in options:
        if key not in known:
            reason = topology.no_numbers.get(f"{name}.{key}")
            findings.error(
                f"subsystems.{name}.inputs",
                key,
                None,
                reason or f"subsystem {name!r} has no such input{nearest(key, known)}",
                "remove it" if reason else "rename or remove it",
            )
    connected = {connection.target for connection in topology.tables.connections}
    for port in ports.inputs:
        entry = options.get(port.name) or InputOptions()
        table = f"subsystems.{name}.inputs.{port.name}"
        wrong = topology.wrong_starts.get(f"{name}.{port.name}")
        if wrong is not None:
            findings.error(table, "start", entry.start, wrong, "")
        elif name not in topology.refused:
            _check_limits(port, entry, table, name in topology.physical, findings)
        if f"{name}.{port.name}" not in connected and entry.start is None:
            findings.error(
                table,
                "start",
                None,
                f"input {name}.{port.name} is not connected",
                f'add [[connections]] to = "{name}.{port.name}", or start to hold it at a value',
            )


def _check_limits(
    port: Port, entry: InputOptions, table: str, physical: bool, findings: Findings
) -> None:
    """Bounds of one input, the session file's over the subsystem's own."""
    low = port.min if entry.min is None else max(port.min, entry.min)
    high = port.max if entry.max is None else min(port.max, entry.max)
    rate = port.max_rate if entry.max_rate is None else min(port.max_rate, entry.max_rate)
    safe = port.safe if entry.safe is None else entry.safe
    if physical:
        given = {
            "min": math.isfinite(low),
            "max": math.isfinite(high),
            "max_rate": math.isfinite(rate),
            "safe": safe is not None,
        }
        for key, is_given in given.items():
            if not is_given:
                unit = port.unit or "the plain number it is"
                findings.error(
                    table, key, None, "is missing; a bench needs it", f"add it in {unit}"
                )
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


def _names(subsystems: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(subsystems))
