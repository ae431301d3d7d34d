"""Messages of the wire protocol and of operators, as files of one frame."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hilrt.errors import HilrtError, ProtocolError
from tools.qualification.fuzzing.worker import Wrong

KEY = "right"


def wire_samples() -> list[bytes]:
    """One message of each type, of both directions."""
    from hilrt.peers import wire

    two = np.array([1.0, -2.5]).tobytes()
    port = wire.PortInfo(name="x", unit="m", min=-1.0, max_rate=5.0, feedthrough=["u"])
    messages: list[Any] = [
        _hello(),
        wire.Hello(version=1, role="gateway", name="b", inputs=[], outputs=[port], pid=77),
        wire.Initialized(y=two, t_valid_ns=[1, 2]),
        wire.Advanced(
            tick=3, y=two, dy=two, y_mid=two, y_mean=two, compute_us=12.5, received_ns=99
        ),
        wire.Advanced(tick=4, y=two, event_t=0.5, ended="done"),
        wire.Probed(gamma=two + two),
        wire.Measurements(seq=1, tick=2, y=two, t_valid_ns=[1, 2], realised=two, counters={"a": 1}),
        wire.Heartbeat(sent_ns=5, echo_ns=6),
        wire.Event(level="warning", cause="hot", text="95 °C"),
        wire.Error(text="cannot go on", leaving=True),
        wire.Secured(reason="asked"),
        wire.Armed(),
        wire.Stopped(),
        wire.Welcome(session="s", heartbeat_s=0.2),
        wire.Initialize(t0=0.0, u0=two),
        wire.Advance(tick=1, t=0.0, h=0.001, coefficients=two, keep=True),
        wire.GoBack(tick=1, h=0.0005),
        wire.Probe(source="probe", t=0.0, h=0.001, order=1, u=two),
        wire.SetPoints(tick=1, t=0.0, h=0.001, coefficients=two),
        wire.Arm(u0=two),
        wire.Safe(reason="x"),
        wire.Stop(reason="x"),
    ]
    return [wire.encode(message) for message in messages]


def _hello() -> Any:
    from hilrt.peers import wire

    ports = [wire.PortInfo(name=name, unit="m") for name in ("p", "q")]
    return wire.Hello(version=1, role="solver", name="a", inputs=ports, outputs=ports)


def read_wire(path: Path, sample: bytes) -> None:
    """Decode as both sides, and process by the master's protocol, before and after a handshake.

    The reference is the message itself: it must not change by encoding and decoding.
    """
    from hilrt.peers import wire
    from hilrt.peers.master_protocol import MasterProtocol

    data = path.read_bytes()
    taken = 0
    for decode in (wire.decode_from_peer, wire.decode_from_master):
        try:
            message: Any = decode(data)
        except ProtocolError:
            continue
        taken += 1
        again = wire.encode(message)
        if wire.encode(decode(again)) != again:
            raise Wrong(f"{message!r} is another message after it was encoded")
        if decode is wire.decode_from_peer:
            try:
                wire.check_arrays(message, 2, 2)
            except ProtocolError:
                taken -= 1
    for handshake in (False, True):
        protocol = MasterProtocol("fuzzed", 0)
        protocol.expect("a", "solver")
        protocol.expect("b", "gateway")
        if handshake:
            protocol.greet("one", wire.encode(_hello()), 1)
        if (peer := protocol.connections.get("one")) is not None:
            peer.receive(data, 2)
        protocol.greet("two", data, 3)
        protocol.keep_alive(10_000_000_000)
        protocol.events()
        protocol.data_to_send()
    if not taken:
        raise HilrtError("no message")


def command_samples() -> list[bytes]:
    """Commands with and without the key."""
    from hilrt.monitor.operator_commands import OperatorCommand, encode

    return [
        encode(OperatorCommand(action="safe", who="me", key=KEY, at=1.0)),
        encode(OperatorCommand(action="adjust", text="a.gain", value=2.0, key=KEY, run="r")),
        encode(OperatorCommand(action="mark", text="x" * 400, key="wrong")),
    ]


@functools.cache
def _port() -> Any:
    from hilrt.monitor.operator_commands import CommandPort, Reply

    return CommandPort(
        "inproc://fuzz", KEY, obey=_obey(Reply), refused=lambda command: None, clock=lambda: 2.0
    )


def _obey(reply: Any) -> Any:
    def obey(command: Any) -> Any:
        if command.key != KEY:
            raise Wrong(f"{command!r} was obeyed without the key")
        return reply(True, command.action)

    return obey


def read_command(path: Path, sample: bytes) -> None:
    """Reply like the master's port; without the key, no command may be executed."""
    from hilrt.monitor.operator_commands import decode_reply, encode

    frame = path.read_bytes()
    reply = _port().answer(frame)
    if decode_reply(encode(reply)) != reply:
        raise Wrong(f"{reply!r} is another reply after it was encoded")
    with contextlib.suppress(msgspec.MsgspecError):
        decode_reply(frame)
    if not reply.ok:
        raise HilrtError(reply.text)
