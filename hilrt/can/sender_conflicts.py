"""Whether another node sends our messages: two masters, or two benches, on one bus contradict."""

from __future__ import annotations

import select
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cantools.database.can import Message

from hilrt.can.bus import open_bus
from hilrt.can.id_table import IdTable, can_id_of
from hilrt.errors import ConfigError

#: How long to listen, s: a session sends its demands at every tick or at the database's cycle.
LISTEN_S = 0.25


def refuse_conflicts(
    bus: Mapping[str, Any], messages: Sequence[Message], label: str, listen_s: float = LISTEN_S
) -> None:
    """Listen for messages that are ours to send, before we do.

    Parameters
    ----------
    bus : mapping
        Arguments of `open_bus`.
    messages : sequence of Message
        What only this process is to send.
    label : str
        Table and key that name the bus, for the message.
    listen_s : float
        How long, s.

    Raises
    ------
    ConfigError
        If another node sends one of them.
    """
    # A J1939 group may come from others, under their own addresses.
    ours = ((message, message) for message in messages)
    table = IdTable(ours, source=lambda message: can_id_of(message) & 0xFF)
    opened = open_bus(bus, messages, label)
    try:
        end = time.monotonic() + listen_s
        while (left := end - time.monotonic()) > 0:
            select.select([opened.fileno()], [], [], left)
            for frame in opened.drain():
                if message := table.find(frame.can_id):
                    raise ConfigError(
                        f"{label} = {dict(bus)!r}: another sender has {message.name} on it, "
                        "which is this session's to send; end the other session or node, or give "
                        "this one a bus of its own"
                    )
    finally:
        opened.close()
