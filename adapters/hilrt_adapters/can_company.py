"""Whether somebody else drives the bench already: two masters on one bus contradict each other."""

from __future__ import annotations

import select
import time

from hilrt.errors import ConfigError
from hilrt_adapters.bench import Bench
from hilrt_adapters.can_bus import open_bus
from hilrt_adapters.can_frame import IdTable, can_id_of

#: How long to listen, s: a session sends its demands at every tick or at the database's cycle.
LISTEN_S = 0.25


def refuse_company(bench: Bench, subsystem: str, listen_s: float = LISTEN_S) -> None:
    """Listen for the bench's demands before anything is sent.

    Parameters
    ----------
    bench : Bench
    subsystem : str
        Its table's name, for the message.
    listen_s : float
        How long, s.

    Raises
    ------
    ConfigError
        If one of the messages that this gateway is to send is on the bus already.
    """
    label = f"[subsystems.{subsystem}] bus"
    # A J1939 group may come from others, under their own addresses.
    driven = ((message, message) for message in bench.driven)
    table = IdTable(driven, source=lambda message: can_id_of(message) & 0xFF)
    bus = open_bus(bench.options.bus, bench.driven, label)
    try:
        end = time.monotonic() + listen_s
        while (left := end - time.monotonic()) > 0:
            select.select([bus.fileno()], [], [], left)
            for frame in bus.drain():
                if message := table.find(frame.can_id):
                    raise ConfigError(
                        f"{label} = {bench.options.bus!r}: somebody else sends {message.name} on "
                        "it, which is this session's to send; end the other session or node, or "
                        "give this one a bus of its own"
                    )
    finally:
        bus.close()
