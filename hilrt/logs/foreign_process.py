"""Child process that reads files of other tools, one at a time.

It ends when its parent closes the pipe. A file is refused if a library raises any exception.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hilrt.errors import ConfigError
from hilrt.isolation.limited_process import (
    limit_this_process,
    own_pipes,
    read_message,
    write_message,
)
from hilrt.logs.foreign_source import (
    Ask,
    Close,
    ForeignAnswer,
    Kind,
    Open,
    PackedBlock,
    Request,
    Start,
    decode_request,
    encode,
)
from hilrt.logs.source import Source
from hilrt.record.reader import Block, LogChannel

#: Size at which a part is sent: number of frames; bytes or number of blocks.
FRAMES, BLOCK_BYTES, BLOCKS = 4096, 1 << 20, 1024


class Service:
    """Service that answers the parent's requests about one file."""

    def __init__(self) -> None:
        self._source: Source | None = None
        self._streams: dict[int, Iterator[Any]] = {}
        self._channels: dict[int, tuple[int, LogChannel]] = {}
        self._notes_sent = 0

    def answer(self, request: Request) -> ForeignAnswer:
        """Carry out a request."""
        try:
            answer = self._answer(request)
        except ConfigError as error:
            answer = ForeignAnswer(refused=error.problems)
        except ImportError as error:
            answer = ForeignAnswer(missing=error.name or str(error))
        except MemoryError:
            answer = self._refuse("needs more memory than a file of this size should")
        except Exception as error:  # libraries may raise any exception for damaged files
            text = " ".join(str(error).split())[:300] or type(error).__name__
            answer = self._refuse(f"is damaged: {text}")
        source = self._source
        if source is not None:
            answer.notes = source.notes[self._notes_sent :]
            self._notes_sent = len(source.notes)
            answer.epoch_ns, answer.kind = source.epoch_ns, source.kind
        return answer

    def _close(self) -> None:
        source, self._source = self._source, None
        self._streams, self._channels, self._notes_sent = {}, {}, 0
        if source is not None:
            source.close()

    def _refuse(self, text: str) -> ForeignAnswer:
        return ForeignAnswer(refused=[str(self._source.fail(text)) if self._source else text])

    def _answer(self, request: Request) -> ForeignAnswer:
        if isinstance(request, (Open, Close)):
            self._close()
        if isinstance(request, Close):
            return ForeignAnswer()
        if isinstance(request, Open):
            limit_this_process(request.memory, request.processor_s)
            path, label = Path(request.path), request.label
            self._source = open_here(request.kind, path, label, request.time)
            return ForeignAnswer()
        source = self._source
        assert source is not None
        if isinstance(request, Ask):
            if request.what == "topics":
                return ForeignAnswer(topics=source.topics())
            if request.what == "attachments":
                return ForeignAnswer(attachments=source.attachments())
            return ForeignAnswer(metadata=source.metadata())
        if isinstance(request, Start):
            wanted = None if request.wanted is None else set(request.wanted)
            blocks = request.what == "blocks"
            stream = self._blocks(source.blocks(wanted)) if blocks else _frames(source)
            self._streams[request.stream] = stream
        answer = next(self._streams[request.stream], ForeignAnswer())
        answer.stream = request.stream
        return answer

    def _blocks(self, blocks: Iterator[Block]) -> Iterator[ForeignAnswer]:
        part: list[PackedBlock] = []
        size = 0
        for block in blocks:
            packed = self._pack(block)
            size += len(packed.times) + len(packed.values)
            part.append(packed)
            if size > BLOCK_BYTES or len(part) >= BLOCKS:
                yield ForeignAnswer(blocks=part, more=True)
                part, size = [], 0
        yield ForeignAnswer(blocks=part)

    def _pack(self, block: Block) -> PackedBlock:
        times = np.ascontiguousarray(block.times_ns, np.int64).tobytes()
        values = np.ascontiguousarray(block.values, np.float64).tobytes()
        known = self._channels.get(id(block.channel))
        if known is not None:
            return PackedBlock(known[0], times, values)
        number = len(self._channels)
        self._channels[id(block.channel)] = number, block.channel  # so that the id is not reused
        return PackedBlock(number, times, values, *block.channel)


def open_here(kind: Kind, path: Path, label: str, time: str | None) -> Source:
    """Reader of a file, in this process."""
    if kind == "mf4":
        from hilrt.logs.source_mf4 import Mf4Source

        return Mf4Source(path, label)
    if kind == "parquet":
        from hilrt.logs.source_parquet import ParquetSource

        return ParquetSource(path, label, time)
    from hilrt.logs.source_can import LibraryFrames

    return LibraryFrames(path, label)


def _frames(source: Source) -> Iterator[ForeignAnswer]:
    frames = source.frames()
    while part := list(itertools.islice(frames, FRAMES)):
        yield ForeignAnswer(frames=[tuple(frame) for frame in part], more=True)  # type: ignore[misc]


def main() -> int:
    """Answer requests until the pipe is closed."""
    requests, answers = own_pipes()
    service = Service()
    while (message := read_message(requests)) is not None:
        try:
            write_message(answers, encode(service.answer(decode_request(message))))
        except BrokenPipeError:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())
