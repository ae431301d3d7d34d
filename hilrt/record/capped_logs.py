"""Upper bound for what the processes of a session print into its folder `logs`.

A solver that prints at every step would fill the disk, and with it the session's own log, in
minutes. The beginning of a log stays, and what was printed last.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

#: A log above `LARGEST` is cut down to its first `FIRST` and its newest `LAST` bytes.
LARGEST: Final = 16_000_000
FIRST: Final = 1_000_000
LAST: Final = 100_000
#: How often sizes are looked at, s: a process that prints as fast as it can writes 10 MB meanwhile.
PERIOD_S: Final = 0.1
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)


class CappedLogs:
    """Cuts logs that have become too large; their writers append, and go on undisturbed.

    Parameters
    ----------
    folder : Path
        With the logs, ``NAME.log`` each; need not exist yet.

    Attributes
    ----------
    left_out : dict of str to int
        Bytes that were left out, by the log's name.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.left_out: dict[str, int] = {}
        self._due = 0.0

    def check(self) -> None:
        """Cut what is too large, if the last look was a while ago."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + PERIOD_S
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_file(follow_symlinks=False) and entry.stat().st_size > LARGEST:
                        self._cut(entry.path, entry.name.removesuffix(".log"))

    def _cut(self, path: str, name: str) -> None:
        number = os.open(path, os.O_RDWR | os.O_APPEND | _NO_LINKS | _BINARY)
        with os.fdopen(number, "r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(size - LAST)
            last = file.read(LAST)
            file.truncate(FIRST)
            total = self.left_out.get(name, 0) + size - FIRST - len(last)
            self.left_out[name] = total
            file.write(f"\n--- {total:,} bytes left out here: too many lines ---\n".encode() + last)
