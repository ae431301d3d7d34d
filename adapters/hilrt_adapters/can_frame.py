"""A CAN frame as the gateway handles it: small, and the same from every interface.

Identifier and kind share one number, laid out as in Linux's ``struct can_frame``: a frame is looked
up by a single dictionary access, and remote and error frames never look like data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

import can
from cantools.database.can import Message

EXTENDED = 1 << 31
REMOTE = 1 << 30
ERROR = 1 << 29
STANDARD_MASK = 0x7FF
EXTENDED_MASK = 0x1FFFFFFF

#: Identifiers remembered by an `IdTable`; a bus has a few hundred, noise has no end of them.
_REMEMBERED = 4096


class Frame(NamedTuple):
    """One frame.

    Parameters
    ----------
    can_id : int
        Identifier, with `EXTENDED`, `REMOTE` and `ERROR` as they apply.
    data : bytes
        Up to 8 bytes, up to 64 with CAN FD.
    t_ns : int
        When it was received on the system's clock, ns; 0 where nobody says.
    fd : bool
        CAN FD frame format.
    """

    can_id: int
    data: bytes
    t_ns: int = 0
    fd: bool = False

    @property
    def identifier(self) -> int:
        """Arbitration identifier alone."""
        return self.can_id & (EXTENDED_MASK if self.can_id & EXTENDED else STANDARD_MASK)

    @property
    def text(self) -> str:
        """Identifier as engineers write it; extended ones with all digits."""
        return f"0x{self.identifier:08X}" if self.can_id & EXTENDED else f"0x{self.identifier:X}"


def can_id_of(message: Message) -> int:
    """Number under which data frames of a database message are found."""
    return int(message.frame_id) | (EXTENDED if message.is_extended_frame else 0)


def from_message(message: can.Message) -> Frame:
    """Frame of a python-can message."""
    can_id = message.arbitration_id
    if message.is_extended_id:
        can_id |= EXTENDED
    if message.is_remote_frame:
        can_id |= REMOTE
    if message.is_error_frame:
        can_id |= ERROR
    return Frame(can_id, bytes(message.data), round(message.timestamp * 1e9), message.is_fd)


def to_message(frame: Frame) -> can.Message:
    """python-can message of a frame, without python-can's checks."""
    return can.Message(
        timestamp=frame.t_ns * 1e-9,
        arbitration_id=frame.identifier,
        is_extended_id=bool(frame.can_id & EXTENDED),
        is_remote_frame=bool(frame.can_id & REMOTE),
        is_error_frame=bool(frame.can_id & ERROR),
        is_fd=frame.fd,
        bitrate_switch=frame.fd,
        data=frame.data,
    )


# ---- which message a frame belongs to ------------------------------------------------------------


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
