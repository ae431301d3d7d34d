"""Bokeh server of the page, with the panel at ``/`` and metrics at ``/metrics``."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tornado.web
import zmq
from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.document import Document
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from bokeh.server.util import bind_sockets, check_allowlist
from bokeh.server.views.doc_handler import DocHandler
from bokeh.settings import settings
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.ioloop import IOLoop, PeriodicCallback
from tornado.web import OutputTransform, RequestHandler

from hilrt.monitor.limited_server import LimitedServer, trust
from hilrt.monitor.operator_commands import same_key
from hilrt.monitor.read_token import (
    PARAMETER,
    given_token,
    keep_out_of_logs,
    read_token,
    with_token,
)
from hilrt.monitor.session_state import SessionState
from hilrt.monitor.viewer import Viewer
from hilrt.peers.addresses import is_loopback, parse_address
from hilrt.reliability.causes import CAUSES
from hilrt.web.page import Page
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
from hilrt.web.plain_server import parse
from hilrt.web.plots import TIMING_SIGNAL
from hilrt.web.shared_session import FULL_SAMPLES, POLL_MS, Ring, SharedSession, SignalHistory

#: Time for which clients can still receive a session's end, s.
LAST_LOOK_S = 0.6
#: Interval at which the lateness of the ticks is counted, ms, so short that no ring overflows.
COUNT_MS = 5000
FOR_ALL = "anyone who reaches this machine's network and has the token can read it"


class Metrics(RequestHandler):
    """Handler of requests from Prometheus."""

    def initialize(self, registry: CollectorRegistry) -> None:
        """Set the registry; called by tornado."""
        self.registry = registry

    def get(self) -> None:
        """Respond with all metrics as text."""
        self.set_header("Content-Type", CONTENT_TYPE_LATEST)
        self.write(generate_latest(self.registry))


def make_server(
    source: SharedSession,
    host: str,
    port: int,
    token: str,
    sockets: Sequence[socket.socket] = (),
) -> BaseServer:
    """Create a session's server, on listening `sockets` if given; `OSError` for a port in use.

    It shows nothing without the `token`. Only pages that it served itself may connect; another site
    in the same browser cannot. For a reverse proxy, set Bokeh's BOKEH_ALLOW_WS_ORIGIN to the outer
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
    # A session prints the token itself, because output of this process goes to its log folder.
    page = url(host, port) if options.commands else with_token(url(host, port), read_token())
    print(f"page: {page}{'' if is_loopback(host) else f' ({FOR_ALL})'}", flush=True)
    server.start()
    loop.start()
    server.stop()
    viewer.close()
    return 0


#: Upper bounds of the buckets for lateness, µs.
BUCKETS_US = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)


class Lateness:
    """Counter of the lateness of every tick in buckets, including ticks between two scrapes."""

    def __init__(self, viewer: Viewer, history: SignalHistory) -> None:
        viewer.want_full(TIMING_SIGNAL)
        self._ring = history.full.setdefault(TIMING_SIGNAL, Ring(FULL_SAMPLES, 2))
        self._seen = 0
        self._counts = np.zeros(len(BUCKETS_US) + 1, np.int64)
        self._sum_us = 0.0

    def count(self) -> None:
        """Count new ticks; to be called before the ring overflows."""
        late = self._ring.since(self._seen)[:, 1]
        self._seen = self._ring.total
        late = late[np.isfinite(late)]
        self._counts += np.bincount(np.searchsorted(BUCKETS_US, late), minlength=len(self._counts))
        self._sum_us += float(late.sum())

    def metric(self) -> Metric:
        """Counts as a Prometheus histogram."""
        self.count()
        ends = [*(f"{end * 1e-6:g}" for end in BUCKETS_US), "+Inf"]
        buckets = list(zip(ends, np.cumsum(self._counts).tolist(), strict=True))
        text = "Tick to dispatch complete."
        return HistogramMetricFamily(
            "hilrt_lateness_seconds", text, buckets, sum_value=self._sum_us * 1e-6
        )


class SessionCollector(Collector):
    """Collector of metrics from a `Viewer`; `up` is 0 while the session is silent."""

    def __init__(self, viewer: Viewer, history: SignalHistory) -> None:
        self._viewer, self._history = viewer, history
        self.lateness = Lateness(viewer, history)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics with their current values."""
        viewer, status = self._viewer, self._viewer.status
        alive = status is not None and not viewer.silent
        yield GaugeMetricFamily("hilrt_up", "Whether the session is sending.", float(alive))
        yield CounterMetricFamily(
            "hilrt_monitor_missed_messages", "Messages missed by this page.", viewer.missed
        )
        yield CounterMetricFamily(
            "hilrt_record_lost_rows", "Ticks missing in the telemetry.", self._history.lost
        )
        if status is None:
            return
        state = GaugeMetricFamily("hilrt_state", "1 for the current state.", labels=["state"])
        for name in SessionState:
            state.add_metric([str(name)], float(status.state == name))
        yield state
        yield GaugeMetricFamily("hilrt_time_seconds", "Session time.", status.t)
        yield CounterMetricFamily("hilrt_ticks", "Ticks.", status.tick)
        yield GaugeMetricFamily("hilrt_rate_hertz", "Macro steps per second.", status.rate_hz)
        yield CounterMetricFamily("hilrt_missed_ticks", "Ticks past their deadline.", status.missed)
        yield GaugeMetricFamily("hilrt_shadow", "1: no correction acts.", float(status.shadow))
        if status.lateness_us is not None:
            yield self.lateness.metric()
        flags = GaugeMetricFamily("hilrt_flags", "Flags that are up.", labels=["cause"])
        up = [flag.cause for flag in viewer.flags]
        for cause in CAUSES:
            flags.add_metric([cause], up.count(cause))
        yield flags
        yield from self._peers()
        yield from self._bonds()

    def _peers(self) -> Iterator[Metric]:
        peers = self._viewer.status.peers if self._viewer.status is not None else {}
        late = CounterMetricFamily("hilrt_late_samples", "Late ticks.", labels=["subsystem"])
        lost = CounterMetricFamily("hilrt_lost_samples", "Lost messages.", labels=["subsystem"])
        dropped = CounterMetricFamily(
            "hilrt_dropped_samples",
            "Messages that were received and rejected.",
            labels=["subsystem"],
        )
        age = GaugeMetricFamily("hilrt_sample_age_seconds", "Newest sample.", labels=["subsystem"])
        for name, peer in peers.items():
            late.add_metric([name], peer.late)
            lost.add_metric([name], peer.lost)
            dropped.add_metric([name], peer.dropped)
            age.add_metric([name], peer.age_ms * 1e-3)
        yield from (late, lost, dropped, age)

    def _bonds(self) -> Iterator[Metric]:
        bonds = self._viewer.status.bonds if self._viewer.status is not None else {}
        power = GaugeMetricFamily("hilrt_bond_power_watts", "Power.", labels=["bond"])
        energy = GaugeMetricFamily(
            "hilrt_bond_energy_joules", "Energy ledger.", labels=["bond", "entry"]
        )
        for name, bond in bonds.items():
            power.add_metric([name], bond.power_w)
            energy.add_metric([name, "residual"], bond.residual_energy_j)
            energy.add_metric([name, "tracking"], bond.tracking_energy_j)
            energy.add_metric([name, "corrected"], bond.corrected_energy_j)
        yield from (power, energy)


# Access to the page: only under a name of this machine, and with the token.

#: Prefixes of paths that need no token: Bokeh's scripts, and files that browsers always request.
WITHOUT_TOKEN = ("/static/", "/favicon.ico")


class Refused(RequestHandler):
    """Handler that refuses a request with the reason and the remedy."""

    def initialize(self, reason: str) -> None:
        """Set the reason; called by tornado."""
        self._text = reason

    def prepare(self) -> None:
        """Respond with the reason."""
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self._text)


FOREIGN_NAME = (
    "This page is not served under that name. For a reverse proxy, set "
    "BOKEH_ALLOW_WS_ORIGIN=NAME for the page's process.\n"
)


class ForKnownReaders(BokehTornado):
    """Bokeh application that serves only requests with the token under a name of this machine.

    For a foreign name that resolves to this machine (DNS rebinding), a browser sees the same
    origin, so a check of the WebSocket's origin alone would admit it. The token excludes other
    accounts, which can also reach the loopback. It is in the page's address, which the browser
    repeats for the WebSocket; a cookie would be sent to every port of the machine.

    Parameters
    ----------
    host, port
        Address that the server is bound to.
    token : str
        Token that readers must give.
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
        """Handler for a request: the usual one if name and token are right, else `Refused`."""
        if not self._is_known(request.host.lower()):
            return self._refuse(request, FOREIGN_NAME)
        if not request.path.startswith(WITHOUT_TOKEN) and not self._may_read(request):
            return self._refuse(request, NO_TOKEN)
        if self._may_read(request):
            trust(request)
        return super().find_handler(request, **kwargs)

    def _refuse(self, request: HTTPServerRequest, reason: str) -> Any:
        return self.get_handler_delegate(request, Refused, {"reason": reason})

    def _may_read(self, request: HTTPServerRequest) -> bool:
        tokens = [text.decode("utf-8", "replace") for text in request.arguments.get(PARAMETER, [])]
        given = given_token(tokens, request.headers.get("Authorization", ""))
        return same_key(given, self._token)

    def _is_known(self, host: str) -> bool:
        if is_own(host, self._names, self._any_number):
            return True
        return check_allowlist(host, settings.allowed_ws_origin())


# Responses of the Bokeh application, with the headers of `hilrt.web.page_access`.

#: Name of the nonce's variable in the page's template.
NONCE = "nonce"


class GuardedPage(DocHandler):
    """Handler for the page, whose inline scripts have its document's nonce."""

    async def get_session(self, *args: Any, **kwargs: Any) -> Any:
        """Respond with Bokeh's document and the page's security policy."""
        session: Any = await super().get_session()  # type: ignore[misc]  # Bokeh's decorator hides it
        self.set_header(POLICY, page_policy(session.document.template_variables[NONCE]))
        return session


class AddHeaders(OutputTransform):
    """Transform that adds missing security headers to every response."""

    def __init__(self, request: HTTPServerRequest) -> None:
        """Accept the request, which is not used."""

    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        """Add the headers; called once per response of any handler."""
        for name, value in HEADERS.items():
            headers.setdefault(name, value)
        return status_code, headers, chunk


def guard(application: tornado.web.Application) -> None:
    """Have an existing application serve the guarded page instead of Bokeh's."""
    application.transforms.append(AddHeaders)
    for rule in application.wildcard_router.rules:
        if rule.target is DocHandler:
            rule.target = GuardedPage
