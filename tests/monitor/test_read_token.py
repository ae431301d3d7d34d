"""The token for readers: one per account, which no other account can read."""

import logging
import os
import stat

import pytest

from hilrt.monitor.read_token import (
    READ_TOKEN_VARIABLE,
    given_token,
    keep_out_of_logs,
    read_token,
    token_file,
    with_token,
)

posix = pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")


@pytest.fixture
def account(tmp_path, monkeypatch):
    """An account of its own, as every process that starts sees it."""
    monkeypatch.delenv(READ_TOKEN_VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    yield read_token.__wrapped__
    read_token.cache_clear()


def test_it_stays_the_same_and_is_the_accounts_alone(account):
    token = account()
    assert account() == token
    assert len(token) >= 24
    assert token_file().read_text() == token
    assert len(list(token_file().parent.iterdir())) == 1
    if os.name == "posix":
        assert stat.S_IMODE(token_file().stat().st_mode) == 0o600


@pytest.fixture
def factory():
    before = logging.getLogRecordFactory()
    yield
    logging.setLogRecordFactory(before)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("404 GET /x?token=se+cret&page=a (127.0.0.1) 0.5ms", ()),
        ("%d %s %.2fms", (404, "GET /x?token=se+cret&page=a (127.0.0.1)", 0.5)),
        ("404 GET /x?token=se%2Bcret&page=a (127.0.0.1) %dms", (0,)),
        ("request %r", ({"uri": "/?page=a&token=another"},)),
        ("the bearer se+cret page=a", ()),
    ],
)
def test_it_is_in_no_log(text, arguments, factory, caplog):
    keep_out_of_logs("se+cret")
    logging.getLogger("page.access").warning(text.replace("%2B", "%%2B"), *arguments)
    (record,) = caplog.records
    said = record.getMessage()
    assert "cret" not in said
    assert "another" not in said
    assert "page=a" in said
    assert "…" in said


@posix
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_token_that_others_may_know_is_replaced(account, mode):
    before = account()
    token_file().chmod(mode)
    assert account() != before
    assert stat.S_IMODE(token_file().stat().st_mode) == 0o600


@posix
def test_a_link_is_not_followed(account, tmp_path):
    known = tmp_path / "known"
    known.write_text("known")
    known.chmod(0o600)
    token_file().parent.mkdir()
    token_file().symlink_to(known)
    assert account() != "known"


def test_the_environment_goes_before(account, monkeypatch):
    monkeypatch.setenv(READ_TOKEN_VARIABLE, "mine")
    assert account() == "mine"
    assert not token_file().exists()


def test_without_a_home_it_is_the_processs(account, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "file"))
    assert account() != account()
    assert read_token() == read_token()


def test_where_a_request_has_it():
    assert with_token("http://here:1", "t") == "http://here:1/?token=t"
    assert with_token("http://here:1", "a+b&c") == "http://here:1/?token=a%2Bb%26c"
    assert given_token(["a", "b"], "") == "b"
    assert given_token(["a"], "Bearer  b ") == "b"
    assert given_token([], "Basic b") == ""
