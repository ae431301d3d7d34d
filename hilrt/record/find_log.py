"""Find a log by its file, its run's folder, or the newest match of a pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hilrt.errors import RecordError
from hilrt.record.messages import FILE_NAME

_PATTERN = re.compile(r"[*?\[]")
#: Time at which a run began, in the name of its folder.
BEGAN = re.compile(r"-(\d{8}-\d{6}(?:-\d+)?)$")


def find_log(path: str | Path) -> Path:
    """Find the log in a run's folder, the file itself, or the newest match of a pattern.

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
    """Log that began last, by the names of the runs' folders; else the one written last.

    Folders without a log are skipped. `RecordError`, which quotes `named`, if none has a log.
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
    """Path of the log in a run's folder; a file's path is returned as it is."""
    return path / FILE_NAME if path.is_dir() else path


def _number(found: re.Match[str] | None) -> tuple[int, ...]:
    return tuple(int(part) for part in found[1].split("-")) if found else ()


def _matching(pattern: Path) -> list[Path]:
    """Paths that match a pattern, which may have wildcards in any part."""
    anchor = Path(pattern.anchor) if pattern.is_absolute() else Path()
    relative = pattern.relative_to(pattern.anchor) if pattern.is_absolute() else pattern
    return sorted(anchor.glob(str(relative)))
