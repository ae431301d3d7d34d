"""Access to the page: under a name of this machine, with the token."""

from __future__ import annotations

from typing import Any

from bokeh.server.tornado import BokehTornado
from bokeh.server.util import check_allowlist
from bokeh.server.views.doc_handler import DocHandler
from bokeh.settings import settings
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.web import Application, OutputTransform, RequestHandler

from hilrt.monitor.limited_server import trust
from hilrt.monitor.operator_commands import same_key
from hilrt.monitor.read_token import PARAMETER, given_token
from hilrt.web.page_access import (
    EVERYWHERE,
    HEADERS,
    NO_TOKEN,
    POLICY,
    is_own,
    own_names,
    page_policy,
    url,
)

#: Beginnings of what needs no token: Bokeh's own scripts, and what browsers ask for by themselves.
FOR_ALL = ("/static/", "/favicon.ico")


class Refused(RequestHandler):
    """Refuses a request with the reason and the remedy."""

    def initialize(self, reason: str) -> None:
        """Keep the reason."""
        self._text = reason

    def prepare(self) -> None:
        """Answer with it."""
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self._text)


FOREIGN_NAME = (
    "This page is not served under that name. For a reverse proxy, set "
    "BOKEH_ALLOW_WS_ORIGIN=NAME for the page's process.\n"
)


class ForKnownReaders(BokehTornado):
    """Serves only requests under a known name of this machine, and with the token.

    A foreign name that is made to point at this machine (DNS rebinding) is its own origin to a
    browser, and the WebSocket's check of the origin alone would let it in. The token keeps other
    accounts out, which reach the loopback like this one; it stands in the page's address, which the
    browser repeats for the WebSocket. A cookie would be sent to every port of the machine.

    Parameters
    ----------
    host, port
        Where it is bound.
    token : str
        What readers must give.
    """

    def __init__(self, applications: Any, host: str, port: int, token: str, **options: Any) -> None:
        self._token = token
        self._names, self._any_number = own_names(host, port), host in EVERYWHERE
        super().__init__(
            applications,
            extra_websocket_origins=sorted(self._names),
            absolute_url=url(host, port),
            **options,
        )
        guard(self)

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Pass on requests under a known name that give the token."""
        if not self._is_known(request.host.lower()):
            return self._refuse(request, FOREIGN_NAME)
        if not request.path.startswith(FOR_ALL) and not self._may_read(request):
            return self._refuse(request, NO_TOKEN)
        if self._may_read(request):
            trust(request)
        return super().find_handler(request, **kwargs)

    def _refuse(self, request: HTTPServerRequest, reason: str) -> Any:
        return self.get_handler_delegate(request, Refused, {"reason": reason})

    def _may_read(self, request: HTTPServerRequest) -> bool:
        asked = [text.decode("utf-8", "replace") for text in request.arguments.get(PARAMETER, [])]
        given = given_token(asked, request.headers.get("Authorization", ""))
        return same_key(given, self._token)

    def _is_known(self, asked: str) -> bool:
        if is_own(asked, self._names, self._any_number):
            return True
        return check_allowlist(asked, settings.allowed_ws_origin())


# The Bokeh application's answers with the headers of `hilrt.web.page_access`.

#: Variable of the page's template.
NONCE = "nonce"


class GuardedPage(DocHandler):
    """Serves the page, whose inline scripts have the nonce of its document."""

    async def get_session(self, *args: Any, **kwargs: Any) -> Any:
        """Answer with Bokeh's document and the page's security policy."""
        session: Any = await super().get_session()  # type: ignore[misc]  # Bokeh's decorator hides it
        self.set_header(POLICY, page_policy(session.document.template_variables[NONCE]))
        return session


class AddHeaders(OutputTransform):
    """Adds to every answer the headers that it does not have."""

    def __init__(self, request: HTTPServerRequest) -> None:
        """Ignore the request."""

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Called once for an answer, whichever handler gave it."""
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        return status_code, headers, chunk


def guard(application: Application) -> None:
    """Let an application that is made serve the guarded page instead of Bokeh's."""
    application.transforms.append(AddHeaders)
    for rule in application.wildcard_router.rules:
        if rule.target is DocHandler:
            rule.target = GuardedPage
