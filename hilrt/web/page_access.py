"""Access to the page, and its policy for browsers. Standard library only.

It is served under names of this machine. Scripts run only from this server or with the answer's own
nonce, so that text of a session which came to be HTML by a defect could start none, and no other
site can show the page in a frame of its own, where an operator would press its buttons without
seeing them.
"""

from __future__ import annotations

import os
import secrets
import socket
from typing import Final

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


POLICY: Final = "Content-Security-Policy"
#: For answers that are no page: nothing is loaded for them, nothing in them runs.
NOTHING_RUNS: Final = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
#: Of every answer.
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    POLICY: NOTHING_RUNS,
}


def new_nonce() -> str:
    """A word for the scripts of one answer."""
    return secrets.token_urlsafe(18)


def page_policy(nonce: str) -> str:
    """Policy of a page whose inline scripts have the `nonce`.

    Bokeh compiles the functions of its callbacks and of tables in the browser ('unsafe-eval'), from
    code that this server sends, and sets styles on elements; what it draws are blobs and data.
    """
    return "; ".join(
        [
            NOTHING_RUNS,
            f"script-src 'self' 'nonce-{nonce}' 'unsafe-eval'",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "form-action 'none'",
        ]
    )
