"""What a browser sees until the page has loaded: that it will come, and what is waited for."""

from __future__ import annotations

import contextlib
import html
import socket
import threading
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec
import zmq

from hilrt.isolation.temporary_folder import connect
from hilrt.monitor.telemetry import Status, decode, message_of
from hilrt.web.plain_server import Answer, PlainServer
from hilrt.web.security_headers import new_nonce, page_policy

#: How often the browser asks again, ms.
RELOAD_MS = 400
#: Topic of a status in the telemetry stream; its module would load numpy.
STATUS = b"status"
PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>hilrt</title></head>
<body style="font: 20px/1.5 system-ui, sans-serif; padding: 24px">
<p role="status"><b>{name}</b></p><p>{said}</p>
<script nonce="{nonce}">setTimeout(() => location.reload(), {reload})</script></body></html>
"""


class WaitingPage:
    """Serves a plain page with the session's newest status, until the page itself is loaded.

    Parameters
    ----------
    sockets : sequence of socket.socket
        The page's.
    host, port
        Where they are bound.
    telemetry : str
        Address of the telemetry stream.
    token : str
        What readers must give.
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
        """The page at ``/``."""
        if urlsplit(path).path != "/":
            return None
        with self._lock:
            while self._socket.poll(0):
                with contextlib.suppress(msgspec.MsgspecError, IndexError):
                    self._status = decode(self._socket.recv_multipart()[1])
            status = self._status
        name = "hilrt" if status is None else f"{status.session}: {status.state}"
        said = "the session starts" if status is None else message_of(status)
        nonce = new_nonce()
        shown = {"name": html.escape(name), "said": html.escape(said)}
        page = PAGE.format(**shown, reload=RELOAD_MS, nonce=nonce)
        return Answer(page.encode(), policy=page_policy(nonce))

    def stop(self) -> None:
        """Leave the sockets to the page's server."""
        self._server.stop()
        self._context.destroy(linger=0)
