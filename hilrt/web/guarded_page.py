"""The Bokeh application's answers with the headers of `hilrt.web.security_headers`."""

from __future__ import annotations

from typing import Any

from bokeh.server.views.doc_handler import DocHandler
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.web import Application, OutputTransform

from hilrt.web.security_headers import HEADERS, POLICY, page_policy

#: Variable of the page's template.
NONCE = "nonce"


class GuardedPage(DocHandler):
    """Serves the page, whose inline scripts have the nonce of its document."""

    async def get_session(self, *args: Any, **kwargs: Any) -> Any:
        """As Bokeh does, to answer with its document; the policy goes with the answer."""
        session: Any = await super().get_session()  # type: ignore[misc]  # Bokeh's decorator hides it
        self.set_header(POLICY, page_policy(session.document.template_variables[NONCE]))
        return session


class AddHeaders(OutputTransform):
    """Adds to every answer the headers that it does not have."""

    def __init__(self, request: HTTPServerRequest) -> None:
        """Nothing of the request matters."""

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
