"""Checks of reference models, which stand for subsystems that cannot be tried out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.errors import ConfigError
from hilrt.hosting.reference_model import load_reference, runs_reference, wrong_ports
from hilrt.link import Link
from hilrt.peers.remote_link import RemoteLink
from hilrt.solver import Ports
from hilrt.tables.network import coupled_ports


def check_references(
    topology: Topology,
    folder: Path,
    classes: Mapping[str, type[Link]],
    code: bool,
    findings: Findings,
) -> None:
    """Whether reference models can be made, can be tried out, and have the subsystems' ports.

    Parameters
    ----------
    topology : Topology
    folder : Path
        The session file's; models are looked for there first.
    classes : mapping of str
        Adapters of the subsystems.
    code : bool
        Run the models' code; otherwise what it would tell is "not checked".
    findings : Findings
    """
    for name, link_class in classes.items():
        options, table = topology.tables.subsystems[name], f"subsystems.{name}"
        if options.reference_model is None:
            if options.reference_params:
                reason = "has no model that it is for"
                remedy = "add reference_model, or leave it out"
                findings.error(table, "reference_params", None, reason, remedy)
            continue
        run = runs_reference(options)
        if run is not None and not code:
            why = f"{run.tells}; only a check that {run.does} tells"
            findings.unchecked(table, run.key, options.reference_model, why)
            continue
        if not (link_class.physical or issubclass(link_class, RemoteLink)):
            reason = "is used only if the subsystem, a solver in the master's process, cannot be "
            reason += "tried out itself"
            findings.warn(table, "reference_model", options.reference_model, reason, "leave it out")
        _check_reference(topology, name, folder, findings)


def _check_reference(topology: Topology, name: str, folder: Path, findings: Findings) -> None:
    options, table = topology.tables.subsystems[name], f"subsystems.{name}"

    def wrong(message: str, remedy: str = "") -> None:
        findings.error(table, "reference_model", options.reference_model, message, remedy)

    try:
        solver = load_reference(options, folder)
    except ConfigError as error:
        for line in error.problems:
            wrong(line)
        return
    except (Exception, SystemExit) as error:  # a user's model may raise anything
        wrong(f"cannot be made: {type(error).__name__}: {error}", "correct the model")
        return
    if not solver.can_restore():
        wrong("cannot be tried out", "give it save_state and restore_state")
    ports = topology.ports[name]
    if ports is None or name in topology.refused:
        return
    for text in wrong_ports(
        solver, _known(topology, name, ports), coupled_ports(topology.tables, name)
    ):
        message, _, remedy = text.partition("; ")
        wrong(message, remedy)


def _known(topology: Topology, name: str, ports: Ports) -> Ports:
    """Those of which more than the name is known."""
    sides = ([p for p in side if f"{name}.{p.name}" not in topology.unclear] for side in ports)
    inputs, outputs = (tuple(side) for side in sides)
    return Ports(inputs, outputs)
