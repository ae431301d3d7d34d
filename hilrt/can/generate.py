"""A starting session file from a CAN database: everything known is written, choices are marked."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

from cantools.database.can import Message, Signal

from hilrt.errors import ConfigError
from hilrt.tables import nearest
from hilrt_adapters.can import load_database, representable

#: Stands where a person has to decide; `hilrt check` names every one that is left.
CHOOSE = '"choose"'
ALIVE = "Alive"


def senders(messages: Sequence[Message]) -> list[str]:
    """Nodes that send something, in the order of the database."""
    return list(dict.fromkeys(name for message in messages for name in message.senders))


def generate(database: Path, node: str | None, bus: dict[str, object], folder: Path) -> str:
    """Text of a session file with one bench.

    Parameters
    ----------
    database : Path
    node : str, optional
        The node of the database in whose place hilrt is: its messages are set-points, the others'
        measurements. It may be left out if only two nodes send, and one is called like a gateway.
    bus : dict
        Arguments of python-can's `Bus`.
    folder : Path
        Where the file will be; the database is named relative to it.
    """
    messages = load_database(database, "--database").messages
    node = node or _guess(senders(messages), database)
    if node not in senders(messages):
        raise ConfigError(
            f"--node {node}: {database.name} has no such sender{nearest(node, senders(messages))}"
        )
    sent = [m for m in messages if node in m.senders and not m.is_container]
    received = [m for m in messages if node not in m.senders and m.signals]
    try:
        path = Path(os.path.relpath(database, folder))
    except ValueError:  # on another drive
        path = database.resolve()
    lines = [
        f"# A session with the bench of {database.name}, hilrt in the place of {node}.",
        f"# Choose what is marked {CHOOSE}; uncomment the ports that you want; then: hilrt check",
        "",
        "[session]",
        f"name = {json.dumps(_name(database.stem))}",
        "duration = 10.0                      # s",
        "",
        "[master]",
        "step = 0.01                          # s",
        "",
        "[subsystems.bench]",
        'adapter = "can"',
        f"bus = {_inline(bus)}",
        f"database = {json.dumps(path.as_posix())}",
        *_timeouts(received),
        *_enable(sent, received),
        "",
        "[subsystems.bench.outputs]",
        *_outputs(received),
        "",
        *_inputs(sent),
    ]
    return "\n".join(lines)


def _guess(nodes: list[str], database: Path) -> str:
    likely = ("gateway", "hil", "tester", "master", "automation", "host")
    found = [name for name in nodes if any(word in name.lower() for word in likely)]
    if len(found) == 1:
        return found[0]
    raise ConfigError(
        f"--node: {database.name} has messages of {', '.join(nodes) or 'no named nodes'}; "
        "name the one in whose place hilrt is: its messages are the set-points"
    )


def _name(text: str) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in text)
    return kept.lstrip("_.-") or "session"


def _inline(table: dict[str, object]) -> str:
    return "{ " + ", ".join(f"{k} = {json.dumps(v)}" for k, v in table.items()) + " }"


def _timeouts(received: Sequence[Message]) -> list[str]:
    """A bench counts as silent after some of the cycles of its fastest message."""
    cycles = [1e-3 * message.cycle_time for message in received if message.cycle_time]
    seconds = max(0.02, 5 * min(cycles)) if cycles else 0.1
    return [
        f"bench_timeout = {seconds:g}                  # s without a fast frame",
        "master_timeout = 0.1                 # s without a new set-point -> safe profile",
        "actuation_delay = 0.0                # s; measure it on your bench",
    ]


def _enable(sent: Sequence[Message], received: Sequence[Message]) -> list[str]:
    """The handshake, as far as names give it away."""

    def find(messages: Sequence[Message]) -> str | None:
        for message in messages:
            for signal in message.signals:
                if signal.length <= 2 and "enable" in signal.name.lower():
                    return f"{message.name}.{signal.name}"
        return None

    request, state = find(sent), find(received)
    if request is None:
        return ['# enable = { request = "Message.Signal", state = "Message.Signal" }']
    confirmed = f", state = {json.dumps(state)}" if state else ""
    return [f"enable = {{ request = {json.dumps(request)}{confirmed} }}  # by its name: check it"]


def _port(message: Message, signal: Signal, taken: set[str]) -> str:
    """A port's name: the signal's in small letters, with the message's where that is taken."""
    name = "".join(
        ("_" if c.isupper() and i and not signal.name[i - 1].isupper() else "") + c.lower()
        for i, c in enumerate(signal.name)
    ).replace("__", "_")
    if name in taken:
        name = f"{message.name.lower()}_{name}"
    taken.add(name)
    return name


def _useful(message: Message) -> list[Signal]:
    """Signals that can be ports: no counters, checksums, multiplexers."""
    words = (ALIVE.lower(), "counter", "checksum", "crc")
    return [
        signal
        for signal in message.signals
        if not signal.is_multiplexer and not any(w in signal.name.lower() for w in words)
    ]


def _outputs(received: Sequence[Message]) -> list[str]:
    """All of them: what is measured harms nobody."""
    lines: list[str] = []
    taken: set[str] = set()
    for message in received:
        cycle = f", every {message.cycle_time} ms" if message.cycle_time else ""
        lines.append(f"# {message.name} (0x{message.frame_id:X}{cycle})")
        for signal in _useful(message):
            name = _port(message, signal, taken)
            ref = json.dumps(f"{message.name}.{signal.name}")
            unit = f"  # {signal.unit}" if signal.unit else ""
            # Only one form of a multiplexed message comes at a time: perhaps never all of them.
            mark = "# " if signal.multiplexer_signal else ""
            lines.append(f"{mark}{name} = {ref}{unit}")
    return lines


def _inputs(sent: Sequence[Message]) -> list[str]:
    lines: list[str] = []
    taken: set[str] = set()
    for message in sent:
        for signal in _useful(message):
            if "enable" in signal.name.lower() and signal.length <= 2:
                continue
            name = _port(message, signal, taken)
            low, high = _range(signal)
            unit = signal.unit or "no unit"
            lines += [
                f"[subsystems.bench.inputs.{name}]",
                f"signal = {json.dumps(f'{message.name}.{signal.name}')}",
                f"min = {low!r}  # {unit}: what the database allows; narrow it to your bench",
                f"max = {high!r}",
                f"max_rate = {CHOOSE}  # {unit} per s",
                f"safe = {CHOOSE}  # {unit}: where the safe profile brings it",
                f"start = {CHOOSE}  # {unit}; or leave it out and connect the input",
                '# realised = "…"  # the output that measures what the bench made of it',
                "",
            ]
    return lines


def _range(signal: Signal) -> tuple[float, float]:
    low, high = representable(signal)
    if signal.minimum is not None and signal.maximum is not None:
        given = float(signal.minimum), float(signal.maximum)
        if given[0] < given[1]:
            low, high = max(low, given[0]), min(high, given[1])
    return (low, high) if math.isfinite(high - low) else (-1e6, 1e6)
