"""HTTP server with limits on time and connections, so that no client can block the others.

Anyone who can reach the port can connect without a token, including this machine's other accounts.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from weakref import WeakSet

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.iostream import IOStream

#: Time within which a request's head, and then its body, must arrive, s.
REQUEST_S: Final = 10.0
#: Time limit of a connection without a token, s: scripts of the page need none.
STRANGER_S: Final = 60.0
#: Maximum connections; a further one replaces the oldest one without a token.
MAX_CONNECTIONS: Final = 128
#: Longest head, and longest body, of a request, bytes.
MAX_REQUEST: Final = 1 << 16

_known: WeakSet[Any] = WeakSet()


def trust(request: HTTPServerRequest) -> None:
    """Exempt a request's connection from the time limit, because it gave the token."""
    stream = getattr(request.connection, "stream", None)
    if stream is not None:
        _known.add(stream)


class LimitedServer(HTTPServer):
    """Tornado's HTTP server with limits; `trust` exempts a connection from them."""

    def initialize(self, *args: Any, **options: Any) -> None:
        """Initialize as `HTTPServer` does, with other defaults for its limits."""
        limits: dict[str, Any] = {
            "idle_connection_timeout": REQUEST_S,
            "body_timeout": REQUEST_S,
            "max_body_size": MAX_REQUEST,
            "max_header_size": MAX_REQUEST,
        }
        super().initialize(*args, **(limits | options))
        self._streams: dict[IOStream, None] = {}

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Serve a new connection; close another one if there are too many."""
        self._streams = {one: None for one in self._streams if not one.closed()}
        if len(self._streams) >= MAX_CONNECTIONS:
            strangers = (one for one in self._streams if one not in _known)
            next(strangers, stream).close()
        if stream.closed():
            return
        self._streams[stream] = None
        asyncio.get_running_loop().call_later(STRANGER_S, _close_stranger, stream)
        super().handle_stream(stream, address)


def _close_stranger(stream: IOStream) -> None:
    if stream not in _known:
        stream.close()
