"""Subscriber to the telemetry stream that keeps the data for views and counts missed messages.

`poll` is called often and never blocks. A slow view loses messages; the session is not affected.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec
import zmq

from hilrt.isolation.temporary_folder import connect
from hilrt.monitor import stream
from hilrt.monitor.operator_commands import CommandClient
from hilrt.monitor.stream import FlagSpans, Full, Happening, Head, Signals, change_of
from hilrt.monitor.telemetry import RaisedFlag, Status, decode, merged

QUEUE_LENGTH = 256
#: Maximum messages received in one call, which bounds a turn of the view's loop.
AT_ONCE = 400
MAX_EVENTS = 500
SILENCE_S = 3.0
FINAL_STATES = {"STOPPED", "FAULT"}


class Viewer:
    """Receiver of a session's stream; `zmq.ZMQError` if `telemetry` is not an address.

    Parameters
    ----------
    telemetry : str
        Address of the stream.
    commands : str or None
        Address for commands. Empty: the port in the stream's head, if there is one and the stream
        uses TCP. None: the viewer only watches.
    clock : callable
        Monotonic time, s.

    Attributes
    ----------
    head : Head or None
    status : Status or None
        Newest status, with the state's last announcement merged in.
    events : dict
        Newest events by number.
    flag_spans : FlagSpans
        Number and duration of the times that each flag was raised.
    missed : int
        Messages dropped because this viewer did not receive them in time.
    heard_at : float
        Time of the session's last message, s; repetitions by the relay do not count.
    run : str
        Identifier of the run; when it changes, everything else is reset.
    wanted : dict of str to int
        Signals requested at full rate, and how many times each.
    on_signals, on_full : callable, optional
        Called with every message of signals.
    on_event : callable, optional
        Called once with every event.
    """

    def __init__(
        self,
        telemetry: str,
        commands: str | None = "",
        *,
        signals: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.head: Head | None = None
        self.status: Status | None = None
        self.events: OrderedDict[int, Happening] = OrderedDict()
        self.flag_spans = FlagSpans()
        self.run = ""
        self.missed = 0
        self.received = 0
        self.on_signals: Callable[[Signals], None] | None = None
        self.on_full: Callable[[Full], None] | None = None
        self.on_event: Callable[[Happening], None] | None = None
        self._clock, self._telemetry, self._commands = clock, telemetry, commands
        self.heard_at = clock()
        self._flags: dict[RaisedFlag, float] = {}
        self._numbers: dict[bytes, int] = {}
        self.wanted: dict[str, int] = {}
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.SUB)
        self._socket.rcvhwm = QUEUE_LENGTH
        self._socket.linger = 0
        topics = [stream.HEAD, stream.STATUS, stream.EVENT]
        for topic in [*topics, stream.SIGNALS] if signals else topics:
            self._socket.setsockopt(zmq.SUBSCRIBE, topic)
        try:
            connect(self._socket, telemetry)
        except zmq.ZMQError:
            self._context.destroy(linger=0)
            raise
        self._client: CommandClient | None = None
        self._client_address = ""
        self.client()

    @property
    def silent(self) -> bool:
        """Whether the last message is so old that the display may be outdated."""
        return self._clock() - self.heard_at > SILENCE_S

    @property
    def now(self) -> float:
        """Time of the viewer's clock, s."""
        return self._clock()

    @property
    def ended(self) -> bool:
        """Whether the session has ended."""
        return self.status is not None and self.status.state in FINAL_STATES

    @property
    def flags(self) -> list[RaisedFlag]:
        """Flags that are up: those of the newest status, updated by newer events."""
        return list(self._flags)

    def poll(self, wait_ms: int = 0) -> int:
        """Process received messages; returns their number."""
        count = 0
        while count < AT_ONCE and self._socket.poll(wait_ms if count == 0 else 0):
            self.receive(self._socket.recv_multipart())
            count += 1
        self.received += count
        return count

    def receive(self, frames: list[bytes]) -> None:
        """Process one message of the stream; anything else is ignored."""
        try:
            if frames[0] == stream.STATUS:
                self._handle_status(decode(frames[1]))
                return
            message = stream.decode(frames[0], frames[1])
        except (IndexError, msgspec.MsgspecError):
            return
        if isinstance(message, Head):
            self._follow(message.run)
            self.head = message
            self.client()  # connect now, so that the first command is not delayed
        elif isinstance(message, Happening):
            self._handle_event(message)
        elif isinstance(message, Signals):
            self.heard_at = self._clock()
            self._count_gap(frames[0], message.number)
            if self.on_signals is not None:
                self.on_signals(message)
        elif isinstance(message, Full) and message.name in self.wanted:
            self.heard_at = self._clock()
            self._count_gap(frames[0], message.number)
            if self.on_full is not None:
                self.on_full(message)

    def want_full(self, name: str) -> None:
        """Request a signal at full rate; each call needs its own `drop_full`."""
        self.wanted[name] = self.wanted.get(name, 0) + 1
        if self.wanted[name] == 1:
            self._socket.setsockopt(zmq.SUBSCRIBE, stream.FULL + name.encode())

    def drop_full(self, name: str) -> None:
        """Withdraw one request for a signal at full rate."""
        self.wanted[name] -= 1
        if self.wanted[name] == 0:
            del self.wanted[name]
            topic = stream.FULL + name.encode()
            self._socket.setsockopt(zmq.UNSUBSCRIBE, topic)
            self._numbers.pop(topic, None)

    def client(self) -> CommandClient | None:
        """Client for commands; None if the session accepts none from here."""
        address, head = self._commands, self.head
        over_tcp = self._telemetry.startswith("tcp://")  # other transports have no port
        if address == "" and over_tcp and head is not None and head.commands:
            address = f"{self._telemetry.rpartition(':')[0]}:{head.commands}"
        if address and address != self._client_address:
            if self._client is not None:  # of a previous session, at another port
                self._client.close()
            self._client_address = address
            self._client = CommandClient(address, self._context, run=self.run)
        return self._client

    def close(self) -> None:
        """Close the sockets."""
        self._context.destroy(linger=100)

    # -- messages ---------------------------------------------------------------------------------

    def _follow(self, run: str) -> None:
        """Reset everything when another run begins."""
        if not run or run == self.run:
            return
        if self.run:
            self.head, self.status = None, None
            self.events.clear()
            self.flag_spans.clear()
            self._flags.clear()
            self._numbers.clear()
        self.run = run
        if self._client is not None:
            self._client.run = run

    def _count_gap(self, topic: bytes, number: int) -> None:
        before = self._numbers.get(topic, number - 1)
        self.missed += max(0, number - before - 1)
        self._numbers[topic] = number

    def _handle_status(self, status: Status) -> None:
        self._follow(status.run)
        self.heard_at = self._clock()
        self.status = merged(self.status, status)
        if status.values:
            # Status and events both contain flags; the newer one counts.
            ahead = {flag: t for flag, t in self._flags.items() if t > status.t}
            self._flags = dict.fromkeys(status.flags, status.t) | ahead

    def _handle_event(self, event: Happening) -> None:
        known = event.number in self.events
        if event.number > self._numbers.get(stream.EVENT, 0):  # not a repetition
            self._count_gap(stream.EVENT, event.number)
        self.events[event.number] = event
        while len(self.events) > MAX_EVENTS:
            self.events.popitem(last=False)
        if not known:
            self.flag_spans.count(event)
        if not known and self.on_event is not None:
            self.on_event(event)
        newest = self.status.t if self.status is not None else 0.0
        raised = change_of(event)
        if known or event.t <= newest or raised is None:
            return
        flag = RaisedFlag(event.cause, event.source)
        if raised:
            self._flags[flag] = event.t
        else:
            self._flags.pop(flag, None)
