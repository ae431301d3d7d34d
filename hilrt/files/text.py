"""Reading of text files within limits, and atomic writing."""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import stat
import uuid
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, TextIO

#: Size limit of files read into memory as a whole, bytes: text written by people or tools.
MAX_TEXT = 256 << 20
_KINDS = (
    (stat.S_ISDIR, errno.EISDIR, os.strerror(errno.EISDIR)),
    (stat.S_ISCHR, errno.EINVAL, "it is a device, not a file"),
    (stat.S_ISBLK, errno.EINVAL, "it is a device, not a file"),
    (stat.S_ISFIFO, errno.EINVAL, "it is a pipe, not a file"),
    (stat.S_ISSOCK, errno.EINVAL, "it is a socket, not a file"),
)


def check_regular(path: Path) -> int:
    """Size of a regular file, bytes; `OSError` for anything else."""
    return _size(os.stat(path), path)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading bytes; `OSError` for anything else."""
    # Without this flag, opening a pipe waits for its writer; it has no effect on files.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    try:
        _size(os.fstat(descriptor), path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, limit: int = MAX_TEXT) -> bytes:
    """Content of a regular file; `OSError` for anything else, or above `limit` bytes."""
    with open_regular(path) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        text = f"it has more than {limit:,} bytes, which is too much for such a file"
        raise OSError(errno.EFBIG, text, str(path))
    return data


_BINARY = getattr(os, "O_BINARY", 0)  # Windows


def _size(status: os.stat_result, path: Path) -> int:
    for is_kind, number, text in _KINDS:
        if is_kind(status.st_mode):
            raise OSError(number, text, str(path))
    return status.st_size


#: Maximum characters of a line: tables have up to some thousand columns.
MAX_LINE = 1 << 20
#: Maximum compression ratio, as in `hilrt.files.archive` for archives; repetitive frame logs reach
#: 50.
MAX_RATIO, RATIO_FROM = 200, 256 << 20


@contextlib.contextmanager
def open_lines(
    path: Path, *, newline: str | None = None, longest: int = MAX_LINE
) -> Iterator[Iterator[str]]:
    """Lines of UTF-8 text, including line ends; invalid bytes become U+FFFD.

    Parameters
    ----------
    path : Path
        The file; unpacked if its name ends in ``.gz``.
    newline : str, optional
        As for `open`.
    longest : int
        Number of characters that is too long for a line.

    Raises
    ------
    OSError
        If it cannot be read, or is not a regular file; from the iterator also if a line is too
        long, or a compressed file is damaged or unpacks to too much.
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
    """Bytes of a compressed file, up to a limit."""

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


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Temporary path to write to; renamed to `path` when the block ends without an exception.

    If the block raises an exception, no file remains; `OSError` if writing fails. Each writer has a
    temporary file of its own: if several write the same path, the last one's content remains. A
    path that is not a file, such as ``/dev/stdout``, is written directly.
    """
    if path.exists() and not path.is_file():  # a device or a pipe is written directly
        yield path
        return
    path = path.resolve()  # keeps a symbolic link
    # Some writers choose the format by the suffix.
    part = path.with_name(f".{path.stem}.{uuid.uuid4().hex}.part{path.suffix}")
    try:
        yield part
        with part.open("rb+") as written:
            os.fsync(written.fileno())  # otherwise the file may be empty after a power failure
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text file atomically; `OSError` if that fails."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")
