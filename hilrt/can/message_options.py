"""``[subsystems.NAME.messages.MESSAGE]``: what is particular about single messages of a bench."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

import msgspec
from cantools.database.can import Message

from hilrt.can.id_table import is_j1939
from hilrt.can.protection import Guarded, Protection, guarded
from hilrt.config.from_toml import nearest
from hilrt.config.table import NonNegative, Positive, Table
from hilrt.errors import ConfigError


class MessageOptions(Table):
    """What is particular about one message."""

    #: Received: age at which it counts as silent, s. Default: ``bench_timeout``, or three cycle
    #: times of the database if that is longer. A J1939 group of several frames gets 200 ms more for
    #: each of them.
    timeout: Positive | None = None
    #: Counter signal; default: the one named by ``alive``; "" for none.
    counter: str | None = None
    #: Received: counter steps that are taken as loss; larger ones as a wrong order. Default: half
    #: of the counter's range.
    max_lost: Annotated[int, msgspec.Meta(ge=0)] | None = None
    #: Header or checksum.
    protection: Protection | None = None
    #: J1939: the one source address that it is received from; default: any.
    source: Annotated[int, msgspec.Meta(ge=0, le=0xFF)] | None = None
    #: Sent: with every set-point, at times of its own, or when its content changes.
    send: Literal["tick", "cyclic", "change"] = "tick"
    #: Sent: period with "cyclic", longest pause with "change", s; default: as in the database.
    cycle: Positive | None = None
    #: Sent: of "cyclic", s.
    phase: NonNegative = 0.0
    #: Sent: values of signals that no input drives.
    values: dict[str, float] = msgspec.field(default_factory=dict)
    #: Sent: values in one last frame after the safe profile, over those of the safe state.
    last: dict[str, float] = msgspec.field(default_factory=dict)


def check_messages(
    table: str,
    options: Mapping[str, MessageOptions],
    sent: Iterable[Message],
    received: Iterable[Message],
) -> list[str]:
    """Problems of the tables of single messages."""
    sending = {message.name: message for message in sent}
    receiving = {message.name: message for message in received}
    used = {**sending, **receiving}
    problems = []
    for name, entry in options.items():
        label = f"{table} messages.{name}"
        message = used.get(name)
        if message is None:
            problems.append(f"{label}: is neither sent nor received here{nearest(name, used)}")
            continue
        signals = {signal.name for signal in message.signals}
        for key, text in (("counter", entry.counter), *(("values", s) for s in entry.values)):
            if text and text not in signals:
                problems.append(
                    f"{label} {key} = {text!r}: message {name} has no such signal"
                    f"{nearest(text, signals)}"
                )
        if entry.counter in signals and counter_of(entry, message, "") is None:
            problems.append(
                f"{label} counter = {entry.counter!r}: is a floating-point number, which counts "
                "nothing; name another signal, or leave it out"
            )
        for text in entry.last:
            if text not in signals:
                problems.append(
                    f"{label} last.{text}: message {name} has no such signal"
                    f"{nearest(text, signals)}"
                )
        if entry.source is not None and not is_j1939(message):
            problems.append(f"{label} source: {name} is no J1939 message of the database; leave it")
        if entry.send == "cyclic" and entry.cycle is None and not message.cycle_time:
            problems.append(
                f"{label} cycle: is missing; the database has no cycle time of {name} either"
            )
        wrong = _of_the_other_side(entry, name in sending)
        problems += [f"{label} {key}: {why}" for key, why in wrong]
        if entry.protection is not None:
            try:
                guarded(entry.protection, message, f"{label} protection")
            except ConfigError as error:
                problems += error.problems
    return problems


def _of_the_other_side(entry: MessageOptions, sent: bool) -> list[tuple[str, str]]:
    """Keys without effect, because the message goes the other way."""
    default = MessageOptions()
    keys = (
        ("timeout", "max_lost", "source") if sent else ("send", "cycle", "phase", "values", "last")
    )
    why = "is for messages that are received" if sent else "is for messages that are sent"
    return [
        (key, f"{why}; leave it out")
        for key in keys
        if getattr(entry, key) != getattr(default, key)
    ]


def protection_of(options: MessageOptions, message: Message) -> Guarded | None:
    """What protects a message, checked before by `check_messages`."""
    if options.protection is None:
        return None
    return guarded(options.protection, message, f"messages.{message.name} protection")


def counter_of(options: MessageOptions, message: Message, alive: str) -> str | None:
    """Counter signal of a message, if it has one; a floating-point number counts nothing."""
    name = alive if options.counter is None else options.counter
    found = any(signal.name == name and not signal.is_float for signal in message.signals)
    return name if found else None
