"""Which message of a database a frame is, by its identifier; J1939 ones from any sender."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from cantools.database.can import Message

from hilrt.can.frame import (
    ERROR,
    EXTENDED,
    EXTENDED_MASK,
    REMOTE,
    STANDARD_MASK,
)

#: Identifiers remembered by an `IdTable`; a bus has a few hundred, noise has no end of them.
_REMEMBERED = 4096


def can_id_of(message: Message) -> int:
    """Number under which data frames of a database message are found."""
    return int(message.frame_id) | (EXTENDED if message.is_extended_frame else 0)


def j1939_mask(identifier: int) -> int:
    """Bits of a J1939 identifier that name the parameter group.

    Priority and source address are left out; so is the destination address of a group that has
    one (PDU format below 240).
    """
    pdu_format = identifier >> 16 & 0xFF
    return EXTENDED | REMOTE | ERROR | (0x03FFFF00 if pdu_format >= 240 else 0x03FF0000)


def is_j1939(message: Message) -> bool:
    """Whether the database declares a message a J1939 parameter group."""
    return bool(message.is_extended_frame and message.protocol == "j1939")


def carries(message: Message, identifier: int, extended: bool) -> bool:
    """Whether a frame with this identifier is the message, for J1939 from any sender."""
    if extended != message.is_extended_frame:
        return False
    differing = identifier ^ message.frame_id
    return not (differing & j1939_mask(message.frame_id) if is_j1939(message) else differing)


Entry = TypeVar("Entry")


class IdTable(Generic[Entry]):
    """Entries by the identifiers of their messages; J1939 ones from any source address.

    Parameters
    ----------
    entries : iterable of (Message, Entry)
    source : callable, optional
        The one source address [0 to 255] that a J1939 message is taken from; None: any.
    """

    def __init__(
        self,
        entries: Iterable[tuple[Message, Entry]],
        source: Callable[[Message], int | None] = lambda message: None,
    ) -> None:
        self._known: dict[int, Entry | None] = {}
        self._exact: dict[int, Entry] = {}
        self._masked: list[tuple[int, int, Entry]] = []  # mask, value, entry
        for message, entry in entries:
            can_id = can_id_of(message)
            if not is_j1939(message):
                self._exact[can_id] = entry
                continue
            mask, address = j1939_mask(can_id), source(message)
            if address is not None:
                mask, can_id = mask | 0xFF, can_id & ~0xFF | address
            self._masked.append((mask, can_id & mask, entry))

    def find(self, can_id: int) -> Entry | None:
        """Entry of a frame, by its `Frame.can_id`; None if there is none."""
        try:
            return self._known[can_id]
        except KeyError:
            pass
        entry = self._exact.get(can_id)
        if entry is None:
            for mask, value, candidate in self._masked:
                if can_id & mask == value:
                    entry = candidate
                    break
        if len(self._known) < _REMEMBERED:
            self._known[can_id] = entry
        return entry

    def filters(self) -> list[dict[str, int | bool]]:
        """Filters for python-can that let exactly these messages through."""
        exact = [
            _filter(can_id, EXTENDED_MASK if can_id & EXTENDED else STANDARD_MASK)
            for can_id in self._exact
        ]
        return exact + [_filter(value, mask) for mask, value, _ in self._masked]


def _filter(can_id: int, mask: int) -> dict[str, int | bool]:
    return {
        "can_id": can_id & EXTENDED_MASK,
        "can_mask": mask & EXTENDED_MASK,
        "extended": bool(can_id & EXTENDED),
    }
