"""What goes between a session and the child that reads a file of another tool's; msgpack.

Of each thing that is read bit by bit (blocks, frames) there are streams, by number. The reader asks
for one part ahead, so that the child reads while the part before is in use.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hilrt.files.msgpack import decode_by
from hilrt.record.messages import Attachment, Signal, Topic

#: Kinds of files that a child reads.
Kind = Literal["mf4", "parquet", "frames"]


class Open(msgspec.Struct, tag="open"):
    """Open a file, the one before is closed; from then on, memory [bytes] and processor time [s]
    are limited.
    """

    kind: Kind
    path: str
    label: str
    time: str | None
    memory: int
    processor_s: int


class Close(msgspec.Struct, tag="close"):
    """Close the file."""


class Ask(msgspec.Struct, tag="ask"):
    """Give what the file has at once."""

    what: Literal["topics", "attachments", "metadata"]


class Start(msgspec.Struct, tag="start"):
    """Begin the stream of this number, and give its first part."""

    stream: int
    what: Literal["blocks", "frames"]
    wanted: list[str] | None = None


class More(msgspec.Struct, tag="more"):
    """Give the next part of a stream."""

    stream: int


class PackedBlock(msgspec.Struct, array_like=True):
    """Rows: the number of their channel, times (int64, ns) and values (float64, row-major).

    The channel stands beside its first block.
    """

    channel: int
    times: bytes
    values: bytes
    topic: str = ""
    signals: list[Signal] = []


class ForeignAnswer(msgspec.Struct, omit_defaults=True):
    """What was asked for, and how the source stands.

    `refused`: the file cannot be read, and why; `missing`: a package that is not installed.
    `stream` is that of a part, or -1; a stream has ended where `more` is false.
    """

    notes: list[str] = []
    epoch_ns: int | None = None
    kind: str = ""
    refused: list[str] = []
    missing: str = ""
    topics: list[Topic] = []
    attachments: list[Attachment] = []
    metadata: dict[str, str] = {}
    stream: int = -1
    more: bool = False
    blocks: list[PackedBlock] = []
    frames: list[tuple[int, str, int, int, int, bytes]] = []


Request = Open | Ask | Start | More | Close
_encoder = msgspec.msgpack.Encoder()
_requests = msgspec.msgpack.Decoder(Request)
_answers = msgspec.msgpack.Decoder(ForeignAnswer)


def encode(message: Request | ForeignAnswer) -> bytes:
    """One message."""
    return _encoder.encode(message)


def decode_request(data: bytes) -> Request:
    """Request in a message."""
    request: Request = _requests.decode(data)
    return request


def decode_answer(data: bytes) -> ForeignAnswer:
    """Answer in a message; `msgspec.MsgspecError` if it is none."""
    answer: ForeignAnswer = decode_by(_answers, data)
    return answer
