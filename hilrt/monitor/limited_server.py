"""An HTTP server on which strangers cannot keep others waiting: deadlines and a number for all.

Whoever reaches the port can connect to it, without a token: other accounts of this machine, too.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from weakref import WeakSet

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.iostream import IOStream

#: How long the head of a request, and its body, may take to arrive, s.
REQUEST_S: Final = 10.0
#: How long a connection may stay that has given no token, s: scripts of the page need none.
STRANGER_S: Final = 60.0
#: Connections at a time; for another one, the oldest that has given no token is closed.
MAX_CONNECTIONS: Final = 128
#: Longest head, and longest body, of a request, bytes.
MAX_REQUEST: Final = 1 << 16

_known: WeakSet[Any] = WeakSet()


def trust(request: HTTPServerRequest) -> None:
    """Let the connection of a request that gave the token stay for as long as it wants."""
    stream = getattr(request.connection, "stream", None)
    if stream is not None:
        _known.add(stream)


class LimitedServer(HTTPServer):
    """Tornado's server with limits; `trust` exempts a connection from them."""

    def initialize(self, *args: Any, **options: Any) -> None:
        """See `HTTPServer`, whose limits have other defaults here."""
        limits: dict[str, Any] = {
            "idle_connection_timeout": REQUEST_S,
            "body_timeout": REQUEST_S,
            "max_body_size": MAX_REQUEST,
            "max_header_size": MAX_REQUEST,
        }
        super().initialize(*args, **(limits | options))
        self._streams: dict[IOStream, None] = {}

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        """Serve a new connection, if need be in place of another one."""
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
