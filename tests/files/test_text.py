"""Text that would fill the memory: lines without end, and compressed files."""

from __future__ import annotations

import ast
import gzip
import os
from pathlib import Path

import pytest

from hilrt.errors import ConfigError
from hilrt.files import text as room
from hilrt.files.text import whole_file, write_whole
from hilrt.logs.import_file import import_file
from hilrt.logs.open_source import open_source

LINE = "(1780000000.000100) can0 100#0A00\n"
CSV = "time,x\n0,1\n"


@pytest.mark.parametrize(
    ("name", "begin"),
    [("log.log", 2 * LINE), ("log.asc", "base hex\n\n"), ("log.trc", ";\n;\n"), ("log.csv", CSV)],
)
def test_a_line_without_end_is_refused_with_its_number(
    name: str, begin: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(begin + "0" * 2_000_000)
    with pytest.raises(
        ConfigError, match=rf"{name}: cannot be read: line 3 has [0-9,]+ characters or more"
    ):
        _read(tmp_path / name)


def test_a_compressed_log_unpacks_to_a_multiple_of_itself_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.log.gz"
    path.write_bytes(gzip.compress(LINE.encode() * 30_000))
    assert _read(path) == 30_000
    monkeypatch.setattr(room, "RATIO_FROM", 300_000)
    monkeypatch.setattr(room, "MAX_RATIO", 20)
    with pytest.raises(ConfigError, match="cannot be read: it unpacks to more than 300,000 bytes"):
        _read(path)
    path.write_bytes(gzip.compress(os.urandom(5000).hex().encode())[:1000])
    with pytest.raises(ConfigError, match="cannot be read: it is damaged: Compressed file ended"):
        _read(path)


def test_a_pipe_a_device_and_a_folder_are_no_logs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "zero.log").symlink_to("/dev/zero")
    (tmp_path / "folder.log").mkdir()
    for name in ("pipe", "zero", "folder"):
        with pytest.raises(ConfigError, match=rf"{name}\.log: "):
            _read(tmp_path / f"{name}.log")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "time,x\n0,1\n1e300,2\n", r"has the time 1e\+300 s, which is invalid"),
        ("a.csv", "time,x\n-4e9,1\n0,2\n", r"has a row .* s before 1970"),
        ("a.csv", "time,x\n0,1\ninf,2\n", r"has the time inf s, which is invalid"),
        ("a.csv", f'time,x\n0,"{"1" * 200_000}"\n', r"line 2: field larger than field limit"),
        ("a.log", LINE + f"({'9' * 5000}.1) can0 100#00\n", "line 2 has an invalid number"),
        ("a.log", LINE + f"({'9' * 30}.1) can0 100#00\n", "line 2 has a time that is centuries"),
        ("a.asc", "date\n0.1 1 100 Rx d 2 0A 00\n0.2 1 100 Rx d 999 0A\n", "announces more than"),
    ],
)
def test_numbers_that_no_log_can_hold_are_told_with_their_line(
    name: str, text: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    try:
        notes = import_file(tmp_path / name, tmp_path / "out.mcap").notes
    except ConfigError as error:
        notes = error.problems
    assert len(notes) == 1
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(notes[0])


def test_many_brackets_are_a_name_that_is_read_at_once(tmp_path: Path) -> None:
    for name, unit in (("(" * 130_000, ""), ("a (b) [c" + "(" * 9 + "]", "c" + "(" * 9)):
        (tmp_path / "a.csv").write_text(f"time,{name}\n0,1\n")
        (signal,) = open_source(tmp_path / "a.csv").topics()[0].signals
        assert signal.unit == unit


def _read(path: Path) -> int:
    source = open_source(path)
    try:
        rows = sum(len(block.times_ns) for block in source.blocks())
        return rows + sum(1 for _ in source.frames())
    finally:
        source.close()


SOURCES = Path(__file__).parents[2] / "hilrt"
#: What writes into a folder of its own, or into the part that it was given.
WITHOUT = {
    "text.py",
    "can_names.py",  # databases out of a log, in a temporary folder
    "rebuild.py",  # a session file out of a log, likewise
}


def test_an_older_file_stays_when_writing_fails(tmp_path):
    path = tmp_path / "report.html"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "half \ud800")  # no text that can be encoded
    assert path.read_text() == "old"
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert [*tmp_path.iterdir()] == [path]


def test_a_kill_leaves_no_half_file_under_the_name(tmp_path):
    path = tmp_path / "report.html"
    with whole_file(path) as part:
        part.write_text("half")
        assert not path.exists()
        assert part.suffix == ".html"
    assert path.read_text() == "half"


def test_two_writers_of_a_file_do_not_take_each_others(tmp_path):
    path = tmp_path / "tune.toml"
    with whole_file(path) as first:
        first.write_text("first")
        write_whole(path, "second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX pipes")
def test_what_is_no_file_is_written_to_as_it_is(tmp_path):
    """A rename would put a file in place of ``/dev/null``."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "report")
    assert os.read(reader, 100) == b"report"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.skipif(os.name != "posix", reason="links need permission elsewhere")
def test_a_link_stays_one(tmp_path):
    target, link = tmp_path / "report-1.html", tmp_path / "report.html"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_text_files_are_written_by_no_other_way():
    found = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in sorted(SOURCES.rglob("*.py"))
        if path.name not in WITHOUT
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("write_text", "write_bytes")
    ]
    assert found == []
