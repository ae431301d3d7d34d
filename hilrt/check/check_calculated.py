"""Checks of expressions: calculated channels, lookup tables, and conditions of stimuli."""

from __future__ import annotations

from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.config.structs import CALCULATED
from hilrt.config.units import UNSTATED
from hilrt.errors import ConfigError
from hilrt.expressions.parse import parse
from hilrt.expressions.session_program import program_of


def check_calculated(topology: Topology, findings: Findings) -> None:
    """Expressions can be read, name outputs that there are, and fit in their units."""
    tables, units = topology.tables, topology.units("output")
    texts = [entry.expression for entry in tables.calculated]
    texts += [text for s in tables.stimuli for text in (s.start_when, s.end_when) if text]
    for text in texts:  # of subsystems whose ports are not known
        try:
            names = parse(text).signals
        except ConfigError:
            continue
        for name in names:
            if topology.ports.get(name.partition(".")[0], ()) is None:
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
                    "is a calculated channel: no subsystem gives or takes its power",
                    "name an output of a subsystem",
                )
