"""Every reader of files and messages from elsewhere, with samples of what it takes.

A reader returns whether it accepted what it was given, raises `Wrong` where a reference reads
something else, and must raise nothing besides.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from fuzzing import samples
from fuzzing.mutations import mutate
from hilrt.errors import HilrtError


class Reader(NamedTuple):
    """One kind of file: `read` takes its path, and the sample that it was made of."""

    name: str
    suffix: str
    samples: Callable[[], Sequence[bytes]]
    read: Callable[[Path, bytes], object]
    text: bool = False

    def make(self, seed: int) -> tuple[bytes, bytes]:
        """Content of a case, and the sample that it was made of."""
        rng = random.Random(f"{self.name} {seed}")
        known = _samples(self)
        sample = rng.choice(known)
        return mutate(rng, sample, known, text=self.text), sample

    def case(self, seed: int, folder: Path) -> bool:
        """Make a case and read it."""
        content, sample = self.make(seed)
        path = folder / f"case{self.suffix}"
        path.write_bytes(content)
        try:
            self.read(path, sample)
        except HilrtError:
            return False
        return True


@functools.cache
def _samples(reader: Reader) -> Sequence[bytes]:
    return reader.samples()


def _session(path: Path, sample: bytes) -> None:
    from hilrt.config.session_file import read_session
    from hilrt.config.toml_lines import TomlLines

    read = read_session(path)
    lines = TomlLines(read.session.text)
    for name in read.raw:
        lines.of(str(name))
    if read.problems:
        raise HilrtError(*read.problems)


def _database(path: Path, sample: bytes) -> None:
    from hilrt.can.codec import codec
    from hilrt.can.database import load_database

    for message in load_database(path, "database").messages:
        if not message.is_container and message.signals:
            codec(message, [signal.name for signal in message.signals])


def _import(path: Path, sample: bytes) -> None:
    """To a log of ours, which must be one."""
    from hilrt.logs.import_file import import_file

    out = path.with_name("imported.mcap")
    import_file(path, out)


def all_readers() -> list[Reader]:
    """In the order of the table."""
    return [
        Reader(
            "session", ".toml", lambda: samples.of_files("bench_configs/*.toml"), _session, True
        ),
        Reader("dbc", ".dbc", lambda: samples.of_files("bench_configs/*.dbc"), _database, True),
        Reader("kcd", ".kcd", lambda: samples.of_files("tests/data/*.kcd"), _database, True),
        Reader("arxml", ".arxml", lambda: samples.of_files("tests/data/*.arxml"), _database, True),
        Reader("sym", ".sym", lambda: samples.of_files("tests/data/*.sym"), _database, True),
        Reader("candump", ".log", lambda: samples.text_log(".log"), _import, True),
        Reader("asc", ".asc", lambda: samples.text_log(".asc"), _import, True),
        Reader("trc", ".trc", lambda: samples.text_log(".trc"), _import, True),
        Reader("csv", ".csv", lambda: samples.CSV, _import, True),
    ]
