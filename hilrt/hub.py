"""The master's end of the wire: one non-blocking ROUTER socket for all remote subsystems.

The `Hub` owns the socket and the handshake; a `RemoteLink` is one subsystem behind it. During the
session nothing runs by itself: `RemoteLink.poll` and `RemoteLink.dispatch` move the messages, in
the master's own time. While a reply is awaited (open, initialize, arm, stop) the event loop watches
the socket's file descriptor.

That descriptor reports *edges*: it becomes readable when something has happened to the socket and
stops being so with the next operation on the socket, whichever that is, even a send. So whoever
waits on it must have taken everything before waiting (`Hub.drain` does, up to its flood limit), and
should look again now and then all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import zmq
from zmq.backend import zmq_poll

from hilrt.clock import monotonic_ns
from hilrt.errors import ConfigError, ProtocolError
from hilrt.keys import Doorkeeper
from hilrt.remote_link import RemoteLink
from hilrt.wire import (
    MAX_MESSAGE_BYTES,
    PROTOCOL_VERSION,
    Error,
    Hello,
    Message,
    Reject,
    Welcome,
    decode_from_peer,
    encode,
)

__all__ = ["Hub", "RemoteLink"]

T = TypeVar("T")

log = logging.getLogger("hilrt.hub")

HEARTBEAT_S = 0.2
#: A peer that is silent for this many heartbeats is lost.
SILENT_HEARTBEATS = 10
#: Most messages taken by one `Hub.drain`: a flooding peer cannot hold the master up.
MAX_PER_DRAIN = 1000
#: Messages queued per peer in each direction before the socket drops or refuses more.
QUEUE_MESSAGES = 1000
#: How often a waiting event loop looks at the socket unasked, s.
_LOOK_AGAIN_S = 0.01
_LINGER_MS = 200
#: Counts of messages from connections that never said a valid hello.
STRANGER = "?"
#: Kinds that count as a message of the link that is lost.
_LOST_KINDS = frozenset({"inbox_full", "send_lost"})
#: Kinds that count as a message of the link that came and could not be used.
_DROPPED_KINDS = frozenset({"malformed", "unknown_type", "oversized"})
#: Kinds for which a connection that never said a valid hello was not let in.
_REFUSED_KINDS = _DROPPED_KINDS | {"rejected", "unknown_sender", "unknown_key", "no_key"}

_NOBLOCK = int(zmq.NOBLOCK)
_NOBLOCK_MORE = _NOBLOCK | int(zmq.SNDMORE)
_POLLIN = int(zmq.POLLIN)


class Hub:
    """The ROUTER that every remote subsystem of a session connects to.

    Use: create it (it binds at once), `add` the session's remote links, start the peers with
    `address`, await the links' methods, set `epoch_ns` when session time starts, `close`.

    Parameters
    ----------
    session : str
        The session's name, told to the peers.
    listen : str
        ZeroMQ endpoint to bind; a port ``*`` takes a free one.
    heartbeat_s : float
        Longest interval between two messages of a living peer, s.
    connect_timeout : float
        How long a peer may take to connect, and to initialize, s.
    doorkeeper : Doorkeeper, optional
        Lets only peers with a known key in.
    clock : callable
        Monotonic clock, integer ns.

    Attributes
    ----------
    address : str
        The endpoint that peers connect to.
    epoch_ns : int
        Reading of the clock at session time 0, ns; 0 before the session starts.
    counters : Counter of (str, str)
        Messages that were not used, by peer and kind: ``malformed``, ``unknown_type``,
        ``oversized``, ``unexpected``, ``unknown_sender``, ``rejected``, ``inbox_full``,
        ``send_lost``, ``flood``; connections refused: ``unknown_key``, ``no_key``.
    """

    def __init__(
        self,
        session: str,
        listen: str = "tcp://127.0.0.1:*",
        *,
        heartbeat_s: float = HEARTBEAT_S,
        connect_timeout: float = 20.0,
        doorkeeper: Doorkeeper | None = None,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.session = session
        self.heartbeat_s = heartbeat_s
        self.connect_timeout = connect_timeout
        self.clock = clock
        self.epoch_ns = 0
        self.counters: Counter[tuple[str, str]] = Counter()
        self._not_used: dict[tuple[str, str], tuple[int, str]] = {}
        self.closed = False
        self._links: dict[str, RemoteLink] = {}
        self._by_identity: dict[bytes, RemoteLink] = {}
        self._heartbeat_ns = round(heartbeat_s * 1e9)
        self._turn = 0
        self._keep_ns = clock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._draining = False
        self._closed_links: list[tuple[RemoteLink, bytes | None]] = []
        self._watchers = 0
        self._watching_fd = False
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._doorkeeper = doorkeeper
        if doorkeeper is not None:
            doorkeeper.guard(self._context, self._socket)
        try:
            self.address = _bind(self._socket, listen)
        except zmq.ZMQError as error:
            if doorkeeper is not None:
                doorkeeper.close()
            self._context.destroy(linger=0)
            raise ConfigError(
                f"[master] listen = {listen!r}: {error.strerror}; "
                "choose a free address of this machine, such as tcp://127.0.0.1:*"
            ) from None
        # Asking this way is several times cheaper than reading EVENTS, or than catching the
        # exception of a receive that finds nothing, when the processor's caches are cold.
        self._readables = [(self._socket, _POLLIN)]
        self._fd = int(self._socket.get(zmq.FD))

    # --- the session's side -------------------------------------------------------------------

    def add(self, link: RemoteLink) -> None:
        """Expect a peer under ``link.name``; it is accepted from now on."""
        self._links[link.name] = link
        link.hub = self

    def session_time(self) -> float:
        """Time since `epoch_ns`, s."""
        return (self.clock() - self.epoch_ns) * 1e-9

    def fileno(self) -> int:
        """Descriptor of the socket; edge-triggered, see the module's docstring."""
        return self._fd

    def close(self) -> None:
        """Close the socket; what was sent gets a moment to leave. May be called twice."""
        if self.closed:
            return
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._unwatch()
        if self._doorkeeper is not None:
            self._count_refused(self._doorkeeper)
            self._doorkeeper.close()
        self._socket.close(linger=_LINGER_MS)
        self._context.term()

    # --- messages -----------------------------------------------------------------------------

    def send(self, link: RemoteLink, data: bytes) -> bool:
        """Send an encoded message without waiting; False, counted, when it could not be sent."""
        identity = link.identity
        if identity is None or self.closed:
            return False
        try:
            self._socket.send(identity, _NOBLOCK_MORE)
            self._socket.send(data, _NOBLOCK)
        except zmq.Again:
            self.count(link.name, "send_lost", "its queue is full, it does not read")
            return False
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                self._unreachable(link)
            else:
                link.gone(f"sending to it failed: {error.strerror}")
            return False
        if self._watching_fd and self._loop is not None:  # the send may have taken the edge
            self._loop.call_soon(self._readable)
        return True

    def _unreachable(self, link: RemoteLink) -> None:
        """A connection has closed; what the peer said before, such as why, is still to be read."""
        closed = (link, link.identity)
        if self._draining:
            if closed not in self._closed_links:
                self._closed_links.append(closed)
            return
        self.drain()
        self._closed(*closed)

    def _closed(self, link: RemoteLink, identity: bytes | None) -> None:
        if link.identity is identity:  # else the peer is back already
            link.gone("its connection closed")

    def forget(self, link: RemoteLink) -> None:
        """What still comes from a link's connection is a stranger's from now on."""
        if link.identity is not None:
            self._by_identity.pop(link.identity, None)

    def drain(self) -> None:
        """Hand everything that has arrived to the links, and see to heartbeats; never blocks."""
        if self.closed:
            return
        taken = 0
        socket = self._socket
        self._draining = True
        while zmq_poll(self._readables, 0):
            if taken == MAX_PER_DRAIN:
                self.count(STRANGER, "flood", f"more than {MAX_PER_DRAIN} messages at once")
                break
            taken += 1
            identity = socket.recv(_NOBLOCK)
            frame = socket.recv(_NOBLOCK, copy=False)
            if frame.more:
                self._drop_rest(identity)
            else:
                self._receive(identity, frame.bytes)
        self._draining = False
        while self._closed_links:
            self._closed(*self._closed_links.pop())
        now = self.clock()
        if now >= self._keep_ns:
            self._keep(now)

    def _receive(self, identity: bytes, data: bytes) -> None:
        link = self._by_identity.get(identity)
        try:
            message = decode_from_peer(data)
        except ProtocolError as error:
            name = link.name if link is not None else STRANGER
            self.count(name, error.kind, str(error))
            return
        if link is not None:
            try:
                link.deliver(message, self.clock())
            except ProtocolError as error:  # an array that does not fit the announced ports
                self.count(link.name, "malformed", f"{type(message).__name__}: {error}")
        elif isinstance(message, Hello):
            self._greet(identity, message)
        else:
            self.count(STRANGER, "unknown_sender", f"{type(message).__name__} before a hello")

    def _drop_rest(self, identity: bytes) -> None:
        while self._socket.get(zmq.RCVMORE):
            self._socket.recv(_NOBLOCK)
        link = self._by_identity.get(identity)
        name = link.name if link is not None else STRANGER
        self.count(name, "malformed", "a message of more than one frame")

    def count(self, name: str, kind: str, text: str) -> None:
        """Count a message that was not used; the first of each peer and kind is logged."""
        self.counters[name, kind] += 1
        self._not_used[name, kind] = self.clock(), text
        if name in self._links:
            self._links[name].lost += kind in _LOST_KINDS
            self._links[name].dropped += kind in _DROPPED_KINDS
        if self.counters[name, kind] == 1:
            who = f"subsystem {name!r}" if name != STRANGER else "a connection"
            log.warning("%s: %s: %s; more of these are only counted", who, kind, text)

    def why_dropped(self, name: str) -> str:
        """The newest message of a peer that could not be used, and why; empty if there is none."""
        # A peer of another version may well send types that nobody here misses.
        newest = self._newest(name, _DROPPED_KINDS - {"unknown_type"})
        newest = newest or self._newest(name, {"unknown_type"})
        return newest and f"the newest message of it that was dropped came {newest}"

    def why_refused(self, name: str) -> str:
        """Why a peer that is waited for, or else some connection, was not let in; or empty."""
        if newest := self._newest(name, {"rejected"}):
            return f"its hello was rejected {newest}"
        newest = self._newest(STRANGER, _REFUSED_KINDS)
        return newest and f"a connection was refused {newest}"

    def _newest(self, name: str, kinds: Iterable[str]) -> str:
        found = [self._not_used[name, kind] for kind in kinds if (name, kind) in self._not_used]
        if not found:
            return ""
        when_ns, text = max(found)
        return f"{(self.clock() - when_ns) * 1e-9:.1f} s ago: {text}"

    # --- handshake ----------------------------------------------------------------------------

    def _greet(self, identity: bytes, hello: Hello) -> None:
        link = self._links.get(hello.name)
        try:
            self._check_hello(link, hello)
            assert link is not None
            before = link.identity
            link.accept(identity, hello, self.clock())
        except ProtocolError as error:
            name = STRANGER if link is None else link.name
            self.count(name, "rejected", str(error))
            self._tell(identity, Reject(reason=str(error)))
            return
        self._by_identity[identity] = link
        if before is not None:
            self._tell(before, Error(text="another connection under its name took its place"))
        self.send(link, encode(Welcome(session=self.session, heartbeat_s=self.heartbeat_s)))

    def _tell(self, identity: bytes, message: Message) -> None:
        """Send to a connection that is, or is no more, nobody's."""
        with contextlib.suppress(zmq.ZMQError):
            self._socket.send(identity, _NOBLOCK_MORE)
            self._socket.send(encode(message), _NOBLOCK)

    def _check_hello(self, link: RemoteLink | None, hello: Hello) -> None:
        if hello.version != PROTOCOL_VERSION:
            raise ProtocolError(
                f"protocol version {hello.version} is not {PROTOCOL_VERSION}, the master's; "
                "use the same version of hilrt on both sides"
            )
        if link is None:
            expected = ", ".join(sorted(self._links)) or "none"
            raise ProtocolError(
                f"no remote subsystem is called {hello.name!r}; the session has: {expected}"
            )
        if hello.role != link.role:
            raise ProtocolError(
                f"subsystem {hello.name!r} is to be a {link.role}, not a {hello.role}"
            )
        if refused := link.why_not():
            raise ProtocolError(refused)

    # --- heartbeats ---------------------------------------------------------------------------

    def _keep(self, now: int) -> None:
        """See to one link; links take turns, so that no tick pays for all of them."""
        links = list(self._links.values())
        interval = self._heartbeat_ns // max(len(links), 1)
        stalled = now - self._keep_ns > 2 * self._heartbeat_ns
        self._keep_ns = now + interval
        if self._doorkeeper is not None:
            self._count_refused(self._doorkeeper)
        if not links:
            return
        if stalled:  # this process was held up: what the peers sent may still be on its way
            for link in links:
                link.heard_ns = max(link.heard_ns, now - self._silence_ns + 2 * self._heartbeat_ns)
        self._turn = (self._turn + 1) % len(links)
        links[self._turn].keep(now, self._silence_ns)

    def _count_refused(self, doorkeeper: Doorkeeper) -> None:
        for kind in doorkeeper.refused():
            what = "its key is not known" if kind == "unknown_key" else "it has no key"
            self.count(STRANGER, kind, f"refused: {what}")

    @property
    def _silence_ns(self) -> int:
        return SILENT_HEARTBEATS * self._heartbeat_ns

    # --- waiting in the event loop ------------------------------------------------------------

    async def wait(self, future: asyncio.Future[T], timeout: float) -> T:
        """Result of a future that a message sets; `TimeoutError` after `timeout` [s].

        From the first call until `close`, heartbeats are seen to even while nobody polls.
        """
        with self._watched():
            self._readable()
            return await asyncio.wait_for(future, timeout)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        self._loop = asyncio.get_running_loop()
        self._watchers += 1
        if self._watchers == 1:
            # Windows' default loop cannot watch descriptors: there the timer alone looks.
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
        if (
            self._watching_fd
            and self._loop is not None
            and int(self._socket.get(zmq.EVENTS)) & _POLLIN
        ):
            self._loop.call_soon(self._readable)

    def _background(self) -> None:
        """Timer: heartbeats while nobody polls, and a second look at the edges while waiting."""
        if self.closed or self._loop is None:
            return
        if self._watchers:
            for link in self._links.values():
                link.measure_offset()
        self._readable()
        pause = self.heartbeat_s / max(len(self._links), 1)
        if self._watchers:
            pause = min(pause, _LOOK_AGAIN_S if self._watching_fd else 0.001)
        self._timer = self._loop.call_later(pause, self._background)


def _bind(socket: zmq.Socket[bytes], listen: str) -> str:
    socket.setsockopt(zmq.LINGER, _LINGER_MS)
    # A send to a peer that has gone fails at once, instead of vanishing.
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    socket.setsockopt(zmq.SNDHWM, QUEUE_MESSAGES)
    socket.setsockopt(zmq.RCVHWM, QUEUE_MESSAGES)
    # Larger than the protocol allows by far: whoever sends it is disconnected, not buffered.
    socket.setsockopt(zmq.MAXMSGSIZE, 16 * MAX_MESSAGE_BYTES)
    # Kept by the I/O thread: finds a dead host even while a solver computes a long step.
    socket.setsockopt(zmq.HEARTBEAT_IVL, 1000)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 10_000)
    socket.bind(listen)
    return socket.get_string(zmq.LAST_ENDPOINT)
