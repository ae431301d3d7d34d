"""Files with measured signals or CAN frames, in any format."""

from __future__ import annotations

import abc
import contextlib
import fnmatch
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hilrt.config.from_toml import nearest
from hilrt.errors import ConfigError, RecordError
from hilrt.files.text import whole_file
from hilrt.record.logged_frame import LATEST_NS, LoggedFrame
from hilrt.record.messages import Attachment, Topic
from hilrt.record.reader import Block
from hilrt.solver import Floats


class Source(abc.ABC):
    """File from which signals and frames are read.

    Parameters
    ----------
    path : Path
    label : str
        Name of the file in messages: a table and key, or the file itself.

    Attributes
    ----------
    epoch_ns : int or None
        Wall clock (ns since 1970, UTC) at time 0 of the blocks; known once `topics` was called.
        None: the file does not state it, and its first frame is at time 0 (see `since_start`).
    notes : list of str
        Descriptions of parts that could not be read; complete once everything was read.
    unknown_frames : int
        Number of CAN frames that are in no database; final once everything was read.
    """

    #: Name of the format.
    kind: ClassVar[str]

    def __init__(self, path: Path, label: str = "") -> None:
        self.path = path
        self.label = label or str(path)
        self.epoch_ns: int | None = None
        self.notes: list[str] = []
        self.unknown_frames = 0

    @abc.abstractmethod
    def topics(self) -> list[Topic]:
        """Signals, grouped by common times, from the file's head; `ConfigError` if unreadable."""

    def read_head(self) -> list[Topic]:
        """Topics, read only from the head of the file if that suffices."""
        return self.topics()

    @abc.abstractmethod
    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Yield rows of the signals in `wanted` (None: all), with all topics advancing together."""

    def frames(self) -> Iterator[LoggedFrame]:
        """CAN frames in the order of the file."""
        return iter(())

    def since_start(self, frame: LoggedFrame) -> int:
        """Time of a frame since time 0 of the blocks, ns.

        If the file does not state time 0, the first frame requested defines it for later calls,
        even if that frame's time is 0, as in logs with relative times.
        """
        if self.epoch_ns is None:
            self.epoch_ns = frame.time_ns
        return frame.time_ns - self.epoch_ns

    def attachments(self) -> list[Attachment]:
        """Attachments of the file."""
        return []

    def metadata(self) -> dict[str, str]:
        """Metadata of the recording."""
        return {}

    def close(self) -> None:
        """Free the file."""

    def nanoseconds(self, seconds: Floats) -> NDArray[np.int64]:
        """Convert times [s], shape (n,), to ns; `ConfigError` for invalid or impossible ones."""
        wrong = ~(np.abs(seconds) < LATEST_NS / 1e9)
        if np.any(wrong):
            at = int(np.argmax(wrong))
            raise self.fail(
                f"has the time {seconds[at]:g} s, which is invalid, or in another century"
            )
        return np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64)

    def fail(self, text: str) -> ConfigError:
        """Create an error about the file, for the caller to raise."""
        where = "" if self.label == str(self.path) else f"{self.label}: "
        return ConfigError(f"{where}{self.path}: {text}")


class FrameSource(Source):
    """Log that has only frames."""

    kind = "CAN log"

    def topics(self) -> list[Topic]:
        """Return nothing: frames need a database."""
        return []

    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Return no blocks."""
        return iter(())


def format_suffix(path: Path) -> str:
    """Suffix of the format, without that of a compression."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix == ".gz" else suffix


def chosen(names: Collection[str], patterns: Collection[str]) -> list[str]:
    """Names that match any of the patterns (``*``, ``?``), or all without patterns.

    Raises
    ------
    ConfigError
        If a pattern matches nothing.
    """
    if not patterns:
        return list(names)
    unmatched = [p for p in patterns if not any(fnmatch.fnmatchcase(n, p) for n in names)]
    if unmatched:
        raise ConfigError([f"no signal {p!r}{nearest(p, names)}" for p in unmatched])
    return [n for n in names if any(fnmatch.fnmatchcase(n, p) for p in patterns)]


def span_ns(start_s: float | None, end_s: float | None) -> tuple[int, int]:
    """Convert a time span [s] to ns; None: from the beginning, or to the end."""
    low = -LATEST_NS if start_s is None else round(start_s * 1e9)
    return low, LATEST_NS if end_s is None else round(end_s * 1e9)


@contextlib.contextmanager
def new_file(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """Path to write to inside the block; renamed to `path` if the block ends without an error.

    Raises
    ------
    ConfigError
        If the file exists and may not be replaced.
    RecordError
        If the file cannot be written.
    """
    if path.exists() and not replace:
        raise ConfigError(f"{path}: exists already; give another --out, or --force to replace it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as part:
            yield part
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error.strerror or error}") from None


@dataclass
class Exported:
    """Result of an export, with notes on the parts left out."""

    path: Path
    rows: int = 0
    frames: int = 0
    signals: int = 0
    notes: list[str] = field(default_factory=list)
