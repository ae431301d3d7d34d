"""Small HTTP server, without Bokeh, for the time before and after the page's own.

Bokeh takes a second to load, and ends with the session. Before that, this server shows what the
session is waiting for; afterwards, how the session ended.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec
import zmq

from hilrt.errors import ConfigError
from hilrt.isolation.temporary_folder import connect
from hilrt.monitor.operator_commands import same_key
from hilrt.monitor.read_token import PARAMETER, bind_page, close, given_token, read_token
from hilrt.monitor.telemetry import Status, decode, message_of
from hilrt.peers.addresses import LOOPBACK, parse_address
from hilrt.web.page_access import (
    EVERYWHERE,
    HEADERS,
    NO_TOKEN,
    NOTHING_RUNS,
    POLICY,
    is_own,
    is_proxy,
    new_nonce,
    own_names,
    page_policy,
)
from hilrt.wording import verdict_of

#: Time limits for a whole request to arrive, and then for its response to be read, s.
REQUEST_S, ANSWER_S = 1.0, 5.0
#: Interval of deadline checks, and time within which the server stops on request, s.
END_S = 0.02
#: Time limit for responses in progress when the server is stopped, s.
LAST_S = 0.2
#: Maximum connections; a further one replaces the one with the nearest deadline.
MAX_CONNECTIONS = 32


class Answer(NamedTuple):
    """Response to a request: content, content type, and policy for the browser."""

    content: bytes
    kind: str = "text/html; charset=utf-8"
    policy: str = NOTHING_RUNS


class PlainServer:
    """HTTP server that answers GET requests on listening sockets, in threads, until it is stopped.

    A client that sends slowly, or does not read, delays neither other clients nor `stop`. As on the
    page itself, requests under a foreign name or without the token are refused.

    Parameters
    ----------
    sockets : sequence of socket.socket
        Listening sockets; they stay open when the server stops.
    host, port
        Address that they are bound to.
    token : str
        Token that readers must give.
    answer : callable
        Takes the path and returns an `Answer`, or None for 404. Called from the threads, one call
        at a time, and never after `stop`.
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
                requested = self.headers.get("Host", "")
                known = is_own(requested, names, everywhere) or is_proxy(requested)
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
                    tokens = parse_qs(urlsplit(self.path).query).get(PARAMETER, [])
                except ValueError:  # not an address
                    return ""
                return given_token(tokens, self.headers.get("Authorization", ""))

            def log_message(self, format: str, *args: object) -> None:
                """Write nothing to stderr."""

        self._servers = [_serve(one, Handler) for one in sockets]

    def _find(self, path: str) -> Answer | None:
        with self._lock:
            return None if self._stopped else self._answer(path)

    def stop(self) -> None:
        """Stop answering, and close all connections; the sockets' next server accepts new ones."""
        for server, thread in self._servers:
            server.shutdown()
            thread.join()
        until = time.monotonic() + LAST_S
        for server, _ in self._servers:
            server.close_all(until)
        with self._lock:
            self._stopped = True


class _Server(ThreadingHTTPServer):
    """Server that closes connections at their deadline, which ends their threads."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listening: socket.socket, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(listening.getsockname()[:2], handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self._changed = threading.Condition()
        self._deadlines: dict[socket.socket, float] = {}

    def set_deadline(self, connection: socket.socket, after_s: float) -> None:
        """Set a connection's deadline to `after_s` [s] from now."""
        with self._changed:
            self._deadlines[connection] = time.monotonic() + after_s

    def close_all(self, until: float) -> None:
        """Close all connections at monotonic time `until` [s]; return sooner if all have ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._deadlines, until - time.monotonic())
            self._close(list(self._deadlines))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread."""
        with self._changed:
            while len(self._deadlines) >= MAX_CONNECTIONS:
                self._close([min(self._deadlines, key=self._deadlines.__getitem__)])
        self.set_deadline(request, REQUEST_S)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections past their deadline; called every `END_S`."""
        now = time.monotonic()
        with self._changed:
            self._close([one for one, until in self._deadlines.items() if until <= now])

    def _close(self, connections: Sequence[socket.socket]) -> None:
        for one in connections:
            del self._deadlines[one]
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it

    def shutdown_request(self, request: Any) -> None:
        """Close a connection whose thread has finished with it."""
        with self._changed:
            self._deadlines.pop(request, None)
            self._changed.notify_all()
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a broken connection, without a traceback on stderr."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _serve(
    listening: socket.socket, handler: type[BaseHTTPRequestHandler]
) -> tuple[_Server, threading.Thread]:
    server = _Server(listening, handler)
    thread = threading.Thread(target=server.serve_forever, args=(END_S,), daemon=True)
    thread.start()
    return server, thread


# Page shown until the real one has loaded, with what the session is waiting for.

#: Interval at which the browser reloads, ms.
RELOAD_MS = 400
#: Topic of a status in the telemetry stream; importing it would load numpy.
STATUS = b"status"
PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>hilrt</title></head>
<body style="font: 20px/1.5 system-ui, sans-serif; padding: 24px">
<p role="status"><b>{name}</b></p><p>{message}</p>
<script nonce="{nonce}">setTimeout(() => location.reload(), {reload})</script></body></html>
"""


class WaitingPage:
    """Server of a plain page with the session's newest status, until the page itself is loaded.

    Parameters
    ----------
    sockets : sequence of socket.socket
        The page's listening sockets.
    host, port
        Address that they are bound to.
    telemetry : str
        Address of the telemetry stream.
    token : str
        Token that readers must give.
    """

    def __init__(
        self, sockets: Sequence[socket.socket], host: str, port: int, telemetry: str, token: str
    ) -> None:
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.SUB)
        self._socket.setsockopt(zmq.SUBSCRIBE, STATUS)
        connect(self._socket, telemetry)
        self._server = PlainServer(sockets, host, port, token, self.answer)

    def answer(self, path: str) -> Answer | None:
        """Return the plain page for ``/``."""
        if urlsplit(path).path != "/":
            return None
        with self._lock:
            while self._socket.poll(0):
                with contextlib.suppress(msgspec.MsgspecError, IndexError):
                    self._status = decode(self._socket.recv_multipart()[1])
            status = self._status
        name = "hilrt" if status is None else f"{status.session}: {status.state}"
        message = "the session starts" if status is None else message_of(status)
        nonce = new_nonce()
        shown = {"name": html.escape(name), "message": html.escape(message)}
        page = PAGE.format(**shown, reload=RELOAD_MS, nonce=nonce)
        return Answer(page.encode(), policy=page_policy(nonce))

    def stop(self) -> None:
        """Stop, and leave the sockets to the page's server."""
        self._server.stop()
        self._context.destroy(linger=0)


# End of a session and its report, for pages that are open after everything else has stopped.
#
# The page's process ends with the session, and the report is written after that. A page that has
# lost its server requests ``/ended.json`` from the same address, then ``/report.html``, and keeps a
# copy of the report, so that its link to the report works even without a server.

#: Time limits for a page's first request (pages send two per second), and for a page to fetch the
#: report once it is written, s.
QUIET_S, PATIENCE_S = 1.2, 5.0
POLL_S = 0.02


class EndedPage:
    """Server at the page's address after a session, as a context manager; its exit waits for pages.

    It does not run if the address is already in use, for example by the next session.

    Parameters
    ----------
    address : str
        ``[monitor] page``.
    text : str
        How the session ended.

    Attributes
    ----------
    report : Path or None
        The report, set when it is written.
    answers : bool
        Whether it has bound the address, and answers requests.
    """

    def __init__(self, address: str, text: str) -> None:
        self.report: Path | None = None
        self._address, self._text = address, text
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._served: set[str] = set()
        self._ready = self.answers = False
        self._server: PlainServer | None = None

    def __enter__(self) -> EndedPage:
        self._began = time.monotonic()
        try:
            self._sockets = bind_page(self._address)
        except ConfigError:
            return self
        where = parse_address(self._address)
        self._server = PlainServer(self._sockets, *where, read_token(), self.answer)
        self.answers = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is None:
            return
        self._ready = True
        if kind is None:
            until = time.monotonic() + PATIENCE_S
            while self._awaited() and time.monotonic() < until:
                time.sleep(POLL_S)
        self._server.stop()
        close(self._sockets)

    def _awaited(self) -> bool:
        """Whether a page may still send requests, or waits for a response."""
        with self._lock:
            if not self._asked:
                return time.monotonic() < self._began + QUIET_S
            return not self._asked <= self._served

    def answer(self, path: str) -> Answer | None:
        """Return ``/ended.json`` or ``/report.html``; ``?page=`` identifies the requesting page."""
        address = urlsplit(path)
        page = "".join(parse_qs(address.query).get("page", [""]))[:40]
        if address.path == "/ended.json":
            return Answer(self._ended(page), "application/json")
        if address.path == "/report.html" and self._ready and self.report is not None:
            try:
                content = self.report.read_bytes()
            except OSError:
                return None
            with self._lock:
                self._served.add(page)
            return Answer(content)
        return None

    def _ended(self, page: str) -> bytes:
        with self._lock:
            self._asked.add(page)
            if self._ready and self.report is None:  # nothing more to fetch
                self._served.add(page)
            report = self._ready and self.report is not None
            return json.dumps({"text": self._text, "report": report, "over": self._ready}).encode()


def how_it_ended(summary: Mapping[str, Any], fault: str | None) -> str:
    """Describe the end of a session, in the page's words."""
    if fault:
        return f"ended: fault, {fault}"
    verdict = verdict_of(summary)
    return "ended: stopped" + (f", {verdict}" if verdict else "")


# Arguments of the page's process, parsed before slow imports.


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line; exit status 2 if it is wrong."""
    parser = argparse.ArgumentParser(prog="hilrt monitor", description="Serves the web page.")
    parser.add_argument("--connect", required=True, help="address of the telemetry stream")
    parser.add_argument("--commands", default="", help="address for the operators' commands")
    parser.add_argument("--page", default=f"{LOOPBACK}:5006", help="[ADDRESS:]PORT of the page")
    parser.add_argument("--sockets", type=int, nargs="*", default=[], help="of the page, bound")
    return parser.parse_args(arguments)
