"""Whether the addresses of ``[monitor]`` are such that a process can listen there."""

from __future__ import annotations

import socket

from hilrt.config.problems import Findings
from hilrt.config.structs import MonitorTable
from hilrt.exchange.addresses import is_number, is_port


def check_addresses(table: MonitorTable, findings: Findings) -> None:
    """What is wrong with ``listen``, ``commands`` and ``page``."""
    for key, address in (("listen", table.listen), ("commands", table.commands)):
        if address is not None:
            _check_endpoint(key, address, findings)
    if table.listen is not None and table.listen == table.commands and _port(table.listen) != "*":
        remedy = "give them different ports"
        findings.error("monitor", "commands", table.commands, "is that of listen, too", remedy)
    if not is_port(_port(table.page)):
        remedy = 'write it as ADDRESS:PORT, for example "127.0.0.1:5006", with a port up to 65535'
        findings.error("monitor", "page", table.page, "is no address", remedy)


def _check_endpoint(key: str, address: str, findings: Findings) -> None:
    example = "tcp://0.0.0.0:5570" if key == "listen" else "tcp://0.0.0.0:5571"
    scheme, _, rest = address.partition("://")
    host, colon, port = rest.rpartition(":")
    if scheme != "tcp" or not colon or not (port == "*" or is_port(port)):
        remedy = f'write it as tcp://ADDRESS:PORT, for example "{example}", with a port up to 65535'
        findings.error("monitor", key, address, "is no address to listen at", remedy)
    elif not _is_own(host):
        remedy = f'give it in numbers, or all with "{example}"'
        findings.error("monitor", key, address, "names no address of this machine", remedy)


def _port(address: str) -> str:
    return address.rpartition(":")[2]


def _is_own(host: str) -> bool:
    """Whether ZeroMQ can listen there: it takes addresses and interfaces, and no machine's name."""
    if host == "*" or host in [name for _, name in socket.if_nameindex()]:
        return True
    return is_number(host)
