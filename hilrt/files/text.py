"""Lines of a text file, also of a compressed one; no line and no archive may fill the memory."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, TextIO

from hilrt.files.regular import check_regular, open_regular

#: Characters of a line: tables have up to some thousand columns.
MAX_LINE = 1 << 20
#: How much a compressed file may unpack to, as `hilrt.files.archive` has it for archives; logs of
#: frames that repeat reach 50.
MAX_RATIO, RATIO_FROM = 200, 256 << 20


@contextlib.contextmanager
def open_lines(
    path: Path, *, newline: str | None = None, longest: int = MAX_LINE
) -> Iterator[Iterator[str]]:
    """Lines with their ends, of UTF-8 text; what is not UTF-8 becomes U+FFFD.

    Parameters
    ----------
    path : Path
        The file; one that ends in ``.gz`` is unpacked.
    newline : str, optional
        As that of `open`.
    longest : int
        Characters that no line may have.

    Raises
    ------
    OSError
        If it cannot be read, or is no regular file; from the iterator also for a line that is too
        long, and for a compressed file that is damaged or unpacks to too much.
    """
    with open_regular(path) as file:
        raw: io.BufferedIOBase | BinaryIO = file
        if path.suffix.lower() == ".gz":
            most = max(RATIO_FROM, MAX_RATIO * check_regular(path))
            raw = io.BufferedReader(_Unpacked(file, most))
        with io.TextIOWrapper(raw, "utf-8-sig", "replace", newline) as text:  # type: ignore[type-var]
            yield _lines(text, longest)


def _lines(text: TextIO, longest: int) -> Iterator[str]:
    for number, line in enumerate(iter(partial(text.readline, longest), ""), 1):
        if len(line) == longest:
            raise OSError(errno.EFBIG, f"line {number} has {longest:,} characters or more")
        yield line


class _Unpacked(io.RawIOBase):
    """Bytes of a compressed file, at most so many."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file = gzip.GzipFile(fileobj=file)
        self._most = self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        try:
            data = self._file.read(len(buffer))
        except (EOFError, zlib.error) as error:
            raise OSError(errno.EIO, f"it is damaged: {error}") from None
        self._left -= len(data)
        if self._left < 0:
            raise OSError(errno.EFBIG, f"it unpacks to more than {self._most:,} bytes")
        buffer[: len(data)] = data
        return len(data)
