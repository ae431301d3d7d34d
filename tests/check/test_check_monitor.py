"""What triggers a recording: every wrong one is named, and the rest is what the recorder needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from hilrt.check.check import check_file
from hilrt.check.check_monitor import build_trigger
from hilrt.config.session_file import load_session
from hilrt.errors import ConfigError
from hilrt.record.messages import Limit, Signal, Topic

CONFIGS = Path(__file__).parents[2] / "bench_configs"
TOPICS = [Topic("outputs", [Signal("mass1.x", "m"), Signal("spring:power", "W")])]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "session.toml"
    alarms = '\n[[alarms]]\nsignal = "mass1.x"\nmax = 9.0\nname = "far"\n'
    path.write_text((CONFIGS / "two_mass.toml").read_text() + alarms)
    return path


def errors(session: Path, trigger: str) -> list[str]:
    problems = check_file(session, [f"record.trigger=[{trigger}]"])
    return [str(problem) for problem in problems if problem.level == "error"]


@pytest.mark.parametrize(
    "trigger",
    [
        '{flag = "power_residual"}',
        '{signal = "mass1.x", above = 1.0}',
        '{signal = "spring:power", below = -5.0}',
        '{signal = "master:lateness", above = 500.0}',
        '{alarm = "far"}',
        '{event = "mark"}',
    ],
)
def test_what_can_be_waited_for(session: Path, trigger: str) -> None:
    assert errors(session, trigger) == []


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        ("{}", "has nothing to wait for"),
        ('{flag = "alarm", event = "mark"}', "has flag and event"),
        ('{flag = "power_residul"}', "did you mean 'power_residual'?"),
        ('{signal = "mass1.x"}', "has no limit; give above or below"),
        ('{signal = "mas1.x", above = 1.0}', "did you mean 'mass1'?"),
        (
            '{signal = "mass1.x", above = nan}',
            "above = nan: is not finite; give a number, or remove it",
        ),
        ('{signal = "mass1.x", below = -inf}', "below = -inf: is not finite"),
        ('{event = "mark", above = 1.0}', "applies to a signal"),
        ('{alarm = "near"}', "is not the name of an alarm"),
        ('{signal = "mass1.x", above = 1.0, over = 2.0}', "unknown key"),
    ],
)
def test_what_cannot(session: Path, trigger: str, text: str) -> None:
    (error, *_) = errors(session, trigger)
    assert "[record.trigger 1" in error
    assert text in error


def test_the_recorder_gets_times_limits_names_and_causes(session: Path) -> None:
    triggers = '{flag="alarm"}, {signal="mass1.x", above=2.0}, {alarm="far"}, {event="mark"}'
    file = load_session(session, [f"record.trigger=[{triggers}]", "record.before=2.5"])
    built = build_trigger(file.tables, TOPICS)
    assert built is not None
    assert (built.before_ns, built.after_ns) == (2_500_000_000, 5_000_000_000)
    assert built.limits == [Limit("flag:alarm", above=0.5), Limit("mass1.x", above=2.0)]
    assert (built.alarms, built.causes) == (["far"], ["mark"])


def test_everything_is_recorded_without_a_trigger(session: Path) -> None:
    assert build_trigger(load_session(session, ["record.before=1.0"]).tables, TOPICS) is None


def test_a_signal_that_is_not_recorded_is_named_before_the_first_tick(session: Path) -> None:
    file = load_session(session, ['record.trigger=[{signal="mass1.y", above=1.0}]'])
    with pytest.raises(ConfigError, match=r"\[record.trigger.0\] signal = 'mass1.y': .*'mass1.x'"):
        build_trigger(file.tables, TOPICS)
