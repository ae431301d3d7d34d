"""ZIP archives, with limits on their unpacked size, since their directory cannot be trusted.

Sizes are counted while members are unpacked. Names outside the folder, links, and compression
methods other than deflate are refused: a single read of such a method may unpack thousands to one.
"""

from __future__ import annotations

import os
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from hilrt.files.text import open_regular

#: Maximum members of an archive, and bytes of the directory that lists them.
MAX_MEMBERS, MAX_DIRECTORY = 50_000, 32 << 20
#: Limit of the unpacked size of all members, bytes.
MAX_TOTAL = 8 << 30
#: Maximum ratio of unpacked to packed size, once above `RATIO_FROM` bytes: deflate reaches 1,032
#: with zeros; binaries and tables have ratios of 2 to 20.
MAX_RATIO, RATIO_FROM = 100, 256 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_CHUNK = 1 << 18
#: Exceptions for damaged or truncated data, a password, an unknown version, wrong offsets or dates.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError),
    *(ValueError, OverflowError, LookupError, struct.error),
)
#: End record of an archive, with the size of the directory; a comment of up to 64 kB follows.
#: Archives above 4 GB have that size in a ZIP64 record, whose offset is in a locator.
_END = struct.Struct("<4s4H2LH")
_ZIP64_LOCATOR, _ZIP64_END = struct.Struct("<4sLQL"), struct.Struct("<4sQ2H2L4Q")


class ArchiveError(Exception):
    """An archive that cannot or must not be unpacked; its text is the reason."""


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive for `read_member` and `unpack`.

    Raises
    ------
    zipfile.BadZipFile, ArchiveError
        If the file is no archive, or has too many members.
    OSError
        If it cannot be read, or is not a regular file.
    """
    with open_regular(path) as file:
        _check_directory(file)
        file.seek(0)
        try:
            archive = zipfile.ZipFile(file)
        except zipfile.BadZipFile:
            raise
        except _DAMAGE as error:
            raise ArchiveError(_reason(error)) from None
        with archive:
            if len(archive.infolist()) > MAX_MEMBERS:
                raise ArchiveError(f"it has more than {MAX_MEMBERS:,} members")
            yield archive


def read_member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """Content of a member of at most `limit` bytes; `KeyError` if missing, or `ArchiveError`."""
    member = archive.getinfo(name)
    _check_method(member)
    with _damage_as_error(), archive.open(member) as packed:
        data = packed.read(limit + 1)
    if len(data) > limit:
        raise ArchiveError(f"{_short(name)} unpacks to more than {limit:,} bytes")
    return data


def unpack_member(archive: zipfile.ZipFile, name: str, target: Path, limit: int) -> None:
    """Unpack a member to a file; errors as for `read_member`."""
    member = archive.getinfo(name)
    _check_method(member)
    with _damage_as_error(), archive.open(member) as packed, target.open("wb") as file:
        if _copy(packed, file, limit) > limit:
            raise ArchiveError(f"{_short(name)} unpacks to more than {limit:,} bytes")


def unpack(path: Path, folder: Path) -> None:
    """Unpack all members of an archive into an empty folder that only this account can use.

    Raises
    ------
    zipfile.BadZipFile, ArchiveError, OSError
        As for `open_archive`; raised before anything outside the folder is touched.
    """
    with open_archive(path) as archive:
        members = [(member, _target(member, folder)) for member in archive.infolist()]
        allowed = min(MAX_TOTAL, max(RATIO_FROM, MAX_RATIO * path.stat().st_size))
        allowed = min(allowed, shutil.disk_usage(folder).free)
        total = 0
        for member, target in members:
            if member.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with _damage_as_error(), archive.open(member) as packed, target.open("wb") as file:
                total += _copy(packed, file, allowed - total)
            if total > allowed:
                raise ArchiveError(
                    f"it unpacks to more than {allowed:,} bytes, "
                    "above the free disk space or the limit for such archives"
                )


def _copy(packed: IO[bytes], file: IO[bytes], limit: int) -> int:
    """Copy at most one chunk more than `limit` bytes; return the number of bytes copied."""
    copied = 0
    while copied <= limit and (chunk := packed.read(_CHUNK)):
        copied += len(chunk)
        file.write(chunk)
    return copied


def _target(member: zipfile.ZipInfo, folder: Path) -> Path:
    """Path for unpacking a member; `ArchiveError` if it is refused."""
    name = member.filename
    path = PurePosixPath(name)
    bad = path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name
    if bad or not (path.parts or name == "./"):  # some archives list the folder itself
        raise ArchiveError(f"a member is named {_short(name)}, which lies outside the archive")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise ArchiveError(f"{_short(name)} is a symbolic link; pack the file that it points to")
    _check_method(member)
    return folder / path


def _check_method(member: zipfile.ZipInfo) -> None:
    if member.compress_type not in _METHODS:
        raise ArchiveError(
            f"{_short(member.filename)} is compressed by method {member.compress_type}, not deflate"
        )


def _check_directory(file: IO[bytes]) -> None:
    """Refuse a directory that would exhaust the memory, before it is read."""
    start = max(0, file.seek(0, os.SEEK_END) - _END.size - 0xFFFF - _ZIP64_LOCATOR.size)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + _END.size > len(tail):
        return  # no archive; the library reports that
    size = _END.unpack_from(tail, at)[5]
    if size == 0xFFFFFFFF and at >= _ZIP64_LOCATOR.size:
        file.seek(_ZIP64_LOCATOR.unpack_from(tail, at - _ZIP64_LOCATOR.size)[2])
        large = file.read(_ZIP64_END.size)
        size = _ZIP64_END.unpack(large)[8] if len(large) == _ZIP64_END.size else size
    if size > MAX_DIRECTORY:
        raise ArchiveError(f"its directory has more than {MAX_DIRECTORY:,} bytes")


@contextmanager
def _damage_as_error() -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise ArchiveError(_reason(error)) from None


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _short(name: str) -> str:
    return repr(name if len(name) < 80 else f"{name[:80]}…")
