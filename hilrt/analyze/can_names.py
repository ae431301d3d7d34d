"""Messages of a bus in a log: names, cycle times and checks; also the bit rate."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cantools.database.can import Message

from hilrt.bench.bench_options import BenchOptions
from hilrt.can.database import load_database
from hilrt.can.id_table import IdTable
from hilrt.can.message_stats import MessageStats
from hilrt.can.protection import (
    MessageOptions,
    counter_of,
    cycle_of,
    protection_of,
    with_set_points,
)
from hilrt.can.received_message import ReceivedMessage
from hilrt.config.from_toml import build_partly
from hilrt.errors import HilrtError

#: Attached files that may be databases.
_DATABASES = (".dbc", ".arxml", ".kcd", ".sym", ".cdd")
#: Age above which a frame counts as late, s: practically infinite, because logs have no timeout.
_NEVER_S = 1e9


class Guards(NamedTuple):
    """Whether a message has these checks."""

    checksum: bool
    counter: bool


class BusNames:
    """Messages of a bus by the identifiers of their frames.

    Parameters
    ----------
    messages : list of Message
        Messages of the bus's database.
    options : mapping of str to MessageOptions
        Settings of individual messages in the session file.
    alive : str
        Default name of the counter signal.
    bit_rates : (float, float), optional
        Nominal bit rate and bit rate of the data, bit/s.
    """

    def __init__(
        self,
        messages: list[Message],
        options: Mapping[str, MessageOptions],
        alive: str,
        bit_rates: tuple[float, float] | None,
    ) -> None:
        self.bit_rates = bit_rates
        self._options, self._alive = options, alive
        self._table = IdTable((message, message) for message in messages)
        self._checked: dict[int, ReceivedMessage | None] = {}

    def of(self, can_id: int, *, sent: bool) -> tuple[str, float | None]:
        """Name and cycle time [s] of a message; empty and None if it is unknown.

        A message sent with every set-point has the cycle of the set-points.
        """
        message = self._table.find(can_id)
        if message is None:
            return "", None
        options = self._option(message)
        if sent and (options.send == "change" or with_set_points(options, message)):
            return str(message.name), None
        return str(message.name), cycle_of(options, message) or None

    def guards(self, can_id: int) -> Guards:
        """Checks that a message has."""
        message = self._table.find(can_id)
        if message is None:
            return Guards(False, False)
        guard = protection_of(self._option(message), message)
        in_header = guard is not None and guard.counter is not None
        named = counter_of(self._option(message), message, self._alive) is not None
        return Guards(guard is not None, in_header or named)

    def check(self, can_id: int, data: bytes, t_ns: int) -> None:
        """Check a received frame as the gateway does, if its message has a check."""
        if can_id not in self._checked:
            self._checked[can_id] = self._receive(can_id)
        received = self._checked[can_id]
        if received is not None:
            received.receive(data, t_ns)

    def stats(self, can_id: int) -> MessageStats | None:
        """Results of the checks; None if there are none."""
        received = self._checked.get(can_id)
        return None if received is None else received.stats

    def _receive(self, can_id: int) -> ReceivedMessage | None:
        message = self._table.find(can_id)
        if message is None or not any(self.guards(can_id)):
            return None
        received = ReceivedMessage(message, self._alive, _NEVER_S, self._option(message))
        received.compile()
        return received

    def _option(self, message: Message) -> MessageOptions:
        return self._options.get(message.name) or MessageOptions()


def names_of(bus: str, settings: Mapping[str, Any], attachments: Mapping[str, bytes]) -> BusNames:
    """Messages of a bus, from a log's session file and databases."""
    table = (settings.get("subsystems") or {}).get(bus)
    options = None
    if isinstance(table, dict) and "database" in table:
        options = build_partly(BenchOptions, table, f"subsystems.{bus}", [])
    if options is None:
        files = [name for name in attachments if Path(name).suffix.lower() in _DATABASES]
        return BusNames(_messages(files, attachments), {}, "Alive", None)
    rate = options.bus.get("bitrate")
    rates = (float(rate), float(options.bus.get("data_bitrate") or rate)) if rate else None
    found = _messages([Path(options.database).name], attachments)
    return BusNames(found, options.messages, options.alive, rates)


def _messages(files: list[str], attachments: Mapping[str, bytes]) -> list[Message]:
    """Messages of the databases, ``FILE`` or ``FILE:BUS``, among the attachments.

    A database that cannot be read is skipped.
    """
    found: list[Message] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in files:
            file, _, bus = name.rpartition(":")
            attached = name if name in attachments or not bus else file
            if attached not in attachments:
                continue
            (Path(folder) / Path(attached).name).write_bytes(attachments[attached])
            try:
                found += load_database(Path(folder) / Path(name).name, name).messages
            except HilrtError:
                continue
    return found
