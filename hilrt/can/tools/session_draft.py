"""Draft of a session file from a CAN database: known values are written, choices are marked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from cantools.database.can import Message, Signal
from cantools.database.utils import start_bit

from hilrt.can.database import DEFAULT_CYCLE_MS, load_database
from hilrt.can.frame import CLASSIC_BYTES, FD_BYTES
from hilrt.can.id_table import is_j1939, with_contained
from hilrt.can.j1939_transport import LONGEST
from hilrt.can.tools.port_lines import (
    CHOOSE,
    PortLines,
    WrittenInput,
    remark,
    title,
    toml_key,
    toml_string,
)
from hilrt.config.from_toml import nearest
from hilrt.documentation import in_documentation
from hilrt.errors import ConfigError


def fault(message: Message, signal: Signal) -> str:
    """Reason why no frame can contain a signal; empty if one can."""
    if not signal.scale:
        return f"signal {signal.name} has the scale 0"
    if start_bit(signal) + signal.length > 8 * message.length:
        return f"signal {signal.name} extends beyond the message's {message.length} bytes"
    if signal.is_float and signal.length not in (16, 32, 64):
        return f"signal {signal.name} is a float of {signal.length} bits"
    return ""


def reason(message: Message, error: Exception) -> str:
    """Reason why a message cannot be encoded: its signals' faults, else the `error`."""
    faults = [text for signal in message.signals if (text := fault(message, signal))]
    return ", ".join(faults) or str(error) or type(error).__name__


__all__ = ["CHOOSE", "choices", "generate"]

#: For a rehearsal, in which all processes share this machine.
SHARED = f"{'dispatch_deadline = 0.5':36} # share of the step; 0.2 if nothing else runs"

#: Maximum inputs that the page may change.
MOST_ADJUSTED = 20
#: Words in the name of a node that drives a bench.
_GATEWAYS = ("gateway", "hil", "tester", "master", "automation", "host")


def generate(
    database: Path,
    node: str | None,
    bus: dict[str, object],
    folder: Path,
    *,
    bench: Sequence[str] = (),
    send: Sequence[str] = (),
    emulator: str | None = None,
) -> str:
    """Text of a session file with one bench.

    Parameters
    ----------
    database : Path
    node, bench, send
        Roles of the nodes: see `_assign`.
    bus : dict
        Arguments of python-can's `Bus`.
    folder : Path
        Folder of the file; the database is named relative to it.
    emulator : str, optional
        Replaces the bench. No choices are then left, because guesses suffice for an emulator.
    """
    base = load_database(database, "--database")
    roles = _assign(base.messages, node, bench, send, database.name)
    boxes = [message for message in roles.received if message.is_container]
    roles = roles._replace(received=[message for message, _ in with_contained(roles.received)])
    ports = PortLines(base, guess=emulator is not None)
    timed = any(message.cycle_time for message in roles.received)
    measured = [m for m in roles.received if not _left_out(m, timed) and ports.outputs(m)]
    sent = [m for m in roles.sent if not _unfit(m, sent=True) and ports.inputs(m)]
    if not measured:
        raise ConfigError(
            f"--bench: {', '.join(roles.bench) or database.name} has no message with a signal that "
            "can be measured; name other nodes, or correct the database"
        )
    enable = ports.enable(sent, measured)
    lines = [
        *_head(database, roles, _step(measured), emulator),
        *_bench(database, bus, folder, [*sent, *measured, *boxes]),
        *_emulation(emulator),
        *_timeouts(measured, emulator),
        *_enable(enable),
        "",
        "# ---- measured ----",
        *(line for message in measured for line in ports.measured(message)),
        *_candidates(roles, measured, timed, ports),
        *_sent(roles, sent, ports, enable),
        *(_rehearsal(ports.written) if emulator is not None else ()),
    ]
    return "\n".join(lines) + "\n"


def choices(text: str) -> int:
    """Number of choices left to the user in a generated file."""
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return sum(line.partition("  #")[0].count(f"= {CHOOSE}") for line in lines)


# ---- the parts of the file -----------------------------------------------------------------------


def _step(measured: Sequence[Message]) -> str:
    """Line with the macro step: the bench's cycle time, between 1 and 100 ms."""
    step = min(max(min(_cycles(measured)), 1), 100) / 1e3
    known = ", as the bench sends"
    if not any(message.cycle_time for message in measured):
        known = ": set it to what `hilrt can stats` measures; the database has no cycle times"
    return f"{f'step = {step:g}':36} # s{known}"


def _cycles(measured: Sequence[Message]) -> list[float]:
    """Cycle times of the messages that have one, ms; else that of an emulated bench."""
    return [message.cycle_time for message in measured if message.cycle_time] or [DEFAULT_CYCLE_MS]


def _head(database: Path, roles: _Roles, step: str, emulator: str | None) -> list[str]:
    place = f"hilrt replaces {roles.node} (--node)" if roles.node else "hilrt replaces no node"
    if not roles.sent:
        place += ", and only listens: --send MESSAGE names a message that it sends"
    bench = f"is {', '.join(roles.bench)} (--bench)" if roles.bench else "is all other nodes"
    others = f"; other nodes: {', '.join(roles.others)}" if roles.others else ""
    todo = (
        f"# Choose what is marked {CHOOSE}; uncomment the ports that you want; then: hilrt check"
        if emulator is None
        else "# max_rate, safe, methods of checksums are guesses: check them before connecting a "
        "real bench."
    )
    return [
        remark(f"A session with the bench of {database.name}. {place}."),
        remark(f"The bench {bench}{others}."),
        todo,
        "",
        "[session]",
        f"name = {json.dumps(_session_name(database.stem))}",
        "duration = 10.0                      # s",
        "",
        "[master]",
        step,
        *([] if emulator is None else [SHARED]),
        "",
    ]


def _bench(
    database: Path, bus: dict[str, object], folder: Path, used: Sequence[Message]
) -> list[str]:
    try:
        path = Path(os.path.relpath(database, folder))
    except ValueError:  # on another drive
        path = database.resolve()
    if any(message.is_fd or message.is_container for message in used):
        bus = {**bus, "fd": True}
    entries = ", ".join(f"{toml_key(key)} = {toml_string(value)}" for key, value in bus.items())
    return [
        "[subsystems.bench]",
        'adapter = "can"',
        f"bus = {{ {entries} }}",
        f"database = {toml_string(path.as_posix())}",
    ]


def _emulation(emulator: str | None) -> list[str]:
    if emulator is None:
        return []
    return [
        '# The bus of the real bench: bus = { interface = "socketcan", channel = "can0" }',
        f"{f'emulator = {toml_string(emulator)}':36} # leave it out on the real bench",
        f"{'late = { max_misses = 200 }':36} # it shares the processors",
    ]


def _timeouts(measured: Sequence[Message], emulator: str | None) -> list[str]:
    """Lines with timeouts: a few cycles of the bench's fastest message."""
    fastest = 1e-3 * min(_cycles(measured))
    seconds = max(0.02, 5 * fastest)
    off, end = ("", "") if emulator is None else ("# ", ", on the real bench")
    master = f"master_timeout = {max(0.1, 3 * min(0.1, fastest)):g}"
    return [
        f"{off}{f'bench_timeout = {seconds:g}':36} # s without a fast frame{end}",
        f"{off}{master:36} # s without a new set-point -> safe profile{end}",
        "actuation_delay = 0.0                # s; measure it on your bench",
    ]


def _enable(enable: Sequence[str]) -> list[str]:
    """The enable handshake, guessed from the signals' names."""
    if not enable:
        return ['# enable = { request = "Message.Signal", state = "Message.Signal" }']
    entries = zip(("request", "state"), enable, strict=False)
    table = ", ".join(f"{key} = {toml_string(ref)}" for key, ref in entries)
    return [f"enable = {{ {table} }}  # by its name: check it"]


def _candidates(
    roles: _Roles, measured: Sequence[Message], timed: bool, ports: PortLines
) -> Iterable[str]:
    """Further measurable signals, with the reason why they are left out."""
    left = [message for message in roles.received if message not in measured]
    if left or roles.foreign:
        yield from ("", "# ---- not measured: uncomment what you want ----")
    for message in left:
        yield from ports.measured(
            message, _left_out(message, timed) or "none of its signals can be measured"
        )
    for message in roles.foreign:
        owner = ", ".join(message.senders)
        why = f"of {owner}, not of the bench (--bench)" if owner else "the database names no sender"
        yield from ports.measured(message, _unfit(message) or why)


def _sent(
    roles: _Roles, sent: Sequence[Message], ports: PortLines, enable: Sequence[str]
) -> Iterable[str]:
    """Tables of the messages sent by hilrt's node, then of their inputs."""
    yield from ("", "# ---- sent ----")
    for message in sent:
        yield from ports.sent(message, enable)
    for message in roles.sent:
        if message not in sent:
            why = _unfit(message, sent=True) or "has no signal that can be a set-point"
            yield from ("", remark(f"{title(message)} is not sent: {why}"))
    if roles.unsent:
        names = ", ".join(message.name for message in roles.unsent)
        yield from ("", remark(f"{roles.node} also sends these; choose with --send: {names}"))
    yield from ("", "[subsystems.bench.inputs]")
    for message in sent:
        for signal in ports.inputs(message):
            if f"{message.name}.{signal.name}" not in enable:
                yield from ports.input(message, signal)


def _rehearsal(inputs: Sequence[WrittenInput]) -> Iterable[str]:
    """A first stimulus, and limits for changes from the page: for an emulated bench."""
    moves = next((one for one in inputs if one.quantity), None)
    if moves is not None:
        distance_up = moves.high - moves.rest
        way = float(f"{0.1 * (moves.high - moves.low):.3g}")
        way = way if distance_up >= way else -way
        rate = float(f"{0.5 * (moves.high - moves.low):.2g}")
        ramp = f'{{ shape = "ramp", to = {way!r}, rate = {rate!r} }}'
        segments = f'segments = [{ramp}, {{ shape = "hold", duration = 2.0 }}]'
        yield from (
            "",
            "# So that something moves: choose input, size and shape",
            f"# ({in_documentation('docs/stimuli.md')}).",
            "[[stimuli]]",
            'name = "first-ramp"',
            f"input = {toml_string(f'bench.{moves.name}')}",
            f"{'start = 1.0':36} # s",
            f"{segments:36} # {moves.unit}, added to the value that is held",
        )
    yield from (
        "",
        f"# What the page of `hilrt run --web` may do ({in_documentation('docs/monitor.md')}).",
        "[monitor]",
        'control = ["safe", "stop", "mark", "acknowledge", "adjust"]',
    )
    if inputs:
        yield from ("", "[monitor.adjust]")
    for one in inputs[:MOST_ADJUSTED]:
        bounds = f"{{ min = {one.low!r}, max = {one.high!r} }}"
        yield f"{toml_string(f'inputs.bench.{one.name}')} = {bounds}"


def _unfit(message: Message, sent: bool = False) -> str:
    """Reason why a message as a whole cannot be used; empty if it can."""
    if message.is_container:
        inner = ", ".join(each.name for each in message.contained_messages)
        return (
            f"it contains other messages ({inner}), which can only be received"
            if sent
            else f"it contains other messages ({inner}): outputs name those, as Message.Signal"
        )
    if not message.signals:
        return "it has no signals"
    if message.header_id is not None:
        return ""  # it is sent in a container's frame
    if message.length > CLASSIC_BYTES and is_j1939(message):
        if sent:
            return "it needs several frames of a transport protocol, which can only be received"
        return "" if message.length <= LONGEST else f"the longest J1939 group has {LONGEST} bytes"
    if message.length > CLASSIC_BYTES and not message.is_fd:
        frame = f"a frame of {CLASSIC_BYTES} bytes"
        return f"it is longer than {frame}, and the database does not mark it as CAN FD"
    if message.length > FD_BYTES:
        return f"it is longer than a frame of CAN FD, {FD_BYTES} bytes"
    return ""


def _left_out(message: Message, timed: bool) -> str:
    """Reason why a message of the bench is not received; empty if it is.

    The gateway waits at the start for every message that it receives. If a database has cycle
    times, but none for this message, the message is probably sent on events.
    """
    rare = timed and not message.cycle_time
    return _unfit(message) or ("without a cycle time, so it may never arrive" if rare else "")


def _session_name(text: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in text)
    return kept.lstrip("_.-") or "session"


# ---- which node is which -------------------------------------------------------------------------


class _Roles(NamedTuple):
    """The messages of a database by their role in a session.

    Parameters
    ----------
    node : str or None
        The node replaced by hilrt, if any.
    bench, others : tuple of str
        Nodes that are measured, and the remaining ones. `bench` is empty if the database does not
        distinguish nodes: then everything that hilrt does not send is measured.
    sent, received : list of Message
        Set-points, and measurements.
    unsent : list of Message
        Messages of hilrt's node that were not chosen as set-points.
    foreign : list of Message
        Messages of other nodes, or of none.
    """

    node: str | None
    bench: tuple[str, ...]
    others: tuple[str, ...]
    sent: list[Message]
    received: list[Message]
    unsent: list[Message]
    foreign: list[Message]


def _assign(
    messages: Sequence[Message],
    node: str | None,
    bench: Sequence[str],
    send: Sequence[str],
    file: str,
) -> _Roles:
    """Assign a role to every message.

    Parameters
    ----------
    messages : sequence of Message
    node : str or None
        ``--node``; None: the only one named like a gateway.
    bench : sequence of str
        ``--bench``; empty: the nodes that receive messages of `node`, or the only other one.
    send : sequence of str
        ``--send``, messages; empty: all of `node`.
    file : str
        The database's name, for messages.

    Raises
    ------
    ConfigError
        If names are wrong, or roles must be chosen.
    """
    if not messages:
        raise ConfigError(f"--database: {file} has no messages; give the one of the bench")
    nodes = _senders(messages)
    _known("--node", [node] if node else [], nodes, f"{file} has no such sender")
    _known("--bench", bench, nodes, f"{file} has no such sender")
    _known("--send", send, [m.name for m in messages], f"{file} has no such message")
    if node in bench:
        raise ConfigError(f"--bench {node}: hilrt replaces it (--node); name another one")
    if node is None and not send:
        node = _guess(nodes, bench, file)
    of_node = [message for message in messages if node in message.senders]
    sent = [message for message in messages if message.name in send] if send else of_node
    rest = [message for message in messages if message not in sent]
    if len(nodes) <= 1 and not bench:  # the senders are unknown
        received = rest
    else:
        own = {node} if node else set(_senders(sent))
        bench = bench or _driven(sent, [name for name in nodes if name not in own], file)
        received = [message for message in rest if set(bench) & set(message.senders)]
    if not received:
        raise ConfigError(
            f"--{'node' if node else 'send'}: all messages of {file} would be set-points and none "
            "measured; name those that hilrt sends with --send, then the others are measured"
        )
    rest = [message for message in rest if message not in received]
    return _Roles(
        node=node,
        bench=tuple(bench),
        others=tuple(name for name in nodes if name != node and name not in bench) if bench else (),
        sent=sent,
        received=received,
        unsent=[message for message in rest if message in of_node],
        foreign=[message for message in rest if message not in of_node],
    )


def _senders(messages: Iterable[Message]) -> list[str]:
    """Nodes that send something, in the order of the database."""
    return list(dict.fromkeys(name for message in messages for name in message.senders))


def _known(option: str, given: Sequence[str], known: Sequence[str], lack: str) -> None:
    for name in given:
        if name not in known:
            raise ConfigError(f"{option} {name}: {lack}{nearest(name, known)}")


def _guess(nodes: Sequence[str], bench: Sequence[str], file: str) -> str | None:
    """The node replaced by hilrt; None if it only listens."""
    free = [name for name in nodes if name not in bench]
    found = [name for name in free if any(word in name.lower() for word in _GATEWAYS)]
    if len(found) == 1:
        return found[0]
    if len(nodes) <= 1 or bench:
        return None
    raise ConfigError(
        f"--node: {file} has messages of {', '.join(nodes)}; name the one that hilrt replaces: "
        "its messages are the set-points"
    )


def _driven(sent: Sequence[Message], nodes: Sequence[str], file: str) -> list[str]:
    """The bench addressed by the set-points."""
    receivers = {name for message in sent for s in message.signals for name in s.receivers}
    found = [name for name in nodes if name in receivers]
    if found or len(nodes) == 1:
        return found or list(nodes)
    raise ConfigError(
        f"--bench: {file} does not show who receives the set-points; name the nodes to measure, "
        f"one --bench each; there is {', '.join(nodes) or 'no other one'}"
    )
