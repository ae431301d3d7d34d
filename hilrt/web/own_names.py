"""Names of this machine under which the page is served. Standard library only."""

from __future__ import annotations

import os
import socket

from hilrt.peers.addresses import LOOPBACK, is_number

LOCAL = (LOOPBACK, "localhost", "[::1]")
#: Addresses that stand for every network that this machine is in.
EVERYWHERE = ("0.0.0.0", "::")
#: Answer to readers without the token.
NO_TOKEN = "Open the address that the session prints at its start: it has the token.\n"
#: Environment variable with the names of a reverse proxy, of Bokeh's.
PROXY_VARIABLE = "BOKEH_ALLOW_WS_ORIGIN"


def url(host: str, port: int) -> str:
    """Address for a browser."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def own_names(host: str, port: int) -> set[str]:
    """Names, with the port, under which a page that is bound to `host` is served."""
    names = set(LOCAL)
    if host in EVERYWHERE:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    else:
        names.add(f"[{host}]" if ":" in host else host.lower())
    return {f"{name}:{port}" for name in names}


def is_own(asked: str, names: set[str], everywhere: bool) -> bool:
    """Whether a request's ``Host`` is one of `names`; any numeric address, with `everywhere`."""
    if asked.lower() in names:
        return True
    name = asked.partition("]")[0] if asked.startswith("[") else asked.split(":")[0]
    return everywhere and is_number(name)  # a numeric address cannot be rebound


def is_proxy(asked: str) -> bool:
    """Whether a request's ``Host`` is one that a reverse proxy was set up for, letter by letter."""
    return asked in os.environ.get(PROXY_VARIABLE, "").split(",")
