"""What a session needs of the host: CAN interfaces, binaries of FMUs, free ports."""

from __future__ import annotations

from collections.abc import Mapping

from hilrt.config.problems import Findings
from hilrt.config.record_tables import MonitorTable
from hilrt.config.session_file import SessionFile
from hilrt.config.structs import MasterTable, Session
from hilrt.errors import ConfigError
from hilrt.link import Link
from hilrt.peers.addresses import why_not_bound


def check_host(
    session: SessionFile, classes: Mapping[str, type[Link]], here: bool, findings: Findings
) -> None:
    """What this host lacks.

    Parameters
    ----------
    session : SessionFile
    classes : mapping of str
        The adapters of the subsystems whose tables could be read.
    here : bool
        The session is to run here: what is missing is an error, and the ports are its own matter,
        for it binds them.
    findings : Findings
    """
    for name, link_class in classes.items():
        table, options = f"subsystems.{name}", session.tables.subsystems[name]
        try:
            missing = link_class.missing_here(name, options, session.folder)
        except ConfigError:  # the table's own problem, which has been found
            continue
        for text in missing:
            message, _, remedy = text.partition("; ")
            if here:
                findings.line(f"[{table}] {text}")
            else:
                findings.warn(table, "", None, message, remedy)
    if not here:
        _check_ports(session.tables, findings)


def _check_ports(tables: Session, findings: Findings) -> None:
    """Ports that the file names, if they are taken here or no address of this host."""
    given = {"master": {"listen": tables.master.listen}}
    watched = ("page", "listen", "commands", "foxglove")
    given["monitor"] = {key: getattr(tables.monitor, key) for key in watched}
    usual = {"master": MasterTable(step=1.0), "monitor": MonitorTable()}
    for table, addresses in given.items():
        for key, address in addresses.items():
            if address is None or address == getattr(usual[table], key):
                continue
            error = why_not_bound(address)
            if error is not None:
                findings.warn(
                    table,
                    key,
                    address,
                    f"cannot be listened at on this host: {(error.strerror or str(error)).lower()}",
                    "end what listens there (another session?), or give another address",
                )
