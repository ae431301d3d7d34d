"""Source for files whose parsers are C libraries or not robust: read in a limited child process.

One changed byte in an MF4 file can crash its parser, and a Parquet file of 2 MB can unpack to more
than fits into memory. The child is `hilrt.logs.foreign_process`; if it dies, the file is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from hilrt.errors import ConfigError
from hilrt.files.formats import decode_by
from hilrt.files.text import check_regular
from hilrt.isolation.limited_process import ChildDied, ProcessLimits, give_back, take_process
from hilrt.logs.source import Source
from hilrt.record.logged_frame import LoggedFrame, impossible
from hilrt.record.messages import Attachment, Signal, Topic
from hilrt.record.reader import Block, LogChannel

#: Kinds of files read by a child.
Kind = Literal["mf4", "parquet", "frames"]


class Open(msgspec.Struct, tag="open"):
    """Open a file and close the previous one.

    From then on, memory [bytes] and processor time [s] are limited.
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
    """Return the file's data in one answer."""

    what: Literal["topics", "attachments", "metadata"]


class Start(msgspec.Struct, tag="start"):
    """Begin the stream of this number, and return its first part."""

    stream: int
    what: Literal["blocks", "frames"]
    wanted: list[str] | None = None


class More(msgspec.Struct, tag="more"):
    """Return the next part of a stream."""

    stream: int


class PackedBlock(msgspec.Struct, array_like=True):
    """Rows as the number of their channel, times (int64, ns) and values (float64, row-major).

    The channel itself is sent with its first block.
    """

    channel: int
    times: bytes
    values: bytes
    topic: str = ""
    signals: list[Signal] = []


class ForeignAnswer(msgspec.Struct, omit_defaults=True):
    """Answer to a request, with the state of the source.

    `refused`: reason why the file cannot be read; `missing`: a package that is not installed.
    `stream`: number of the stream that a part belongs to, or -1; `more`: whether more parts follow.
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
_requests = msgspec.msgpack.Decoder(Request)
_answers = msgspec.msgpack.Decoder(ForeignAnswer)


def encode(message: Request | ForeignAnswer) -> bytes:
    """Encode a message."""
    return msgspec.msgpack.encode(message)


def decode_request(data: bytes) -> Request:
    """Decode the request in a message."""
    request: Request = _requests.decode(data)
    return request


def decode_answer(data: bytes) -> ForeignAnswer:
    """Decode the answer in a message; `msgspec.MsgspecError` for anything else."""
    return decode_by(_answers, data)


_CHILD = "hilrt.logs.foreign_process"


class ForeignSource(Source):
    """File read by a child process; parameters as for `open_source`.

    Raises `ConfigError` if it cannot be read, and `ImportError` if a package is missing.

    Attributes
    ----------
    child : LimitedProcess
    """

    def __init__(self, kind: Kind, path: Path, label: str = "", time: str | None = None) -> None:
        super().__init__(path, label)
        try:
            limits = ProcessLimits.for_size(check_regular(path))
        except OSError as error:
            raise self.fail(f"cannot be read: {error.strerror}; check the path") from None
        self._topics: list[Topic] | None = None
        self._channels: dict[int, LogChannel] = {}
        self._streams = 0
        self._early: dict[int, ForeignAnswer] = {}
        self.child = take_process(_CHILD)
        self.child.limits = limits
        self._closed = False
        try:
            self._request(
                Open(kind, str(path), self.label, time, limits.memory, limits.processor_s)
            )
        except BaseException:
            self.close()
            raise

    def topics(self) -> list[Topic]:
        """Topics in the order of the file."""
        if self._topics is None:
            self._topics = self._request(Ask("topics")).topics
        return self._topics

    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Rows from the child."""
        names = None if wanted is None else sorted(wanted)
        for part in self._stream(Start(0, "blocks", names)):
            for packed in part.blocks:
                yield self._unpack(packed)

    def frames(self) -> Iterator[LoggedFrame]:
        """Frames from the child."""
        for part in self._stream(Start(0, "frames")):
            for frame in map(LoggedFrame._make, part.frames):
                if problem := impossible(frame):
                    raise self.fail(f"is damaged: a frame {problem}")
                yield frame

    def attachments(self) -> list[Attachment]:
        """Attachments of the file."""
        return self._request(Ask("attachments")).attachments

    def metadata(self) -> dict[str, str]:
        """Facts about the recording."""
        return self._request(Ask("metadata")).metadata

    def close(self) -> None:
        """Close the file; the child can then read another one."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(ConfigError, ImportError):
            if self.child.idle:
                self._request(Close())
        give_back(_CHILD, self.child)

    def _stream(self, start: Start) -> Iterator[ForeignAnswer]:
        """Yield the parts of a stream; one is always requested ahead."""
        self._streams += 1
        number = start.stream = self._streams
        self._send(start)
        more = True
        while more:
            while number not in self._early:
                answer = self._receive()
                self._early[answer.stream] = answer
            answer = self._early.pop(number)
            more = answer.more
            if more:
                self._send(More(number))
            yield answer

    def _request(self, request: Request) -> ForeignAnswer:
        self._send(request)
        while (answer := self._receive()).stream >= 0:  # skip the part requested ahead
            self._early[answer.stream] = answer
        return answer

    def _send(self, request: Request) -> None:
        try:
            self.child.send(encode(request))
        except ChildDied as death:
            raise self._died(death) from None

    def _receive(self) -> ForeignAnswer:
        try:
            answer = decode_answer(self.child.receive())
        except ChildDied as death:
            raise self._died(death) from None
        except msgspec.MsgspecError as error:
            raise self.fail(f"cannot be read: its reader's answer is invalid: {error}") from None
        self.notes += answer.notes
        if answer.kind:
            self.kind = answer.kind  # type: ignore[misc]
        if answer.epoch_ns is not None:  # else the first frame defines it, see `since_start`
            self.epoch_ns = answer.epoch_ns
        if answer.missing:
            raise ImportError(name=answer.missing)
        if answer.refused:
            raise ConfigError(answer.refused)
        return answer

    def _died(self, death: ChildDied) -> ConfigError:
        return self.fail(
            f"cannot be read: its reader {death}; it is damaged, or has another format"
        )

    def _unpack(self, packed: PackedBlock) -> Block:
        if packed.channel not in self._channels:
            self._channels[packed.channel] = LogChannel(packed.topic, packed.signals)
        channel = self._channels[packed.channel]
        times = np.frombuffer(packed.times, np.int64)
        values = np.frombuffer(packed.values, np.float64)
        if len(values) != len(times) * len(channel.signals):
            raise self.fail(
                "cannot be read: its reader returned different numbers of values and times"
            )
        return Block(channel, times, values.reshape(len(times), len(channel.signals)))
