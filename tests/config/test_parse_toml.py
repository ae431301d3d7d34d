"""TOML that would end the parser, or the machine: refused, with the line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hilrt.config.parse_toml import MAX_DEPTH, TomlError, parse_toml
from hilrt.config.problems import TomlLines
from hilrt.config.session_file import MAX_BYTES, read_session
from hilrt.errors import ConfigError

HEAD = '[session]\nname = "x"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a = {'[' * 20_000}", r"brackets of more than 50 levels \(at line 3\)"),
        (f"a = {'{a=' * 20_000}", r"brackets of more than 50 levels \(at line 3\)"),
        (f"{'a.' * 20_000}b = 1", r"a key of more than 50 levels \(at line 3\)"),
        ("[" + '"a".' * 20_000 + "b]", r"a key of more than 50 levels \(at line 3\)"),
        (f"[{'a.' * 40}b]\n{'c.' * 40}d = 1", r"tables of more than 50 levels"),
        (f"a = {'9' * 5000}", r"too many digits \(at line 3\)"),
        (f"a = [1.0, {'9' * 400}]", r"session\.a\.1: is an integer of more than 64 bits"),
        (f"a = 0x{'F' * 5000}", r"session\.a: is an integer of more than 64 bits"),
    ],
    ids=lambda text: text[:20],
)
def test_what_no_reader_bears_is_refused_with_its_place(
    text: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(TomlError, match=message):
        parse_toml(HEAD + text)
    path = tmp_path / "session.toml"
    path.write_text(HEAD + text)
    with pytest.raises(ConfigError, match=message):
        read_session(path)


def test_brackets_dots_and_digits_in_texts_and_long_lists_are_none_of_it() -> None:
    text = f'a = "{"[" * 100}{"9" * 5000}"  # {"[" * 100} {"a." * 100}\nb = [{"1.5, " * 1000}]\n'
    assert len(parse_toml(text)["b"]) == 1000
    depth = MAX_DEPTH - 1
    assert TomlLines(f"c = {'[' * depth}{']' * depth}").of("c") == 1
    assert parse_toml("a = 9223372036854775807")["a"] == (1 << 63) - 1


def test_a_session_file_that_is_no_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    for path, what in [
        (Path("/dev/zero"), "device"),
        (tmp_path, "directory"),
        (tmp_path / "pipe", "pipe"),
        (tmp_path / "large", "more than 16,777,216 bytes"),
    ]:
        with pytest.raises(ConfigError, match=f"cannot be read: .*{what}.*; check the path"):
            read_session(path)
