"""The master's end of the wire: where all remote subsystems of a session connect.

The `Hub` owns the doors (one for each transport) and the handshake; a `RemoteLink` is one subsystem
behind it. During the session nothing runs by itself: `RemoteLink.poll` and `RemoteLink.dispatch`
move the messages, in the master's own time. While a reply is awaited (open, initialize, arm, stop)
the event loop watches the doors' file descriptor.

That descriptor may report *edges* (`hilrt.exchange.transport.zeromq`). So whoever waits on it must
have taken everything before waiting (`Hub.drain` does, up to its flood limit), and should look
again now and then all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

from hilrt.errors import ProtocolError
from hilrt.exchange.keys import Doorkeeper
from hilrt.exchange.remote_link import RemoteLink
from hilrt.exchange.transport import local
from hilrt.exchange.transport.base import Door
from hilrt.exchange.transport.zeromq import Router
from hilrt.exchange.unused_messages import DROPPED_KINDS, LOST_KINDS, STRANGER, UnusedMessages
from hilrt.exchange.wire import (
    PROTOCOL_VERSION,
    Error,
    Hello,
    Message,
    Reject,
    Welcome,
    decode_from_peer,
    encode,
)
from hilrt.timing.clock import monotonic_ns

__all__ = ["Hub", "RemoteLink"]

T = TypeVar("T")

log = logging.getLogger("hilrt.exchange.hub")

HEARTBEAT_S = 0.2
#: A peer that is silent for this many heartbeats is lost.
SILENT_HEARTBEATS = 10
#: Most messages taken by one `Hub.drain`: a flooding peer cannot hold the master up.
MAX_PER_DRAIN = 1000
#: How often a waiting event loop looks at the doors unasked, s.
_LOOK_AGAIN_S = 0.01
_LINGER_MS = 200


class Hub:
    """What every remote subsystem of a session connects to.

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
    direct : bool
        Also let processes of this machine in without ZeroMQ, where the system has such a way; not
        with a doorkeeper, whose keys are ZeroMQ's.
    clock : callable
        Monotonic clock, integer ns.

    Attributes
    ----------
    address : str
        The endpoint that peers connect to.
    epoch_ns : int
        Reading of the clock at session time 0, ns; 0 before the session starts.
    unused : UnusedMessages
    counters : Counter of (str, str)
        Of them, by peer and kind: ``malformed``, ``unknown_type``,
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
        direct: bool = True,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.session = session
        self.heartbeat_s = heartbeat_s
        self.connect_timeout = connect_timeout
        self.clock = clock
        self.epoch_ns = 0
        self.unused = UnusedMessages(clock)
        self.counters = self.unused.counters
        self.closed = False
        self._links: dict[str, RemoteLink] = {}
        self._by_key: dict[Hashable, RemoteLink] = {}
        self._heartbeat_ns = round(heartbeat_s * 1e9)
        self._turn = 0
        self._keep_ns = clock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._draining = False
        self._closed_links: list[tuple[RemoteLink, Hashable]] = []
        self._watchers = 0
        self._watching_fd = False
        self._doorkeeper = doorkeeper
        router = Router(listen, doorkeeper)
        self.address = router.address
        self._doors: list[Door] = [router]
        #: Asked at every drain: those that somebody uses, or may still come to.
        self._used: list[Door] = self._doors
        self._fd = router.fileno()
        self._epoll: select.epoll | None = None
        if direct and doorkeeper is None and local.available():
            self._open_direct()

    # --- the session's side -------------------------------------------------------------------

    def add(self, link: RemoteLink) -> None:
        """Expect a peer under ``link.name``; it is accepted from now on."""
        self._links[link.name] = link
        link.hub = self
        self._look_who_is_where()

    def session_time(self) -> float:
        """Time since `epoch_ns`, s."""
        return (self.clock() - self.epoch_ns) * 1e-9

    def fileno(self) -> int:
        """Descriptor of all doors; it may report edges, see the module's docstring."""
        return self._fd

    def close(self) -> None:
        """Close the doors; what was sent gets a moment to leave. May be called twice."""
        if self.closed:
            return
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._unwatch()
        if self._doorkeeper is not None:
            self._count_refused(self._doorkeeper)
            self._doorkeeper.close()
        if self._epoll is not None:
            self._epoll.close()
        for door in self._doors:
            door.close(_LINGER_MS)

    def _open_direct(self) -> None:
        """Let peers of this machine in by the shorter way, too, and watch both doors as one."""
        try:
            door = local.LocalDoor(self.address)
        except OSError as error:
            log.warning("peers of this machine connect by TCP, which is slower: %s", error)
            return
        self._epoll = select.epoll()
        self._epoll.register(door.fileno(), select.EPOLLIN)
        self._epoll.register(self._fd, select.EPOLLIN)
        self._doors.append(door)
        self._fd = self._epoll.fileno()

    # --- messages -----------------------------------------------------------------------------

    def send(self, link: RemoteLink, data: bytes) -> bool:
        """Send an encoded message without waiting; False, counted, when it could not be sent."""
        key = link.key
        if key is None or self.closed:
            return False
        try:
            link.door.send(key, data)
        except BlockingIOError:
            self.count(link.name, "send_lost", "its queue is full, it does not read")
            return False
        except BrokenPipeError:
            self._unreachable(link)
            return False
        except OSError as error:
            link.gone(f"sending to it failed: {error.strerror}")
            return False
        if self._watching_fd and self._loop is not None:  # the send may have taken the edge
            self._loop.call_soon(self._readable)
        return True

    def _unreachable(self, link: RemoteLink) -> None:
        """A connection has closed; what the peer said before, such as why, is still to be read."""
        closed = (link, link.key)
        if self._draining:
            if closed not in self._closed_links:
                self._closed_links.append(closed)
            return
        self.drain()
        self._closed(*closed)

    def _closed(self, link: RemoteLink, key: Hashable) -> None:
        if link.key is key:  # else the peer is back already
            link.gone("its connection closed")

    def forget(self, link: RemoteLink) -> None:
        """What still comes from a link's connection is a stranger's from now on."""
        if link.key is not None:
            self._by_key.pop(link.key, None)
            self._used = self._doors

    def _look_who_is_where(self) -> None:
        """A door that nobody uses is asked with the heartbeats only: each costs a system call."""
        links = self._links.values()
        expects = any(link.key is None for link in links)
        used = [door for door in self._doors if any(link.door is door for link in links)]
        self._used = self._doors if expects else used

    def drain(self) -> None:
        """Hand everything that has arrived to the links, and see to heartbeats; never blocks."""
        if self.closed:
            return
        self._draining = True
        now = self.clock()
        keeps = now >= self._keep_ns
        for door in self._doors if keeps or self._watchers else self._used:
            for taken, (key, message) in enumerate(door.take(), start=1):
                if isinstance(message, bytes):
                    self._receive(door, key, message)
                else:
                    self._not_a_message(key, message)
                if taken == MAX_PER_DRAIN:
                    self.count(STRANGER, "flood", f"{MAX_PER_DRAIN} messages at once")
                    break
        self._draining = False
        while self._closed_links:
            self._closed(*self._closed_links.pop())
        if keeps:
            self._keep(now)

    def _receive(self, door: Door, key: Hashable, data: bytes) -> None:
        link = self._by_key.get(key)
        try:
            message = decode_from_peer(data)
        except ProtocolError as error:
            self._not_a_message(key, error)
            return
        if link is not None:
            try:
                link.deliver(message, self.clock())
            except ProtocolError as error:  # an array that does not fit the announced ports
                self.count(link.name, "malformed", f"{type(message).__name__}: {error}")
        elif isinstance(message, Hello):
            self._greet(door, key, message)
        else:
            self.count(STRANGER, "unknown_sender", f"{type(message).__name__} before a hello")

    def _not_a_message(self, key: Hashable, error: Exception) -> None:
        """What came cannot be used, or nothing will come any more."""
        link = self._by_key.get(key)
        if isinstance(error, ProtocolError):
            self.count(link.name if link is not None else STRANGER, error.kind, str(error))
        elif link is not None:
            self._closed_links.append((link, key))

    def count(self, name: str, kind: str, text: str) -> None:
        """Count a message that was not used, also as the link's."""
        self.unused.count(name, kind, text)
        if name in self._links:
            self._links[name].lost += kind in LOST_KINDS
            self._links[name].dropped += kind in DROPPED_KINDS

    # --- handshake ----------------------------------------------------------------------------

    def _greet(self, door: Door, key: Hashable, hello: Hello) -> None:
        link = self._links.get(hello.name)
        try:
            self._check_hello(link, hello)
            assert link is not None
            before = link.door, link.key
            link.accept(door, key, hello, self.clock())
        except ProtocolError as error:
            name = STRANGER if link is None else link.name
            self.count(name, "rejected", str(error))
            self._tell(door, key, Reject(reason=str(error)))
            return
        self._by_key[key] = link
        self._look_who_is_where()
        if before[1] is not None:
            self._tell(*before, Error(text="another connection under its name took its place"))
        self.send(link, encode(Welcome(session=self.session, heartbeat_s=self.heartbeat_s)))

    def _tell(self, door: Door, key: Hashable, message: Message) -> None:
        """Send to a connection that is, or is no more, nobody's."""
        with contextlib.suppress(OSError):
            door.send(key, encode(message))

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
        # Each is asked: that alone makes the descriptor report what comes next.
        more = [door.waiting() for door in self._doors]
        if any(more) and self._watching_fd and self._loop is not None:
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
