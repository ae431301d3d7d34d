"""Checks of step and order control: tolerances, bounds, and what they cannot be combined with."""

from __future__ import annotations

from collections import defaultdict

from hilrt.check.check_topology import Topology
from hilrt.config.port_patterns import names_channel
from hilrt.config.problems import Findings

STEP, ORDER = "master.step_control", "master.order_control"
#: Keys of a Jacobian that is given in the session file.
MATRICES = ("A", "B", "C", "D", "gamma")
#: Of the first step; the session would take that many times its steps.
_SHORTEST = 0.01


def check_control(topology: Topology, findings: Findings) -> None:
    """``[master.step_control]`` and ``[master.order_control]``."""
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
            STEP, "method", step.method, "watches power bonds; there are none", "add [[bonds]]"
        )
    _check_crawl(topology, findings)


def _check_crawl(topology: Topology, findings: Findings) -> None:
    """The energy of a step, given back in a shorter one, is a larger jump, which is a defect."""
    master = topology.tables.master
    step, base = master.step_control, master.step_control.initial or master.step
    corrected = [b.name for b in topology.tables.bonds if b.correction.method == "energy"]
    if step.method == "pi" and corrected and step.minimum < _SHORTEST * base:
        findings.warn(
            STEP,
            "minimum",
            step.minimum,
            f"lets the step shrink without end: the energy correction of {', '.join(corrected)} "
            "jumps the more, the shorter the next step is, and PI control then shortens that",
            f'give minimum = {_SHORTEST * base:g} or more, or take method = "ecco"',
        )


def _check_tolerances(topology: Topology, findings: Findings) -> None:
    """Names in a table of `atol` must be ports; checked when all ports are known."""
    step = topology.tables.master.step_control
    if not isinstance(step.atol, dict):
        return
    if step.method == "ecco":
        findings.error(STEP, "atol", step.atol, "is of energy here", "give one number in J")
        return
    names: list[str] = []
    for subsystem, ports in topology.ports.items():
        if ports is None:
            return
        names += [f"{subsystem}.{port.name}" for port in (*ports.inputs, *ports.outputs)]
    for pattern in step.atol:
        if not any(names_channel(pattern, name) for name in names):
            findings.error(
                f"{STEP}.atol",
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
            "judges Lagrange polynomials, but the session extrapolates with output derivatives",
            'take [master] extrapolation.source = "lagrange", or fix the order',
        )
    if tables.connections and all(c.order is not None for c in tables.connections):
        findings.warn(
            ORDER,
            "method",
            order.method,
            "has nothing to control: every connection has an order of its own",
            "leave out order where it may change",
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
    """A model correction needs a fixed order and step, to which its Jacobians belong."""
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
                    f"fix the {what}, or take another correction",
                )
        for end in (*bond.efforts, bond.flow):
            name = end.partition(".")[0]
            options = topology.tables.subsystems.get(name)
            if options is not None and options.every > 1:
                findings.error(
                    f"bonds.{bond.name}.correction",
                    "method",
                    "model",
                    f"corrects from macro step to macro step, but {name!r} communicates "
                    f"every {options.every}",
                    "set every = 1, or take another correction",
                )


def _check_jacobians(topology: Topology, findings: Findings) -> None:
    """Matrices beside a source that takes others are most likely left from before."""
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
                f"takes the place of what stands beside it: {', '.join(unused)} is not used",
                'leave that out, or give source = "given"',
            )


def _check_refresh(topology: Topology, findings: Findings) -> None:
    """A feedthrough correction keeps the D of the start."""
    methods: dict[str, set[str]] = defaultdict(set)
    for bond in topology.tables.bonds:
        for end in (*bond.efforts, bond.flow):
            methods[end.partition(".")[0]].add(bond.correction.method)
    for name, options in topology.tables.subsystems.items():
        jacobian, found = options.jacobian, methods[name]
        if jacobian is None or not jacobian.refresh:
            continue
        if "feedthrough" in found and "model" not in found:
            findings.warn(
                f"subsystems.{name}.jacobian",
                "refresh",
                jacobian.refresh,
                "renews nothing for a feedthrough correction, whose D is that of the start; where "
                "a trial contradicts it, the bond has correction_wrong",
                'take correction.method = "model" in the bond if D changes',
            )


def _check_prediction(topology: Topology, findings: Findings) -> None:
    """Late policy "predict" needs an identified model."""
    members = {
        end.partition(".")[0]
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
                "asks the identified model, and there is none",
                f'add [subsystems.{name}.jacobian] source = "identify" and a bond with '
                'correction.method = "model", or take "extrapolate"',
            )


def _check_feedthrough(topology: Topology, findings: Findings) -> None:
    """The local error cannot be estimated behind an output with feedthrough of the same input."""
    step, order = topology.tables.master.step_control, topology.tables.master.order_control
    if step.method != "local" and order.method == "fixed":
        return
    place, method = (STEP, step.method) if step.method == "local" else (ORDER, order.method)
    connected = {connection.source for connection in topology.tables.connections}
    connected -= {  # corrected before they are used
        effort
        for bond in topology.tables.bonds
        if bond.correction.method == "feedthrough"
        for effort in bond.efforts
    }
    through = [
        f"{subsystem}.{port.name}"
        for subsystem, ports in topology.ports.items()
        for port in (() if ports is None else ports.outputs)
        if port.feedthrough and f"{subsystem}.{port.name}" in connected
    ]
    if through:
        findings.warn(
            place,
            "method",
            method,
            f"outputs with feedthrough ({', '.join(through)}) are evaluated with extrapolated "
            "inputs: of them the error is indicated, not estimated",
            'prefer step_control method = "pi" and a fixed order if steps or orders alternate',
        )
