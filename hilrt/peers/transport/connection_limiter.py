"""Limit on the number of connections of a bound ZeroMQ socket.

ZeroMQ accepts every connection: thousands of strangers would use up all descriptors of the process,
and their handshakes all the time of a processor. `zmq_unbind` also ends existing connections.
Therefore, on Linux, the kernel drops connection requests to the listening socket while none is
expected, or too many arrive; existing connections have their own sockets. The other side retries
after a second or more. Elsewhere connections are only counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import socket
import struct
import sys
from collections.abc import Callable
from typing import Final

import zmq
from zmq.backend import zmq_poll

from hilrt.peers.transport.base import SPARE_CONNECTIONS
from hilrt.timing.monotonic import monotonic_ns

Socket = zmq.Socket[bytes]

#: ZeroMQ's event for a connection with a wrong secret.
REFUSED: Final = int(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
#: Likewise with another mechanism; the second event occurs if the other side ended it first.
_MISSING: Final = int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL)
_UNFINISHED: Final = int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
_ACCEPTED: Final = int(zmq.EVENT_ACCEPTED)
_ENDED: Final = int(zmq.EVENT_DISCONNECTED)
_LISTENING: Final = int(zmq.EVENT_LISTENING)
_EVENTS: Final = _LISTENING | _ACCEPTED | _ENDED | REFUSED | _MISSING | _UNFINISHED
#: Events read per poll; more are a flood, and are left for the next poll.
MAX_PER_POLL: Final = 20
#: Time after a flood during which no connection is accepted.
PAUSE_NS: Final = 1_000_000_000

_LINUX = sys.platform == "linux"
_ATTACH_FILTER, _DETACH_FILTER = 26, 27
#: The filter's only instruction: return 0, the number of bytes to keep.
_DROP_ALL = struct.pack("HBBI", 6, 0, 0, 0)
_number = itertools.count()


class ConnectionLimiter:
    """Limiter of the connections of a socket, which must not be bound yet.

    Parameters
    ----------
    context, watched : zmq.Context, zmq.Socket
    clock : callable
        Monotonic clock, integer ns.

    Attributes
    ----------
    limit : int
        Maximum number of simultaneous connections, and of new ones within a second.
    open : int
        Connections established, or being established.
    accepting : bool
        Whether a new one would be accepted.
    """

    def __init__(
        self,
        context: zmq.Context[Socket],
        watched: Socket,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.limit = SPARE_CONNECTIONS
        self.open = 0
        self.accepting = True
        self._clock = clock
        self._expected = True
        self._pause_until = self._second_ends = 0
        self._new = 0
        self._watched = watched
        self._listener: socket.socket | None = None
        address = f"inproc://connections-{next(_number)}"
        watched.monitor(address, _EVENTS)
        self._monitor = context.socket(zmq.PAIR)
        # Unbounded: otherwise ZeroMQ's thread, which moves all messages, could block on it.
        self._monitor.rcvhwm = 0
        self._monitor.connect(address)
        self._readables = [(self._monitor, int(zmq.POLLIN))]

    def bound(self) -> None:
        """Handle the binding of the socket; from now on connections can be refused."""
        while zmq_poll(self._readables, 0):
            event, value = self._next()
            if event == _LISTENING and _LINUX:
                with contextlib.suppress(OSError, ValueError):
                    self._listener = socket.socket(fileno=os.dup(value))

    def expect(self, expected: bool) -> None:
        """Set whether any connection is expected."""
        self._expected = expected
        self._decide()

    def poll(self) -> list[int]:
        """Process pending events; return those of refused connections."""
        refused = []
        now = self._clock()
        if now >= self._second_ends:
            self._second_ends, self._new = now + PAUSE_NS, 0
        for _ in range(MAX_PER_POLL):
            if not zmq_poll(self._readables, 0):
                break
            event, _ = self._next()
            if event == _ACCEPTED:
                self.open += 1
                self._new += 1
            elif event == _ENDED:
                self.open -= 1
            elif event in (REFUSED, _MISSING, _UNFINISHED):
                refused.append(event)
        else:
            self._pause(now)
        if self.open > self.limit or self._new > self.limit:
            self._pause(now)
        self._decide()
        return refused

    def close(self) -> None:
        """Stop watching; call it before the context is closed."""
        with contextlib.suppress(zmq.ZMQError):
            self._watched.disable_monitor()
        self._monitor.close(linger=0)  # otherwise the context would wait for it
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _next(self) -> tuple[int, int]:
        event: tuple[int, int] = struct.unpack("=HI", self._monitor.recv())
        self._monitor.recv()  # the endpoint
        return event

    def _pause(self, now: int) -> None:
        self._pause_until = now + PAUSE_NS
        if self._listener is None:  # events of a flood must not accumulate either
            with contextlib.suppress(zmq.ZMQError):
                self._watched.disable_monitor()

    def _decide(self) -> None:
        accepting = self._expected and self._clock() >= self._pause_until
        if accepting == self.accepting or self._listener is None:
            return
        self.accepting = accepting
        if accepting:
            self._listener.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
        else:
            code = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
            program = struct.pack("HP", 1, ctypes.addressof(code))
            self._listener.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)
