"""A peer's side of the wire protocol: a core without I/O.

Bytes and times go in, bytes and messages come out; docs/protocol.md says what is exchanged. The
core reads no clock and no socket, its I/O (`hilrt.peers.peer`) does:

* `connect` says hello;
* `receive` takes one message from the master and returns what is left for the peer to do;
* `keep_alive` is called now and then, also while messages come, for heartbeats and repeated hellos;
* after each of these, `data_to_send` has what is to be sent, and `sent` notes that it left.
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

#: The master is lost when it is silent for this long [s], or for this many heartbeats.
MASTER_SILENCE_S = 5.0
MASTER_SILENCE_HEARTBEATS = 10
#: A solver repeats its hello when it has not heard the master for that many heartbeats: its
#: connection may be another one since then.
HELLO_AGAIN_HEARTBEATS = 5
#: How often per heartbeat `keep_alive` is to be called at least, while messages come.
LOOKS_PER_HEARTBEAT = 8
#: Without a call of `keep_alive` for this many heartbeats, the process was busy or suspended.
_AWAY_HEARTBEATS = 4
#: Remaining silence of the master, in heartbeats: its messages may not be read yet.
_SILENCE_AFTER_AWAY = 2
#: Until the welcome says another, s.
FIRST_HEARTBEAT_S = 0.2


class PeerProtocol:
    """Handshake, heartbeats and the master's silence, as one peer sees them.

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
        When the newest message was received, ns.
    look_ns : int
        When `keep_alive` is to be called next although messages come, ns.
    to_send : list of bytes
        Messages to send, in order; `data_to_send` takes them.
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
        self.look_ns = self._sent_ns = self._looked_ns = self._hello_ns = now_ns
        self._repeated_hello = False
        self.to_send: list[bytes] = []

    # --- out ----------------------------------------------------------------------------------

    def data_to_send(self) -> list[bytes]:
        """Messages to send, in order; empty after the call."""
        data, self.to_send = self.to_send, []
        return data

    def sent(self, now_ns: int) -> None:
        """Any message has left at `now_ns`: no heartbeat is needed for a while."""
        self._sent_ns = now_ns

    # --- in -----------------------------------------------------------------------------------

    def connect(self, now_ns: int) -> None:
        """Say hello."""
        self._hello_ns = now_ns
        self._send(self.hello)

    def receive(self, data: bytes, now_ns: int) -> FromMaster | None:
        """Take one message that was received at `now_ns`.

        Returns
        -------
        FromMaster or None
            The message, also a heartbeat that is answered already; None if it cannot be used, or
            is a welcome that changes nothing.
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
        if now_ns - self._looked_ns > _AWAY_HEARTBEATS * heartbeat_ns:
            self.heard_ns = max(self.heard_ns, now_ns - _SILENCE_AFTER_AWAY * heartbeat_ns)
        self._looked_ns, self.look_ns = now_ns, now_ns + heartbeat_ns // LOOKS_PER_HEARTBEAT
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

        Time that this process spent elsewhere (computing, suspended) does not count in full:
        messages of the master may not have been read yet.
        """
        return (now_ns - self.heard_ns) * 1e-9

    def master_silent(self, now_ns: int) -> bool:
        """Whether the master has been silent for so long that it counts as lost."""
        limit = max(MASTER_SILENCE_S, MASTER_SILENCE_HEARTBEATS * self.heartbeat_s)
        return self.silence(now_ns) > limit

    # --- counts -------------------------------------------------------------------------------

    def unexpected(self, message: Message) -> None:
        """Count a message that makes no sense now."""
        self.count("unexpected", f"{type(message).__name__} at the wrong time")

    def count(self, kind: str, text: str) -> None:
        """Count a message that was not used or not sent; the first of each kind is logged."""
        self.counters[kind] += 1
        if self.counters[kind] == 1:
            log.warning("%s: %s; more of these are only counted", kind, text)

    def _send(self, message: Message) -> None:
        self.to_send.append(encode(message))
