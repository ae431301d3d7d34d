"""Warnings of limits beyond what is declared, and policies for outputs without a range."""

from pathlib import Path

import pytest

from hilrt.check.check import check_file

CONFIGS = Path(__file__).parents[2] / "bench_configs"

#: The vehicle, whose ports are known then.
IN_PROCESS = (
    'subsystems.vehicle={ adapter = "inprocess", model = "hilrt.models.vehicle:Vehicle" }',
    f'subsystems.vehicle.params={{ cycle = "{CONFIGS / "wltc_class3b.csv"}" }}',
)


@pytest.fixture
def told(tmp_path):
    """Function that sets keys of the session of the engine, and returns what is told of ranges."""
    for name in ("engine_bench.dbc", "wltc_class3b.csv"):
        (tmp_path / name).symlink_to(CONFIGS / name)
    path = tmp_path / "session.toml"
    text = (CONFIGS / "engine_in_the_loop.toml").read_text(encoding="utf-8")

    def run(*overrides, alarm=""):
        path.write_text(f"{text}\n{alarm}\n", encoding="utf-8")
        found = check_file(path, overrides)
        words = "range", "the database limits"
        return [f"{p.level}: {p}" for p in found if any(word in str(p) for word in words)]

    return run


def test_the_session_as_it_is(told):
    assert told() == []


@pytest.mark.parametrize("limit", ["max = 801.0", "min = -101.0"])
def test_an_alarm_beyond_the_declared_range(told, limit):
    alarm = f'[[alarms]]\nsignal = "engine.speed"\n{limit}\naction = "safe"'
    (line,) = told(alarm=alarm)
    assert line.startswith("warning: [alarms")
    assert "lies outside the declared range from -100 to 800 of engine.speed: the alarm " in line


def test_an_alarm_at_the_end_of_the_declared_range(told):
    assert told(alarm='[[alarms]]\nsignal = "engine.speed"\nmax = 800.0\naction = "safe"') == []


def test_a_bound_of_a_set_point_beyond_the_declared_range(told):
    (line,) = told("subsystems.engine.inputs.speed_demand.max=651.0")
    assert line.startswith("warning: [subsystems.engine.inputs.speed_demand] max = 651.0: lies ")
    assert "outside the declared range, which bounds it from 0 to 650" in line


def test_a_safe_value_beyond_the_declared_range(told):
    """What the gateway may not send is no safe value."""
    speed = "subsystems.engine.inputs.speed_demand"
    errors = [line for line in told(f"{speed}.max=660.0", f"{speed}.safe=655.0") if line[0] == "e"]
    (line,) = errors
    assert "safe = 655.0: the database limits signal DynoDemand.Speed to 0 to 650; give" in line


def test_a_bound_of_a_solvers_input_beyond_its_own(told):
    speed = "subsystems.vehicle.inputs.engine_torque"
    (line,) = told(*IN_PROCESS, f"{speed}.max=1e6")
    assert line.startswith("warning: [subsystems.vehicle.inputs.engine_torque] max = 1000000.0:")


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ('"hold"', None),
        ('{ speed = "safe", torque = "use" }', None),
        ('{ sped = "safe" }', "error: [subsystems.engine.out_of_range] sped = 'safe': "),
        ('"never"', "error: [subsystems.engine] out_of_range"),
    ],
)
def test_policies(told, policy, text):
    found = told(f"subsystems.engine.out_of_range={policy}")
    if text is None:
        assert found == []
    else:
        assert found[0].startswith(text), found


def test_a_policy_for_an_output_without_a_range(told):
    (line,) = told(*IN_PROCESS, 'subsystems.vehicle.out_of_range={ load_torque = "hold" }')
    assert line.startswith("warning: [subsystems.vehicle.out_of_range] load_torque = 'hold': no ")
