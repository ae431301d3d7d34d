"""A small HTTP server for the time before and after the page's own, without Bokeh.

Bokeh takes a second to load, and ends with the session: what asks before is told what is waited
for, and what asks afterwards how the session ended.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from hilrt.monitor.operator_commands import same_key
from hilrt.monitor.read_token import PARAMETER, given_token
from hilrt.web.own_names import EVERYWHERE, NO_TOKEN, is_own, is_proxy, own_names
from hilrt.web.security_headers import HEADERS, NOTHING_RUNS, POLICY

#: How long a request may take to arrive, and how soon the server ends when it is told to, s.
REQUEST_S, END_S = 1.0, 0.02


class Answer(NamedTuple):
    """What is answered: the content, its type, and what the browser may do with it."""

    content: bytes
    kind: str = "text/html; charset=utf-8"
    policy: str = NOTHING_RUNS


class PlainServer:
    """Answers GET requests on sockets that listen, in threads, until it is stopped.

    Requests under a name that is not this machine's, or without the token, are refused, as the page
    refuses them.

    Parameters
    ----------
    sockets : sequence of socket.socket
        They stay open when the server stops.
    host, port
        Where they are bound.
    token : str
        What readers must give.
    answer : callable
        Gets the path, returns an `Answer`, or None for 404. Called from the threads.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        host: str,
        port: int,
        token: str,
        answer: Callable[[str], Answer | None],
    ) -> None:
        names, everywhere = own_names(host, port), host in EVERYWHERE

        class Handler(BaseHTTPRequestHandler):
            timeout = REQUEST_S

            def do_GET(self) -> None:
                asked = self.headers.get("Host", "")
                known = is_own(asked, names, everywhere) or is_proxy(asked)
                known = known and same_key(self._token(), token)
                found = answer(self.path) if known else None
                self.send_response(200 if found else 404 if known else 403)
                refused = Answer(b"" if known else NO_TOKEN.encode(), "text/plain")
                content, kind, policy = found or refused
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "no-store")
                for name, value in (HEADERS | {POLICY: policy}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def _token(self) -> str:
                try:
                    asked = parse_qs(urlsplit(self.path).query).get(PARAMETER, [])
                except ValueError:  # no address
                    return ""
                return given_token(asked, self.headers.get("Authorization", ""))

            def log_message(self, format: str, *args: object) -> None:
                """No lines on stderr."""

        self._servers = [_serve(one, Handler) for one in sockets]

    def stop(self) -> None:
        """Answer no more; requests that arrive wait for the sockets' next server."""
        for server, thread in self._servers:
            server.shutdown()
            thread.join()


class _QuietServer(HTTPServer):
    """Without tracebacks on stderr about browsers that go away in the middle of a request."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Pass a broken connection over."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _serve(
    listening: socket.socket, handler: type[BaseHTTPRequestHandler]
) -> tuple[HTTPServer, threading.Thread]:
    server = _QuietServer(listening.getsockname()[:2], handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    thread = threading.Thread(target=server.serve_forever, args=(END_S,), daemon=True)
    thread.start()
    return server, thread
