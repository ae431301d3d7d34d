"""Defects of a session's observers: the session ends safely, or continues without them."""

from pathlib import Path

import pytest

import hilrt
from hilrt.session.observers import (
    ExpectationObserver,
    FlagObserver,
    RecordingObserver,
    StatusObserver,
)

TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"
SHORT = {"session.duration": 0.1}


def breaking(monkeypatch, observer, at_tick=20):
    """Give the observer's class a defect in the step of that number."""
    stepped = observer.stepped

    def defect(self, turn):
        if turn.point.tick == at_tick:
            raise ZeroDivisionError("oh")
        stepped(self, turn)

    monkeypatch.setattr(observer, "stepped", defect)


@pytest.mark.parametrize(
    ("observer", "name"), [(RecordingObserver, "recording"), (FlagObserver, "flags")], ids=str
)
def test_a_required_one_ends_the_session(monkeypatch, observer, name):
    breaking(monkeypatch, observer)
    result = hilrt.simulate(TWO_MASS, SHORT)
    assert result.exit_status == 3
    assert result.fault == f"{name}: a bug, ZeroDivisionError: oh"
    assert result.summary["time_s"] == pytest.approx(0.02)


def test_without_live_status_the_session_is_the_same(monkeypatch):
    whole = hilrt.simulate(TWO_MASS, SHORT).log
    breaking(monkeypatch, StatusObserver)
    result = hilrt.simulate(TWO_MASS, SHORT)
    assert result.exit_status == 0
    assert (result.log["mass1.x"] == whole["mass1.x"]).all()
    (told,) = [event for event in result.log.events if event.cause == "observer_removed"]
    assert (told.level, told.source) == ("warning", "live status")
    assert told.t == pytest.approx(0.02)


def test_expectations_that_are_no_longer_judged_do_not_pass(monkeypatch, tmp_path):
    path = tmp_path / "session.toml"
    expected = '[[expect]]\nname = "near"\nalways = "mass2.x < 100"\n'
    path.write_text(f"{TWO_MASS.read_text()}\n{expected}")
    assert hilrt.simulate(path, SHORT).exit_status == 0
    breaking(monkeypatch, ExpectationObserver)
    result = hilrt.simulate(path, SHORT)
    assert result.exit_status == 4
    assert [(one.name, one.result) for one in result.outcomes] == [
        ("near", "inconclusive"),
        ("expectations", "inconclusive"),
    ]
    assert "ZeroDivisionError: oh" in result.outcomes[0].reason
