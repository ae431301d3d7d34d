"""Calculated channels in sessions: as outputs like any other, in the log, and in a replay."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hilrt
from hilrt.analyze.stability_study import find_scheme
from hilrt.check.check import check_file
from hilrt.config.session_file import load_session
from hilrt.errors import ConfigError
from hilrt.expressions.evaluator import Evaluator
from hilrt.expressions.session_program import ChannelValues, program_of
from hilrt.link import Ports
from hilrt.record.reader import load_log
from hilrt.replay.replay_log import replay
from hilrt.solver import Port
from hilrt.step.numerics import Numerics
from hilrt.step_log import snapshot
from tests.replay.recording_tools import record_file
from tests.stepping import make_network, make_numerics

HEAD = """
[session]
name = "masses"
duration = 0.3
pace = "asap"
[master]
step = 0.001
[subsystems.mass1]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass1"
params = { m = 1.0, k = 10.0, kc = 100.0, x = 0.0, v = 100.0 }
[subsystems.mass2]
adapter = "inprocess"
model = "hilrt.models.two_mass:Mass2"
params = { m = 1.0, k = 1000.0, x = 0.0, v = -100.0 }
[[connections]]
from = "mass1.force"
to = "mass2.force"
[[connections]]
from = "mass2.x"
to = "mass1.x2"
[[connections]]
from = "SPEED"
to = "mass1.v2"
"""
CHANNELS = """
[[calculated]]
name = "smooth"
unit = "kW"
expression = "lowpass(power, 0.01) + 0 * integral(power, reset=rising(mass2.x > 0))/unit(1, 's')"
[[calculated]]
name = "power"
unit = "W"
expression = "mass1.force * mass2.v"
description = "through the spring"
[[calculated]]
name = "again"
unit = "m/s"
expression = "mass2.v"
[[calculated]]
name = "late"
unit = "m"
expression = "delay(mass2.x, 0.01) + mean(mass2.x, 0.02) + rms(mass2.x, 0.005)"
[[calculated]]
name = "turns"
expression = "count(mass2.v > 0) + lookup('steps', debounce(mass2.v > 0, 0.01))"
[[lookup_tables]]
name = "steps"
x = [0, 1]
values = [0, 0.5]
"""


def session_in(folder: Path, more: str = CHANNELS, speed: str = "mass2.v") -> Path:
    path = folder / "masses.toml"
    path.write_text(HEAD.replace("SPEED", speed) + more)
    return path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """A log of a session that is coupled through a calculated channel."""
    folder = tmp_path_factory.mktemp("calculated")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "EVERY_NS", 25_000_000)
        alarm = '[[alarms]]\nsignal = "calculated.power"\nmax = 9000.0\n'
        path = session_in(folder, CHANNELS + alarm, "calculated.again")
        return record_file(str(path), folder, duration=0.3)


def test_a_connection_from_a_channel_is_one_from_what_it_copies(recorded, tmp_path):
    through, direct = load_log(recorded), hilrt.simulate(session_in(tmp_path, "")).log
    for name in ("mass1.x", "mass2.v", "mass1.v2:sent", "mass1.v2:connection_defect"):
        assert through[name].tobytes() == direct[name].tobytes()
    power = direct["mass1.force"] * direct["mass2.v"]
    assert through["calculated.power"].tobytes() == power.tobytes()
    assert through.units["calculated.smooth"] == "kW"


def test_the_session_comes_out_again_bit_for_bit(recorded):
    outcome = replay(recorded)
    assert outcome.difference is None
    assert outcome.tolerance == 0.0
    later = replay(recorded, start=0.15)
    assert later.difference is None
    assert later.skipped > 100


def test_the_log_gives_the_same_bits_offline(recorded, tmp_path):
    log, tables = load_log(recorded), load_session(session_in(tmp_path)).tables
    units = {name: log.units[name] for name in ("mass1.force", "mass2.v", "mass2.x")}
    program = program_of(units, tables)
    columns = np.column_stack([log[name] for name in program.signals])
    times = np.column_stack([log[f"{name}:t_valid"] for name in program.signals])
    for name, (register, _) in program.channels.items():
        values = Evaluator(replace(program, results=(register,))).run(log.t, columns, times)[:, 0]
        logged = log[f"calculated.{name}"]
        fresh = np.isfinite(logged)
        assert fresh.sum() > 280
        assert values[fresh].tobytes() == logged[fresh].tobytes(), name


def test_an_alarm_judges_the_value_of_the_same_tick(tmp_path):
    action = 'action = "stop"\n'
    raw = f'[[alarms]]\nsignal = "mass1.force"\nmax = 500.0\n{action}'
    same = f'{CHANNELS}[[calculated]]\nname = "f"\nunit = "N"\nexpression = "mass1.force"\n'
    same += f'[[alarms]]\nsignal = "calculated.f"\nmax = 500.0\n{action}'
    ends = [hilrt.simulate(session_in(tmp_path, more)) for more in (raw, same)]
    assert "calculated.f above 500" in ends[1].fault
    assert len(ends[0].log.t) == len(ends[1].log.t) < 200


def numerics_of(*expressions: str) -> Numerics:
    """Outputs a.x and b.y, and channels c0, c1, ..."""
    channels = tuple(Port(f"c{i}") for i in range(len(expressions)))
    return make_numerics(
        {name: Ports((), outputs) for name, outputs in (*PLAIN.items(), ("calculated", channels))},
        calculated=[{"name": f"c{i}", "expression": e} for i, e in enumerate(expressions)],
    )


PLAIN = {"a": (Port("x"),), "b": (Port("y"),)}


def step(numerics: Numerics, t: float, x: float, y: float | None) -> list[tuple[float, float, int]]:
    """Value, time and newness of each channel after a tick; None: no sample."""
    given = numerics.given
    given.session["t"], given.outputs["fresh"] = t, 1
    given.outputs["y"], given.outputs["t_valid"] = 0.0, t
    given.outputs["y"][0], given.outputs["t_valid"][0] = x, t - 0.0002
    given.outputs["y"][1] = 0.0 if y is None else y
    given.outputs["fresh"][1] = y is not None
    numerics.macro_step()
    out = numerics.state.outputs
    return list(zip(out["newest"][2:], out["t_newest"][2:], out["fresh"][2:], strict=True))


def test_a_channel_is_new_with_the_signals_that_it_reads():
    numerics = numerics_of("2 * a.x", "b.y", "a.x + b.y", "unit(time, '')")
    first = step(numerics, 1.0, 3.0, None)
    assert [new for *_, new in first] == [1, 0, 0, 1]
    assert first[0][:2] == (6.0, 0.9998)  # as old as the sample behind it
    second = step(numerics, 2.0, 4.0, 5.0)
    assert second == [(8.0, 1.9998, 1), (5.0, 2.0, 1), (9.0, 2.0, 1), (2.0, 2.0, 1)]
    third = step(numerics, 3.0, 1.0, None)
    assert third[1] == (5.0, 2.0, 0)  # without a new sample
    assert third[2] == (6.0, 2.9998, 1)  # b.y is held


def test_unknown_values_are_implausible_samples_like_any():
    numerics = numerics_of("sqrt(a.x)", "default(a.x, 7)")
    step(numerics, 1.0, 4.0, 0.0)
    out = numerics.state.outputs
    assert out["y"][2:].tolist() == [2.0, 4.0]
    (value, _, new), other = step(numerics, 2.0, np.nan, 0.0)
    assert new
    assert np.isnan(value)
    assert out["implausible"][2:].tolist() == [1, 0]
    assert other[0] == 7.0
    assert out["y"][2] == 2.0  # what a connection carries is held, and flagged
    step(numerics, 3.0, 1e31, 0.0)  # beyond every quantity
    assert np.isnan(out["newest"][2])


@pytest.mark.parametrize("seed", range(5))
def test_a_choice_is_that_of_the_newest_samples_whatever_their_ages(seed):
    """Against what Python makes of the samples that have come, at every tick."""
    numerics = numerics_of("a.x if b.y > 0 else 2 * b.y", "default(a.x, b.y)")
    rng, given, out = np.random.default_rng(seed), numerics.given, numerics.state.outputs
    given.outputs["y"] = given.outputs["t_valid"] = 0.0
    newest, valid = [1.0, 1.0], [-1.0, -1.0]
    for tick in range(200):
        t = given.session[0].t = 0.01 * tick
        for i, age in ((0, 0.035), (1, rng.uniform(0.0, 0.02))):
            given.outputs["fresh"][i] = tick == 0 or (rng.random() < 0.7 and t - age > valid[i])
            if given.outputs["fresh"][i]:
                unknown = i == 0 and tick > 0 and rng.random() < 0.3
                newest[i], valid[i] = np.nan if unknown else rng.normal(), t - age
                given.outputs["y"][i], given.outputs["t_valid"][i] = newest[i], valid[i]
        numerics.macro_step()
        x, y = newest
        expected = [x if y > 0 else 2 * y, y if np.isnan(x) else x]
        np.testing.assert_array_equal(out["newest"][2:], expected)


def test_start_values_come_from_those_of_the_other_outputs():
    ports = {name: Ports((), outputs) for name, outputs in PLAIN.items()}
    ports["calculated"] = Ports((), (Port("c0"), Port("c1")))
    entries = ["lowpass(a.x, 1) - b.y", "unit(derivative(a.x), '')"]
    network, tables = make_network(
        ports, calculated=[{"name": f"c{i}", "expression": e} for i, e in enumerate(entries)]
    )
    start = ChannelValues(network, tables)
    y = np.array([5.0, 2.0, 9.0, 9.0])
    start.fill(y)
    assert y.tolist() == [5.0, 2.0, 3.0, 0.0]  # the slope is not known yet
    assert set(start.needs) == {(2, 0), (2, 1)}
    assert network.initialization_order(start.needs)[-1] == 2


def lines_of(folder: Path, more: str, speed: str = "mass2.v") -> str:
    return "\n".join(str(p) for p in check_file(session_in(folder, more, speed)))


def channel(name: str, expression: str, unit: str = "") -> str:
    return f"[[calculated]]\nname = '{name}'\nunit = '{unit}'\nexpression = \"{expression}\"\n"


def push(condition: str) -> str:
    segments = "segments = [{ shape = 'step', to = 1.0, duration = 0.1 }]"
    return f"[[stimuli]]\nname = 'push'\ninput = 'mass1.v2'\n{condition}\n{segments}\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (push("start_when = 'mass1.forse > 1'"), ("push] start_when", "mass1.force")),
        (push("end_when = 'mass1.force >'"), ("push] end_when", "not an expression")),
        (push("end_when = 'mass1.force > unit(1, \"rad\")'"), ("push] end_when", "'N'", "'rad'")),
        (channel("a", "mass1.forse"), ("[calculated 1: a] expression", "mass1.force")),
        (channel("a", "mass1.force +", "N"), ("[calculated 1: a] expression", "not an expression")),
        (channel("a", "mass1.force"), ("'N'", "plain number")),
        (channel("a", "mass1.force + mass2.v", "N"), ("'m/s'", "'N'", "column 15")),
        (channel("a", "b") + channel("b", "delay(a, 1)"), ("a -> b -> a",)),
        (channel("a", "1") + channel("a", "2"), ("another channel",)),
        (channel("time", "1"), ("reserved in expressions",)),
        (channel("a.b", "1"), ("calculated", "name")),
        (channel("a", "lookup('t', mass2.v)"), ("no lookup table",)),
        (
            "[[lookup_tables]]\nname = 't'\nx = [1, 0]\nvalues = [1, 2]\n",
            ("[lookup_tables 1: t] values", "must be ascending"),
        ),
        (
            channel("a", "mass1.force", "N") + "[[alarms]]\nsignal = 'calculated.b'\nmax = 1.0\n",
            ("'calculated' has no output 'b'",),
        ),
        (
            channel("a", "mass1.force", "N")
            + "[[bonds]]\nname = 's'\neffort = 'calculated.a'\nflow = 'mass2.v'\n",
            ("is a calculated channel",),
        ),
        ("[subsystems.calculated]\nadapter = 'inprocess'\n", ("consists of the [[calculated]]",)),
        ("[subsystems.b]\nadapter = 'calculated'\n", ("consists of the [[calculated]]",)),
    ],
)
def test_refusals(tmp_path, more, said):
    lines = lines_of(tmp_path, more)
    for words in said:
        assert words in lines


def test_what_can_be_used_is_not_complained_of(tmp_path):
    lines = lines_of(tmp_path, CHANNELS, "calculated.again")
    assert "error" not in lines


def test_stability_is_not_judged_with_the_loop_left_open(tmp_path):
    with pytest.raises(ConfigError, match=r"calculated\.again -> mass1\.v2"):
        find_scheme(load_session(session_in(tmp_path, CHANNELS, "calculated.again")))
