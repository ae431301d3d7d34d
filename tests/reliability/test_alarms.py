"""Alarms: limits, delay, rate, gravity, and what a session does."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from hilrt.check.check import check_file
from hilrt.config.session_file import load_session
from hilrt.config.structs import Alarm
from hilrt.coupling.inject_faults import take_samples
from hilrt.link import Ports
from hilrt.reliability.alarms import ACTIONS, DEGRADE, STOP, AlarmHistory, describe
from hilrt.reliability.guard import guard
from hilrt.session.run import RunOptions
from hilrt.session.session import run_session
from hilrt.solver import Port
from tests.stepping import Recorded, Stepping, make_numerics

STEP = 1e-3
PORTS = {"bench": Ports((), (Port("speed"), Port("pair", size=2)))}


class Watch:
    """Alarms fed sample by sample, 1 ms apart."""

    def __init__(self, *alarms):
        tables = [
            {key: value for key, value in asdict(alarm).items() if value is not None}
            for alarm in alarms
        ]
        self.numerics = make_numerics(PORTS, master={"step": STEP}, alarms=tables)
        self.alarms, self.state = self.numerics.alarms, self.numerics.state
        self.k = 0

    def see(self, speed=None, pair=(0.0, 0.0)):
        given = self.numerics.given
        given.session["t"] = given.outputs["t_valid"] = self.k * STEP
        self.k += 1
        given.outputs["y"] = [np.nan if speed is None else speed, *pair]
        given.outputs["fresh"] = [speed is not None, True, True]
        take_samples(self.numerics.plan, self.state, given)
        guard(self.numerics.plan, self.state, given)
        return int(self.state.session["alarm_level"][0])

    def levels(self, *speeds):
        return [self.see(speed) for speed in speeds]


def test_value_outside_acts_at_once_and_inside_ends_it():
    watch = Watch(Alarm(signal="bench.speed", min=-1.0, max=10.0, action="stop"))
    assert watch.levels(10.0, 10.1, -1.0, -1.1, 0.0) == [-1, STOP, -1, STOP, -1]


def test_a_value_that_is_no_number_is_outside():
    watch = Watch(Alarm(signal="bench.speed", max=10.0, action="stop"))
    assert watch.levels(1.0, float("nan"), float("inf"), 1.0) == [-1, STOP, STOP, -1]


def test_missing_samples_leave_the_alarm_as_it_was():
    watch = Watch(Alarm(signal="bench.speed", max=10.0, action="stop"))
    assert watch.levels(11.0, None, None, 9.0, None) == [STOP, STOP, STOP, -1, -1]


def test_delay_needs_the_value_outside_without_a_break():
    watch = Watch(Alarm(signal="bench.speed", max=10.0, delay=3 * STEP))
    seen = watch.levels(11.0, 11.0, 11.0, 9.0, 11.0, 11.0, 11.0, 11.0, 11.0)
    assert seen == [-1, -1, -1, -1, -1, -1, -1, 0, 0]


def test_rate_is_per_second_between_samples():
    watch = Watch(Alarm(signal="bench.speed", max_rate=1000.0))
    assert watch.levels(0.0, 0.9, 2.0, 2.5, None, 4.4, 6.5) == [-1, -1, 0, -1, -1, -1, 0]


def test_the_gravest_action_counts():
    alarms = [Alarm(signal="bench.speed", max=1.0 + i, action=a) for i, a in enumerate(ACTIONS)]
    watch = Watch(*alarms)
    assert watch.levels(0.0, 1.5, 2.5, 3.5, 4.5) == [-1, 0, 1, 2, 3]
    assert watch.alarms.ending(watch.state) == ["bench.speed above 3", "bench.speed above 4"]
    assert [watch.alarms.degrades(describe(a, "bench.speed")) for a in alarms] == [
        level == DEGRADE for level in range(4)
    ]


def test_a_vector_port_has_an_alarm_per_element():
    watch = Watch(Alarm(name="wear", signal="bench.pair", max=1.0))
    watch.see(0.0, pair=(0.0, 2.0))
    assert watch.alarms.names == ["wear: bench.pair[0] above 1", "wear: bench.pair[1] above 1"]
    assert watch.state.alarms["active"].tolist() == [0, 1]


def test_outside_before_the_first_tick_counts_what_ends_sessions():
    watch = Watch(
        Alarm(signal="bench.speed", max=1.0, action="safe"), Alarm(signal="bench.speed", max=1.0)
    )
    assert watch.alarms.outside({0: 2.0}) == ["bench.speed above 1 (2)"]
    assert watch.alarms.outside({0: 1.0}) == watch.alarms.outside({1: 2.0}) == []


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=40), st.floats(0, 5))
def test_without_delay_the_alarm_is_the_comparison(values, limit):
    watch = Watch(Alarm(signal="bench.speed", max=limit, action="safe"))
    assert watch.levels(*values) == [3 if v > limit else -1 for v in values]


def test_the_history_of_an_alarm_adds_up():
    history = AlarmHistory()
    history.note("never raised", 0.5, raised=False)
    for t, raised in ((1.0, True), (1.5, False), (4.0, True), (4.25, False), (6.0, True)):
        history.note("a", t, raised=raised)
    history.note("b", 5.0, raised=True)
    a, b = history.as_json(10.0)
    assert (a["count"], a["first_t"], a["last_t"], a["cleared_t"]) == (3, 1.0, 6.0, None)
    assert a["active_s"] == 0.5 + 0.25 + 4.0
    assert (b["name"], b["active_s"]) == ("b", 5.0)
    history.note("a", 7.0, raised=False)
    assert history.as_json(10.0)[0]["cleared_t"] == 7.0
    assert history.as_json(10.0)[0]["active_s"] == 1.75


def test_alarm_is_a_flag_with_a_cause():
    s = Stepping(
        {"a": Recorded({"x": lambda t: 1e3 * t})},
        master={"step": STEP},
        alarms=[{"signal": "a.x", "max": 4.5}],
    )
    s.run(10 * STEP)
    flags = [change for change in s.changes if change.cause == "alarm"]
    assert [(f.where, f.raised, f.t) for f in flags] == [
        ("a.x above 4.5", True, pytest.approx(5e-3))
    ]


ROOT = Path(__file__).parents[2]


def run_two_mass(folder, alarm):
    """Two masses that start at 100 and -100 m/s and swing."""
    text = (ROOT / "bench_configs/two_mass.toml").read_text(encoding="utf-8")
    path = folder / "two_mass.toml"
    path.write_text(f"{text}\n[[alarms]]\n{alarm}\n", encoding="utf-8")
    file = load_session(path, ["session.duration=0.5"])
    return run_session(file, options=RunOptions(out=folder / "runs", record=False))


def test_an_alarm_ends_the_session_at_its_tick(tmp_path):
    result = run_two_mass(tmp_path, 'signal = "mass1.force"\nmax = 200.0\naction = "safe"')
    assert result.exit_status == 3
    assert result.fault == "alarm: mass1.force above 200"
    assert result.summary["time_s"] < 0.4
    (alarm,) = result.summary["alarms"]
    assert (alarm["name"], alarm["count"]) == ("mass1.force above 200", 1)
    assert alarm["first_t"] == pytest.approx(result.summary["time_s"])
    assert alarm["cleared_t"] is None
    assert b"mass1.force above 200" in ET.tostring(result.junit_suite("two_mass"))
    assert result.summary["ports"]["mass1.force"]["last"] > 200.0


def test_an_alarm_that_only_logs_lets_the_session_go_on(tmp_path):
    result = run_two_mass(tmp_path, 'signal = "mass1.force"\nmax = 200.0')
    assert (result.exit_status, result.fault) == (0, None)
    assert result.summary["flags"]["alarm"]["count"] >= 1


def test_nothing_is_armed_while_a_value_is_outside(tmp_path):
    result = run_two_mass(tmp_path, 'signal = "mass1.v"\nmax = 50.0\naction = "stop"')
    assert result.exit_status == 3
    assert "alarm before the first tick: mass1.v above 50 (100)" in result.fault
    assert not result.summary


def test_check_names_what_is_wrong(tmp_path):
    text = (ROOT / "bench_configs/two_mass.toml").read_text(encoding="utf-8")
    path = tmp_path / "two_mass.toml"
    path.write_text(
        text + '[[alarms]]\nsignal = "mass1.forse"\nmin = 2.0\nmax = 1.0\n'
        '[[alarms]]\nsignal = "mass1.v"\n',
        encoding="utf-8",
    )
    found = [str(p) for p in check_file(path) if p.level == "error"]
    assert len(found) == 3, found
    assert "did you mean 'force'" in found[0]
    assert found[1].startswith("[alarms 1: mass1.forse] min = 2.0: is not below max = 1")
    assert "has no limit" in found[2]
