"""The master's end of the wire, to which all remote subsystems of a session connect.

The `Hub` moves bytes between its transports and the `MasterProtocol`, which interprets them, and
passes messages and the protocol's events to the remote links. During the session nothing runs in
the background: `Hub.receive` and `RemoteLink.dispatch` move the messages when the master calls
them. While a reply is awaited (open, initialize, arm, stop), the event loop watches the transports'
descriptor.

That descriptor may be edge-triggered (`hilrt.peers.transport.zeromq_sockets`): everything must be
read before waiting on it (`Hub.drain` does so, up to its flood limit), and the wait must be
interrupted regularly for another poll.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, cast

from hilrt.errors import PeerLost, ProtocolError
from hilrt.peers.authenticator import Authenticator
from hilrt.peers.master_protocol import HEARTBEAT_S, MasterProtocol
from hilrt.peers.peer_events import STRANGER, Connection, Lost, PeerEvent
from hilrt.peers.remote_peer import RemotePeer
from hilrt.peers.transport import local
from hilrt.peers.transport.base import ServerTransport
from hilrt.peers.transport.zeromq_sockets import Router
from hilrt.peers.wire import Event, FromPeer, Message, Role
from hilrt.solver import Port
from hilrt.timing.monotonic import monotonic_ns

T = TypeVar("T")
#: A transport, and its key of a connection.
Route = tuple[ServerTransport, Hashable]

log = logging.getLogger("hilrt.peers.hub")

#: Maximum messages read by one `Hub.drain`, so that a flooding peer cannot block the master.
MAX_PER_DRAIN = 1000
#: Number of consecutive polls without time to read everything that counts as a flood.
FLOODED_POLLS = 20
#: Interval at which a waiting event loop polls the transports, s.
_LOOK_AGAIN_S = 0.01
_LINGER_MS = 200


class Attached(Protocol):
    """Interface of a remote link for the hub: `hilrt.peers.remote_link.RemoteLink`."""

    name: str
    hub: Hub
    carrier: Any
    peer: RemotePeer
    events: deque[Event]
    sent_ns: int

    @property
    def role(self) -> Role:
        """Role that the peer must announce."""

    @property
    def readmits(self) -> bool:
        """Whether a peer that was lost during the session may reconnect."""

    def check_ports(self, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> None:
        """Raise `ProtocolError` to reject a peer with these ports."""

    def received(self, message: FromPeer, at_ns: int) -> None:
        """Handle a message read at `at_ns` [ns]; `ProtocolError` if it is unusable."""

    def receive(self) -> None:
        """Raise `PeerLost` if the peer is gone."""

    def handle(self, event: PeerEvent) -> None:
        """Handle one event of the peer."""

    def process_ended(self, pid: int, text: str) -> None:
        """Handle the end of process `pid`, started by the session; `text` describes it."""


class Hub:
    """Connection point of all remote subsystems of a session.

    Use: create it (it binds at once), `add` the session's remote links, start the peers with
    `address`, await the links' methods, set `epoch_ns` when session time starts, `close`.

    Parameters
    ----------
    session : str
        The session's name, sent to the peers.
    listen : str
        ZeroMQ endpoint to bind; a port ``*`` takes a free one.
    heartbeat_s, connect_timeout : float
        Longest interval between two messages of a live peer, s; and time limit for a peer to
        connect, and to initialize, s.
    authenticator : Authenticator, optional
        Admits only peers with a known key, or with the session's token. Default: any peer.
    direct : bool
        Also accept processes of this machine and account without ZeroMQ, if the system supports it
        and there are no keys, which need ZeroMQ.
    clock : callable
        Monotonic clock, integer ns.

    Attributes
    ----------
    address : str
        The endpoint that peers connect to.
    protocol : MasterProtocol
        State of the peers, and meaning of their messages.
    changed, reporting : dict
        Links, as keys, whose peer was lost or has returned; and those with `events` not yet
        collected. The caller removes them.
    on_loss : callable
        Called with a `PeerLost` for each peer that is lost without having been stopped.
    """

    def __init__(
        self,
        session: str,
        listen: str = "tcp://127.0.0.1:*",
        *,
        heartbeat_s: float = HEARTBEAT_S,
        connect_timeout: float = 20.0,
        authenticator: Authenticator | None = None,
        direct: bool = True,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.connect_timeout = connect_timeout
        self.clock = clock
        self.closed = False
        self.protocol = MasterProtocol(session, clock(), heartbeat_s)
        self._epoch_ns = 0
        self.changed: dict[Attached, None] = {}
        self.reporting: dict[Attached, None] = {}
        self.on_loss: Callable[[PeerLost], None] = lambda error: None
        self._links: dict[str, Attached] = {}
        self._held: list[tuple[Attached, bytes]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._draining = False
        self._poll_ns = self._unfinished = 0
        self._missing = False
        self._ended: list[Connection] = []
        self._watchers = 0
        self._watching_fd = False
        router = Router(listen, authenticator)
        self.address = router.address
        self._servers: list[ServerTransport] = [router]
        #: Transports that a peer uses, or may still connect to; they are polled in every drain.
        self._used: list[ServerTransport] = self._servers
        self._fd = router.fileno()
        self._epoll: select.epoll | None = None
        if direct and (authenticator is None or authenticator.direct) and local.available():
            self._open_direct()

    # --- the session's side -------------------------------------------------------------------

    def add(self, link: Attached) -> None:
        """Expect a peer under ``link.name``, from now on."""
        link.hub = link.carrier = self
        link.peer = self.protocol.expect(
            link.name, link.role, check_ports=link.check_ports, readmits=link.readmits
        )
        self._links[link.name] = link
        self._find_used()

    @property
    def epoch_ns(self) -> int:
        """Reading of the clock at session time 0, ns; 0 before the session starts."""
        return self._epoch_ns

    @epoch_ns.setter
    def epoch_ns(self, epoch_ns: int) -> None:
        self._epoch_ns = epoch_ns
        self.protocol.running = epoch_ns != 0

    @property
    def counters(self) -> Counter[tuple[str, str]]:
        """Unused messages, by peer and kind; see `UnusedMessages`."""
        return self.protocol.counters

    def session_time(self) -> float:
        """Time since `epoch_ns`, s."""
        return (self.clock() - self._epoch_ns) * 1e-9

    def fileno(self) -> int:
        """Descriptor of all transports; it may be edge-triggered, see the module's docstring."""
        return self._fd

    def close(self) -> None:
        """Close the transports after a moment for sent messages; repeated calls have no effect."""
        if self.closed:
            return
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._unwatch()
        self._poll_connections()
        if self._epoll is not None:
            self._epoll.close()
        for server in self._servers:
            server.close(_LINGER_MS)

    def _open_direct(self) -> None:
        """Accept peers of this machine by the direct transport, too, and watch both as one."""
        try:
            server = local.LocalServer(self.address)
        except OSError as error:
            log.warning("peers of this machine connect by TCP, which is slower: %s", error)
            return
        self._epoll = select.epoll()
        self._epoll.register(server.fileno(), select.EPOLLIN)
        self._epoll.register(self._fd, select.EPOLLIN)
        self._servers.append(server)
        self._fd = self._epoll.fileno()

    # --- messages -----------------------------------------------------------------------------

    def send(self, peer: RemotePeer, data: bytes) -> bool:
        """Send an encoded message without waiting; return False, and count it, if that fails."""
        if peer.connection is None or self.closed:
            return False
        taken = self._transmit(peer.connection, data)
        self._sent(taken)
        return taken

    def _sent(self, taken: bool) -> None:
        """Process the protocol's output if a message was not accepted; watch again."""
        if not taken:
            self._hand_over()
        if self._watching_fd and self._loop is not None:  # the send may have consumed the edge
            self._loop.call_soon(self._readable)

    def hold(self, link: Attached, step: Message) -> None:
        """Encode a step for the peer of `link`, and keep it for `flush`."""
        self._held.append((link, link.peer.send(step)))

    def flush(self) -> None:
        """Send held steps together, and record the time.

        Sent one by one, each would wake the sending thread, or the peer, again.
        """
        if not self._held:
            return
        held, self._held = self._held, []
        taken = True
        for link, data in held:
            link.sent_ns = self.clock()
            if link.peer.connection is not None and not self.closed:
                taken &= self._transmit(link.peer.connection, data)
        self._sent(taken)

    def lose(self, peer: RemotePeer, reason: str, *, for_good: bool = False) -> None:
        """See `RemotePeer.lose`; the peer's link is notified at once."""
        peer.lose(reason, for_good=for_good)
        self._hand_over()

    def process_ended(self, name: str, pid: int, text: str) -> bool:
        """Notify subsystem `name` that its process has ended; False if there is none.

        Before the session starts, a subsystem is also lost with its helper, such as
        ``engine.emulator``. Later only the effect counts: its gateway reports a silent bench.
        """
        if (link := self._links.get(name)) is not None:
            link.process_ended(pid, text)
            return True
        subsystem, _, helper = name.rpartition(".")
        link = None if self._epoch_ns else self._links.get(subsystem)
        if link is not None:
            self.lose(link.peer, f"its {helper} {text}")
        return link is not None

    def why_dropped(self, name: str) -> str:
        """Newest unusable message of peer `name`, and the reason; empty if there is none."""
        return self.protocol.unused.why_dropped(name, self.clock())

    def count(self, name: str, kind: str, text: str) -> None:
        """Count an unused message, also for the link."""
        self.protocol.count(name, kind, text, self.clock())
        self._hand_over()

    def drain(self) -> None:
        """Pass all messages to the links, send heartbeats, accept connections; never blocks."""
        if not self.closed:
            self._drain(self.clock(), None)

    def receive(self, until_ns: int) -> int:
        """Pass received messages to the links, and nothing else, without blocking.

        Connections take turns, and each gets at least one; after that, reception stops at
        `until_ns` on the hub's clock, or after `MAX_PER_DRAIN` messages. Returns their number.
        """
        if self.closed:
            return 0
        taken = self._receive(self._used, until_ns, accept=False)
        if self.protocol.has_output:
            self._hand_over()
        return taken

    def watch_again(self) -> None:
        """Rearm the descriptor, after `receive` has found no message.

        An edge of an unused transport would keep it readable.
        """
        if not self.closed:
            for server in self._servers:
                server.waiting()

    def upkeep(self, until_ns: int) -> None:
        """Send due heartbeats and accept connections, until `until_ns` as in `receive`."""
        now_ns = self.clock()
        due_ns = min(self.protocol.due_ns, self._poll_ns)
        if not self.closed and (self._missing or now_ns >= due_ns):
            self._drain(now_ns, until_ns)

    def _drain(self, now_ns: int, until_ns: int | None) -> None:
        keeps = now_ns >= self.protocol.due_ns
        if self._watchers or self._missing or now_ns >= self._poll_ns:
            self._poll_ns = now_ns + round(self.protocol.heartbeat_s * 1e9)
            self._poll_connections()
        servers = self._servers if keeps or self._watchers else self._used
        self._receive(servers, until_ns, accept=True)
        if keeps:
            self.protocol.keep_alive(now_ns)
        if self.protocol.has_output:
            self._hand_over()

    def _receive(
        self, servers: Sequence[ServerTransport], until_ns: int | None, *, accept: bool
    ) -> int:
        """Pass received messages to the protocol; return their number."""
        self._draining, unfinished = True, self._unfinished
        taken = sum([self._receive_from(server, until_ns, accept) for server in servers])
        self._draining = False
        if self._unfinished == unfinished:
            self._unfinished = 0
        while self._ended:
            self.protocol.connection_lost(self._ended.pop(), "its connection closed")
        return taken

    def _receive_from(self, server: ServerTransport, until_ns: int | None, accept: bool) -> int:
        protocol, clock = self.protocol, self.clock
        turns = 2 * len(self._links)  # of each link an answer, and a heartbeat or event
        taken = 0
        for taken, (key, data) in enumerate(server.receive(accept), start=1):
            connection, now_ns, stays = (server, key), clock(), True
            if not isinstance(data, bytes):
                if not isinstance(data, ProtocolError):
                    self._ended.append(connection)
                    continue
                stays = protocol.unusable(connection, data, now_ns)
            elif (peer := protocol.connections.get(connection)) is None:
                stays = protocol.greet(connection, data, now_ns, server.origin)
            elif (message := peer.receive(data, now_ns)) is not None:
                if protocol.has_output:  # the peer may have just been accepted
                    self._hand_over()
                try:
                    self._links[peer.name].received(message, now_ns)
                except ProtocolError as error:
                    self.count(peer.name, error.kind, str(error))
            if not stays:
                server.end(key)
            if taken == MAX_PER_DRAIN:
                self._flooded(f"{MAX_PER_DRAIN} messages at once")
                return taken
            if until_ns is not None and taken >= turns and clock() >= until_ns:
                self._unfinished += 1
                if self._unfinished % FLOODED_POLLS == 0:
                    self._flooded("repeatedly more messages than can be read in time")
                return taken
        return taken

    def _flooded(self, text: str) -> None:
        self.protocol.count(STRANGER, "flood", text, self.clock())

    def _hand_over(self) -> None:
        """Send the protocol's messages, and pass its events to the links."""
        for connection, data in self.protocol.data_to_send():
            if not self.closed:
                self._transmit(connection, data)
        for event in self.protocol.events():
            self._find_used()
            link = self._links.get(event.name)
            if link is not None:
                link.handle(event)
                if isinstance(event, Lost) and not link.peer.stopping:
                    self.on_loss(PeerLost(event.name, event.reason))

    def _transmit(self, connection: Connection, data: bytes) -> bool:
        """Pass a message to the transport of its connection; return whether it was accepted."""
        server, key = cast(Route, connection)
        try:
            server.send(key, data)
            return True
        except BlockingIOError:
            self.protocol.send_lost(connection, self.clock())
        except BrokenPipeError:  # earlier messages of the peer must still be read
            self._ended.append(connection)
            if not self._draining:
                self.drain()
        except OSError as error:
            self.protocol.connection_lost(connection, f"sending to it failed: {error.strerror}")
        return False

    def _find_used(self) -> None:
        """Find the transports in use; the others are polled only with the heartbeats.

        Each poll costs a system call.
        """
        connections = [peer.connection for peer in self.protocol.peers.values()]
        used = {cast(Route, connection)[0] for connection in connections if connection is not None}
        expects = None in connections
        self._used = [server for server in self._servers if expects or server in used]
        peers = self.protocol.peers.values()
        self._missing = not peers or any(peer.wants_connection for peer in peers)
        for server in self._servers:
            server.expect(self._missing, len(peers))

    def _poll_connections(self) -> None:
        """Let the transports accept or refuse connections."""
        for server in self._servers:
            for error in server.poll():
                self.protocol.count(STRANGER, error.kind, str(error), self.clock())

    # --- waiting in the event loop ------------------------------------------------------------

    async def wait(self, future: asyncio.Future[T], timeout: float) -> T:
        """Wait for a future that a message sets; `TimeoutError` after `timeout` [s].

        From the first call until `close`, heartbeats are sent even while nothing polls.
        """
        with self._watched():
            self._readable()
            return await asyncio.wait_for(future, timeout)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        self._loop = asyncio.get_running_loop()
        self._watchers += 1
        if self._watchers == 1:
            # Windows' default loop cannot watch descriptors: only the timer polls there.
            with contextlib.suppress(NotImplementedError):
                self._loop.add_reader(self._fd, self._readable)
                self._watching_fd = True
        if self._timer is not None:
            self._timer.cancel()
        self._background()
        try:
            yield
        finally:
            self._watchers -= 1
            if self._watchers == 0:
                self._unwatch()

    def _unwatch(self) -> None:
        if self._watching_fd and self._loop is not None:
            self._watching_fd = False
            if not self._loop.is_closed():
                self._loop.remove_reader(self._fd)

    def _readable(self) -> None:
        if self.closed:
            return
        self.drain()
        # Poll each: otherwise the descriptor would not report later messages.
        more = [server.waiting() for server in self._servers]
        if any(more) and self._watching_fd and self._loop is not None:
            self._loop.call_soon(self._readable)

    def _background(self) -> None:
        """Timer: heartbeats while nothing polls, and polls for missed edges while waiting."""
        if self.closed or self._loop is None:
            return
        if self._watchers:
            self.protocol.measure_offsets(self.clock())
        self._readable()
        pause = self.protocol.heartbeat_s / max(len(self._links), 1)
        if self._watchers:
            pause = min(pause, _LOOK_AGAIN_S if self._watching_fd else 0.001)
        self._timer = self._loop.call_later(pause, self._background)
