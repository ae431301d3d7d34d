"""Access to the page, and its policy for browsers. Standard library only.

The page is served only under names of this machine. Scripts run only if they come from this server
or have the response's nonce, so that scripts in a session's text would not run even if a defect
passed the text as HTML. No other site can show the page in a frame, where it could trick an
operator into pressing hidden buttons.
"""

from __future__ import annotations

import os
import secrets
import socket
from typing import Final

from hilrt.peers.addresses import LOOPBACK, is_number

LOCAL = (LOOPBACK, "localhost", "[::1]")
#: Addresses that mean all network interfaces of this machine.
EVERYWHERE = ("0.0.0.0", "::")
#: Response to readers without the token.
NO_TOKEN = "Open the address that the session prints at its start: it has the token.\n"
#: Bokeh's environment variable with the names of a reverse proxy.
PROXY_VARIABLE = "BOKEH_ALLOW_WS_ORIGIN"


def url(host: str, port: int) -> str:
    """URL for a browser."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def own_names(host: str, port: int) -> set[str]:
    """Names, with the port, under which a page bound to `host` is served."""
    names = set(LOCAL)
    if host in EVERYWHERE:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    else:
        names.add(f"[{host}]" if ":" in host else host.lower())
    return {f"{name}:{port}" for name in names}


def is_own(host: str, names: set[str], everywhere: bool) -> bool:
    """Whether a request's ``Host`` is in `names` or, with `everywhere`, any numeric address."""
    if host.lower() in names:
        return True
    name = host.partition("]")[0] if host.startswith("[") else host.split(":")[0]
    return everywhere and is_number(name)  # a numeric address cannot be rebound


def is_proxy(host: str) -> bool:
    """Whether a request's ``Host`` is exactly one of the reverse proxy's names."""
    return host in os.environ.get(PROXY_VARIABLE, "").split(",")


POLICY: Final = "Content-Security-Policy"
#: Policy of responses that are not pages: they may load and run nothing.
NOTHING_RUNS: Final = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
#: Headers of every response.
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    POLICY: NOTHING_RUNS,
}


def new_nonce() -> str:
    """Random nonce for the scripts of one response."""
    return secrets.token_urlsafe(18)


def page_policy(nonce: str) -> str:
    """Policy of a page whose inline scripts have the `nonce`.

    Bokeh compiles the functions of callbacks and tables in the browser, from code that this server
    sends ('unsafe-eval'), and sets inline styles; its images are blobs and data URLs.
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
