"""Where the page is served, and under which names of this machine."""

from __future__ import annotations

from typing import Any

from bokeh.server.tornado import BokehTornado
from bokeh.server.util import check_allowlist
from bokeh.settings import settings
from tornado.httputil import HTTPServerRequest
from tornado.web import RequestHandler

from hilrt.web.own_names import EVERYWHERE, is_own, own_names, url


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
        if is_own(asked, self._names, self._any_number):
            return True
        return check_allowlist(asked, settings.allowed_ws_origin())
