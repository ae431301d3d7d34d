"""The page's server: a Bokeh server with the panel at ``/`` and metrics at ``/metrics``."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable, Sequence

import zmq
from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.document import Document
from bokeh.server.server import BaseServer
from bokeh.server.util import bind_sockets
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from tornado.ioloop import IOLoop, PeriodicCallback
from tornado.web import RequestHandler

from hilrt.monitor.limited_server import LimitedServer
from hilrt.monitor.read_token import keep_out_of_logs, read_token, with_token
from hilrt.monitor.viewer import Viewer
from hilrt.peers.addresses import is_loopback, parse_address
from hilrt.web.hosts import ForKnownReaders
from hilrt.web.metrics import SessionCollector
from hilrt.web.own_names import url
from hilrt.web.page import Page
from hilrt.web.plain_server import parse
from hilrt.web.shared_session import POLL_MS, SharedSession

#: How long the clients get to see a session's end, s.
LAST_LOOK_S = 0.6
#: How often the lateness of the ticks is counted, ms: short enough that no ring overflows
#: meanwhile.
COUNT_MS = 5000
FOR_ALL = "whoever reaches this machine's network and has the token can read it"


class Metrics(RequestHandler):
    """Answers Prometheus."""

    def initialize(self, registry: CollectorRegistry) -> None:
        """Keep the registry."""
        self.registry = registry

    def get(self) -> None:
        """All metrics as text."""
        self.set_header("Content-Type", CONTENT_TYPE_LATEST)
        self.write(generate_latest(self.registry))


def make_server(
    source: SharedSession,
    host: str,
    port: int,
    token: str,
    sockets: Sequence[socket.socket] = (),
) -> BaseServer:
    """A server for a session at `sockets` that listen; without any, `OSError` if the port is taken.

    It shows nothing without the `token`. Only pages that it served itself may connect: another site
    in the same browser cannot. For a reverse proxy, Bokeh's BOKEH_ALLOW_WS_ORIGIN names the outer
    address.
    """
    registry = CollectorRegistry(auto_describe=False)
    collector = SessionCollector(source.viewer, source.history)
    registry.register(collector)

    def show(document: Document) -> None:
        Page(document, source)

    if not sockets:
        sockets, port = bind_sockets(host, port)
    application = ForKnownReaders(
        {"/": Application(FunctionHandler(show))},
        host,
        port,
        token,
        extra_patterns=[("/metrics", Metrics, {"registry": registry})],
        unused_session_lifetime_milliseconds=5000,
        check_unused_sessions_milliseconds=2000,
        keep_alive_milliseconds=5000,
    )
    http = LimitedServer(application)
    http.add_sockets(sockets)
    server = BaseServer(IOLoop.current(), application, http)
    PeriodicCallback(source.poll, POLL_MS).start()
    PeriodicCallback(collector.lateness.count, COUNT_MS).start()
    return server


def main(arguments: list[str] | None = None, take_over: Callable[[], None] = lambda: None) -> int:
    """Serve until SIGTERM or SIGINT; exit status 2 for an address that cannot be used.

    `take_over` is called before the page's sockets are used.
    """
    options = parse(arguments)
    try:
        host, port = parse_address(options.page)
    except ValueError as error:
        sys.stderr.write(f"--page {error}\n")
        return 2
    try:
        viewer = Viewer(options.connect, options.commands)
    except zmq.ZMQError as error:
        sys.stderr.write(f"{options.connect}: {error}; write it as tcp://HOST:PORT\n")
        return 2
    try:
        take_over()
        sockets = [socket.socket(fileno=number) for number in options.sockets]
        for one in sockets:
            one.setblocking(False)
        server = make_server(SharedSession(viewer), host, port, read_token(), sockets)
    except OSError as error:
        sys.stderr.write(f"page: cannot use {options.page}: {error.strerror}; choose another\n")
        viewer.close()
        return 2
    keep_out_of_logs(read_token())
    loop = IOLoop.current()

    def stop(*_: object) -> None:
        loop.add_callback_from_signal(lambda: loop.call_later(LAST_LOOK_S, loop.stop))

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN if options.commands else stop)
    # A session prints the token itself: what is printed here is in its log folder.
    page = url(host, port) if options.commands else with_token(url(host, port), read_token())
    print(f"page: {page}{'' if is_loopback(host) else f' ({FOR_ALL})'}", flush=True)
    server.start()
    loop.start()
    server.stop()
    viewer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
