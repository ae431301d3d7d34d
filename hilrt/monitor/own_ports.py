"""Ports that a session file names for its watchers: bound, or found taken, before anything starts.

Otherwise an operator could see, and command, another session than the one that was started.
"""

from __future__ import annotations

import contextlib
import socket

from hilrt.config.session_tables import MonitorTable
from hilrt.errors import ConfigError
from hilrt.peers.addresses import bind, parse_address, why_not_bound

#: Connections that wait until the page's process takes them.
BACKLOG = 128


def bind_page(address: str) -> list[socket.socket]:
    """Sockets that listen at the page's address, one for each network address that it stands for.

    `ConfigError` if it is taken, or no address of this machine.
    """
    try:
        return listen_at(*parse_address(address))
    except OSError as error:
        raise _refusal("page", address, error) from None


def listen_at(host: str, port: int) -> list[socket.socket]:
    """The same; `OSError` if it is taken."""
    bound: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, _, _, where in dict.fromkeys(found):
            bound.append(bind(family, kind, where))
            bound[-1].listen(BACKLOG)
    except OSError:
        close(bound)
        raise
    return bound


def refuse_taken(table: MonitorTable) -> None:
    """`ConfigError` if a port that another process is going to bind is taken already.

    Names of network interfaces are left to that process.
    """
    wanted = {"listen": table.listen, "commands": table.commands, "foxglove": table.foxglove}
    for key, address in wanted.items():
        error = why_not_bound(address or "")
        if error is not None:
            raise _refusal(key, str(address), error)


def close(sockets: list[socket.socket]) -> None:
    """Free the port."""
    for one in sockets:
        with contextlib.suppress(OSError):
            one.close()


def _refusal(key: str, address: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"[monitor] {key} = {address!r}: {(error.strerror or str(error)).lower()}; end what "
        f"listens there (another session?), or give another address: --set monitor.{key}=…"
    )
