"""A container that is listened to: its messages in use, taken out of each frame."""

from __future__ import annotations

from collections.abc import Sequence

from cantools.database.can import Message

from hilrt.can.container import unpack
from hilrt.can.received_message import ReceivedMessage


class ReceivedContainer:
    """A container with its messages in use.

    Parameters
    ----------
    container : Message
    entries : sequence of ReceivedMessage
        Messages in it that are used.

    Attributes
    ----------
    malformed : int
        Frames whose messages go beyond them; none of their messages counts.
    """

    def __init__(self, container: Message, entries: Sequence[ReceivedMessage]) -> None:
        self.malformed = 0
        self._container = container
        self._entries = {id(entry.message): entry for entry in entries}

    def parts(self, data: bytes) -> list[tuple[ReceivedMessage, bytes]]:
        """Messages in use that a frame contains, with their bytes, in its order."""
        try:
            inside = unpack(self._container, data)
        except ValueError:
            self.malformed += 1
            return []
        found = ((self._entries.get(id(message)), part) for message, part in inside)
        return [(entry, part) for entry, part in found if entry is not None]
