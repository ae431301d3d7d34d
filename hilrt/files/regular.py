"""Regular files of a bounded size; what is none is an `OSError` that says so.

``/dev/zero`` never ends, and a pipe without a writer is waited for without end. Readers report an
`OSError` by its `strerror` anyway, and so they do with these.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

#: What is read into memory as a whole, bytes: text that people or tools have written.
MAX_TEXT = 256 << 20
_KINDS = (
    (stat.S_ISDIR, errno.EISDIR, os.strerror(errno.EISDIR)),
    (stat.S_ISCHR, errno.EINVAL, "it is a device, not a file"),
    (stat.S_ISBLK, errno.EINVAL, "it is a device, not a file"),
    (stat.S_ISFIFO, errno.EINVAL, "it is a pipe, not a file"),
    (stat.S_ISSOCK, errno.EINVAL, "it is a socket, not a file"),
)


def check_regular(path: Path) -> int:
    """Size of a regular file, bytes; `OSError` for what is none."""
    return _size(os.stat(path), path)


def open_regular(path: Path) -> BinaryIO:
    """A regular file, opened for reading its bytes; `OSError` for what is none."""
    # Opening a pipe waits for its writer, without this flag; it does nothing to a file.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    try:
        _size(os.fstat(descriptor), path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, limit: int = MAX_TEXT) -> bytes:
    """Content of a regular file; `OSError` for what is none, or has more than `limit` bytes."""
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
