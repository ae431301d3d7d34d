"""A file that can be written even if the disk is full or no descriptor is free."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path

from hilrt.errors import ConfigError

if sys.platform == "win32":
    fcntl = None
else:
    import fcntl

#: Size of one write where the system cannot reserve space, bytes.
_BLOCK = 1 << 16


class ReservedFile:
    """Disk space and a descriptor, reserved for a file that is written at the end.

    Until then the file has a hidden name, so that a file under its own name is complete.

    Parameters
    ----------
    path : Path
        Its final name.
    size : int
        Reserved space, bytes; writing more needs free space.

    Raises
    ------
    ConfigError
        If there is not enough space.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._part = path.with_name(f".{path.stem}.part{path.suffix}")
        self._descriptor, self._written = -1, b""
        try:
            self._descriptor = self._open_part()
            self._reserve(size)
        except FileExistsError:
            raise ConfigError(
                f"folder {path.parent}: holds {self._part.name}, from another session that writes "
                "there, or from one that was killed;"
                " choose another folder, or remove that file"
            ) from None
        except OSError as error:
            self.discard()
            raise ConfigError(
                f"folder {path.parent}: {error.strerror}: there is no room for {path.name}; "
                "choose another folder, or free some space"
            ) from None

    def _open_part(self) -> int:
        """Create the file, or take over a killed session's; `FileExistsError` if it is in use.

        A session that uses the file holds a lock until its process ends.
        """
        if fcntl is None:
            return os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        descriptor = os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise FileExistsError from None
        return descriptor

    def _reserve(self, size: int) -> None:
        try:
            self._allocate(size)
        except OSError as error:
            if error.errno != errno.EFBIG or size <= _BLOCK:
                raise
            self._reserve(size // 2)  # the system limits files: reserve as much as possible

    def _allocate(self, size: int) -> None:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._descriptor, 0, size)
            return
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        for start in range(0, size, _BLOCK):
            os.write(self._descriptor, bytes(min(_BLOCK, size - start)))

    def write(self, data: bytes) -> None:
        """Write the file under its own name; `OSError` if that fails.

        The reservation covers the first write; a further one needs space and a descriptor.
        """
        if data == self._written:
            return
        try:
            self._write_part(data)
            self._part.replace(self.path)
        except OSError:
            self.discard()
            raise
        self._written = data

    def _write_part(self, data: bytes) -> None:
        if self._descriptor < 0:
            self._descriptor = os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]
        os.ftruncate(self._descriptor, len(data))
        os.fsync(self._descriptor)
        self._close()  # Windows cannot rename an open file

    def discard(self) -> None:
        """Discard the reservation, if it was not used."""
        self._close()
        with contextlib.suppress(OSError):
            self._part.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
