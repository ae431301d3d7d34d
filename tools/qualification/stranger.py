"""Finds every socket on which processes listen, and attacks them from another account."""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  # another account may be unable to load it later
import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import zmq

from hilrt.errors import ProtocolError
from hilrt.monitor.operator_commands import OperatorCommand
from hilrt.monitor.operator_commands import encode as encode_command
from hilrt.peers.transport.local import abstract_name
from hilrt.peers.wire import PROTOCOL_VERSION, Hello, Reject, Role, Welcome, decode_from_master
from hilrt.peers.wire import encode as encode_message
from hilrt.record.messages import RecordEnd
from hilrt.record.messages import encode as encode_row
from tools.watched_session import command_of

#: Time for which a socket is read, s.
LISTEN_S = 1.5
#: Secrets, which another account must not get.
SECRETS = {"HILRT_TOKEN": "operators-token", "HILRT_READ_TOKEN": "readers-token"}
#: Subsystems that a stranger tries to impersonate.
SUBSYSTEMS: dict[str, Role] = {
    "vehicle": "solver",
    "engine": "gateway",
    "stranger": "solver",
    "awaited": "solver",
}
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "foxglove.sdk.v1",
}
LISTENS = "0A"


class Place(NamedTuple):
    """A socket on which a process of the session listens: ``tcp``, ``unix`` or ``udp``."""

    process: str
    kind: str
    name: str


class Outcome(NamedTuple):
    """An attack on a place, its result, and whether the result is acceptable."""

    process: str
    place: str
    tried: str
    result: str
    well: bool


# -- where it listens ----------------------------------------------------------------------------


def places(processes: dict[int, str]) -> list[Place]:
    """Every socket on which one of the processes listens."""
    owners: dict[str, str] = {}
    for pid, name in processes.items():
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                target = os.readlink(link)
                if target.startswith("socket:["):
                    owners.setdefault(target[8:-1], name)
    found = []
    for kind, table in (("tcp", "tcp"), ("tcp", "tcp6"), ("udp", "udp"), ("udp", "udp6")):
        for words in _rows(f"/proc/net/{table}"):
            if words[9] in owners and (kind == "udp" or words[3] == LISTENS):
                port = int(words[1].rpartition(":")[2], 16)
                host = "127.0.0.1" if table in ("tcp", "udp") else "::1"
                found.append(Place(owners[words[9]], kind, f"{host}:{port}"))
    for words in _rows("/proc/net/unix"):
        listens = int(words[3], 16) & 0x10000
        if listens and words[6] in owners:
            kind = {"0001": "stream", "0005": "seqpacket"}.get(words[4], words[4])
            found.append(Place(owners[words[6]], f"unix {kind}", " ".join(words[7:])))
    return found


def _rows(table: str) -> Iterator[list[str]]:
    for line in Path(table).read_text().splitlines()[1:]:
        yield line.split()


# -- the other account ---------------------------------------------------------------------------


def as_account(account: int, work: Callable[[], list[Outcome]]) -> list[Outcome]:
    """Outcomes of attacks by a process of that account."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            os.setgroups([])
            os.setgid(account)
            os.setuid(account)
            told = json.dumps(work())
        except BaseException as error:
            told = json.dumps([Outcome("tool", "", "to try", repr(error), False)])
        with os.fdopen(writing, "w") as out:
            out.write(told)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as found:
        outcomes = [Outcome(*row) for row in json.load(found)]
    os.waitpid(pid, 0)
    return outcomes


def attack(
    found: list[Place], processes: dict[int, str], files: Sequence[Path] = ()
) -> list[Outcome]:
    """Make all attacks."""
    outcomes = [against_file(path) for path in files]
    for place in found:
        if place.kind == "tcp":
            outcomes += over_tcp(place)
        elif place.kind == "udp":
            text = "left out: a CAN bus over multicast is open to every account"
            outcomes.append(Outcome(place.process, place.name, "udp", text, True))
        else:
            outcomes.append(over_unix(place))
    for pid, name in processes.items():
        outcomes += against_process(pid, name)
    return outcomes


def hello(name: str, role: Role) -> bytes:
    """A subsystem's first message."""
    message = Hello(
        version=PROTOCOL_VERSION, role=role, name=name, inputs=[], outputs=[], pid=os.getpid()
    )
    return encode_message(message)


def over_tcp(place: Place) -> list[Outcome]:
    """ZeroMQ sockets of every kind, HTTP, and the upgrade to a WebSocket."""
    outcomes = [zeromq(place)]
    host, _, port = place.name.rpartition(":")
    for path in ("/", "/metrics", "/?token=guess", "/autoload.js?bokeh-autoload-element=1"):
        said = http_status(host, int(port), path, {})
        outcomes.append(Outcome(place.process, place.name, f"GET {path}", *read_http(said)))
    for path in ("/", "/ws"):
        said = http_status(host, int(port), path, UPGRADE)
        outcomes.append(Outcome(place.process, place.name, f"WebSocket {path}", *read_http(said)))
    return outcomes


def http_status(host: str, port: int, path: str, headers: dict[str, str]) -> int | str:
    """Status of a response, or the reason why there is none."""
    connection = http.client.HTTPConnection(host, port, timeout=LISTEN_S)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()


def read_http(said: int | str) -> tuple[str, bool]:
    """Result as text, and whether it is acceptable."""
    return f"{said}", said not in (101, 200, 206, 301, 302)


def zeromq(place: Place) -> Outcome:
    """Try to receive rows, read the status, and send hellos and commands."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    pull, sub, push = (context.socket(kind) for kind in (zmq.PULL, zmq.SUB, zmq.PUSH))
    sub.subscribe(b"")
    dealers = [context.socket(zmq.DEALER) for _ in SUBSYSTEMS]
    commander = context.socket(zmq.DEALER)
    everything = [pull, sub, push, commander, *dealers]
    for one in everything:
        one.linger = 0
        one.connect(f"tcp://{place.name}")
    for dealer, (name, role) in zip(dealers, SUBSYSTEMS.items(), strict=True):
        dealer.send(hello(name, role))
    stop = OperatorCommand(action="stop", who="stranger", key="guess", at=time.monotonic())
    commander.send_multipart([b"1", b"", encode_command(stop)])
    with contextlib.suppress(zmq.Again):
        push.send(encode_row(RecordEnd(summary=b"{}", rows=0, events=0)), zmq.NOBLOCK)
    found: dict[str, int] = {}
    well = True
    deadline = time.monotonic() + LISTEN_S
    while time.monotonic() < deadline:
        for one in everything:
            while one is not push and one.poll(5):
                said, harmless = judge(one.recv_multipart(), one in (pull, sub))
                found[said] = found.get(said, 0) + 1
                well = well and harmless
    context.destroy(linger=0)
    told = ", ".join(f"{n} × {said}" for said, n in found.items()) or "no answer"
    return Outcome(place.process, place.name, "ZeroMQ", told, well)


def judge(frames: list[bytes], taken: bool) -> tuple[str, bool]:
    """Describe a message, and judge whether a stranger may receive it."""
    if taken:
        return "a message taken", False
    try:
        message = decode_from_master(frames[-1])
    except ProtocolError:
        refused = b"refused" in frames[-1] or b"not a command" in frames[-1]
        return ("a refusal" if refused else "an answer"), refused
    if isinstance(message, Reject):
        return f"rejected: {message.reason[:60]}", True
    return ("welcomed" if isinstance(message, Welcome) else "a message"), False


def over_unix(place: Place) -> Outcome:
    """Connect to a path or an abstract name, send a hello, and read the response."""
    kind = socket.SOCK_SEQPACKET if "seqpacket" in place.kind else socket.SOCK_STREAM
    name: bytes | str = place.name
    if place.name.startswith("@"):
        name = abstract_name(place.name.removeprefix("@hilrt "))
    with socket.socket(socket.AF_UNIX, kind) as stranger:
        stranger.settimeout(LISTEN_S)
        try:
            stranger.connect(name)
            with contextlib.suppress(BrokenPipeError):
                stranger.send(hello("vehicle", "solver"))
            said, well = ("cut off", True) if not stranger.recv(1) else ("it answers", False)
        except TimeoutError:
            said, well = "connected, no answer", False
        except OSError as error:
            said, well = error.strerror or type(error).__name__, True
    return Outcome(place.process, place.name, place.kind, said, well)


def files_of(folder: Path, pids: Iterable[int]) -> list[Path]:
    """List files of a run's folder and open files of its processes, temporary folders included."""
    opened = set()
    for link in (link for pid in pids for link in Path(f"/proc/{pid}/fd").glob("*")):
        with contextlib.suppress(OSError):
            target = link.readlink()
            if target.is_relative_to("/dev/shm") or not target.is_relative_to("/dev"):
                opened.add(target)
    own = {path.parent for path in opened if path.parent.name.startswith("hilrt_")}
    inside = [path for top in (folder, *own) for path in (top, *top.rglob("*"))]
    return sorted({path for path in [*inside, *opened] if path.is_file() or path.is_dir()})


def against_file(path: Path) -> Outcome:
    """Try to read a file or folder, and to write to it."""
    may = []
    for tried, mode in (("read", os.R_OK), ("write", os.W_OK)):
        with contextlib.suppress(OSError):
            may += [tried] if os.access(path, mode) else []
    return Outcome("files", str(path), "to read, write", " and ".join(may) or "refused", not may)


def against_process(pid: int, name: str) -> Iterator[Outcome]:
    """Try to send a signal, and to read the environment and secrets on the command line."""
    try:
        os.kill(pid, signal.SIGTERM)
        yield Outcome(name, f"process {pid}", "SIGTERM", "sent", False)
    except OSError as error:
        yield Outcome(name, f"process {pid}", "SIGTERM", str(error.strerror), True)
    try:
        Path(f"/proc/{pid}/environ").read_bytes()
        yield Outcome(name, f"process {pid}", "environment", "read", False)
    except OSError as error:
        yield Outcome(name, f"process {pid}", "environment", str(error.strerror), True)
    words = " ".join(command_of(pid))
    bare = not any(secret in words for secret in SECRETS.values())
    said = "without secrets" if bare else "a secret"
    yield Outcome(name, f"process {pid}", "command line", said, bare)
