"""Look-up of messages by a frame's identifier; J1939 messages are found for any sender."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Literal, NamedTuple, TypeVar

from cantools.database.can import Message

from hilrt.can.frame import (
    ERROR,
    EXTENDED,
    EXTENDED_MASK,
    REMOTE,
    STANDARD_MASK,
)

#: Identifiers remembered by an `IdTable`; a bus has a few hundred, noise any number.
_REMEMBERED = 4096
#: Source address in J1939 databases that stands for any sender (J1939-81: null address).
ANY_SOURCE = 0xFE


def can_id_of(message: Message) -> int:
    """`Frame.can_id` of the data frames of a database message."""
    return int(message.frame_id) | (EXTENDED if message.is_extended_frame else 0)


def j1939_mask(identifier: int) -> int:
    """Bits of a J1939 identifier that identify the parameter group.

    Excludes priority and source address, and the destination address of a group that has one (PDU
    format below 240).
    """
    pdu_format = identifier >> 16 & 0xFF
    return EXTENDED | REMOTE | ERROR | (0x03FFFF00 if pdu_format >= 240 else 0x03FF0000)


def is_j1939(message: Message) -> bool:
    """Whether the database declares a message a J1939 parameter group."""
    return bool(message.is_extended_frame and message.protocol == "j1939")


def without_priority(message: Message, identifier: int) -> int:
    """Identifier for comparison, without the priority, which a J1939 sender may choose."""
    return identifier & 0x03FFFFFF if is_j1939(message) else identifier


def same_group(message: Message, other: Message) -> bool:
    """Whether two messages are J1939 messages of one parameter group."""
    mask = j1939_mask(message.frame_id)
    return (
        is_j1939(message)
        and is_j1939(other)
        and not (message.frame_id ^ other.frame_id) & mask & EXTENDED_MASK
    )


Entry = TypeVar("Entry")


class _Member(NamedTuple, Generic[Entry]):
    """A message of the table; `entry` is None if its frames are ignored."""

    message: Message
    source: int | None
    entry: Entry | None


def _distance(member: _Member[Entry], identifier: int) -> int | None:
    """Distance of a frame of a J1939 group from a message; None if it is another message.

    Configured values take precedence over those of the database.
    """
    other_destination = bool((member.message.frame_id ^ identifier) & 0xFF00)  # 0 for broadcasts
    address = identifier & 0xFF
    if member.source is not None:
        return 2 * other_destination if address == member.source else None
    if member.message.frame_id & 0xFF == ANY_SOURCE:
        return 4 + other_destination
    if member.message.frame_id & 0xFF == address:
        return 3 if other_destination else 1
    return 6


class IdTable(Generic[Entry]):
    """Entries by the identifiers of their messages.

    J1939 messages are compared without priority. A frame belongs to the message with exactly its
    identifier; else to the one of its parameter group with its source address; else to one declared
    for any source (0xFE); else to the only one of the group. If several are left, it belongs to
    none: a guess would give wrong values.

    Parameters
    ----------
    entries : iterable of (Message, Entry)
    source : callable, optional
        Source address [0 to 255] required for a J1939 message; None: any.
    rivals : iterable of Message
        Further messages of the database; their frames have no entry.

    Attributes
    ----------
    remembered : dict of int
        Entries of identifiers looked up before, None for unknown ones; limited in number.
    """

    def __init__(
        self,
        entries: Iterable[tuple[Message, Entry]],
        source: Callable[[Message], int | None] = lambda message: None,
        rivals: Iterable[Message] = (),
    ) -> None:
        self.remembered: dict[int, Entry | None] = {}
        self._exact: dict[int, list[_Member[Entry]]] = defaultdict(list)
        self._groups: dict[int, list[_Member[Entry]]] = defaultdict(list)
        listed = set()
        for message, entry in entries:
            self._add(_Member(message, source(message), entry))
            listed.add(id(message))
        for message in rivals:
            if id(message) not in listed:
                self._add(_Member(message, None, None))
                listed.add(id(message))

    def _add(self, member: _Member[Entry]) -> None:
        can_id = can_id_of(member.message)
        if is_j1939(member.message):
            self._groups[can_id & j1939_mask(can_id)].append(member)
        else:
            self._exact[can_id].append(member)

    def find(self, can_id: int) -> Entry | None:
        """Entry of a frame, by its `Frame.can_id`; None if there is none, or several candidates."""
        try:
            return self.remembered[can_id]
        except KeyError:
            pass
        found = self._nearest(can_id)
        entry = found[0].entry if len(found) == 1 else None
        if len(self.remembered) < _REMEMBERED:
            self.remembered[can_id] = entry
        return entry

    def candidates(self, can_id: int) -> list[Message]:
        """Messages that a frame may equally well be: none, one, or several."""
        return [member.message for member in self._nearest(can_id)]

    def ambiguous(self) -> dict[int, list[Message]]:
        """Ambiguous frames among those looked up so far, by their `Frame.can_id`."""
        found = {
            can_id: self.candidates(can_id) for can_id, e in self.remembered.items() if e is None
        }
        return {can_id: messages for can_id, messages in found.items() if len(messages) > 1}

    def _nearest(self, can_id: int) -> list[_Member[Entry]]:
        nearest = list(self._exact.get(can_id, ()))
        least = 1 if nearest else 7
        for member in self._groups.get(can_id & j1939_mask(can_id), ()):
            distance = _distance(member, can_id)
            if distance is None or distance > least:
                continue
            nearest = nearest if distance == least else []
            nearest.append(member)
            least = distance
        return nearest

    def filters(self) -> list[dict[str, int | bool]]:
        """Filters for python-can that pass the messages; whole groups of J1939."""
        exact = [
            _filter(can_id, EXTENDED_MASK if can_id & EXTENDED else STANDARD_MASK)
            for can_id, members in self._exact.items()
            if _wanted(members)
        ]
        return exact + [
            _filter(group, j1939_mask(group))
            for group, members in self._groups.items()
            if _wanted(members)
        ]


def _wanted(members: Iterable[_Member[Entry]]) -> bool:
    return any(member.entry is not None for member in members)


def indistinct(
    messages: Iterable[Message],
    rivals: Iterable[Message],
    source: Callable[[Message], int | None] = lambda message: None,
) -> list[tuple[Message, list[Message]]]:
    """Messages to which no frame would be assigned, each with the messages that get its frames.

    Parameters
    ----------
    messages : iterable of Message
        Messages to be received.
    rivals : iterable of Message
        Further messages of the database.
    source : callable, optional
        Source address required for a J1939 message, if any.
    """
    messages = list(messages)
    table = IdTable(((message, True) for message in messages), source, rivals)
    found = []
    for message in messages:
        can_id, address = can_id_of(message), source(message)
        if address is not None:
            can_id = can_id & ~0xFF | address
        others = [other for other in table.candidates(can_id) if other is not message]
        if others:
            found.append((message, others))
    return found


def _filter(can_id: int, mask: int) -> dict[str, int | bool]:
    return {
        "can_id": can_id & EXTENDED_MASK,
        "can_mask": mask & EXTENDED_MASK,
        "extended": bool(can_id & EXTENDED),
    }


#: Bytes of the identifier in a header, and of the whole header.
_IDENTIFIER, _HEADER = 3, 4


def unpack(container: Message, data: bytes) -> list[tuple[Message | int, bytes]]:
    """Messages of a container with their bytes, in the order of the frame.

    Parameters
    ----------
    container : Message
        Container message of a database.
    data : bytes

    Returns
    -------
    list of (Message or int, bytes)
        For a message unknown to the database, the header's identifier instead.

    Raises
    ------
    ValueError
        If a message extends beyond the frame.
    """
    little = container.header_byte_order == "little_endian"
    order: Literal["little", "big"] = "little" if little else "big"
    known = {message.header_id: message for message in container.contained_messages or ()}
    found: list[tuple[Message | int, bytes]] = []
    at = 0
    while at + _HEADER <= len(data):
        identifier = int.from_bytes(data[at : at + _IDENTIFIER], order)
        if not identifier and identifier not in known:
            break  # the rest is padding
        end = at + _HEADER + data[at + _IDENTIFIER]
        if end > len(data):
            raise ValueError(f"a message of container {container.name} extends beyond the frame")
        found.append((known.get(identifier, identifier), bytes(data[at + _HEADER : end])))
        at = end
    return found


def with_contained(messages: Iterable[Message]) -> Iterator[tuple[Message, Message | None]]:
    """Messages with containers replaced by their content, each with its container."""
    for message in messages:
        if message.is_container:
            for inner in message.contained_messages or ():
                yield inner, message
        else:
            yield message, None
