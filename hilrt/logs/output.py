"""A new file that appears under its name only when it is whole, and never over an older one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from hilrt.errors import ConfigError, RecordError
from hilrt.files.whole_file import whole_file


@contextlib.contextmanager
def new_file(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Path to write to inside the block; it is renamed to `path` when the block ends well.

    Raises
    ------
    ConfigError
        If there is such a file already and it may not be replaced.
    RecordError
        If the disk does not take it.
    """
    if path.exists() and not replace:
        raise ConfigError(f"{path}: exists already; give another --out, or --force to replace it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as part:
            yield part
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror or error}") from None
