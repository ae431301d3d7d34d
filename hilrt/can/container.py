"""Container PDUs (AUTOSAR): several messages in one frame, each behind a header.

The header is the short one, three bytes of identifier and one of length, which is what cantools
reads from ARXML files. A container may hold always the same messages or those that there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from cantools.database.can import Message

#: Bytes of the identifier in a header, and of the whole header.
_IDENTIFIER, _HEADER = 3, 4


def unpack(container: Message, data: bytes) -> list[tuple[Message | int, bytes]]:
    """Messages of a container with their bytes, in the order of the frame.

    Parameters
    ----------
    container : Message
        Of a database.
    data : bytes

    Returns
    -------
    list of (Message or int, bytes)
        The header's identifier instead of a message that the database does not know.

    Raises
    ------
    ValueError
        If a message goes beyond the frame.
    """
    little = container.header_byte_order == "little_endian"
    order: Literal["little", "big"] = "little" if little else "big"
    known = {message.header_id: message for message in container.contained_messages or ()}
    found: list[tuple[Message | int, bytes]] = []
    at = 0
    while at + _HEADER <= len(data):
        identifier = int.from_bytes(data[at : at + _IDENTIFIER], order)
        if not identifier and identifier not in known:
            break  # what is left is padding
        end = at + _HEADER + data[at + _IDENTIFIER]
        if end > len(data):
            raise ValueError(f"a message of container {container.name} goes beyond the frame")
        found.append((known.get(identifier, identifier), bytes(data[at + _HEADER : end])))
        at = end
    return found


def with_contained(messages: Iterable[Message]) -> Iterator[tuple[Message, Message | None]]:
    """Messages, those in containers in place of these, each with its container."""
    for message in messages:
        if message.is_container:
            for inner in message.contained_messages or ():
                yield inner, message
        else:
            yield message, None
