"""Where the page is served, and under which names of this machine."""

from __future__ import annotations

import socket
from typing import Any

from bokeh.server.tornado import BokehTornado
from bokeh.server.util import check_allowlist
from bokeh.settings import settings
from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

from hilrt.peers.addresses import LOOPBACK, is_number

LOCAL = (LOOPBACK, "localhost", "[::1]")
#: Addresses that stand for every network that this machine is in.
EVERYWHERE = ("0.0.0.0", "::")


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


class Refused(RequestHandler):
    """Refuses requests under a name that is not the page's."""

    def prepare(self) -> None:
        """Answer with the reason and the remedy."""
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish("This page is not served under that name. For a reverse proxy, set "
                    "BOKEH_ALLOW_WS_ORIGIN=NAME for the page's process.\n")  # fmt: skip


class OwnHostOnly(BokehTornado):
    """Serves only requests under a known name of this machine.

    A foreign name that is made to point at this machine (DNS rebinding) is its own origin to a
    browser, and the WebSocket's check of the origin alone would let it in.

    Parameters
    ----------
    host, port
        Where it is bound.
    """

    def __init__(self, applications: Any, host: str, port: int, **options: Any) -> None:
        self._names, self._any_number = own_names(host, port), host in EVERYWHERE
        super().__init__(
            applications,
            extra_websocket_origins=sorted(self._names),
            absolute_url=url(host, port),
            **options,
        )

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Pass on requests under a known name."""
        if self._is_known(request.host.lower()):
            return super().find_handler(request, **kwargs)
        return self.get_handler_delegate(request, Refused)

    def _is_known(self, asked: str) -> bool:
        if asked in self._names:
            return True
        name = asked.partition("]")[0] if asked.startswith("[") else asked.split(":")[0]
        if self._any_number and is_number(name):  # a numeric address cannot be rebound
            return True
        return check_allowlist(asked, settings.allowed_ws_origin())
