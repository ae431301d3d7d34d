"""Finds the log that is meant: a file, a run's folder, or the newest match of a pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hilrt.errors import RecordError
from hilrt.record.messages import FILE_NAME

_PATTERN = re.compile(r"[*?\[]")
#: Beginning of a run, in the name of its folder.
BEGAN = re.compile(r"-(\d{8}-\d{6}(?:-\d+)?)$")


def find_log(path: str | Path) -> Path:
    """The log in a run's folder, or the file itself; of several that a pattern names the newest.

    Raises
    ------
    RecordError
        If there is none.
    """
    path = Path(path)
    if _PATTERN.search(str(path)) and not path.exists():
        return newest_log(_matching(path), str(path))
    file = log_at(path)
    if not file.is_file():
        raise RecordError(f"{file}: there is no log; give a run's folder or its {FILE_NAME}")
    return file


def newest_log(paths: Sequence[Path], named: str = "") -> Path:
    """The log that began last, by the names of the runs' folders; else the one written last.

    Folders without a log are left out. `RecordError` if none is left, with `named` in it.
    """
    files = [file for file in map(log_at, paths) if file.is_file()]
    if not files:
        raise RecordError(
            f"{named or ', '.join(map(str, paths))}: there is no log; give a run's folder or its "
            f"{FILE_NAME}"
        )
    began = [BEGAN.search(file.parent.name) for file in files]
    if all(began):
        return max(zip([_number(found) for found in began], files, strict=True))[1]
    return max(files, key=lambda file: file.stat().st_mtime_ns)


def log_at(path: Path) -> Path:
    """Path of the log in a run's folder; a file stands for itself."""
    return path / FILE_NAME if path.is_dir() else path


def _number(found: re.Match[str] | None) -> tuple[int, ...]:
    return tuple(int(part) for part in found[1].split("-")) if found else ()


def _matching(pattern: Path) -> list[Path]:
    """Paths that a pattern names, whatever part of it has the wildcards."""
    anchor = Path(pattern.anchor) if pattern.is_absolute() else Path()
    relative = pattern.relative_to(pattern.anchor) if pattern.is_absolute() else pattern
    return sorted(anchor.glob(str(relative)))
