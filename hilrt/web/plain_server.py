"""A small HTTP server for the time before and after the page's own, without Bokeh.

Bokeh takes a second to load, and ends with the session: what asks before is told what is waited
for, and what asks afterwards how the session ended.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from hilrt.monitor.operator_commands import same_key
from hilrt.monitor.read_token import PARAMETER, given_token
from hilrt.web.own_names import EVERYWHERE, NO_TOKEN, is_own, is_proxy, own_names
from hilrt.web.security_headers import HEADERS, NOTHING_RUNS, POLICY

#: How long a whole request may take to arrive, and then its answer to be read, s.
REQUEST_S, ANSWER_S = 1.0, 5.0
#: How often deadlines are checked, and how soon the server ends when it is told to, s.
END_S = 0.02
#: What is being answered when the server is stopped may still leave, s.
LAST_S = 0.2
#: Connections at a time; for another one, that with the nearest deadline is closed.
MAX_CONNECTIONS = 32


class Answer(NamedTuple):
    """What is answered: the content, its type, and what the browser may do with it."""

    content: bytes
    kind: str = "text/html; charset=utf-8"
    policy: str = NOTHING_RUNS


class PlainServer:
    """Answers GET requests on sockets that listen, in threads, until it is stopped.

    A client that sends slowly, or does not read, keeps neither others nor `stop` waiting. Requests
    under a name that is not this machine's, or without the token, are refused, as the page refuses
    them.

    Parameters
    ----------
    sockets : sequence of socket.socket
        They stay open when the server stops.
    host, port
        Where they are bound.
    token : str
        What readers must give.
    answer : callable
        Gets the path, returns an `Answer`, or None for 404. Called from the threads, one call at a
        time, and never after `stop`.
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
        self._lock, self._stopped, self._answer = threading.Lock(), False, answer
        find = self._find

        class Handler(BaseHTTPRequestHandler):
            server: _Server
            timeout = ANSWER_S

            def do_GET(self) -> None:
                self.server.set_deadline(self.connection, ANSWER_S)
                asked = self.headers.get("Host", "")
                known = is_own(asked, names, everywhere) or is_proxy(asked)
                known = known and same_key(self._token(), token)
                found = find(self.path) if known else None
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

    def _find(self, path: str) -> Answer | None:
        with self._lock:
            return None if self._stopped else self._answer(path)

    def stop(self) -> None:
        """Answer no more, and close all connections; the sockets' next server takes new ones."""
        for server, thread in self._servers:
            server.shutdown()
            thread.join()
        until = time.monotonic() + LAST_S
        for server, _ in self._servers:
            server.close_all(until)
        with self._lock:
            self._stopped = True


class _Server(ThreadingHTTPServer):
    """Closes connections at their deadline, and leaves their threads to end by themselves."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket.socket, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(listening.getsockname()[:2], handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self._changed = threading.Condition()
        self._deadlines: dict[socket.socket, float] = {}

    def set_deadline(self, connection: socket.socket, after_s: float) -> None:
        """Close a connection in `after_s` [s]."""
        with self._changed:
            self._deadlines[connection] = time.monotonic() + after_s

    def close_all(self, until: float) -> None:
        """Close all connections at the monotonic time `until` [s], sooner if all have ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._deadlines, until - time.monotonic())
            self._close(list(self._deadlines))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread."""
        with self._changed:
            while len(self._deadlines) >= MAX_CONNECTIONS:
                self._close([min(self._deadlines, key=self._deadlines.__getitem__)])
        self.set_deadline(request, REQUEST_S)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections whose time is over; called every `END_S`."""
        now = time.monotonic()
        with self._changed:
            self._close([one for one, until in self._deadlines.items() if until <= now])

    def _close(self, connections: Sequence[socket.socket]) -> None:
        for one in connections:
            del self._deadlines[one]
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that its thread has done with."""
        with self._changed:
            self._deadlines.pop(request, None)
            self._changed.notify_all()
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Pass a broken connection over, without a traceback on stderr."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _serve(
    listening: socket.socket, handler: type[BaseHTTPRequestHandler]
) -> tuple[_Server, threading.Thread]:
    server = _Server(listening, handler)
    thread = threading.Thread(target=server.serve_forever, args=(END_S,), daemon=True)
    thread.start()
    return server, thread
