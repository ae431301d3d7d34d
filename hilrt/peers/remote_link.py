"""Links to subsystems in other processes, through the `Hub`."""

from __future__ import annotations

import abc
import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from hilrt.errors import NoAnswer, PeerLost, ProtocolError
from hilrt.link import Command, Link, SessionContext
from hilrt.peers.hub import Hub
from hilrt.peers.peer_events import (
    DROPPED_KINDS,
    LOST_KINDS,
    Accepted,
    CameBack,
    Contested,
    Left,
    Lost,
    NotUsed,
    PeerEvent,
)
from hilrt.peers.remote_peer import ConnectionState, RemotePeer
from hilrt.peers.transport.base import process_group
from hilrt.peers.wire import (
    Event,
    FromPeer,
    Hello,
    Initialize,
    Initialized,
    Message,
    Role,
    Stop,
    Stopped,
    pack,
)
from hilrt.solver import Floats, Port, Sample

if TYPE_CHECKING:
    from pathlib import Path

    from hilrt.config.session_file import SessionFile
    from hilrt.config.structs import SubsystemOptions

A = TypeVar("A", bound=Message)

log = logging.getLogger("hilrt.peers.hub")

#: Maximum events kept until they are collected.
REPORTS = 1000


class RemoteLink(Link):
    """Base of links whose subsystem is a process connected to the hub.

    A subclass sets `role`, builds its messages in `step`, and puts samples into `inbox` in
    `received`. It may override `commands`, `check_ports`, `accepted`, `stop_timeout`, `arm`, `safe`
    (with `request`) and `unanswered`.

    Attributes
    ----------
    hub, peer : Hub, RemotePeer
        Set by `Hub.add`, before `open`; the peer is the protocol's state of the subsystem.
    events : deque of Event
        Events reported by the peer; the session collects and logs them.
    sent_ns : int
        Time at which the outstanding step was sent, on the hub's clock.
    operated : bool
        Whether an operator can answer the subsystem's prompts.
    """

    remote = True
    #: Role that the peer must announce.
    role: ClassVar[Role]
    #: Time limit for the peer to end regularly, s.
    stop_timeout: float = 2.0

    events: deque[Event]

    def __init__(self, name: str, options: SubsystemOptions, folder: Path) -> None:
        super().__init__(name, options, folder)
        self.hub: Hub = cast("Hub", None)
        self.peer: RemotePeer = cast("RemotePeer", None)
        self.events = deque(maxlen=REPORTS)
        self.n_inputs = self.n_outputs = 0
        self.sent_ns = 0
        self.operated = False
        self.returns = self
        self._started = False
        self._group: int | None = None
        self._came_back = False
        self._pending: dict[type[Any], asyncio.Future[Any]] = {}

    # --- for subclasses -----------------------------------------------------------------------

    def received(self, message: FromPeer, at_ns: int) -> None:
        """Handle a message read at `at_ns`, on the hub's clock.

        A subclass overrides it for messages with samples, and passes on all others. Called while
        the hub receives, on the critical path. A `ProtocolError` counts the message as unusable.
        """
        if self._pending and self._answer(message):
            return
        if isinstance(message, Event):
            self._report(message)
        elif isinstance(message, Initialized):  # of a peer that returned
            self.inbox.put(self.initialized(message), self.arrival_time(at_ns))
        else:
            self.peer.unexpected(message, self.hub.clock())

    @property
    def readmits(self) -> bool:
        """Whether a peer that was lost during the session may reconnect."""
        return self.options.late.rejoin and not self.physical

    def check_ports(self, inputs: tuple[Port, ...], outputs: tuple[Port, ...]) -> None:
        """Raise `ProtocolError` to reject a peer with these ports."""

    def accepted(self, hello: Hello) -> None:
        """Store the description of an accepted peer."""
        self.inputs, self.outputs = self.peer.inputs, self.peer.outputs
        self.n_inputs = sum(port.size for port in self.inputs)
        self.n_outputs = sum(port.size for port in self.outputs)

    @abc.abstractmethod
    def initialized(self, message: Initialized) -> Sample:
        """Sample of the answer to `initialize`; `ProtocolError` if it does not fit."""

    async def request(self, message: Message, answer: type[A], timeout: float) -> A:
        """Send `message` and return the peer's `answer`.

        Raises
        ------
        PeerLost
            If the peer is lost or reports an error first; `NoAnswer` if there is no answer within
            `timeout` [s].
        """
        self.send(message)
        return await self._await_answer(answer, timeout, f"answer to {type(message).__name__}")

    def send(self, message: Message) -> bool:
        """Send a message without waiting; return False, and count it, if that fails."""
        return self.hub.send(self.peer, self.peer.send(message))

    def unanswered(self, reason: str) -> None:
        """Handle a missing answer to `stop`; models do nothing."""

    def gone(self, reason: str, *, for_good: bool = False) -> None:
        """Handle the loss of the peer, such as the end of its process; see `RemotePeer.lose`."""
        self.hub.lose(self.peer, reason, for_good=for_good)

    def process_ended(self, pid: int, text: str) -> None:
        """Handle the end of the process that the session started; `text` describes it.

        This ends that process's connection, but not a later one of another process.
        """
        unknown = not self._group and not self._came_back  # it may be the only process
        if self.peer.connection is None or self._group == pid or unknown:
            self.gone(f"its process {text}")
            return
        text = f"the process that the session started {text}; the connection belongs to another: "
        self._report(Event(level="warning", cause="process_ended", text=text + self._origin()))

    def arrival_time(self, at_ns: int) -> float:
        """Session time of a reading of the hub's clock, s."""
        return (at_ns - self.hub.epoch_ns) * 1e-9

    # --- lost and back ------------------------------------------------------------------------

    @property
    def returned(self) -> bool:
        """Whether a lost peer is connected again, and waits for `initialize_again`."""
        return self.peer.state is ConnectionState.RETURNED

    def initialize_again(self, t0: float, u0: Floats) -> None:
        """Initialize a returned peer at `t0` [s]; its answer goes to `inbox`.

        Never waits. `u0` has the shape (n_inputs,).
        """
        self.absent = ""
        self.hub.send(self.peer, self.peer.initialize_again(Initialize(t0=t0, u0=pack(u0))))
        text = f"is back, from {self._origin()}, and initializes again at t = {t0:g} s; "
        text += "its earlier state is lost"
        self._report(Event(level="warning", cause="peer_back", text=text))

    def _origin(self) -> str:
        """Origin of the connection."""
        return self.peer.origin.where

    # --- Link ---------------------------------------------------------------------------------

    def prepare(self, context: SessionContext) -> list[Command]:
        """Register the peer with the hub; see `Link.prepare`."""
        assert isinstance(context.carrier, Hub)  # only a session with processes has remote peers
        context.carrier.add(self)
        self.operated = context.operated
        commands = self.commands(context.file)
        self._started = bool(commands)
        return commands

    def commands(self, session: SessionFile) -> list[Command]:
        """The session file's ``spawn`` command, with the address to connect to and the name."""
        if not self.options.spawn:
            return []
        argv = [*self.options.spawn, "--connect", self.hub.address, "--name", self.name]
        return [Command(self.name, argv)]

    async def open(self) -> None:
        """Wait for the peer's valid hello."""
        if self.peer.connection is None:
            await self._await_answer(Hello, self.hub.connect_timeout, "connection")

    async def initialize(self, t0: float, u0: Floats) -> Sample:
        """See `Link.initialize`; silence does not count, because loading may take long."""
        message = Initialize(t0=t0, u0=pack(u0))
        answer = await self.request(message, Initialized, self.hub.connect_timeout)
        try:
            return self.initialized(answer)
        except ProtocolError as error:
            raise PeerLost(self.name, f"its answer to Initialize is invalid: {error}") from None

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        """See `Link.dispatch`; `Hub.flush` sends the message.

        A message that cannot be queued is counted as ``send_lost``; a peer that is away receives
        none.
        """
        if not self.absent:
            self.hub.hold(self, self.step(tick, t, h, pack(coefficients)))

    @abc.abstractmethod
    def step(self, tick: int, t: float, h: float, coefficients: bytes) -> Message:
        """Build the message sent by `dispatch`."""

    def receive(self) -> None:
        """See `Link.receive`; the hub is shared, and may pass messages to any link."""
        self.hub.drain()
        if self.peer.lost:
            raise PeerLost(self.name, self.peer.lost)

    def fileno(self) -> int | None:
        """Descriptor shared by all links of the hub; edge-triggered, see `hilrt.peers.hub`."""
        return self.hub.fileno()

    async def stop(self, reason: str) -> None:
        """Stop the peer regularly; failures are logged."""
        peer = self.peer
        if peer.connection is None or peer.lost or peer.stopping or self.hub.closed:
            return
        try:
            await self.request(Stop(reason=reason), Stopped, self.stop_timeout)
        except PeerLost as error:
            log.warning("stopping %s", error)
            self.unanswered(error.reason)

    # --- for the hub --------------------------------------------------------------------------

    def handle(self, event: PeerEvent) -> None:
        """Handle one event of the peer."""
        if isinstance(event, NotUsed):
            self.lost += event.kind in LOST_KINDS
            self.dropped += event.kind in DROPPED_KINDS
        elif isinstance(event, (Accepted, CameBack)):
            # A process started by the session leads a group with the same number.
            self._group = process_group(event.origin, event.hello.pid)
            if isinstance(event, Accepted):
                self.accepted(event.hello)
                self._answer(event.hello)
            else:
                self._came_back = True
                self.hub.changed[self] = None
        elif isinstance(event, Contested):
            self._report(Event(level="warning", cause="takeover", text=event.text))
        elif isinstance(event, (Left, Lost)):
            if isinstance(event, Left):
                self.absent = event.reason
                text = f"{event.reason}; it may return until its samples have been missing for "
                text += "too long"
                self._report(Event(level="warning", cause="peer_lost", text=text))
            else:
                self.hub.changed[self] = None
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(PeerLost(self.name, event.reason))

    # --- inside -------------------------------------------------------------------------------

    def _report(self, event: Event) -> None:
        """Keep an event for the session's log."""
        self.events.append(event)
        self.hub.reporting[self] = None

    def _answer(self, message: Message) -> bool:
        future = self._pending.get(type(message))
        if future is None or future.done():
            return False
        future.set_result(message)
        return True

    async def _await_answer(self, answer: type[A], timeout: float, what: str) -> A:
        if self.peer.lost:
            raise PeerLost(self.name, self.peer.lost)
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._pending[answer] = future
        try:
            return await self.hub.wait(future, timeout)
        except TimeoutError:
            self.peer.give_up(answer, self.hub.clock())
            reason = f"no {what} within {timeout:g} s; {self._hint(answer)}"
            raise NoAnswer(self.name, reason) from None
        except asyncio.CancelledError:
            self.peer.give_up(answer, self.hub.clock())
            raise
        finally:
            self._pending.pop(answer, None)

    def _hint(self, answer: type[Message]) -> str:
        """Possible reasons for a missing answer, and what to check."""
        now_ns = self.hub.clock()
        if answer is not Hello:
            return self.peer.hint(now_ns)
        refused = self.hub.protocol.unused.why_refused(self.name, now_ns)
        start = self._how_to_start() or "see its log"
        return f"{refused}; {start}" if refused else start

    def _how_to_start(self) -> str:
        """Address and command for a peer that the session does not start."""
        if self._started:
            return ""
        address = self.hub.address
        return (
            f"the session waits for it at {address}, and has no spawn for it: start it with "
            f"`hilrt {self.role} MODULE:CLASS --connect {address} --name {self.name}`"
        )
