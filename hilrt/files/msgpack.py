"""MessagePack from elsewhere: what is none raises one kind of error.

msgspec lets two others through: for a text that is not UTF-8, and for nesting without end. One such
frame in an event loop's callback would end the answers to all others.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")
#: What decoding by msgspec itself may raise.
NOT_MSGPACK = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def decode_by(decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
    """Message in the data; `msgspec.MsgspecError` if it is none."""
    try:
        return decoder.decode(data)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None
