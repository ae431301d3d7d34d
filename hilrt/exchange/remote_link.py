"""A subsystem in another process, as the master drives it through the `Hub`."""

from __future__ import annotations

import abc
import asyncio
import logging
import math
from collections import deque
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from hilrt.errors import PeerLost, ProtocolError
from hilrt.exchange.clock_offset import ClockOffset
from hilrt.exchange.wire import (
    Advance,
    Error,
    Event,
    FromPeer,
    Heartbeat,
    Hello,
    Initialize,
    Initialized,
    Message,
    Role,
    SetPoints,
    Stop,
    Stopped,
    encode,
    pack,
    ports_from_infos,
)
from hilrt.link import Arrival, Command, Link
from hilrt.solver import Floats, Sample

if TYPE_CHECKING:
    from pathlib import Path

    from hilrt.config.session_file import SessionFile
    from hilrt.config.structs import SubsystemOptions
    from hilrt.exchange.hub import Hub
    from hilrt.exchange.transport.base import Door

A = TypeVar("A", bound=Message)

log = logging.getLogger("hilrt.exchange.hub")

#: Arrivals and events that are kept until they are taken.
INBOX = 1000
#: Exchanges that measure a peer's clock right after it connected.
OFFSET_EXCHANGES = 12
_QUESTIONS = 16
_HANDLED = frozenset({Heartbeat, Error, Event, Hello, Initialized, Stopped})


class RemoteLink(Link):
    """Base of the links whose subsystem is a process behind the hub.

    A subclass sets `role` and `step_message` and implements `receive`. It may override
    `accept_ports`, `stop_timeout`, `arm`, `safe` (with `request`) and `unanswered`.

    Attributes
    ----------
    hub : Hub
        Set by `Hub.add`, before `open`.
    door, key : Door, hashable or None
        The accepted connection: where it came in, and its key there; None if there is none.
    hello : Hello or None
        What the peer said of itself.
    clock : ClockOffset
        Maps the peer's clock readings to the master's.
    computing : bool
        Set while the peer owes a result and may be unable to send heartbeats; its silence does not
        count then, the caller's own deadline does.
    events : deque of Event
        What the peer reported for people; the session takes and logs them.
    absent : str
        Why the peer cannot be given steps, if it was lost and may come back: until it has been
        told to initialize again.
    returned : bool
        A peer that was lost is connected again, and waits for `initialize_again`.
    sent_ns, round_trip_us, way_us : int, float, float
        When the outstanding step was sent, on the hub's clock; of the newest answer, the time from
        then until it was read, and until the peer took the step, by the peer's clock [µs].
    """

    #: What the peer must say it is.
    role: ClassVar[Role]
    #: Message that `dispatch` sends.
    step_message: ClassVar[type[Advance] | type[SetPoints]]
    #: How long the peer may take to end in order, s.
    stop_timeout: float = 2.0

    def __init__(self, name: str, options: SubsystemOptions, folder: Path) -> None:
        super().__init__(name, options, folder)
        self.hub: Hub = cast("Hub", None)
        self.door: Door = cast("Door", None)
        self.key: Hashable = None
        self.hello: Hello | None = None
        self.clock = ClockOffset()
        self.computing = False
        self.heard_ns = 0
        self.events: deque[Event] = deque(maxlen=INBOX)
        self.absent = ""
        self.returned = False
        self.sent_ns = 0
        self.round_trip_us = self.way_us = math.nan
        self._restarting = False
        self._inbox: deque[Arrival] = deque()
        self._lost: str | None = None
        self._stopped = False
        self._pending: dict[type[Any], asyncio.Future[Any]] = {}
        self._questions: deque[int] = deque(maxlen=_QUESTIONS)
        self._offset_exchanges = OFFSET_EXCHANGES

    # --- for subclasses -----------------------------------------------------------------------

    @abc.abstractmethod
    def receive(self, message: FromPeer, t_arrived: float) -> Arrival | None:
        """Turn a message that nobody awaits into an arrival; None when it makes none.

        Called from `Hub.drain`, on the critical path. `t_arrived` is session time, s. Raise
        `ProtocolError` for a message that cannot be used (it is counted), or call `unexpected`.
        """

    def accept_ports(self, hello: Hello) -> None:
        """Take `inputs` and `outputs` from the hello; raise `ProtocolError` to reject the peer."""
        self.inputs = ports_from_infos(hello.inputs, "input")
        self.outputs = ports_from_infos(hello.outputs, "output")
        self.n_inputs = sum(port.size for port in self.inputs)
        self.n_outputs = sum(port.size for port in self.outputs)

    @abc.abstractmethod
    def initialized(self, message: Initialized) -> Sample:
        """Sample of the answer to `initialize`; `ProtocolError` when it does not fit."""

    async def request(self, message: Message, answer: type[A], timeout: float) -> A:
        """Send `message` and return the peer's `answer`.

        Raises
        ------
        PeerLost
            If it does not come within `timeout` [s], or the peer goes or reports an error first.
        """
        self.send(message)
        return await self._await_answer(answer, timeout, f"answer to {type(message).__name__}")

    def send(self, message: Message) -> bool:
        """Send a message without waiting; False, and counted, when it could not be sent."""
        return self.hub.send(self, encode(message))

    def unanswered(self, reason: str) -> None:
        """Take note that the peer did not answer to `stop`, and why; models: nothing."""

    def unexpected(self, message: Message) -> None:
        """Count a message that makes no sense now."""
        kind = type(message).__name__
        self.hub.count(self.name, "unexpected", f"{kind} at the wrong time")

    def gone(self, reason: str, *, for_good: bool = False) -> None:
        """The peer is no more, for example because its process ended; `poll` says so from now on.

        The first reason is kept. A peer that `may_return` is only absent, unless it `for_good`.
        """
        if self.may_return and not for_good and not self._stopped and self._lost is None:
            self._leave(reason)
        elif self._lost is None:
            self._lost = reason
            if not self._stopped:
                log.info("subsystem %r is lost: %s", self.name, reason)  # `poll` says it aloud
        for future in self._pending.values():
            if not future.done():
                future.set_exception(PeerLost(self.name, self._lost or reason))

    @property
    def may_return(self) -> bool:
        """Whether a peer that is lost now may take its place again: a solver, on request.

        Never a bench: one that comes back must not be armed by itself.
        """
        return self.options.late.rejoin and not self.physical and self.hub.epoch_ns != 0

    def why_not(self) -> str:
        """Why another hello under this name is refused; empty if it is not."""
        if self.hello is None or (self.may_return and self._lost is None):
            return ""
        if self.physical:
            return (
                f"bench {self.name!r} is connected already, or was lost: one that comes back is "
                "never armed by itself; end this session and start another one"
            )
        if self._lost is None:
            return (
                f"subsystem {self.name!r} is already connected; "
                "end the other process or use another name"
            )
        return (
            f"subsystem {self.name!r} was lost ({self._lost}) and is not taken back; with late = "
            "{ rejoin = true } in its table one whose process or connection ended would be"
        )

    def initialize_again(self, t0: float, u0: Floats) -> None:
        """Have a peer that came back initialize at `t0` [s]; its answer will be an arrival.

        Never waits. `u0` has the shape (n_inputs,).
        """
        self.absent, self.returned, self._restarting = "", False, True
        self.computing = True  # may load for long; its missing samples are counted
        self.send(Initialize(t0=t0, u0=pack(u0)))
        text = f"is back and initializes again at t = {t0:g} s; what it knew before is lost"
        self.events.append(Event(level="warning", cause="peer_back", text=text))

    def where_to_look(self) -> str:
        """For an error: the newest message that could not be used, and where else to look."""
        dropped = self.hub.unused.why_dropped(self.name)
        return f"{dropped}; see its log" if dropped else "see its log"

    # --- Link ---------------------------------------------------------------------------------

    def commands(self, session: SessionFile) -> list[Command]:
        """The session file's ``spawn`` command, told where to connect and under which name."""
        if not self.options.spawn:
            return []
        argv = [*self.options.spawn, "--connect", self.hub.address, "--name", self.name]
        return [Command(self.name, argv)]

    async def open(self) -> None:
        """Wait until the peer has said a valid hello."""
        if self.key is None:
            await self._await_answer(Hello, self.hub.connect_timeout, "connection")

    def _how_to_start(self) -> str:
        """For a peer that the session does not start: where it is waited for, and the command."""
        if self.options.spawn or type(self).commands is not RemoteLink.commands:
            return ""
        address = self.hub.address
        return (
            f"it is waited for at {address}, and the session has no spawn for it: start it with "
            f"`hilrt {self.role} MODULE:CLASS --connect {address} --name {self.name}`"
        )

    async def initialize(self, t0: float, u0: Floats) -> Sample:
        """See `Link.initialize`."""
        self.computing = True  # may load for long; the deadline of the request applies
        try:
            message = Initialize(t0=t0, u0=pack(u0))
            answer = await self.request(message, Initialized, self.hub.connect_timeout)
        finally:
            self.computing = False
            self.heard_ns = self.hub.clock()
        try:
            return self.initialized(answer)
        except ProtocolError as error:
            raise PeerLost(self.name, f"its answer to Initialize is unusable: {error}") from None

    def dispatch(self, tick: int, t: float, h: float, coefficients: Floats) -> None:
        """See `Link.dispatch`; a message that cannot be queued is counted as ``send_lost``."""
        self.send_step(self.encoded(tick, t, h, coefficients))

    def encoded(self, tick: int, t: float, h: float, coefficients: Floats) -> bytes:
        """What `dispatch` sends, for `send_step`."""
        return encode(self.step_message(tick=tick, t=t, h=h, coefficients=pack(coefficients)))

    def send_step(self, data: bytes) -> None:
        """Send a step, and note when."""
        self.sent_ns = self.hub.clock()
        self.hub.send(self, data)

    def poll(self) -> Sequence[Arrival]:
        """See `Link.poll`."""
        if not self._inbox:  # else another link's poll has just drained the socket
            self.hub.drain()
        return self.take()

    def take(self) -> Sequence[Arrival]:
        """See `Link.take`: what the hub has handed over."""
        if self._lost is not None:
            raise PeerLost(self.name, self._lost)
        if not self._inbox:
            return ()
        arrivals = list(self._inbox)
        self._inbox.clear()
        return arrivals

    def fileno(self) -> int | None:
        """Descriptor shared by all links of the hub; edge-triggered, see `hilrt.exchange.hub`."""
        return self.hub.fileno()

    async def stop(self, reason: str) -> None:
        """End the peer in order; whatever goes wrong is logged."""
        if self.key is None or self._lost is not None or self._stopped or self.hub.closed:
            return
        self._stopped = True
        try:
            await self.request(Stop(reason=reason), Stopped, self.stop_timeout)
        except PeerLost as error:
            log.warning("stopping %s", error)
            self.unanswered(error.reason)

    async def close(self) -> None:
        """The hub, which all links share, is closed by the session."""
        self._inbox.clear()

    # --- for the hub --------------------------------------------------------------------------

    def accept(self, door: Door, key: Hashable, hello: Hello, now: int) -> None:
        """Take the peer's hello; `ProtocolError` rejects it."""
        if self.hello is None:
            self.accept_ports(hello)
        else:
            self._take_back(hello)
        self.door, self.key = door, key
        self.hello = hello
        self.heard_ns = now
        self._answer(hello)

    def deliver(self, message: FromPeer, now: int) -> None:
        """Take one message of the accepted peer, read at `now` [ns]."""
        self.heard_ns = now
        if self._pending and self._answer(message):
            return
        if type(message) in _HANDLED:  # one look-up on the way of every sample, not six tests
            self._handle(message, now)
            return
        arrival = self.receive(message, (now - self.hub.epoch_ns) * 1e-9)
        if arrival is not None:
            if len(self._inbox) >= INBOX:
                self._inbox.popleft()
                self.hub.count(self.name, "inbox_full", "the oldest arrival is dropped")
            self._inbox.append(arrival)

    def _handle(self, message: FromPeer, now: int) -> None:
        """Messages that mean the same to every link."""
        if isinstance(message, Heartbeat):
            self._heartbeat(message, now)
        elif isinstance(message, Error):
            self.gone(f"reported an error: {message.text}", for_good=not message.leaving)
        elif isinstance(message, Event):
            self.events.append(message)
        elif isinstance(message, Initialized) and self._restarting:
            sample = self.initialized(message)
            self._restarting = self.computing = False
            self._inbox.append(Arrival(-1, sample, (now - self.hub.epoch_ns) * 1e-9))
        elif message != self.hello:  # who has not heard us for a while says hello again
            self.unexpected(message)

    def keep(self, now: int, silence_ns: int) -> None:
        """Send a heartbeat; the peer is lost if it was silent for longer than `silence_ns`."""
        if self.key is None or self._lost is not None:
            return
        silent = now - self.heard_ns
        if silent > silence_ns and not self.computing:
            self.gone(f"silent for {silent * 1e-9:.1f} s; {self.where_to_look()}")
        else:
            self._ask(now)

    def measure_offset(self) -> None:
        """Ask for the peer's clock while answers are read promptly; a few times only."""
        if self._offset_exchanges and self.key is not None and self._lost is None:
            self._offset_exchanges -= 1
            self._ask(self.hub.clock())

    # --- inside -------------------------------------------------------------------------------

    def _leave(self, reason: str) -> None:
        """Wait for the peer to come back, which it was told it may; nobody else waits for it."""
        if self.absent and self.key is None:
            return
        self.hub.forget(self)
        self.absent, self.key = reason, None
        self.returned = self._restarting = self.computing = False
        text = f"{reason}; it may come back until its samples have been missing for too long"
        self.events.append(Event(level="warning", cause="peer_lost", text=text))

    def _take_back(self, hello: Hello) -> None:
        """A peer is back, or another one in its place; `ProtocolError` if it has other ports."""
        inputs = ports_from_infos(hello.inputs, "input")
        outputs = ports_from_infos(hello.outputs, "output")
        if (inputs, outputs) != (self.inputs, self.outputs):
            raise ProtocolError(
                f"subsystem {self.name!r} has other ports than before; start the same model"
            )
        self._leave("another connection has taken its place")
        self.returned = True
        self.clock, self._offset_exchanges = ClockOffset(), OFFSET_EXCHANGES
        self._questions.clear()
        self._inbox.clear()

    def _ask(self, now: int) -> None:
        self._questions.append(now)
        self.send(Heartbeat(sent_ns=now))

    def _heartbeat(self, message: Heartbeat, now: int) -> None:
        if message.echo_ns == 0:
            self.send(Heartbeat(sent_ns=now, echo_ns=message.sent_ns))
        elif message.echo_ns in self._questions:
            self._questions.remove(message.echo_ns)
            self.clock.add(message.echo_ns, message.sent_ns, now)
        else:
            self.unexpected(message)

    def _answer(self, message: Message) -> bool:
        future = self._pending.get(type(message))
        if future is None or future.done():
            return False
        future.set_result(message)
        return True

    async def _await_answer(self, answer: type[A], timeout: float, what: str) -> A:
        if self._lost is not None:
            raise PeerLost(self.name, self._lost)
        future: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._pending[answer] = future
        try:
            return await self.hub.wait(future, timeout)
        except TimeoutError:
            reason = f"no {what} within {timeout:g} s; {self._hint(answer)}"
            raise PeerLost(self.name, reason) from None
        finally:
            self._pending.pop(answer, None)

    def _hint(self, answer: type[Message]) -> str:
        """Why an awaited answer may not have come, and where to look."""
        if answer is not Hello:
            return self.where_to_look()
        refused = self.hub.unused.why_refused(self.name)
        start = self._how_to_start() or "see its log"
        return f"{refused}; {start}" if refused else start
