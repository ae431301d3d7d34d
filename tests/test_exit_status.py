import json
from types import SimpleNamespace

import pytest

from hilrt.cli import main as cli
from hilrt.errors import ConfigError, PeerLost, gravest
from hilrt.session.result import Result


@pytest.mark.parametrize(
    ("statuses", "counts"),
    [
        ((0, 5), 5),
        ((5, 4), 4),
        ((4, 1), 1),
        ((1, 2), 2),
        ((2, 3), 3),
        ((3, 130, 5), 130),
        ((0,), 0),
    ],
)
def test_the_graver_one_counts(statuses, counts):
    assert gravest(*statuses) == gravest(*reversed(statuses)) == counts


@pytest.mark.parametrize(
    ("verdict", "fail_on", "status"),
    [
        ("good", "degraded", 0),
        ("degraded", "degraded", 5),
        ("unreliable", "degraded", 5),
        ("degraded", "unreliable", 0),
        ("unverified", "degraded", 0),
        ("unverified", "unverified", 5),
        ("degraded", "unverified", 5),
        ("good", "unverified", 0),
        ("unreliable", "unreliable", 5),
        ("unreliable", None, 0),
        ("", "degraded", 0),  # no tick ran: another status says why
    ],
)
def test_a_verdict_can_fail_a_session(verdict, fail_on, status):
    result = Result(summary={"verdict": verdict})
    result.judge(fail_on)
    assert result.exit_status == status
    assert [verdict in warning for warning in result.warnings] == [True] * (status == 5)


def test_a_fault_stays_one_where_rows_are_missing_too():
    result = Result()
    result.fail("one is lost")
    result.lack(["rows are lost"])
    assert (result.exit_status, result.fault, result.warnings) == (
        3,
        "one is lost",
        ["rows are lost"],
    )


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (ZeroDivisionError("oops"), 70, "internal error: ZeroDivisionError: oops"),
        (ConfigError(["one", "two"]), 2, "one\ntwo\n"),
        (PeerLost("load", "is gone"), 3, "subsystem 'load': is gone"),
        (json.JSONDecodeError("bad", "", 0), 2, "JSONDecodeError: bad"),
    ],
)
def test_what_a_command_raises_is_a_status(error, status, text, capsys):
    def command():
        raise error

    with pytest.raises(SystemExit) as ended:
        cli.main(command)
    assert ended.value.code == status
    shown = capsys.readouterr().err
    assert text in shown
    assert ("Traceback" in shown) == (status == 70)


def test_a_wrong_verdict_is_refused_before_anything_starts(monkeypatch, capsys):
    monkeypatch.setattr("hilrt.cli.main.load", lambda session, overrides: SimpleNamespace())
    with pytest.raises(SystemExit) as ended:
        cli.app(["run", "any.toml", "--fail-on", "bad"])
    assert ended.value.code == 2
    assert "--fail-on bad: is not unverified, degraded or unreliable" in capsys.readouterr().err
