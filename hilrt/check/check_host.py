"""Check that this machine can run the session, and the address that the master listens on."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hilrt.config.problems import Findings
from hilrt.config.session_file import SessionFile
from hilrt.config.session_tables import MonitorTable
from hilrt.config.structs import MasterTable, Session
from hilrt.errors import ConfigError
from hilrt.link import Description
from hilrt.peers.addresses import is_port, why_not_bound
from hilrt.peers.keys import MASTER, is_local, read_key, refuse_unsafe


def check_host(
    session: SessionFile, descriptions: Mapping[str, Description], here: bool, findings: Findings
) -> None:
    """Report requirements of the session that this host does not meet.

    Parameters
    ----------
    session : SessionFile
    descriptions : mapping of str
        Descriptions by subsystem.
    here : bool
        Whether the session is about to run here: unmet requirements are then errors, and ports are
        not tested, because the session binds them.
    findings : Findings
    """
    for name, description in descriptions.items():
        table = f"subsystems.{name}"
        for text in description.missing_on_host:
            message, _, remedy = text.partition("; ")
            if here:
                findings.line(f"[{table}] {text}")
            else:
                findings.warn(table, "", None, message, remedy)
    if not here:
        _check_ports(session.tables, findings)


def _check_ports(tables: Session, findings: Findings) -> None:
    """Warn about addresses in the file that this host cannot use."""
    given = {"master": {"listen": tables.master.listen}}
    watched = ("page", "listen", "commands", "foxglove")
    given["monitor"] = {key: getattr(tables.monitor, key) for key in watched}
    defaults = {"master": MasterTable(step=1.0), "monitor": MonitorTable()}
    for table, addresses in given.items():
        for key, address in addresses.items():
            if address is None or address == getattr(defaults[table], key):
                continue
            error = why_not_bound(address)
            if error is not None:
                findings.warn(
                    table,
                    key,
                    address,
                    f"cannot be used on this host: {(error.strerror or str(error)).lower()}",
                    "end the program that uses it (another session?), or give another address",
                )


def check_listen(session: SessionFile, remote: Collection[str], findings: Findings) -> None:
    """Check ``master.listen``, ``keys`` and ``insecure``.

    Parameters
    ----------
    session : SessionFile
    remote : collection of str
        Subsystems that connect to the master.
    """
    master = session.tables.master
    if not _is_address(master.listen):
        remedy = 'write it as tcp://ADDRESS:PORT, for example "tcp://127.0.0.1:5555", or ipc://PATH'
        findings.error("master", "listen", master.listen, "is not an address", remedy)
    if master.keys is not None:
        _check_keys(session, remote, findings)
        if master.insecure:
            findings.warn("master", "insecure", True, "has no effect with keys", "leave it out")
    elif _is_address(master.listen) and not is_guarded(master):
        if master.insecure:
            findings.warn("master", "insecure", True, unguarded(master.listen), "set keys")
        else:
            findings.error(
                "master",
                "listen",
                master.listen,
                "can be reached by other machines, and anybody on them could take part",
                "set keys (`hilrt keys` creates them), or insecure = true on a private network",
            )


def _is_address(listen: str) -> bool:
    """Whether a text has the form of a ZeroMQ endpoint."""
    transport, _, address = listen.partition("://")
    if transport != "tcp":
        return transport in ("ipc", "inproc") and bool(address)
    host, _, port = address.rpartition(":")
    return bool(host) and (port == "*" or (is_port(port)))


def is_guarded(master: MasterTable) -> bool:
    """Whether peers need a key, or the session's token at an address local to this machine."""
    return master.keys is not None or (is_local(master.listen) and not master.insecure)


def unguarded(listen: str) -> str:
    """Warning at every start of a session to which any peer may connect."""
    who = "every account of this machine" if is_local(listen) else f"anybody who reaches {listen}"
    return f"{who} can take part in this session and move its benches"


def _check_keys(session: SessionFile, remote: Collection[str], findings: Findings) -> None:
    assert session.tables.master.keys is not None
    folder = session.folder / session.tables.master.keys
    wanted = [folder / f"{MASTER}.key", *(folder / f"{name}.pub" for name in remote)]
    if remote and any(session.tables.subsystems[name].spawn for name in remote):
        wanted.append(folder / f"{MASTER}.pub")  # for the processes that the session starts
    if folder.is_dir():  # also check the permissions of unused keys
        present = sorted([*folder.glob("*.key"), *folder.glob("*.pub")])
        wanted = [folder, *wanted, *(path for path in present if path not in wanted)]
    for path in wanted:
        try:
            refuse_unsafe(path) if path == folder else read_key(path)
        except ConfigError as error:
            findings.error(
                "master",
                "keys",
                session.tables.master.keys,
                str(error).partition("; ")[0],
                str(error).partition("; ")[2],
            )
