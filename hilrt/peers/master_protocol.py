"""The master's side of the wire protocol, for all peers of a session: a core without I/O.

Bytes and times go in, bytes and events come out; docs/protocol.md describes the exchange. The core
identifies connections by keys that its I/O (`hilrt.peers.hub`) chooses, and reads no clock:

* `greet` processes messages of a new connection, `RemotePeer.receive` those of a peer in
`connections`, and `connection_lost` the end of a connection;
* `keep_alive` is called when `due_ns` has passed, for heartbeats and silence;
* after each of these, `events` returns events and `data_to_send` the messages to send.

A `RemotePeer` represents one peer; this class contains the handshake and shared state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hilrt.errors import ConfigError, ProtocolError
from hilrt.peers.peer_events import STRANGER, Connection, PeerEvent, UnusedMessages
from hilrt.peers.remote_peer import CheckPorts, RemotePeer, SharedByPeers
from hilrt.peers.transport.base import UNKNOWN, Origin
from hilrt.peers.wire import (
    PROTOCOL_VERSION,
    Error,
    Hello,
    Message,
    Reject,
    Role,
    Welcome,
    decode_from_peer,
    encode,
)

HEARTBEAT_S = 0.2
#: A peer that is silent for this many heartbeats is lost.
SILENT_HEARTBEATS = 10
#: Messages tolerated from a connection without an accepted hello: a solver whose connection broke
#: may send some before it repeats its hello.
MAX_STRANGE = 20
#: Maximum number of connections for which these messages are counted.
_REMEMBERED = 1000


class MasterProtocol:
    """Handshake, heartbeats, clock offsets, loss and return of a session's peers.

    Parameters
    ----------
    session : str
        The session's name, sent to the peers.
    now_ns : int
        Master's monotonic clock, ns.
    heartbeat_s : float
        Longest interval between two messages of a live peer, s.

    Attributes
    ----------
    peers : dict of str to RemotePeer
        Expected peers, by name.
    connections : dict of Connection to RemotePeer
        Accepted connections.
    due_ns : int
        Time of the next call of `keep_alive`, master's clock, ns.
    """

    def __init__(self, session: str, now_ns: int, heartbeat_s: float = HEARTBEAT_S) -> None:
        self.session = session
        self.heartbeat_s = heartbeat_s
        self.peers: dict[str, RemotePeer] = {}
        self.due_ns = now_ns
        self._shared = SharedByPeers()
        self.connections = self._shared.peers
        self._heartbeat_ns = round(heartbeat_s * 1e9)
        self._turn = 0
        self._strange: Counter[Connection] = Counter()

    def expect(
        self,
        name: str,
        role: Role,
        *,
        check_ports: CheckPorts = lambda inputs, outputs: None,
        readmits: bool = False,
    ) -> RemotePeer:
        """Expect a peer under this name, from now on; parameters as for `RemotePeer`.

        Raises
        ------
        ConfigError
            If one is already expected under this name.
        """
        if name in self.peers:
            raise ConfigError(f"{name!r} is already expected; give every subsystem its own name")
        peer = RemotePeer(name, role, self._shared, check_ports=check_ports, readmits=readmits)
        self.peers[name] = peer
        return peer

    @property
    def running(self) -> bool:
        """Whether session time has begun: only then may a lost peer return."""
        return self._shared.running

    @running.setter
    def running(self, running: bool) -> None:
        self._shared.running = running

    @property
    def unused(self) -> UnusedMessages:
        """Unused messages."""
        return self._shared.unused

    @property
    def counters(self) -> Counter[tuple[str, str]]:
        """Numbers of unused messages by peer and kind."""
        return self._shared.unused.counters

    # --- out ----------------------------------------------------------------------------------

    @property
    def has_output(self) -> bool:
        """Whether there are events, or data to send."""
        return bool(self._shared.events or self._shared.to_send)

    def events(self) -> list[PeerEvent]:
        """Events since the last call, in order."""
        events, self._shared.events = self._shared.events, []
        return events

    def data_to_send(self) -> list[tuple[Connection, bytes]]:
        """Messages to send, each with its connection, in order; empty after the call."""
        data, self._shared.to_send = self._shared.to_send, []
        return data

    # --- in -----------------------------------------------------------------------------------

    def greet(
        self,
        connection: Connection,
        data: bytes,
        now_ns: int,
        origin: Callable[[], Origin] = lambda: UNKNOWN,
    ) -> bool:
        """Process a message, read at `now_ns`, of a connection that is not in `connections` yet.

        `origin` returns its origin. Returns False if the connection should be ended, because
        nothing useful is expected from it.
        """
        try:
            message = decode_from_peer(data)
        except ProtocolError as error:
            return self.unusable(connection, error, now_ns)
        if isinstance(message, Hello):
            return self._greet(connection, message, now_ns, origin())
        text = f"{type(message).__name__} before a hello"
        self.count(STRANGER, "unknown_sender", text, now_ns)
        return self._tolerates(connection)

    def unusable(self, connection: Connection, error: ProtocolError, now_ns: int) -> bool:
        """Count an invalid or unexpected message of a connection.

        Returns False as `greet` does, if the connection belongs to no peer.
        """
        peer = self.connections.get(connection)
        self.count(STRANGER if peer is None else peer.name, error.kind, str(error), now_ns)
        return peer is not None

    def count(self, name: str, kind: str, text: str, now_ns: int) -> None:
        """Count an unused message from or to a peer, or a refused connection."""
        self._shared.count(name, kind, text, now_ns)

    def send_lost(self, connection: Connection, now_ns: int) -> None:
        """Count a message that did not fit into the peer's full queue."""
        peer = self.connections.get(connection)
        if peer is not None:
            self.count(
                peer.name, "send_lost", "its queue is full, because it does not read", now_ns
            )

    def connection_lost(self, connection: Connection, reason: str) -> None:
        """Handle the end of a connection; no effect if the peer already has another one."""
        peer = self.connections.get(connection)
        if peer is not None and peer.connection == connection:
            peer.lose(reason)

    # --- handshake ----------------------------------------------------------------------------

    def _greet(self, connection: Connection, hello: Hello, now_ns: int, origin: Origin) -> bool:
        peer = self.peers.get(hello.name)
        try:
            before = self._check(peer, hello, origin).connection
            self.peers[hello.name].accept(connection, hello, origin, now_ns)
        except ProtocolError as error:
            return self._reject(connection, hello, origin, str(error), now_ns)
        self._strange.pop(connection, None)
        if before is not None:
            self._send(before, Error(text="another connection with its name replaced it"))
        self._send(connection, Welcome(session=self.session, heartbeat_s=self.heartbeat_s))
        return True

    def _reject(
        self, connection: Connection, hello: Hello, origin: Origin, reason: str, now_ns: int
    ) -> bool:
        """Answer a hello that is not accepted; return False as `greet` does."""
        peer = self.peers.get(hello.name)
        name = STRANGER if peer is None else peer.name
        self.count(name, "rejected", f"{reason} (from {origin.where})", now_ns)
        if peer is not None:
            peer.contested(hello, origin, reason)
        self._send(connection, Reject(reason=reason))
        return self._tolerates(connection)

    def _tolerates(self, connection: Connection) -> bool:
        """Whether one more message of a connection without an accepted hello is tolerated."""
        if len(self._strange) >= _REMEMBERED:
            self._strange.clear()
        self._strange[connection] += 1
        return self._strange[connection] <= MAX_STRANGE

    def _check(self, peer: RemotePeer | None, hello: Hello, origin: Origin) -> RemotePeer:
        """Return the peer that sent the hello; `ProtocolError` if it is not accepted."""
        if origin.names is not None and hello.name not in origin.names:
            own = " and ".join(sorted(origin.names))
            raise ProtocolError(
                f"a key only admits the name of its file: that of {own}, not {hello.name!r}"
            )
        if hello.version != PROTOCOL_VERSION:
            raise ProtocolError(
                f"protocol version {hello.version} is not {PROTOCOL_VERSION}, the master's; "
                "use the same version of hilrt on both sides"
            )
        if peer is None:
            expected = ", ".join(sorted(self.peers)) or "none"
            raise ProtocolError(
                f"no remote subsystem is called {hello.name!r}; the session has: {expected}"
            )
        if hello.role != peer.role:
            raise ProtocolError(
                f"subsystem {hello.name!r} must be a {peer.role}, not a {hello.role}"
            )
        if refused := peer.refusal():
            raise ProtocolError(refused)
        return peer

    def _send(self, connection: Connection, message: Message) -> None:
        self._shared.to_send.append((connection, encode(message)))

    # --- heartbeats ---------------------------------------------------------------------------

    def keep_alive(self, now_ns: int) -> None:
        """Check the silence of one peer, and send it a heartbeat, if due.

        Peers take turns, so that no tick has to handle all of them.
        """
        if now_ns < self.due_ns:
            return
        peers = list(self.peers.values())
        held_up = now_ns - self.due_ns > 2 * self._heartbeat_ns
        self.due_ns = now_ns + self._heartbeat_ns // max(len(peers), 1)
        if not peers:
            return
        silence_ns = SILENT_HEARTBEATS * self._heartbeat_ns
        if held_up:  # the master did not read, so messages of peers may still be pending
            for peer in peers:
                peer.heard_ns = max(peer.heard_ns, now_ns - silence_ns + 2 * self._heartbeat_ns)
        self._turn = (self._turn + 1) % len(peers)
        peers[self._turn].keep_alive(now_ns, silence_ns)

    def measure_offsets(self, now_ns: int) -> None:
        """Request the clock of each new peer; to be called while answers are read promptly."""
        for peer in self.peers.values():
            peer.measure_offset(now_ns)

    def compare_clocks_again(self) -> None:
        """Measure all clocks again, after the master was busy and read answers late."""
        for peer in self.peers.values():
            peer.clock_exchanges.restart()
