"""Files with measured signals or CAN frames, whatever their format, behind one interface."""

from __future__ import annotations

import abc
import fnmatch
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import ClassVar

from hilrt.errors import ConfigError
from hilrt.logs.frames import Frame
from hilrt.record.messages import Attachment, Topic
from hilrt.record.reader import Block

#: Suffixes to formats; python-can reads the CAN ones, also compressed.
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
#: First line of the tables that python-can writes frames into.
FRAMES_CSV = "timestamp,arbitration_id,extended,remote,error,dlc,data"


class Source(abc.ABC):
    """A file to read signals and frames from.

    Parameters
    ----------
    path : Path
    label : str
        What names the file in messages: a table and key, or the file itself.

    Attributes
    ----------
    epoch_ns : int
        Wall clock (ns since 1970, UTC) at time 0 of the blocks; known once it was asked for topics.
    notes : list of str
        What could not be taken, in words; complete when everything was read.
    """

    #: What the format is called.
    kind: ClassVar[str]

    def __init__(self, path: Path, label: str = "") -> None:
        self.path = path
        self.label = label or str(path)
        self.epoch_ns = 0
        self.notes: list[str] = []

    @abc.abstractmethod
    def topics(self) -> list[Topic]:
        """Signals by common times, from the head of the file; `ConfigError` if it is unreadable."""

    @abc.abstractmethod
    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Rows of the topics (only those named in `wanted`), all topics advancing together."""

    def frames(self) -> Iterator[Frame]:
        """CAN frames in the order of the file."""
        return iter(())

    def attachments(self) -> list[Attachment]:
        """Files inside the file."""
        return []

    def metadata(self) -> dict[str, str]:
        """Facts about the recording."""
        return {}

    def close(self) -> None:
        """Free the file."""

    def fail(self, text: str) -> ConfigError:
        """What is wrong with the file, to raise."""
        where = "" if self.label == str(self.path) else f"{self.label}: "
        return ConfigError(f"{where}{self.path}: {text}")


def format_of(path: Path) -> str | None:
    """Format by suffix; None for an unknown one."""
    if path.suffix.lower() == ".gz":
        suffix = Path(path.stem).suffix.lower()
        # Of compressed files python-can reads those with frames, and a database is not read so.
        frames = suffix == ".csv" or SUFFIXES.get(suffix) == "can"
        return "can" if frames and suffix != ".db" else None
    return SUFFIXES.get(path.suffix.lower())


def open_source(
    path: Path, label: str = "", *, database: Path | None = None, time: str | None = None
) -> Source:
    """Open a file by its suffix.

    Parameters
    ----------
    path : Path
        MCAP log of ours, MF4, CSV, Parquet, or a CAN log (BLF, ASC, TRC, candump, SQLite, and CSV
        with the columns of python-can).
    label : str
        Table and key that name it, for messages.
    database : Path, optional
        CAN database: frames give signals as well.
    time : str, optional
        Column of a CSV or Parquet file that holds the time.

    Raises
    ------
    ConfigError
        If there is no such file, or its format is unknown or needs something not installed.
    """
    kind = format_of(path)
    where = f"{label}: " if label else ""
    if kind is None:
        known = ", ".join(SUFFIXES)
        raise ConfigError(f"{where}{path}: the suffix says no known format; there is {known}")
    if not path.is_file():
        raise ConfigError(f"{where}{path}: there is no such file; check the path")
    try:
        source = _open(kind, path, label, time)
        if database is not None:
            from hilrt.logs.decode_frames import Decoded

            return Decoded(source, database)
    except ImportError as error:
        extra = {"mf4": "mdf", "parquet": "parquet"}.get(kind, "can")
        raise ConfigError(
            f"{where}{path}: reading it needs {error.name}, which is not installed; "
            f"install hilrt[{extra}]"
        ) from None
    return source


def _open(kind: str, path: Path, label: str, time: str | None) -> Source:
    if kind == "mcap":
        from hilrt.logs.source_mcap import McapSource

        return McapSource(path, label)
    if kind == "mf4":
        from hilrt.logs.source_mf4 import Mf4Source

        return Mf4Source(path, label)
    if kind == "csv" and not _holds_frames(path):
        from hilrt.logs.source_csv import CsvSource

        return CsvSource(path, label, time)
    if kind == "parquet":
        from hilrt.logs.source_parquet import ParquetSource

        return ParquetSource(path, label, time)
    from hilrt.logs.source_can import CanSource

    return CanSource(path, label)


def _holds_frames(path: Path) -> bool:
    """Whether a CSV file is one of python-can's; it reads those that end in .csv alone."""
    if path.suffix.lower() != ".csv":
        return False
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline(len(FRAMES_CSV) + 1).strip() == FRAMES_CSV
    except OSError:
        return False  # said when it is read


def chosen(names: Collection[str], patterns: Collection[str]) -> list[str]:
    """Names that match any of the patterns (``*``, ``?``), or all without patterns.

    Raises
    ------
    ConfigError
        If a pattern matches nothing.
    """
    if not patterns:
        return list(names)
    lost = [p for p in patterns if not any(fnmatch.fnmatchcase(n, p) for n in names)]
    if lost:
        from hilrt.config.from_toml import nearest

        raise ConfigError([f"no signal {p!r}{nearest(p, names)}" for p in lost])
    return [n for n in names if any(fnmatch.fnmatchcase(n, p) for p in patterns)]
