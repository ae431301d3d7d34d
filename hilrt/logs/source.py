"""A file with measured signals or CAN frames, whatever its format."""

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
    """A file to read signals and frames from.

    Parameters
    ----------
    path : Path
    label : str
        Name of the file in messages: a table and key, or the file itself.

    Attributes
    ----------
    epoch_ns : int or None
        Wall clock (ns since 1970, UTC) at time 0 of the blocks; known once `topics` was called.
        None: the file says none, and time 0 is that of its first frame (see `since_start`).
    notes : list of str
        What could not be taken, as text; complete when everything was read.
    unknown_frames : int
        CAN frames that no database knows; complete when everything was read.
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
        """Signals by common times, from the head of the file; `ConfigError` if it is unreadable."""

    def read_head(self) -> list[Topic]:
        """Topics, from the head of the file where that suffices."""
        return self.topics()

    @abc.abstractmethod
    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Rows of the topics (only those named in `wanted`), all topics advancing together."""

    def frames(self) -> Iterator[LoggedFrame]:
        """CAN frames in the order of the file."""
        return iter(())

    def since_start(self, frame: LoggedFrame) -> int:
        """Time of a frame since time 0 of the blocks, ns.

        Where the file has no such time, it is that of the first frame requested, and kept: also
        where that is 0, as in logs whose times are relative.
        """
        if self.epoch_ns is None:
            self.epoch_ns = frame.time_ns
        return frame.time_ns - self.epoch_ns

    def attachments(self) -> list[Attachment]:
        """Files inside the file."""
        return []

    def metadata(self) -> dict[str, str]:
        """Facts about the recording."""
        return {}

    def close(self) -> None:
        """Free the file."""

    def nanoseconds(self, seconds: Floats) -> NDArray[np.int64]:
        """Times [s], shape (n,), in ns; `ConfigError` for what is none, or no log can hold."""
        wrong = ~(np.abs(seconds) < LATEST_NS / 1e9)
        if np.any(wrong):
            at = int(np.argmax(wrong))
            raise self.fail(
                f"has the time {seconds[at]:g} s, which is invalid, or in another century"
            )
        return np.rint(np.asarray(seconds, np.float64) * 1e9).astype(np.int64)

    def fail(self, text: str) -> ConfigError:
        """Make the error to raise about the file."""
        where = "" if self.label == str(self.path) else f"{self.label}: "
        return ConfigError(f"{where}{self.path}: {text}")


class FrameSource(Source):
    """A log that holds frames alone."""

    kind = "CAN log"

    def topics(self) -> list[Topic]:
        """Return nothing: frames need a database."""
        return []

    def blocks(self, wanted: Collection[str] | None = None) -> Iterator[Block]:
        """Return no blocks."""
        return iter(())


def format_suffix(path: Path) -> str:
    """Suffix that says the format, whether the file is compressed or not."""
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
    lost = [p for p in patterns if not any(fnmatch.fnmatchcase(n, p) for n in names)]
    if lost:
        raise ConfigError([f"no signal {p!r}{nearest(p, names)}" for p in lost])
    return [n for n in names if any(fnmatch.fnmatchcase(n, p) for p in patterns)]


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


@dataclass
class Exported:
    """Result of an export, and the parts left out."""

    path: Path
    rows: int = 0
    frames: int = 0
    signals: int = 0
    notes: list[str] = field(default_factory=list)
