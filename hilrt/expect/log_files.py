"""Which files are judged, and by which expectations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hilrt.errors import ConfigError
from hilrt.expect.expectation import Expectation
from hilrt.expect.judge_log import JudgedLog, judge_log, settings_of
from hilrt.expect.spec import read_tables
from hilrt.logs.open_source import format_of, open_source
from hilrt.logs.source import Source
from hilrt.record.messages import FILE_NAME

#: Formats that hold signals; those of CAN frames need a database and an import first.
FORMATS = ("mcap", "mf4", "csv", "parquet")


def log_files(paths: Iterable[Path]) -> list[Path]:
    """Logs among files and folders, in their order; of a run's folder its log.

    Raises
    ------
    ConfigError
        For a path that there is not, and where there is no log at all.
    """
    given = list(paths)
    found: dict[Path, None] = {}
    for path in given:
        if path.is_dir():
            found.update(dict.fromkeys(_in_folder(path)))
        elif path.exists():
            found[path] = None
        else:
            raise ConfigError(f"{path}: there is no such file; check the path")
    if not found:
        raise ConfigError(f"{', '.join(map(str, given))}: there is no log; give files or folders")
    return list(found)


def judge_file(
    path: Path, expectations: Sequence[Expectation] | None, time: str | None = None
) -> JudgedLog:
    """Judge a log; by its own session's expectations if none are given.

    Parameters
    ----------
    path : Path
    expectations : sequence of Expectation, optional
    time : str, optional
        Column of a CSV or Parquet file that holds the time.

    Raises
    ------
    ConfigError
        As `judge_log`; and where the log has no expectations of its own.
    """
    source = open_source(path, time=time)
    try:
        chosen = _own(source) if expectations is None else expectations
        return judge_log(source, chosen)
    except ConfigError as error:
        known = str(path)
        lines = [line if known in line else f"{path}: {line}" for line in error.problems]
        left_out = [f"{path}: {note}" for note in source.notes]
        raise ConfigError([*lines, *left_out]) from None
    finally:
        source.close()


def _in_folder(folder: Path) -> list[Path]:
    """The log of a run's folder; else every log below."""
    own = folder / FILE_NAME
    if own.is_file():
        return [own]
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and format_of(path) in FORMATS
    )


def _own(source: Source) -> list[Expectation]:
    """Expectations of the session file in a log."""
    found = read_tables(settings_of(source))
    if not found:
        raise source.fail("has no expectations of its own; give a TOML file with [[expect]]")
    return found
