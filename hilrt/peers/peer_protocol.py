"""A peer's side of the wire protocol: a core without I/O.

Bytes and times go in, bytes and messages come out; docs/protocol.md describes the exchange. The
core reads no clock and no socket; its I/O (`hilrt.peers.peer`) does:

* `connect` sends the hello;
* `receive` processes one message of the master and returns it if the peer must handle it;
* `keep_alive` is called regularly, even while messages arrive, for heartbeats and repeated
hellos;
* after each of these, `data_to_send` returns the messages to send, and `sent` records that one was
sent.
"""

from __future__ import annotations

import logging
from collections import Counter

from hilrt.errors import ProtocolError
from hilrt.peers.wire import (
    FromMaster,
    Heartbeat,
    Hello,
    Message,
    Reject,
    Welcome,
    decode_from_master,
    encode,
)

log = logging.getLogger("hilrt.peers.peer")

#: The master counts as lost after this much silence [s], or this many heartbeats.
MASTER_SILENCE_S = 5.0
MASTER_SILENCE_HEARTBEATS = 10
#: A solver repeats its hello after this many heartbeats of silence: its connection may have been
#: replaced.
HELLO_AGAIN_HEARTBEATS = 5
#: Calls of `keep_alive` per heartbeat, at least, while messages arrive.
POLLS_PER_HEARTBEAT = 8
#: Without a call of `keep_alive` for this many heartbeats, the process was busy or suspended.
_AWAY_HEARTBEATS = 4
#: Silence of the master assumed after that, in heartbeats: its messages may not be read yet.
_SILENCE_AFTER_AWAY = 2
#: Heartbeat interval until the welcome, s.
FIRST_HEARTBEAT_S = 0.2


class PeerProtocol:
    """Handshake, heartbeats and the master's silence, for one peer.

    Parameters
    ----------
    hello : Hello
        The peer's description of itself.
    now_ns : int
        This process's monotonic clock, ns.

    Attributes
    ----------
    welcome : Welcome or None
        The master's acceptance.
    heartbeat_s : float
        Longest interval between two messages, as the master requested, s.
    heard_ns : int
        Time at which the newest message was received, ns.
    poll_ns : int
        Time of the next call of `keep_alive`, even while messages arrive, ns.
    to_send : list of bytes
        Messages to send, in order; `data_to_send` empties it.
    counters : Counter of str
        ``malformed``, ``unknown_type``, ``oversized``, ``unexpected``, ``send_lost``.
    """

    def __init__(self, hello: Hello, now_ns: int) -> None:
        self.hello = hello
        self.welcome: Welcome | None = None
        self.heartbeat_s = FIRST_HEARTBEAT_S
        self._heartbeat_ns = round(FIRST_HEARTBEAT_S * 1e9)
        self.heard_ns = now_ns
        self.counters: Counter[str] = Counter()
        self.poll_ns = self._sent_ns = self._polled_ns = self._hello_ns = now_ns
        self._repeated_hello = False
        self.to_send: list[bytes] = []

    # --- out ----------------------------------------------------------------------------------

    def data_to_send(self) -> list[bytes]:
        """Messages to send, in order; empty after the call."""
        data, self.to_send = self.to_send, []
        return data

    def sent(self, now_ns: int) -> None:
        """Record that a message was sent at `now_ns`, which postpones the next heartbeat."""
        self._sent_ns = now_ns

    # --- in -----------------------------------------------------------------------------------

    def connect(self, now_ns: int) -> None:
        """Send the hello."""
        self._hello_ns = now_ns
        self._send(self.hello)

    def receive(self, data: bytes, now_ns: int) -> FromMaster | None:
        """Process one message received at `now_ns`.

        Returns
        -------
        FromMaster or None
            The message, even a heartbeat that is already answered; None if it is unusable, or a
            welcome that changes nothing.
        """
        self.heard_ns = now_ns
        try:
            message = decode_from_master(data)
        except ProtocolError as error:
            self.count(error.kind, str(error))
            return None
        if isinstance(message, Heartbeat):
            if message.echo_ns == 0:
                self._send(Heartbeat(sent_ns=now_ns, echo_ns=message.sent_ns))
        elif isinstance(message, (Welcome, Reject)):
            return self._answer_to_hello(message)
        return message

    def _answer_to_hello(self, message: Welcome | Reject) -> FromMaster | None:
        if self.welcome is None:
            if isinstance(message, Welcome):
                self.welcome, self.heartbeat_s = message, message.heartbeat_s
                self._heartbeat_ns = round(message.heartbeat_s * 1e9)
            return message
        if not self._repeated_hello:
            self.unexpected(message)
            return None
        self._repeated_hello = False
        return message if isinstance(message, Reject) else None

    # --- heartbeats and silence ---------------------------------------------------------------

    def keep_alive(self, now_ns: int) -> None:
        """Send a heartbeat if nothing else was sent for a while; a solver may repeat its hello."""
        heartbeat_ns = self._heartbeat_ns
        if now_ns - self._polled_ns > _AWAY_HEARTBEATS * heartbeat_ns:
            self.heard_ns = max(self.heard_ns, now_ns - _SILENCE_AFTER_AWAY * heartbeat_ns)
        self._polled_ns, self.poll_ns = now_ns, now_ns + heartbeat_ns // POLLS_PER_HEARTBEAT
        if self.welcome is None:
            return
        patience_ns = HELLO_AGAIN_HEARTBEATS * heartbeat_ns
        unheard_ns = now_ns - max(self.heard_ns, self._hello_ns)
        if unheard_ns > patience_ns and self.hello.role == "solver":
            self._repeated_hello = True
            self.connect(now_ns)
        elif now_ns - self._sent_ns >= heartbeat_ns:
            self._send(Heartbeat(sent_ns=now_ns))

    def silence(self, now_ns: int) -> float:
        """Time since the last message of the master, s.

        Time that this process spent elsewhere (computing, suspended) does not fully count: messages
        of the master may not have been read yet.
        """
        return (now_ns - self.heard_ns) * 1e-9

    def master_silent(self, now_ns: int) -> bool:
        """Whether the master has been silent for so long that it counts as lost."""
        limit = max(MASTER_SILENCE_S, MASTER_SILENCE_HEARTBEATS * self.heartbeat_s)
        return self.silence(now_ns) > limit

    # --- counts -------------------------------------------------------------------------------

    def unexpected(self, message: Message) -> None:
        """Count a message received at the wrong time."""
        self.count("unexpected", f"{type(message).__name__} at the wrong time")

    def count(self, kind: str, text: str) -> None:
        """Count a message that was not used or sent; the first of each kind is logged."""
        self.counters[kind] += 1
        if self.counters[kind] == 1:
            log.warning("%s: %s; more of these are only counted", kind, text)

    def _send(self, message: Message) -> None:
        self.to_send.append(encode(message))
