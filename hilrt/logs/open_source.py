"""Choice of a file's format and reader; readers are imported only when needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hilrt.errors import ConfigError
from hilrt.logs.foreign_source import Kind
from hilrt.logs.source import Source, format_suffix

if TYPE_CHECKING:  # needs python-can, an extra
    from hilrt.logs.decode_frames import BusDatabase

#: Format by suffix; python-can reads the CAN formats, also compressed.
SUFFIXES = {
    ".mcap": "mcap",
    ".mf4": "mf4",
    ".mdf": "mf4",
    ".dat": "mf4",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".log": "can",
    ".asc": "can",
    ".blf": "can",
    ".trc": "can",
    ".db": "can",
}
#: CAN logs that `frame_text` reads; python-can reads the others, in a child process.
TEXT = (".log", ".asc", ".trc")
#: First line of python-can's CSV files with frames.
FRAMES_CSV = "timestamp,arbitration_id,extended,remote,error,dlc,data"


def format_of(path: Path) -> str | None:
    """Format by suffix; None for an unknown one."""
    if path.suffix.lower() == ".gz":
        suffix = Path(path.stem).suffix.lower()
        # python-can reads compressed files with frames, except for SQLite databases.
        frames = suffix == ".csv" or SUFFIXES.get(suffix) == "can"
        return "can" if frames and suffix != ".db" else None
    return SUFFIXES.get(path.suffix.lower())


def open_source(
    path: Path,
    label: str = "",
    *,
    databases: Sequence[BusDatabase] = (),
    time: str | None = None,
) -> Source:
    """Open a file by its suffix.

    Parameters
    ----------
    path : Path
        MCAP log of hilrt or of another tool, MF4, CSV, Parquet, or a CAN log (BLF, ASC, TRC,
        candump, SQLite, and CSV with the columns of python-can).
    label : str
        Table and key that name the file, for messages.
    databases : sequence of BusDatabase
        CAN databases, for all buses or for one each, by which frames are also decoded to signals.
    time : str, optional
        Time column of a CSV or Parquet file.

    Raises
    ------
    ConfigError
        If there is no such file, or its format is unknown or needs something not installed.
    """
    kind = format_of(path)
    where = f"{label}: " if label else ""
    if kind is None:
        known = ", ".join(SUFFIXES)
        raise ConfigError(f"{where}{path}: the suffix is not a known format; there is {known}")
    if not path.is_file():
        raise ConfigError(f"{where}{path}: there is no such file; check the path")
    try:
        source = _open(kind, path, label, time)
        if databases:
            from hilrt.logs.decode_frames import Decoded

            return Decoded(source, databases)
    except ImportError as error:
        extra = {"mf4": "mdf", "parquet": "parquet"}.get(kind, "can")
        raise ConfigError(
            f"{where}{path}: reading it needs {error.name}, which is not installed; "
            f"install hilrt[{extra}]"
        ) from None
    return source


def _open(kind: str, path: Path, label: str, time: str | None) -> Source:
    if kind == "mcap":
        from hilrt.logs.source_mcap import ForeignMcapSource, McapSource, is_foreign

        if is_foreign(path):
            return ForeignMcapSource(path, label)
        return McapSource(path, label)
    if kind == "csv" and not _holds_frames(path):
        from hilrt.logs.source_csv import CsvSource

        return CsvSource(path, label, time)
    if kind == "can" and format_suffix(path) in TEXT:
        from hilrt.logs.frame_text import CanSource

        return CanSource(path, label)
    from hilrt.logs.foreign_source import ForeignSource

    read: Kind = "mf4" if kind == "mf4" else "parquet" if kind == "parquet" else "frames"
    return ForeignSource(read, path, label, time)


def _holds_frames(path: Path) -> bool:
    """Whether python-can wrote a CSV file; it reads only files that end in .csv."""
    if path.suffix.lower() != ".csv":
        return False
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(len(FRAMES_CSV) + 1).strip() == FRAMES_CSV
    except OSError:
        return False  # reported when it is read
