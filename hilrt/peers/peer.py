"""A peer's end of the wire: the connection of a solver or gateway process.

The `Peer` moves bytes between its transport and the `PeerProtocol`, which interprets them. Messages
are received only inside `receive` and `wait`, which also answer the master's heartbeats and send
heartbeats when nothing else was sent for a while: call one of them at least every `heartbeat_s`.
Longer silence of a solver that is computing does not count, see docs/protocol.md.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence

from hilrt.errors import ConfigError, SessionFault
from hilrt.link import LARGEST_STATE
from hilrt.peers.announced_ports import MAX_CHANNELS, parameter_to_info, port_to_info
from hilrt.peers.authenticator import TokenOfPeer, find_token
from hilrt.peers.keys import VARIABLE, PeerKeys, is_local, peer_keys
from hilrt.peers.peer_protocol import PeerProtocol
from hilrt.peers.transport import local
from hilrt.peers.transport.base import ClientTransport
from hilrt.peers.transport.zeromq_sockets import Dealer
from hilrt.peers.wire import (
    MAX_MESSAGE_BYTES,
    PROTOCOL_VERSION,
    FromMaster,
    Hello,
    Message,
    PromptAnswer,
    Reject,
    Role,
    Welcome,
    encode,
)
from hilrt.solver import Parameter, Port
from hilrt.timing.monotonic import monotonic_ns
from hilrt.version import VERSION

#: Maximum messages read by one `Peer.receive`.
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
        Kind of this process.
    inputs, outputs : sequence of Port
        Its announced ports.
    capabilities : sequence of str
        Optional abilities.
    parameters : sequence of Parameter
        Parameters that may change between two steps.
    clock : callable
        Monotonic clock, integer ns.

    Attributes
    ----------
    transport : ClientTransport
        For use with a poller only; messages are sent and received by the methods.
    protocol : PeerProtocol
        State of the connection, and messages to send.
    on_answer : callable or None
        Called with operators' answers; None for a process without prompts.

    Raises
    ------
    ConfigError
        If the address is invalid, or the ports do not fit into a message.
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
        parameters: Sequence[Parameter] = (),
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.address = address
        self.name = name
        self.clock = clock
        self.on_answer: Callable[[PromptAnswer], None] | None = None
        hello = Hello(
            version=PROTOCOL_VERSION,
            role=role,
            name=name,
            inputs=[port_to_info(port) for port in inputs],
            outputs=[port_to_info(port) for port in outputs],
            capabilities=list(capabilities),
            software=f"hilrt {VERSION}",
            pid=os.getpid(),
            parameters=[parameter_to_info(parameter) for parameter in parameters],
        )
        _check_size(hello)
        self.protocol = PeerProtocol(hello, clock())
        self._credentials: PeerKeys | TokenOfPeer | None = peer_keys(name)
        #: Whether a master that starts later may require a token that is not available yet.
        self._too_early = self._credentials is None and is_local(address)
        self._small = _largest(hello) <= local.MAX_BYTES
        self.transport = self._admitted() or Dealer(address, self._credentials)

    def _admitted(self) -> ClientTransport | None:
        """Connection to a master that proves the same account; None if there is none."""
        if not self._too_early:
            return None
        if self._small and (transport := local.connect(self.address)) is not None:
            self._too_early = False
            return transport
        token = find_token(self.address)
        if token is None:
            return None
        self._credentials, self._too_early = TokenOfPeer(self.name, token), False
        return Dealer(self.address, self._credentials)

    def _find_master(self) -> None:
        """Connect again, as required by a master that may have started after this process."""
        transport = self._admitted()
        if transport is not None:
            self.transport.close(0)
            self.transport = transport
            self.say_hello()

    @property
    def heartbeat_s(self) -> float:
        """Longest interval between two messages, as the master requested, s."""
        return self.protocol.heartbeat_s

    @property
    def welcome(self) -> Welcome | None:
        """The master's acceptance."""
        return self.protocol.welcome

    @property
    def counters(self) -> Counter[str]:
        """Numbers of messages that were not used or sent, by kind; see `PeerProtocol`."""
        return self.protocol.counters

    def say_hello(self) -> None:
        """Send the hello without waiting for its answer, which `receive` or `wait` returns."""
        self.protocol.connect(self.clock())
        self._flush()

    def connect(self, timeout: float = 20.0) -> Welcome:
        """Send the hello and wait for the master's welcome, for at most `timeout` [s].

        Raises
        ------
        SessionFault
            If the master rejects this peer or does not answer in time.
        """
        self.say_hello()
        deadline = self.clock() + round(timeout * 1e9)
        while (left := deadline - self.clock()) > 0 and not self.transport.broken:
            for message in self.wait(min(left * 1e-9, self.heartbeat_s)):
                if isinstance(message, Welcome):
                    return message
                if isinstance(message, Reject):
                    raise SessionFault(
                        f"the master at {self.address} does not accept {self.name!r}: "
                        f"{message.reason}"
                    )
            self._find_master()
        raise SessionFault(
            f"no answer from a master at {self.address} within {timeout:g} s; "
            f"check the address and that the session is running{self._about_keys()}"
        )

    def _about_keys(self) -> str:
        if self._credentials is None:
            own = ", and one on this machine only processes of its own account" * self._too_early
            return f"; a session with keys only admits peers that have theirs ({VARIABLE}){own}"
        if isinstance(self._credentials, TokenOfPeer):
            return "; or its session has a new token"
        return "; the session may not know this peer's key, or may have another key itself"

    def send(self, message: Message) -> bool:
        """Send without waiting; return False, and count it, if the queue to the master is full."""
        return self._transmit(encode(message))

    def _transmit(self, data: bytes) -> bool:
        try:
            self.transport.send(data)
        except BlockingIOError:
            self.protocol.count("send_lost", "the master does not read")
            return False
        except OSError as error:
            reason = error.strerror or "the master has closed the connection"
            self.protocol.count("send_lost", reason)
            return False
        self.protocol.sent(self.clock())
        return True

    def _flush(self) -> None:
        for data in self.protocol.data_to_send():
            self._transmit(data)

    def receive(self, within_ns: int | None = None) -> list[FromMaster]:
        """Receive messages, including heartbeats (already answered), without blocking.

        Messages not read `within_ns` [ns] are left for the next call, so that a master that sends
        too much does not block a process with deadlines.
        """
        messages: list[FromMaster] = []
        end_ns = None if within_ns is None else self.clock() + within_ns
        while len(messages) < MAX_PER_RECEIVE and (data := self.transport.receive(0)) is not None:
            message = self.protocol.receive(data, now_ns := self.clock())
            if message is not None:
                messages.append(message)
            if end_ns is not None and now_ns >= end_ns:
                break
        self.protocol.keep_alive(self.clock())
        self._flush()
        return messages

    def wait(self, timeout: float) -> list[FromMaster]:
        """Wait up to `timeout` [s], rounded up to ms, for one message; return none or one."""
        data = self.transport.receive(max(1, -int(-timeout * 1e3 // 1)))
        now_ns, protocol = self.clock(), self.protocol
        message = None if data is None else protocol.receive(data, now_ns)
        # While messages arrive, occasional polls suffice.
        if data is None or now_ns > protocol.poll_ns:
            protocol.keep_alive(now_ns)
        if protocol.to_send:
            self._flush()
        return [] if message is None else [message]

    @property
    def heard_ns(self) -> int:
        """Time at which the newest message was received, on this process's clock."""
        return self.protocol.heard_ns

    def silence(self) -> float:
        """Time since the last message of the master, s; see `PeerProtocol.silence`."""
        return self.protocol.silence(self.clock())

    def master_lost(self) -> str | None:
        """Reason why the master counts as lost, or None."""
        if self.transport.broken:
            return f"the master at {self.address} has closed the connection, or ended"
        if not self.protocol.master_silent(self.clock()):
            return None
        return f"the master at {self.address} was silent for {self.silence():.1f} s"

    def malformed(self, text: str) -> None:
        """Count a message whose content cannot be used."""
        self.protocol.count("malformed", text)

    def unexpected(self, message: Message) -> None:
        """Count a message received at the wrong time."""
        self.protocol.unexpected(message)

    def close(self) -> None:
        """Close the connection after a moment for sent messages; repeated calls have no effect."""
        self.transport.close(_LINGER_MS)


def _largest(hello: Hello) -> int:
    """Approximate upper bound of a message's size: its hello, a Jacobian, or its matrices."""
    n_inputs = sum(port.size for port in hello.inputs)
    n_outputs = sum(port.size for port in hello.outputs)
    jacobian = _MATRICES * (n_inputs + 1) * (n_outputs + 1)
    matrices = (LARGEST_STATE + n_outputs) * (LARGEST_STATE + n_inputs)
    return len(encode(hello)) + 8 * max(jacobian, matrices + n_inputs)


def _check_size(hello: Hello) -> None:
    """Raise `ConfigError` for ports that a master would not accept, or even receive."""
    remedy = "only couple the necessary ports, or split it into several subsystems"
    for direction, ports in (("inputs", hello.inputs), ("outputs", hello.outputs)):
        count = sum(port.size for port in ports)
        if count > MAX_CHANNELS:
            text = f"{count:,} {direction}, and a subsystem may have at most {MAX_CHANNELS:,}"
            raise ConfigError(f"{hello.name}: {text}; {remedy}")
    if (size := len(encode(hello))) > MAX_MESSAGE_BYTES:
        text = f"announcing its ports takes {size:,} bytes, a message has {MAX_MESSAGE_BYTES:,}"
        raise ConfigError(f"{hello.name}: {text}; shorten descriptions and names")
