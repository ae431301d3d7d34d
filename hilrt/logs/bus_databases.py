"""Databases for the frames of a log: one for all buses, or one for each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError

if TYPE_CHECKING:
    from cantools.database.can import Message


class BusDatabase(NamedTuple):
    """A database file, and the bus of the log whose frames it describes (None: of all others)."""

    path: Path
    bus: str | None = None


def bus_databases(texts: Iterable[str]) -> list[BusDatabase]:
    """Databases as typed: ``FILE``, or ``BUS=FILE`` for one bus of the log."""
    found = []
    for text in texts:
        bus, equals, file = text.partition("=")
        if Path(text).exists() or not equals:
            found.append(BusDatabase(Path(text)))
        elif not bus or not file:
            raise ConfigError(f"--database {text}: write it as FILE, or as BUS=FILE")
        else:
            found.append(BusDatabase(Path(file), bus))
    return found


class LoadedDatabases:
    """The messages that frames on a bus may be.

    Parameters
    ----------
    databases : sequence of BusDatabase

    Attributes
    ----------
    files : list of Path
        Each once.
    messages : list of Message
        Of all of them.
    """

    def __init__(self, databases: Sequence[BusDatabase]) -> None:
        from hilrt.can.database import database_file, load_database

        self._loaded = [
            (bus, load_database(path, "--database").messages) for path, bus in databases
        ]
        self.files = list(dict.fromkeys(database_file(path)[0] for path, _ in databases))
        self.messages = [message for _, messages in self._loaded for message in messages]

    def on_bus(self, bus: str) -> list[Message] | None:
        """Messages of the bus's own databases, else of those for all; None if there are none.

        Of a file that describes several buses only the messages of that name, if it has the name.
        """
        own = [messages for name, messages in self._loaded if name == bus]
        chosen = own or [messages for name, messages in self._loaded if name is None]
        if not chosen:
            return None
        return [message for messages in chosen for message in _part(messages, bus)]

    def lost(self, buses: Collection[str]) -> list[str]:
        """A line for each bus that a database was given for, and that the log does not have."""
        return [
            f"no frame is on bus {name!r}, for which a database was given{nearest(name, buses)}"
            for name, _ in self._loaded
            if name is not None and name not in buses
        ]


def _part(messages: list[Message], bus: str) -> list[Message]:
    names = {message.bus_name for message in messages}
    return [m for m in messages if m.bus_name == bus] if bus in names else messages
