"""Every reader of external files and messages, with valid samples.

A reader returns if it accepts its input, raises a `HilrtError` if not, and `Wrong` if a reference
reads something else; it must not raise anything else.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import random
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cantools
import numpy as np
from cantools.database.can import Database

from hilrt.errors import HilrtError
from tools.qualification.fuzzing import archives, messages, samples
from tools.qualification.fuzzing.mutations import mutate
from tools.qualification.fuzzing.worker import Wrong


class Reader(NamedTuple):
    """One kind of file: `read` gets its path, and the sample from which it was made."""

    name: str
    suffix: str
    samples: Callable[[], Sequence[bytes]]
    read: Callable[[Path, bytes], object]
    text: bool = False

    def make(self, seed: int) -> tuple[bytes, bytes]:
        """Content of a case, and the sample from which it was made."""
        rng = random.Random(f"{self.name} {seed}")
        known = samples_of(self)
        sample = rng.choice(known)
        return mutate(rng, sample, known, text=self.text), sample

    def case(self, seed: int, folder: Path) -> str:
        """Make a case and read it; return why it was refused, or an empty text."""
        content, sample = self.make(seed)
        path = folder / f"case{self.suffix}"
        path.write_bytes(content)
        return self.reason(path, sample)

    def reason(self, path: Path, sample: bytes) -> str:
        """Read a file; return why it was refused, or an empty text."""
        try:
            self.read(path, sample)
        except HilrtError as error:
            return str(error) or "refused"
        return ""


@functools.cache
def samples_of(reader: Reader) -> Sequence[bytes]:
    """Samples of a reader, made once, because some formats contain the time of writing."""
    folder = Path(os.environ["HILRT_FUZZ_SAMPLES"])
    folder.mkdir(parents=True, exist_ok=True)
    kept = sorted(folder.glob(f"{reader.name}_*{reader.suffix}"))
    if not kept:
        for i, sample in enumerate(reader.samples()):
            kept.append(folder / f"{reader.name}_{i:03}{reader.suffix}")
            kept[-1].write_bytes(sample)
    return [path.read_bytes() for path in kept]


def _session(path: Path, sample: bytes) -> None:
    from hilrt.config.problems import TomlLines
    from hilrt.config.session_file import read_session

    read = read_session(path)
    lines = TomlLines(read.session.text)
    for name in read.raw:
        lines.of(str(name))
    if read.problems:
        raise HilrtError(*read.problems)


def _database(path: Path, sample: bytes) -> None:
    """The reference is cantools: frames decode to the same values, to the last bit."""
    from hilrt.can.database import load_database
    from hilrt.can.read_database import encoding_of
    from tools.qualification.codec_against_cantools import Comparison

    with contextlib.redirect_stderr(io.StringIO()):
        database = load_database(path, "database")
        try:
            encoding = encoding_of(path.read_bytes(), path.suffix)
            whole = cantools.database.load_file(path, encoding=encoding, strict=False)
        except Exception:  # its parsers raise various errors
            return
        if not isinstance(whole, Database) or len(whole.messages) != len(database.messages):
            return  # the readable part of a broken file
        compared = Comparison(frames=1)
        compared.file(path)
    if any("differences: " in line and not _meant(line) for line in compared.lines()):
        raise Wrong("\n".join(compared.lines()))


def _meant(line: str) -> bool:
    """Whether a difference is intended, or a limitation of cantools itself."""
    return "(meant)" in line or "cantools does not encode" in line


def _import(path: Path, sample: bytes) -> None:
    """Import to a log of hilrt, which must be valid and exportable."""
    from hilrt.logs.import_file import import_file

    out = path.with_name("imported.mcap")
    with _forked_children():
        import_file(path, out)
    try:
        _own_log(out)
    except HilrtError as error:
        raise Wrong(f"what was imported cannot be read: {error}") from None


def _mcap(path: Path, sample: bytes) -> None:
    """Compare with the sample: records with valid checksums must have its values."""
    from hilrt.record.reader import load_log

    _own_log(path)
    log = load_log(path)
    original = _values(sample)
    if original is None or log.truncated:
        return
    names = set(original) & set(log.names)
    if any(not np.array_equal(log[name], original[name], equal_nan=True) for name in names):
        raise Wrong("values differ from the sample's, and the log is called whole")


@functools.cache
def _values(sample: bytes) -> dict[str, Any] | None:
    """Signals of a sample; None for one without checksums."""
    import tempfile

    from mcap.reader import make_reader

    from hilrt.record.reader import load_log

    summary = make_reader(io.BytesIO(sample)).get_summary()
    if summary is None or not summary.statistics or b"fuzzed" not in sample:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.mcap"
        path.write_bytes(sample)
        log = load_log(path)
    return {name: log[name] for name in log.names}


def _own_log(path: Path) -> None:
    """Do everything to a log that commands do."""
    from hilrt.logs.cut import cut
    from hilrt.logs.export_file import export_file
    from hilrt.logs.log_file import read_contents
    from hilrt.logs.open_source import open_source
    from hilrt.logs.show import cat_events, info_lines
    from hilrt.record.reader import load_log

    contents = read_contents(path)
    if any(topic.signals for topic in contents.topics):
        log = load_log(path)
        for name in log.names:
            log.time(name)
    list(info_lines(contents))
    cat_events(path, io.StringIO(), contents, (-(1 << 62), 1 << 62))
    source = open_source(path)
    for _ in source.blocks():
        pass
    frames = sum(1 for _ in source.frames())
    source.attachments()
    source.metadata()
    source.close()
    chosen = ("asc", "trc", "log", "csv")[path.stat().st_size % 4]
    if chosen == "csv" or frames:
        with contextlib.suppress(HilrtError):
            export_file(path, chosen, path.with_name(f"exported.{chosen}"))
    with contextlib.suppress(HilrtError):
        cut(path, path.with_name("cut.mcap"), start_s=0.005, end_s=1.0)


def _fmu(path: Path, sample: bytes) -> None:
    from hilrt.files.archive import ArchiveError, unpack
    from hilrt.fmu.description import read_fmu
    from hilrt.fmu.info import page

    fmu = read_fmu(path)
    "\n".join(page(fmu))
    folder = path.with_name("unpacked")
    folder.mkdir()
    try:
        unpack(path, folder)
    except (ArchiveError, OSError) as error:
        raise HilrtError(str(error)) from None


def _ssp(path: Path, sample: bytes) -> None:
    """Check the session file written for a system, which must be valid."""
    from hilrt.config.session_file import read_session
    from hilrt.fmu.ssp_session import import_ssp

    out = path.with_name("imported.toml")
    import_ssp(path, out)
    try:
        read_session(out)
    except HilrtError as error:
        raise Wrong(f"what was imported is no session file: {error}") from None


class _Forked:
    """A child process like that of `LimitedProcess`, but forked with its libraries loaded."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.returncode: int | None = None
        to_child, from_child = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(to_child[0], 0)
            os.dup2(from_child[1], 1)
            for descriptor in (*to_child, *from_child):
                os.close(descriptor)
            from hilrt.logs.foreign_process import main

            try:
                os._exit(main())
            finally:
                os._exit(1)
        os.close(to_child[0])
        os.close(from_child[1])
        self.stdin = os.fdopen(to_child[1], "wb")
        self.stdout = os.fdopen(from_child[0], "rb")

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, 9)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


@contextlib.contextmanager
def _forked_children() -> Any:
    """Fork the children of `ForeignSource`: the same code and outcomes, in milliseconds."""
    from unittest import mock

    from hilrt.isolation.limited_process import LimitedProcess, ProcessLimits
    from hilrt.logs import foreign_source

    class Forked(LimitedProcess):
        def __init__(self, module: str) -> None:
            with mock.patch.object(subprocess, "Popen", side_effect=_Forked):
                super().__init__(module)

    small = ProcessLimits(512 << 20, 10, 20.0)
    with (
        mock.patch.object(foreign_source, "take_process", Forked),
        mock.patch.object(foreign_source, "give_back", lambda module, process: process.close()),
        mock.patch.object(ProcessLimits, "for_size", return_value=small),
    ):
        yield


def load_libraries() -> None:
    """Load modules used by readers before workers are forked; loading is slower than most cases."""
    import hilrt.logs.foreign_process
    import hilrt.logs.source_can
    import hilrt.logs.source_mf4
    import hilrt.logs.source_parquet  # noqa: F401
    from hilrt.config.units import is_power

    is_power("N*m", "rad/s")  # loads the units


def _blf(path: Path) -> None:
    from hilrt.logs.export_file import export_file

    whole = path.with_name("made.mcap")
    samples.log(whole, rows=1)
    export_file(whole, "blf", path)


def all_readers() -> list[Reader]:
    """All readers, in the order of the table."""
    found, made = samples.of_files, samples.written
    mf4 = (samples.mdf_4, samples.mdf_4_packed)
    own = (samples.log, samples.recorded, samples.unchecked_log, samples.unchunked_log)
    tables = (samples.parquet, samples.parquet_of_stamps)
    return [
        Reader("session", ".toml", lambda: found("bench_configs/*.toml"), _session, True),
        Reader("dbc", ".dbc", lambda: found("bench_configs/*.dbc"), _database, True),
        Reader("kcd", ".kcd", lambda: found("tests/data/*.kcd"), _database, True),
        Reader("arxml", ".arxml", lambda: found("tests/data/*.arxml"), _database, True),
        Reader("sym", ".sym", lambda: found("tests/data/*.sym"), _database, True),
        Reader("candump", ".log", lambda: samples.text_log(".log"), _import, True),
        Reader("asc", ".asc", lambda: samples.text_log(".asc"), _import, True),
        Reader("trc", ".trc", lambda: samples.text_log(".trc"), _import, True),
        Reader("blf", ".blf", lambda: made("log.blf", _blf), _import),
        Reader("mf4", ".mf4", lambda: made("log.mf4", *mf4), _import),
        Reader("mdf3", ".mdf", lambda: made("log.mdf", samples.mdf_3), _import),
        Reader("mcap", ".mcap", lambda: made("log.mcap", *own), _mcap),
        Reader("csv", ".csv", lambda: samples.CSV, _import, True),
        Reader("parquet", ".parquet", lambda: made("log.parquet", *tables), _import),
        Reader("fmu", ".fmu", archives.fmus, _fmu),
        Reader("ssp", ".ssp", archives.systems, _ssp),
        Reader("wire", ".msgpack", messages.wire_samples, messages.read_wire),
        Reader("command", ".msgpack", messages.command_samples, messages.read_command),
    ]
