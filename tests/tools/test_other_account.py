"""What the tool that attacks a session takes for harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hilrt.monitor.operator_commands import Reply
from hilrt.monitor.operator_commands import encode as encode_reply
from hilrt.peers.wire import Reject, encode
from tools.qualification import other_account, stranger


@pytest.mark.parametrize(
    ("frame", "taken", "well"),
    [
        (b"a row", True, False),
        (encode(Reject(reason="the name is taken")), False, True),
        (encode_reply(Reply(False, "refused: wrong key")), False, True),
        (encode_reply(Reply(True, "ending the session")), False, False),
        (b"\xc1", False, False),
    ],
)
def test_what_a_stranger_may_have(frame: bytes, taken: bool, well: bool) -> None:
    assert stranger.judge([frame], taken)[1] is well


def test_an_answer_with_content_is_harm() -> None:
    assert [stranger.read_http(said)[1] for said in (200, 101, 403, "TimeoutError")] == [
        False,
        False,
        True,
        True,
    ]


def test_a_file_that_may_be_read_is_harm(tmp_path: Path) -> None:
    (tmp_path / "session.mcap").touch()
    files = stranger.files_of(tmp_path, [])
    assert {tmp_path, tmp_path / "session.mcap"} <= set(files)
    assert stranger.against_file(tmp_path / "session.mcap")[3:] == ("read and write", False)
    assert stranger.against_file(tmp_path / "none")[3:] == ("refused", True)


def test_without_root_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    assert other_account.main([]) == 0
    assert capsys.readouterr().out.startswith("skipped: only ")
