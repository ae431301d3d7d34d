"""State machine of one peer on the master's side, from its hello to its end. No I/O.

    EXPECTED ──hello──► CONNECTED ◄──initialized── RESTARTING
                         │     ▲                       ▲
                         │     └─ hello, first         │ initialize_again
           connection    │                             │
           lost, if it   ▼                             │
           may return   AWAY ────────hello────────► RETURNED

A peer that loses its connection in any state is AWAY if it may return. Otherwise it is permanently
`lost`, whatever its state.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from hilrt.errors import ProtocolError
from hilrt.peers.announced_ports import parameters_from_infos, ports_from_infos
from hilrt.peers.clock_offset import ClockExchanges, ClockOffset
from hilrt.peers.peer_events import (
    Accepted,
    CameBack,
    Connection,
    Contested,
    Left,
    Lost,
    NotUsed,
    PeerEvent,
    UnusedMessages,
)
from hilrt.peers.transport.base import UNKNOWN, Origin
from hilrt.peers.wire import (
    Advance,
    Advanced,
    Arm,
    Armed,
    Error,
    FromPeer,
    GoBack,
    Heartbeat,
    Hello,
    Initialize,
    Initialized,
    Linearise,
    Linearised,
    Measurements,
    Message,
    Probe,
    Probed,
    Role,
    Secured,
    Stop,
    Stopped,
    check_arrays,
    decode_from_peer,
    encode,
)
from hilrt.peers.wire import Event as PeerReport
from hilrt.solver import Parameter, Port

log = logging.getLogger("hilrt.peers.hub")

#: Connections requesting a peer's name that are reported; more are only counted.
CONTESTS_REPORTED = 20

#: Answers to requests; an answer is used only while it is due.
ANSWERS: dict[type[Message], type[Message]] = {
    Initialize: Initialized,
    Advance: Advanced,
    GoBack: Advanced,
    Probe: Probed,
    Linearise: Linearised,
    Arm: Armed,
    Stop: Stopped,
}
#: While one of these is due, a single-threaded peer computes and cannot send heartbeats.
_COMPUTED = frozenset({Initialized, Advanced, Probed, Linearised})
#: Unsolicited messages of a peer, by role, for its link.
_UNASKED: dict[Role, frozenset[type[Message]]] = {
    "solver": frozenset({PeerReport}),
    "gateway": frozenset({PeerReport, Measurements, Secured}),
}
_HANDLED_HERE = frozenset({Heartbeat, Hello, Error})

CheckPorts = Callable[[tuple[Port, ...], tuple[Port, ...]], None]


class ConnectionState(Enum):
    """State of a peer; see the module's docstring."""

    EXPECTED = auto()
    CONNECTED = auto()
    AWAY = auto()
    RETURNED = auto()
    RESTARTING = auto()


@dataclass
class SharedByPeers:
    """State shared by all peers of a session.

    Attributes
    ----------
    peers : dict of Connection to RemotePeer
        The accepted connections.
    to_send : list of (Connection, bytes)
        Messages of the protocol itself, for the I/O to send.
    events : list of PeerEvent
        Events for the I/O.
    unused : UnusedMessages
    running : bool
        Whether session time has begun: only then may a lost peer return.
    """

    peers: dict[Connection, RemotePeer] = field(default_factory=dict)
    to_send: list[tuple[Connection, bytes]] = field(default_factory=list)
    events: list[PeerEvent] = field(default_factory=list)
    unused: UnusedMessages = field(default_factory=UnusedMessages)
    running: bool = False

    def count(self, name: str, kind: str, text: str, now_ns: int) -> None:
        """Count an unused message, and notify the I/O."""
        self.unused.count(name, kind, text, now_ns)
        self.events.append(NotUsed(name, kind))


class RemotePeer:
    """State of one peer: bytes and times in, bytes and events out.

    Parameters
    ----------
    name : str
        The subsystem's name in the session file.
    role : {"solver", "gateway"}
        Role that the peer must announce.
    shared : SharedByPeers
    check_ports : callable
        Called with the announced inputs and outputs of the first hello; raises `ProtocolError` to
        reject the peer.
    readmits : bool
        Whether a peer that was lost during the session may reconnect.

    Attributes
    ----------
    state : ConnectionState
    connection : Connection or None
        The accepted connection; None before the hello and while the peer is away.
    hello : Hello or None
        The peer's description of itself.
    origin : Origin
        Origin of its connection, as reported by the transport.
    inputs, outputs : tuple of Port
        As announced.
    parameters : tuple of Parameter
        As announced.
    clock : ClockOffset
        Converts the peer's clock readings to the master's.
    clock_exchanges : ClockExchanges
    heard_ns : int
        Time at which the newest message was read, master's clock, ns.
    lost : str
        Reason why the peer is permanently lost; empty if it is not.
    stopping : bool
        Whether the peer was stopped, so that its end is not a fault.
    """

    def __init__(
        self,
        name: str,
        role: Role,
        shared: SharedByPeers,
        *,
        check_ports: CheckPorts = lambda inputs, outputs: None,
        readmits: bool = False,
    ) -> None:
        self.name, self.role = name, role
        self.state = ConnectionState.EXPECTED
        self.connection: Connection | None = None
        self.hello: Hello | None = None
        self.origin = UNKNOWN
        self.inputs: tuple[Port, ...] = ()
        self.parameters: tuple[Parameter, ...] = ()
        self.outputs: tuple[Port, ...] = ()
        self.clock, self.clock_exchanges = ClockOffset(), ClockExchanges()
        self.heard_ns = 0
        self.lost = ""
        self.stopping = False
        self._shared, self._check_ports, self._readmits = shared, check_ports, readmits
        self._n_inputs = self._n_outputs = 0
        self._due: set[type[Message]] = set()
        self._due_tick = -1
        self._contests = 0

    # --- handshake ----------------------------------------------------------------------------

    def refusal(self) -> str:
        """Reason for refusing another hello under this name; empty if it is not refused."""
        if self.hello is None or (self.may_return and not self.lost):
            return ""
        if self.role == "gateway":
            return (
                f"bench {self.name!r} is already connected, or was lost: a bench that returns "
                "is never armed automatically; end this session and start another one"
            )
        if not self.lost:
            return (
                f"subsystem {self.name!r} is already connected; "
                "end the other process or use another name"
            )
        return (
            f"subsystem {self.name!r} was lost ({self.lost}) and is not readmitted; with late = "
            "{ rejoin = true } in its table it would be"
        )

    @property
    def wants_connection(self) -> bool:
        """Whether another connection may be accepted, now or later."""
        if self.hello is None:
            return not self.lost
        return self._readmits and self.role == "solver" and not self.lost

    def contested(self, hello: Hello, origin: Origin, refused: str = "") -> None:
        """Report a request for this peer's name by another connection; `refused`: the reason."""
        self._contests += 1
        if self.hello is None or self._contests > CONTESTS_REPORTED:
            return
        newcomer, held = origin.described(hello.pid), self.origin.described(self.hello.pid)
        text = f"{newcomer} replaces {held}"
        if refused:
            text = f"{newcomer} requested the name of {held} and was refused: {refused}"
        self._emit(Contested(self.name, text))

    def accept(self, connection: Connection, hello: Hello, origin: Origin, now_ns: int) -> None:
        """Accept a hello that is not refused; `ProtocolError` if its ports do not fit."""
        inputs = ports_from_infos(hello.inputs, "input")
        outputs = ports_from_infos(hello.outputs, "output")
        parameters = parameters_from_infos(hello.parameters)
        returns = self.hello is not None
        if not returns:
            self._check_ports(inputs, outputs)
        elif (inputs, outputs) != (self.inputs, self.outputs):
            raise ProtocolError(
                f"subsystem {self.name!r} has different ports than before; start the same model"
            )
        else:
            if self.connection is not None:
                self.contested(hello, origin)
            self._leave("another connection has replaced it")
            self.clock, self.clock_exchanges = ClockOffset(), ClockExchanges()
        self.inputs, self.outputs, self.parameters = inputs, outputs, parameters
        self._n_inputs = sum(port.size for port in inputs)
        self._n_outputs = sum(port.size for port in outputs)
        self.state = ConnectionState.RETURNED if returns else ConnectionState.CONNECTED
        self.connection, self.heard_ns = connection, now_ns
        self.hello, self.origin = hello, origin
        self._shared.peers[connection] = self
        happened = CameBack if returns else Accepted
        self._emit(happened(self.name, hello, origin))

    # --- messages -----------------------------------------------------------------------------

    @property
    def computing(self) -> bool:
        """Whether the peer is computing a result, so that its silence does not count."""
        return not self._due.isdisjoint(_COMPUTED)

    def send(self, message: Message) -> bytes:
        """Encode a message to the peer; its answer, if there is one, is due from now on."""
        answer = ANSWERS.get(type(message))
        if answer is not None:
            self._due.add(answer)
            if isinstance(message, (Advance, GoBack)):
                self._due_tick = message.tick
            elif isinstance(message, Stop):
                self.stopping = True
        return encode(message)

    def give_up(self, answer: type[Message], now_ns: int) -> None:
        """Stop waiting for an answer; the peer's silence counts from now on."""
        self._due.discard(answer)
        self.heard_ns = max(self.heard_ns, now_ns)

    def receive(self, data: bytes, now_ns: int) -> FromPeer | None:
        """Process one message, read at `now_ns`, and return it if the peer's link must handle it.

        Invalid or unexpected messages are counted.
        """
        try:
            message = decode_from_peer(data)
            self.heard_ns = now_ns
            kind = type(message)
            stale = isinstance(message, Advanced) and message.tick != self._due_tick
            if kind in _HANDLED_HERE:  # one look-up per sample instead of three tests
                self._handle(message, now_ns)
            elif stale or (kind not in self._due and kind not in _UNASKED[self.role]):
                self.unexpected(message, now_ns)
            else:
                check_arrays(message, self._n_inputs, self._n_outputs)
                self._due.discard(kind)
                if kind is Initialized and self.state is ConnectionState.RESTARTING:
                    self.state = ConnectionState.CONNECTED
                return message
        except ProtocolError as error:
            self._shared.count(self.name, error.kind, str(error), now_ns)
        return None

    def unexpected(self, message: Message, now_ns: int) -> None:
        """Count a message received at the wrong time."""
        text = f"{type(message).__name__} at the wrong time"
        self._shared.count(self.name, "unexpected", text, now_ns)

    def _handle(self, message: FromPeer, now_ns: int) -> None:
        if isinstance(message, Heartbeat):
            self._heartbeat(message, now_ns)
        elif isinstance(message, Error):
            self.lose(f"reported an error: {message.text}", for_good=not message.leaving)
        elif message != self.hello:  # a solver repeats its hello if the master was silent
            self.unexpected(message, now_ns)

    # --- heartbeats and clock -----------------------------------------------------------------

    def keep_alive(self, now_ns: int, silence_ns: int) -> None:
        """Send a heartbeat; the peer is lost if it was silent for longer than `silence_ns`."""
        if self.connection is None or self.lost:
            return
        silent_ns = now_ns - self.heard_ns
        if silent_ns > silence_ns and not self.computing:
            self.lose(f"silent for {silent_ns * 1e-9:.1f} s; {self.hint(now_ns)}")
        else:
            self._request_clock(now_ns)

    def measure_offset(self, now_ns: int) -> None:
        """Request the peer's clock, a few times, while answers are read promptly."""
        if self.connection is not None and not self.lost and self.clock_exchanges.count_turn():
            self._request_clock(now_ns)

    def hint(self, now_ns: int) -> str:
        """Hint for an error message: the newest unusable message, and what to check."""
        dropped = self._shared.unused.why_dropped(self.name, now_ns)
        return f"{dropped}; see its log" if dropped else "see its log"

    def _request_clock(self, now_ns: int) -> None:
        self._send(self.clock_exchanges.request(now_ns))

    def _heartbeat(self, message: Heartbeat, now_ns: int) -> None:
        if message.echo_ns == 0:
            self._send(Heartbeat(sent_ns=now_ns, echo_ns=message.sent_ns))
        elif self.clock_exchanges.is_answer(message):
            self.clock.add(message.echo_ns, message.sent_ns, now_ns)
        elif not self.clock_exchanges.is_late_answer(message):
            self.unexpected(message, now_ns)

    # --- loss and return ----------------------------------------------------------------------

    @property
    def may_return(self) -> bool:
        """Whether the peer, if it is lost now, may reconnect: a solver, if configured.

        Never a bench: a returning one must not be armed automatically.
        """
        return self._readmits and self.role == "solver" and self._shared.running

    def lose(self, reason: str, *, for_good: bool = False) -> None:
        """Handle the loss of the peer, for example after its connection has closed.

        The first reason is kept. A peer that `may_return` is only away, unless it is lost
        `for_good`.
        """
        if self.may_return and not for_good and not self.stopping and not self.lost:
            self._leave(reason)
            return
        if not self.lost:
            self.lost = reason
            if not self.stopping:
                log.info("subsystem %r is lost: %s", self.name, reason)
        self._emit(Lost(self.name, reason))

    @contextlib.contextmanager
    def despite_loss(self) -> Iterator[None]:
        """Treat the connection as usable, because a faulty bench can still be brought to rest."""
        lost, self.lost = self.lost, ""
        try:
            yield
        finally:
            self.lost = lost or self.lost

    def initialize_again(self, message: Initialize) -> bytes:
        """Encode a message that restarts a returned peer; its answer will be an event."""
        self.state = ConnectionState.RESTARTING
        return self.send(message)

    def _leave(self, reason: str) -> None:
        if self.state is ConnectionState.AWAY:
            return
        self._shared.peers.pop(self.connection, None)
        self.connection, self.state = None, ConnectionState.AWAY
        self._due.clear()
        self._emit(Left(self.name, reason))

    # --- out ----------------------------------------------------------------------------------

    def _send(self, message: Message) -> None:
        if self.connection is not None:
            self._shared.to_send.append((self.connection, encode(message)))

    def _emit(self, event: PeerEvent) -> None:
        self._shared.events.append(event)
