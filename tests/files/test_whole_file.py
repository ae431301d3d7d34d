"""A file has its name only when it is whole; what was there before stays until then."""

import ast
import os
from pathlib import Path

import pytest

from hilrt.files.whole_file import whole_file, write_whole

SOURCES = Path(__file__).parents[2] / "hilrt"
#: What writes into a folder of its own, or into the part that it was given.
WITHOUT = {
    "whole_file.py",
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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX pipes")
def test_what_is_no_file_is_written_to_as_it_is(tmp_path):
    """A rename would put a file in the place of ``/dev/null``."""
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
