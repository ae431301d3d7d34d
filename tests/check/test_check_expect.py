"""Expectations of a session file that could not be judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hilrt.check.check import check_file
from hilrt.check.check_expect import check_expect
from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.config.session_file import open_session
from hilrt.config.structs import Expect
from hilrt.solver import Port, Ports

TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"


@pytest.fixture
def found(tmp_path):
    """Function that adds an expectation to a session, and returns what is found."""

    def run(*lines, level="error"):
        path = tmp_path / "session.toml"
        entry = "\n".join(["[[expect]]", 'name = "e"', *lines])
        path.write_text(f"{TWO_MASS.read_text('utf-8')}\n{entry}\n", encoding="utf-8")
        return [str(problem) for problem in check_file(path) if problem.level == level]

    return run


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['always = "mass2.xx < 3"'], "[expect 1: e]: "),
        (['always = "mass2.xx < 3"'], "mass2.x'"),
        (['always = "mass3.x < 3"'], "there is no signal"),
        (['always = "mass2.x < mass2.v"'], "m/s"),
        (['always = "mass2.x <"'], "[expect 1: e] always: "),
        (['always = "mass2.x < 3"', "within = 2.0"], "[expect 1: e] within: "),
        (['always = "mass2.x < 3"', "for = -1.0"], "[expect.e] for = -1.0: "),
        (['always = "mass2.x < 3"', "from = 11.0"], "from = 11.0: is not before the end"),
        (['always = "mass2.x < 3"', '[[expect]]\nname = "e"\nalways = "mass2.x < 3"'], "rename"),
        (['alwais = "mass2.x < 3"'], "always"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_place_and_remedy(found, lines, said):
    problems = found(*lines)
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize(
    "condition",
    [
        "mass2.x < 3 and mass1.force > -1e9",
        'signal("mass2.x:corrected") < 3',
        'signal("spring:power") < 3',
        'signal("flag:late") == 0',
        "time < 100",
    ],
)
def test_what_the_log_will_have_is_taken(found, condition):
    assert found(f"always = '{condition}'") == []


@pytest.mark.parametrize("name", ["power", "calculated.power"])
def test_a_calculated_channel_goes_by_its_own_name(found, name):
    channel = ["[[calculated]]", 'name = "power"', 'unit = "W"']
    channel.append('expression = "mass1.force * mass2.v"')
    assert found(f'always = "{name} < 90"', *channel) == []
    (problem,) = found(f'always = "{name} < mass2.x"', *channel)
    assert "W" in problem


def test_a_window_beyond_the_session_is_a_warning(found):
    lines = ['eventually = "mass2.x > 3"', "within = 20.0"]
    assert found(*lines) == []
    (warning,) = [text for text in found(*lines, level="warning") if "expect" in text]
    assert "needs time until 20 s" in warning


@pytest.mark.parametrize("signal", ["mass1.force", 'signal("mass1.force:corrected")'])
def test_a_port_whose_unit_is_not_known_fits_any(signal):
    tables = open_session(TWO_MASS).tables
    tables.expect.append(Expect(name="e", always=f"{signal} < mass2.x"))
    ports = {
        "mass1": Ports(
            (), (Port("force"),)
        ),  # its database lacks the signal, which is told already
        "mass2": Ports((), (Port("x", "m"),)),
    }
    findings = Findings()
    check_expect(Topology(tables, ports, set(), unclear={"mass1.force"}), findings)
    assert not findings.problems


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
        ("max=nan", "max = nan: is not finite; give a number, or remove it"),
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
        (f"{STEP}, min=nan", "min = nan: is not finite; give a number, or remove it"),
        (f"{STEP}, min=1.0, hold=40.0", "hold = 40.0: is longer than timeout = 30: the wait can"),
        (
            'ramp={"engine.pedal"=0.0}, min=1.0',
            "min = 1.0: has no effect: the step waits for nothing",
        ),
        (
            'ramp={"engine.pedal"=0.0}, max=1.0',
            "max = 1.0: has no effect: the step waits for nothing",
        ),
        ('ramp={"engine.pedal"=0.0}, hold=1.0', "hold = 1.0: has no effect"),
    ],
)
def test_steps(errors: Errors, kind: str, entry: str, text: str) -> None:
    line, *_ = errors(kind, entry)
    assert line.startswith(f"[{kind} 1] {text}")


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ('to="engine.torque"', "to = 'engine.torque': for signal 'engine.speed': unit 'N*m' does"),
        ("to=nan", "to = nan: is not finite; give a number, or remove it"),
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
