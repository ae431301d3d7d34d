"""Check `[master]`: steps, duration, pace, and control of step and order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.config.read_values import names_channel, repeats_steps
from hilrt.config.structs import MAX_STEP_S, MasterTable, Session
from hilrt.link import Description
from hilrt.timing import host

_NS = 1_000_000_000
#: Largest deviation of a step from a whole number of ns, to allow for binary fractions of a second.
_NS_TOLERANCE = 1e-3


def check_duration(tables: Session, findings: Findings) -> None:
    """Check the steps and the session's duration."""
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
            f"use {round(step_ns) / _NS:.9f}",
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


def check_pacing(master: MasterTable, findings: Findings) -> None:
    """Check the busy-wait before a tick, and the processors."""
    pacing = master.pacing
    if pacing.spin != "auto" and pacing.spin * 1e-6 >= master.step:
        findings.error(
            "master.pacing",
            "spin",
            pacing.spin,
            f"is not shorter than one step of {master.step:g} s: the master would never sleep",
            'use "auto", or give less (µs)',
        )
    missing = sorted(set(pacing.affinity) - set(host.available_cpus()))
    if missing:
        findings.warn(
            "master.pacing",
            "affinity",
            pacing.affinity,
            f"this host has no processors {missing}",
            f"choose among {host.available_cpus()}",
        )


def check_pace(tables: Session, pace: str | float, physical: set[str], findings: Findings) -> None:
    """Check that benches can follow the pace, and that a variable step is possible."""
    method = tables.master.step_control.method
    if pace not in ("realtime", 1.0) and physical:
        findings.error(
            "session",
            "pace",
            pace,
            f"{_names(physical)} runs in real time and cannot be sped up or slowed down",
            'use "realtime"',
        )
    if method == "fixed":
        return
    if pace != "asap":
        findings.error(
            "master.step_control",
            "method",
            method,
            "a variable step is not possible against the wall clock",
            'set method = "fixed", or [session] pace = "asap" if there is no bench',
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


def _names(subsystems: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(subsystems))


def check_stepping(
    tables: Session,
    pace: str | float,
    descriptions: Mapping[str, Description],
    findings: Findings,
) -> None:
    """Check that events become communication points and no step passes a subsystem's end.

    Parameters
    ----------
    tables : Session
    pace : str or float
    descriptions : mapping of str
        Descriptions by subsystem.
    findings : Findings
    """
    if pace == "asap":  # real-time steps are not repeated for events
        _check_events(tables, descriptions, findings)
    duration = tables.session.duration
    for name, description in descriptions.items():
        end = description.end_time
        if end < duration - 1e-9:
            findings.warn(
                f"subsystems.{name}",
                "",
                None,
                f"its stop_time is at {end:g} s of session time, but the session takes "
                f"{duration:g} s, and an FMU may refuse steps past its end",
                "give a later stop_time, leave it out, or shorten [session] duration",
            )


def _check_events(
    tables: Session, descriptions: Mapping[str, Description], findings: Findings
) -> None:
    """Warn of events in a session of several rates, whose base step is not changed for them."""
    slow = {name: options.every for name, options in tables.subsystems.items() if options.every > 1}
    if not slow:
        return
    with_events = [name for name, description in descriptions.items() if description.tells_events]
    for name, every in slow.items() if with_events else ():
        findings.warn(
            f"subsystems.{name}",
            "every",
            every,
            f"in a session of several rates, events of {', '.join(with_events)} inside a step do "
            "not become communication points, but are flagged with event_inside_step",
            "set every = 1 everywhere if their times matter",
        )


STEP, ORDER = "master.step_control", "master.order_control"
#: Keys with matrices of a Jacobian in the session file.
MATRICES = ("A", "B", "C", "D", "gamma")
#: Smallest `minimum` without a warning from `_check_shrinking`, as a share of the first step.
_SHORTEST = 0.01


def check_control(topology: Topology, findings: Findings) -> None:
    """Check ``[master.step_control]`` and ``[master.order_control]``."""
    _check_step(topology, findings)
    _check_tolerances(topology, findings)
    if topology.tables.master.order_control.method != "fixed":
        _check_order(topology, findings)
    _check_corrections(topology, findings)
    _check_jacobians(topology, findings)
    _check_refresh(topology, findings)
    _check_prediction(topology, findings)
    _check_feedthrough(topology, findings)


def _check_step(topology: Topology, findings: Findings) -> None:
    step = topology.tables.master.step_control
    if step.method in ("local", "ecco") and not (step.atol or step.rtol):
        findings.error(
            STEP, "method", step.method, "needs a tolerance", "give rtol, or atol, or both"
        )
    if step.method == "ecco" and not topology.tables.bonds:
        findings.error(
            STEP, "method", step.method, "uses power bonds; there are none", "add [[bonds]]"
        )
    growing = step.method != "fixed" and not repeats_steps(step)
    if growing and step.maximum == MAX_STEP_S:
        findings.warn(
            STEP,
            "maximum",
            step.maximum,
            "lets the step grow past the stability limit of the coupling, which shows only after "
            "the outputs have grown",
            f"give maximum, for example {10.0 * topology.tables.master.step:g}",
        )
    _check_estimator(topology, findings)
    _check_shrinking(topology, findings)


def _check_estimator(topology: Topology, findings: Findings) -> None:
    """Check keys for error estimates and repeated steps, which need "local" and no derivatives."""
    master, step = topology.tables.master, topology.tables.master.step_control
    if step.method != "local":
        for key in ("estimator", "repeat", "positions"):
            if getattr(step, key) not in ("inputs", None, []):
                text, remedy = f'is for "local", not "{step.method}"', "leave it out"
                findings.error(STEP, key, getattr(step, key), text, remedy)
        return
    if step.estimator == "inputs":
        return
    if master.scheme == "implicit" and step.estimator == "higher_degree":
        text, remedy = "is for the explicit scheme", 'use "milne" or "inputs"'
        findings.error(STEP, "estimator", step.estimator, text, remedy)
    if master.extrapolation.source == "taylor":
        findings.error(
            STEP,
            "estimator",
            step.estimator,
            "compares polynomials through samples, but the session extrapolates with output "
            "derivatives",
            'use [master] extrapolation.source = "lagrange", or estimator = "inputs"',
        )
    ports = topology.ports
    if any(found is None for found in ports.values()):
        return
    outputs = {
        topology.tables.joined(name, port.name): port.feedthrough
        for name, found in ports.items()
        for port in (found.outputs if found is not None and found.inputs else ())
    }
    for pattern in step.positions:
        if not any(names_channel(pattern, name) for name in outputs):
            findings.error(
                STEP,
                "positions",
                pattern,
                "names no output of a subsystem with inputs",
                'write "subsystem.port", with * for any characters',
            )
    if all(outputs.values()):
        findings.error(
            STEP,
            "estimator",
            step.estimator,
            "evaluates outputs without direct feedthrough, but no subsystem with inputs has any",
            'use estimator = "inputs"',
        )


def _check_shrinking(topology: Topology, findings: Findings) -> None:
    """Warn if an energy correction can make PI control shrink the step without end.

    The correction returns a step's energy in the next step. The shorter that step, the larger the
    jump, which PI control treats as a defect.
    """
    master = topology.tables.master
    step, base = master.step_control, master.step_control.initial or master.step
    corrected = [b.name for b in topology.tables.bonds if b.correction.method == "energy"]
    if step.method == "pi" and corrected and step.minimum < _SHORTEST * base:
        findings.warn(
            STEP,
            "minimum",
            step.minimum,
            f"can shrink the step without end: the energy correction of {', '.join(corrected)} "
            "jumps more the shorter the next step is, and PI control then shortens that step",
            f'give minimum = {_SHORTEST * base:g} or more, or use method = "ecco"',
        )


def _check_tolerances(topology: Topology, findings: Findings) -> None:
    """Check that names in `atol` and `rtol` are ports, once all ports are known."""
    step = topology.tables.master.step_control
    by_port = {key: getattr(step, key) for key in ("atol", "rtol")}
    by_port = {key: table for key, table in by_port.items() if isinstance(table, dict)}
    if step.method == "ecco":
        for key, table in by_port.items():
            unit = " in J" if key == "atol" else ""
            findings.error(STEP, key, table, "is an energy here", f"give one number{unit}")
        return
    names: list[str] = []
    for subsystem, ports in topology.ports.items():
        if ports is None:
            return
        both = (*ports.inputs, *ports.outputs)
        names += [topology.tables.joined(subsystem, port.name) for port in both]
    for key, pattern in ((key, pattern) for key, table in by_port.items() for pattern in table):
        if not any(names_channel(pattern, name) for name in names):
            findings.error(
                f"{STEP}.{key}",
                "",
                None,
                f"no port is named {pattern!r}",
                'write "subsystem.port", with * for any characters',
            )


def _check_order(topology: Topology, findings: Findings) -> None:
    tables = topology.tables
    order = tables.master.order_control
    if not order.minimum <= order.initial <= order.maximum:
        findings.error(
            ORDER,
            "initial",
            order.initial,
            f"lies outside minimum = {order.minimum} to maximum = {order.maximum}",
            "move it between them",
        )
    if tables.master.extrapolation.source == "taylor":
        findings.error(
            ORDER,
            "method",
            order.method,
            "evaluates Lagrange polynomials, but the session extrapolates with output derivatives",
            'use [master] extrapolation.source = "lagrange", or fix the order',
        )
    if tables.connections and all(c.order is not None for c in tables.connections):
        findings.warn(
            ORDER,
            "method",
            order.method,
            "has nothing to control: every connection has its own order",
            "omit order where it may change",
        )
    for name, options in tables.subsystems.items():
        if options.every > 1:
            findings.error(
                f"subsystems.{name}",
                "every",
                options.every,
                f'needs fixed orders, but [{ORDER}] method = "{order.method}"',
                "leave it out, or fix the order",
            )


def _check_corrections(topology: Topology, findings: Findings) -> None:
    """Check that order and step are fixed if a correction's Jacobians depend on them."""
    master = topology.tables.master
    for bond in topology.tables.bonds:
        if bond.correction.method != "model":
            continue
        for table, method, what in (
            (STEP, master.step_control.method, "step"),
            (ORDER, master.order_control.method, "order"),
        ):
            if method != "fixed":
                findings.error(
                    f"bonds.{bond.name}.correction",
                    "method",
                    "model",
                    f'corrects for one {what}, but [{table}] method = "{method}"',
                    f"fix the {what}, or use another correction",
                )
        for end in (*bond.efforts, bond.flow):
            name, _ = topology.tables.split(end)
            options = topology.tables.subsystems.get(name)
            if options is not None and options.every > 1:
                findings.error(
                    f"bonds.{bond.name}.correction",
                    "method",
                    "model",
                    f"corrects from macro step to macro step, but {name!r} communicates "
                    f"every {options.every}",
                    "set every = 1, or use another correction",
                )


def _check_jacobians(topology: Topology, findings: Findings) -> None:
    """Warn of matrices that the Jacobian's source does not use."""
    for name, options in topology.tables.subsystems.items():
        jacobian = options.jacobian
        if jacobian is None or jacobian.gives:
            continue
        unused = [key for key in MATRICES if getattr(jacobian, key) is not None]
        if unused:
            findings.warn(
                f"subsystems.{name}.jacobian",
                "source",
                jacobian.source,
                f"replaces other settings: {', '.join(unused)} is not used",
                'remove that, or set source = "given"',
            )


def _check_refresh(topology: Topology, findings: Findings) -> None:
    """Report `refresh` for a feedthrough correction, unless its matrices are from the file."""
    methods: dict[str, set[str]] = defaultdict(set)
    for bond in topology.tables.bonds:
        for end in (*bond.efforts, bond.flow):
            methods[topology.tables.split(end)[0]].add(bond.correction.method)
    for name, options in topology.tables.subsystems.items():
        jacobian, found = options.jacobian, methods[name]
        if jacobian is None or not jacobian.refresh or jacobian.gives:
            continue
        if "feedthrough" in found and "model" not in found:
            findings.error(
                f"subsystems.{name}.jacobian",
                "refresh",
                jacobian.refresh,
                "has no effect on a feedthrough correction, which keeps its initial D",
                'use correction.method = "model" in the bond if D changes, or leave it out',
            )


def _check_prediction(topology: Topology, findings: Findings) -> None:
    """Check that the late policy "predict" has an identified model."""
    members = {
        topology.tables.split(end)[0]
        for bond in topology.tables.bonds
        if bond.correction.method == "model"
        for end in (*bond.efforts, bond.flow)
    }
    for name, options in topology.tables.subsystems.items():
        identified = options.jacobian is not None and options.jacobian.source == "identify"
        if options.late.policy == "predict" and not (identified and name in members):
            findings.error(
                f"subsystems.{name}.late",
                "policy",
                "predict",
                "needs the identified model, and there is none",
                f'add [subsystems.{name}.jacobian] source = "identify" and a bond with '
                'correction.method = "model", or use "extrapolate"',
            )


def _check_feedthrough(topology: Topology, findings: Findings) -> None:
    """Warn where feedthrough prevents an estimate of the local error."""
    step, order = topology.tables.master.step_control, topology.tables.master.order_control
    if step.method != "local" and order.method == "fixed":
        return
    place, method = (STEP, step.method) if step.method == "local" else (ORDER, order.method)
    connected = {connection.source for connection in topology.tables.connections}
    connected -= {  # these are corrected before use
        effort
        for bond in topology.tables.bonds
        if bond.correction.method == "feedthrough"
        for effort in bond.efforts
    }
    through = [
        output
        for subsystem, ports in topology.ports.items()
        for port in (() if ports is None else ports.outputs)
        for output in (topology.tables.joined(subsystem, port.name),)
        if port.feedthrough and output in connected
    ]
    if through:
        findings.warn(
            place,
            "method",
            method,
            f"outputs with feedthrough ({', '.join(through)}) are evaluated with extrapolated "
            "inputs: their error is only indicated, not estimated",
            "declare the feedthrough of FMUs that declare no dependencies, for example feedthrough "
            '= { x = [] }; for outputs that do have it use step_control method = "pi" and a fixed '
            "order",
        )
