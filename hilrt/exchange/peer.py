"""A peer's end of the wire: the connection of a solver or gateway process.

Messages are moved only inside `receive` and `wait`, which also answer the master's heartbeats and
send own ones when nothing else was sent for a while: call one of them at least every
`heartbeat_s`. A solver that computes for longer is excused, see docs/protocol.md.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence

from hilrt.errors import ProtocolError, SessionFault
from hilrt.exchange.keys import VARIABLE, peer_keys
from hilrt.exchange.transport import local
from hilrt.exchange.transport.base import Line
from hilrt.exchange.transport.zeromq import Dealer
from hilrt.exchange.wire import (
    PROTOCOL_VERSION,
    FromMaster,
    Heartbeat,
    Hello,
    Message,
    Reject,
    Role,
    Welcome,
    decode_from_master,
    encode,
    port_to_info,
)
from hilrt.solver import Port
from hilrt.timing.clock import monotonic_ns
from hilrt.version import VERSION

log = logging.getLogger("hilrt.exchange.peer")

#: The master is lost when it is silent for this long [s], or for this many heartbeats.
MASTER_SILENCE_S = 5.0
MASTER_SILENCE_HEARTBEATS = 10
#: A solver says hello again when it has not heard the master for that many heartbeats: its
#: connection may be another one since then.
HELLO_AGAIN_HEARTBEATS = 5
#: How often per heartbeat it is at least looked whether one is due, while messages come.
LOOKS_PER_HEARTBEAT = 8
#: Messages taken by one `Peer.receive`.
MAX_PER_RECEIVE = 1000
_LINGER_MS = 500
#: Matrices of a Jacobian: one for each coefficient of the highest order of the inputs.
_MATRICES = 4


class Peer:
    """Connection of a subsystem's process to the master.

    Parameters
    ----------
    address : str
        The master's endpoint, such as ``tcp://127.0.0.1:5555``.
    name : str
        The subsystem's name in the session file.
    role : {"solver", "gateway"}
        What this process is.
    inputs, outputs : sequence of Port
        What it offers.
    capabilities : sequence of str
        Optional abilities.
    clock : callable
        Monotonic clock, integer ns.

    Attributes
    ----------
    line : Line
        For a poller; messages go through the methods.

    Raises
    ------
    ConfigError
        If the address is not one.
    welcome : Welcome or None
        The master's acceptance.
    heartbeat_s : float
        As the master asked for, s.
    counters : Counter of str
        ``malformed``, ``unknown_type``, ``oversized``, ``unexpected``, ``send_lost``.
    """

    def __init__(
        self,
        address: str,
        name: str,
        role: Role,
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        *,
        capabilities: Sequence[str] = (),
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.address = address
        self.name = name
        self.clock = clock
        self.welcome: Welcome | None = None
        self.heartbeat_s = 0.2
        self.counters: Counter[str] = Counter()
        self._hello = Hello(
            version=PROTOCOL_VERSION,
            role=role,
            name=name,
            inputs=[port_to_info(port) for port in inputs],
            outputs=[port_to_info(port) for port in outputs],
            capabilities=list(capabilities),
            software=f"hilrt {VERSION}",
            pid=os.getpid(),
        )
        self._heard_ns = self._sent_ns = self._looked_ns = self._hello_ns = clock()
        self._look_ns = 0
        self._greets_again = False
        self._keys = peer_keys(name)
        self.line = self._open()

    def _open(self) -> Line:
        if self._keys is None and self._largest() <= local.MAX_BYTES:
            line = local.connect(self.address)
            if line is not None:
                return line
        return Dealer(self.address, self._keys)

    def _largest(self) -> int:
        """Bytes that no message of this peer exceeds, about: its hello, or a Jacobian."""
        hello = self._hello
        n_inputs = sum(port.size for port in hello.inputs)
        n_outputs = sum(port.size for port in hello.outputs)
        return len(encode(hello)) + _MATRICES * 8 * (n_inputs + 1) * (n_outputs + 1)

    def connect(self, timeout: float = 20.0) -> Welcome:
        """Say hello and wait for the master's welcome; blocks for at most `timeout` [s].

        Raises
        ------
        SessionFault
            If the master rejects this peer or does not answer in time.
        """
        self.send(self._hello)
        deadline = self.clock() + round(timeout * 1e9)
        while (left := deadline - self.clock()) > 0 and not self.line.broken:
            for message in self.wait(min(left * 1e-9, self.heartbeat_s)):
                if isinstance(message, Welcome):
                    self.welcome = message
                    self.heartbeat_s = message.heartbeat_s
                    return message
                if isinstance(message, Reject):
                    raise SessionFault(
                        f"the master at {self.address} does not accept {self.name!r}: "
                        f"{message.reason}"
                    )
        raise SessionFault(
            f"no answer from a master at {self.address} within {timeout:g} s; "
            f"check the address and that the session is running{self._about_keys()}"
        )

    def _about_keys(self) -> str:
        if self._keys is None:
            return f"; a session with keys lets in only peers that have theirs ({VARIABLE})"
        return "; the session may not know this peer's key, or have another one itself"

    def send(self, message: Message) -> bool:
        """Send without waiting; False, and counted, when the queue to the master is full."""
        try:
            self.line.send(encode(message))
        except BlockingIOError:
            self._count("send_lost", "the master does not read")
            return False
        except OSError as error:
            self._count("send_lost", f"{error.strerror or 'the master has closed the connection'}")
            return False
        self._sent_ns = self.clock()
        return True

    def receive(self) -> list[FromMaster]:
        """Messages that have arrived, heartbeats (already answered) included; never blocks."""
        messages: list[FromMaster] = []
        while len(messages) < MAX_PER_RECEIVE and (data := self.line.receive(0)) is not None:
            message = self._take(data)
            if message is not None:
                messages.append(message)
        self._keep()
        return messages

    def wait(self, timeout: float) -> list[FromMaster]:
        """Wait up to `timeout` [s], rounded up to ms, for one message; empty if there is none."""
        data = self.line.receive(max(1, -int(-timeout * 1e3 // 1)))
        message = None if data is None else self._take(data)
        # While messages come, a look now and then is enough; an answer is waited for.
        if data is None or self._heard_ns - self._looked_ns > self._look_ns:
            self._keep()
        return [] if message is None else [message]

    @property
    def heard_ns(self) -> int:
        """When the newest message was received, on this process's clock."""
        return self._heard_ns

    def silence(self) -> float:
        """How long nothing has been heard from the master, s.

        Time that this process spent elsewhere (computing, suspended) does not count in full: what
        the master sent meanwhile may not have been read yet.
        """
        return (self.clock() - self._heard_ns) * 1e-9

    def master_lost(self) -> str | None:
        """Why the master counts as lost, or None."""
        if self.line.broken:
            return f"the master at {self.address} has closed the connection, or ended"
        limit = max(MASTER_SILENCE_S, MASTER_SILENCE_HEARTBEATS * self.heartbeat_s)
        silence = self.silence()
        if silence <= limit:
            return None
        return f"the master at {self.address} was silent for {silence:.1f} s"

    def malformed(self, text: str) -> None:
        """Count a message whose content cannot be used."""
        self._count("malformed", text)

    def unexpected(self, message: Message) -> None:
        """Count a message that makes no sense now."""
        self._count("unexpected", f"{type(message).__name__} at the wrong time")

    def close(self) -> None:
        """Close the connection; what was sent gets a moment to leave. May be called twice."""
        self.line.close(_LINGER_MS)

    def _take(self, data: bytes) -> FromMaster | None:
        self._heard_ns = self.clock()
        try:
            message = decode_from_master(data)
        except ProtocolError as error:
            self._count(error.kind, str(error))
            return None
        if isinstance(message, Heartbeat) and message.echo_ns == 0:
            self.send(Heartbeat(sent_ns=self.clock(), echo_ns=message.sent_ns))
        elif isinstance(message, (Welcome, Reject)) and self.welcome is not None:
            if not self._greets_again:
                self.unexpected(message)
                return None
            self._greets_again = False
            return message if isinstance(message, Reject) else None
        return message

    def _keep(self) -> None:
        """Send a heartbeat when nothing else was sent for a while; see `silence` for the rest."""
        now = self.clock()
        heartbeat_ns = round(self.heartbeat_s * 1e9)
        away = now - self._looked_ns
        self._looked_ns, self._look_ns = now, heartbeat_ns // LOOKS_PER_HEARTBEAT
        if away > 4 * heartbeat_ns:
            self._heard_ns = max(self._heard_ns, now - 2 * heartbeat_ns)
        if self.welcome is None:
            return
        patience_ns = HELLO_AGAIN_HEARTBEATS * heartbeat_ns
        if now - max(self._heard_ns, self._hello_ns) > patience_ns and self._hello.role == "solver":
            self._hello_ns, self._greets_again = now, True
            self.send(self._hello)
        elif now - self._sent_ns >= heartbeat_ns:
            self.send(Heartbeat(sent_ns=now))

    def _count(self, kind: str, text: str) -> None:
        self.counters[kind] += 1
        if self.counters[kind] == 1:
            log.warning("%s: %s; more of these are only counted", kind, text)
