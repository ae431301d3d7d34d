"""A file that has its name only when it is whole: a full disk or a kill leaves the older one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Path to write to inside the block; it is renamed to `path` when the block ends well.

    Nothing is left of a block that fails; `OSError` if the disk does not take the file. What is no
    file, such as ``/dev/stdout``, is the path to write to itself.
    """
    if path.exists() and not path.is_file():  # a device or a pipe is written to as it is
        yield path
        return
    path = path.resolve()  # a link stays one
    # The suffix stays: some writers choose the format by it.
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        yield part
        with part.open("rb+") as written:
            os.fsync(written.fileno())  # else, after a power failure, the name may have no content
        part.replace(path)
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Write a text file; `OSError` if the disk does not take it."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")
