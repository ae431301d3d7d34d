"""Alarms, steps and matches that cannot do what they are for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hilrt.check.check import check_file

CONFIGS = Path(__file__).parents[2] / "bench_configs"
Errors = Callable[[str, str], list[str]]
STEP = 'ramp={"engine.pedal"=0.0}, wait="engine.speed"'


@pytest.fixture
def errors(tmp_path: Path) -> Errors:
    """Function that adds an entry to the session of the engine, and returns what is wrong."""

    def run(kind: str, entry: str) -> list[str]:
        for name in ("engine_bench.dbc", "wltc_class3b.csv"):
            (tmp_path / name).symlink_to(CONFIGS / name)
        text = (CONFIGS / "engine_in_the_loop.toml").read_text(encoding="utf-8")
        path = tmp_path / "session.toml"
        lines = entry.replace(", ", "\n")
        path.write_text(f"{text}\n[[{kind}]]\n{lines}\n", encoding="utf-8")
        return [str(problem) for problem in check_file(path) if problem.level == "error"]

    return run


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("max=nan", "max = nan: is not finite; give a number, or leave it out"),
        ("max=9.0, min=inf", "min = inf: is not finite"),
        ("max=9.0, min=10.0", "min = 10.0: is not below max = 9"),
    ],
)
def test_alarms(errors: Errors, entry: str, text: str) -> None:
    line, *_ = errors("alarms", f'signal="engine.torque", {entry}')
    assert line.startswith(f"[alarms 1: engine.torque] {text}")


@pytest.mark.parametrize("kind", ["start", "stop"])
@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (f"{STEP}, min=nan", "min = nan: is not finite; give a number, or leave it out"),
        (f"{STEP}, min=1.0, hold=40.0", "hold = 40.0: is longer than timeout = 30: the wait can"),
        ('ramp={"engine.pedal"=0.0}, min=1.0', "min = 1.0: is of no use: the step waits for not"),
        ('ramp={"engine.pedal"=0.0}, max=1.0', "max = 1.0: is of no use: the step waits for not"),
        ('ramp={"engine.pedal"=0.0}, hold=1.0', "hold = 1.0: is of no use"),
    ],
)
def test_steps(errors: Errors, kind: str, entry: str, text: str) -> None:
    line, *_ = errors(kind, entry)
    assert line.startswith(f"[{kind} 1] {text}")


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ('to="engine.torque"', "to = 'engine.torque': for signal 'engine.speed': unit 'N*m' does"),
        ("to=nan", "to = nan: is not finite; give a number, or leave it out"),
        ("to=1.0, hold=30.0", "hold = 30.0: is longer than timeout = 20: the wait can only fail"),
    ],
)
def test_matches(errors: Errors, entry: str, text: str) -> None:
    (line,) = errors("match", f'signal="engine.speed", tolerance=1.0, {entry}')
    assert line.startswith(f"[match 1: engine.speed] {text}")


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("start", f"{STEP}, min=1.0, hold=1.0"),
        ("match", 'signal="engine.speed", to="vehicle.engine_speed", tolerance=1.0'),
        ("alarms", 'signal="engine.torque", min=-1.0, max=1.0'),
    ],
)
def test_what_can(errors: Errors, kind: str, entry: str) -> None:
    assert errors(kind, entry) == []


def test_values_that_views_show_are_outputs(tmp_path: Path) -> None:
    values = ["engine.torque", "engine.*", "vehicle.engine_speed[0]", "engine.torqe", "no.x"]
    problems = check_file(
        CONFIGS / "engine_in_the_loop.toml", [f"monitor.values={values!r}".replace("'", '"')]
    )
    found = [str(problem) for problem in problems if problem.level == "error"]
    assert [line.split(":")[0] for line in found] == [
        "[monitor] values = 'engine.torqe'",
        "[monitor] values = 'no.x'",
    ]
