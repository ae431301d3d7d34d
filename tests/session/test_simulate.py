"""Sessions in one process: what they give is what a recorded session gives, and leave nothing."""

import asyncio
import subprocess
from pathlib import Path

import numpy as np
import pytest

import hilrt
from hilrt import InputPolynomial, Port, RunOptions, Sample, Solver
from hilrt.config.session_file import override
from hilrt.errors import ConfigError, RecordError
from hilrt.record.reader import Log
from hilrt.step_log.signals import CIRCUMSTANCES
from tests.fmu.build import mass, needs_compiler

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "bench_configs"
TWO_MASS = CONFIGS / "two_mass.toml"

CASES = {
    "energy correction": ("two_mass.toml", {"session.duration": 1.5}),
    "extrapolated": ("two_mass.toml", {"session.duration": 0.5, "connections.0.order": 1}),
    "model correction": ("two_mass_model.toml", {"session.duration": 0.3}),
    "several bonds": ("three_mass.toml", {"session.duration": 0.3}),
    "variable step": (
        "two_mass.toml",
        {
            "session.duration": 0.3,
            "master.step_control": {"method": "pi", "minimum": 1e-5, "maximum": 1e-2},
        },
    ),
    "order control": (
        "nonlinear_oscillator.toml",
        {
            "session.duration": 0.3,
            "master.order_control": {"method": "derivatives", "maximum": 2},
        },
    ),
}


def assert_equal(simulated: Log, recorded: Log) -> None:
    """Every signal bit for bit, but for what depends on the clock."""
    assert list(simulated) == list(recorded)
    assert (simulated.units, simulated.sources) == (recorded.units, recorded.sources)
    for name in recorded:
        assert np.array_equal(simulated.time_ns(name), recorded.time_ns(name)), name
        if name.rpartition(":")[2] not in CIRCUMSTANCES:
            assert simulated[name].tobytes() == recorded[name].tobytes(), name
    said = [event for event in recorded.events if event.source != "recorder"]
    assert simulated.events == said


@pytest.mark.parametrize("case", CASES)
def test_signals_are_those_of_the_recorded_session(case: str, tmp_path: Path) -> None:
    config, overrides = CASES[case]
    result = hilrt.simulate(CONFIGS / config, overrides)
    file = override(hilrt.load_session(CONFIGS / config), overrides)
    recorded = hilrt.run_session(file, options=RunOptions(out=tmp_path, pace="asap"))
    assert (result.fault, result.exit_status) == (recorded.fault, recorded.exit_status) == (None, 0)
    assert_equal(result.log, recorded.log)
    assert result.verdict == recorded.verdict
    for key in ("state", "steps", "time_s", "ports", "bonds", "flags", "reasons", "order"):
        assert result.summary[key] == recorded.summary[key], key


FMUS = """
[session]
name = "masses"
duration = 0.4
pace = "realtime"
[master]
step = 1e-3
[subsystems.first]
adapter = "fmu"
fmu = "{path}"
params = {{ v = 100.0, F = 0.0 }}
[subsystems.second]
adapter = "fmu"
fmu = "{path}"
params = {{ k = 1000.0, kc = 0.0, v = -100.0, x2 = 0.0, v2 = 0.0 }}
[[connections]]
from = "first.force"
to = "second.F"
[[connections]]
from = "second.x"
to = "first.x2"
[[connections]]
from = "second.v"
to = "first.v2"
"""


@needs_compiler
def test_fmus_in_this_process(tmp_path: Path) -> None:
    path = tmp_path / "masses.toml"
    path.write_text(FMUS.format(path=mass(2)))
    result = hilrt.simulate(path)
    recorded = hilrt.run_session(path, options=RunOptions(out=tmp_path, pace="asap"))
    assert_equal(result.log, recorded.log)


def test_nothing_is_written_and_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process or a folder was asked for")

    file = hilrt.load_session(TWO_MASS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    result = hilrt.simulate(file, {"session.duration": 0.01})
    assert result.summary["steps"] == 10
    assert list(tmp_path.iterdir()) == []


async def test_where_an_event_loop_runs() -> None:
    """As in a notebook: the cell waits, and gets the result."""
    asyncio.get_running_loop()
    result = hilrt.simulate(TWO_MASS, {"session.duration": 0.01})
    assert len(result.log.t) == 11


def test_without_a_log() -> None:
    result = hilrt.simulate(TWO_MASS, {"session.duration": 0.01}, record=False)
    assert result.summary["steps"] == 10
    with pytest.raises(RecordError, match="no log"):
        _ = result.log


def test_the_log_is_a_mapping_of_signals() -> None:
    result = hilrt.simulate(TWO_MASS, {"session.duration": 2.5})
    log = result.log
    assert log["mass1.force"].shape == log.time("mass1.force").shape == (2501,)
    assert log.units["mass1.force"] == "N"
    assert log.metadata["session"] == "two-mass"
    with pytest.raises(KeyError, match=r"mass1\.force"):
        _ = log["mass1.forse"]


def test_values_of_every_kind_a_session_file_has() -> None:
    values = {
        "session.duration": np.float64(0.01),
        "session.name": "first",
        "connections.0.order": np.int64(1),
        "master.extrapolation": {"order": 1, "source": "lagrange"},
        "subsystems.mass1.params.m": 2,
        "subsystems.mass1.params.note": 'a "b"\\\n',
        "monitor.control": ("stop",),
        "record.report": False,
    }
    file = override(hilrt.load_session(TWO_MASS), values)
    tables = file.tables
    assert (tables.session.duration, tables.session.name) == (0.01, "first")
    assert (tables.connections[0].order, tables.master.extrapolation.order) == (1, 1)
    params = tables.subsystems["mass1"].params
    assert (params["m"], params["note"]) == (2, 'a "b"\\\n')
    assert (tables.monitor.control, tables.record.report) == (["stop"], False)
    again = override(file, {"connections.0.order": 0})
    assert (again.tables.connections[0].order, again.tables.session.duration) == (0, 0.01)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"connections.9.order": 1}, "no table '9'"),
        ({"connections.0.ordre": 1}, "did you mean 'order'"),
        ({"master.step": -1.0}, "step = -1.0"),
        ({"master": 1.0}, "table.key=value"),
        ({"master.step": 1j}, "cannot contain values of type complex"),
        ({"bonds.spring.effort": "mass1.nothing"}, "nothing"),
    ],
)
def test_a_bad_override_is_refused(overrides: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        hilrt.simulate(TWO_MASS, overrides)


def test_a_bad_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        hilrt.simulate(tmp_path / "none.toml")


def test_subsystems_of_other_processes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "remote.toml"
    path.write_text(
        '[session]\nname = "remote"\nduration = 1.0\n[master]\nstep = 0.1\n'
        '[subsystems.plant]\nadapter = "zeromq"\n'
    )
    with pytest.raises(ConfigError, match=r"\[subsystems.plant\] adapter = 'zeromq'"):
        hilrt.simulate(path)


class Breaks(Solver):
    """Raises in the step from 5 ms on."""

    outputs = (Port("y"),)
    stopped = ""

    def initialize(self, t0: float, u0: np.ndarray) -> Sample:
        return Sample(np.zeros(1))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        if t > 0.0045:
            raise RuntimeError("a spring broke")
        return Sample(np.array([t + h]))

    def stop(self, reason: str) -> None:
        Breaks.stopped = reason


def test_a_fault_of_a_subsystem_ends_in_the_result(tmp_path: Path) -> None:
    path = tmp_path / "breaks.toml"
    path.write_text(
        '[session]\nname = "breaks"\nduration = 1.0\n[master]\nstep = 0.001\n'
        f'[subsystems.a]\nadapter = "inprocess"\nmodel = "{Breaks.__module__}:Breaks"\n'
    )
    result = hilrt.simulate(path)
    assert result.exit_status == 3
    assert "a spring broke" in (result.fault or "")
    assert result.summary["state"] == "FAULT"
    assert result.verdict == "unreliable"
    assert "a spring broke" in result.log.events[-1].text
    assert len(result.log.t) == 6
    assert "a spring broke" in Breaks.stopped


def test_an_alarm_ends_in_the_result(tmp_path: Path) -> None:
    alarm = '[[alarms]]\nsignal = "mass1.x"\nmax = 0.5\naction = "stop"\n'
    path = tmp_path / "alarmed.toml"
    path.write_text(f"{TWO_MASS.read_text()}\n{alarm}")
    result = hilrt.simulate(path, {"session.duration": 0.5})
    assert result.exit_status == 3
    assert (result.fault or "").startswith("alarm: mass1.x above 0.5")


def test_a_channel_that_reads_nothing_has_its_value_from_the_start(tmp_path: Path) -> None:
    channel = '[[calculated]]\nname = "goal"\nexpression = "3.0"\n'
    alarm = '[[alarms]]\nsignal = "calculated.goal"\nmin = 1.0\naction = "stop"\n'
    path = tmp_path / "constant.toml"
    path.write_text(f"{TWO_MASS.read_text()}\n{channel}{alarm}")
    assert hilrt.simulate(path, {"session.duration": 0.01}).exit_status == 0


def test_derivatives_that_never_came_are_said() -> None:
    taylor = {"master.extrapolation": {"order": 1, "source": "taylor"}, "session.duration": 0.1}
    (warning,) = hilrt.simulate(TWO_MASS, taylor).warnings
    assert warning.startswith("no derivatives from mass1.")
    assert hilrt.simulate(TWO_MASS, {**taylor, "master.extrapolation.order": 0}).warnings == []


def test_the_first_step_is_no_longer_than_the_maximum():
    control = {"master.step_control": {"method": "pi", "maximum": 1e-4}}
    result = hilrt.simulate(TWO_MASS, {"session.duration": 0.005, **control})
    assert np.diff(result.log.t).max() < 1.0001e-4


def test_inputs_that_stay_at_their_limits_are_warned_of():
    limits = {"subsystems.mass2.inputs": {"force": {"min": -5.0, "max": 5.0}}}
    (warning,) = hilrt.simulate(TWO_MASS, {"session.duration": 0.5, **limits}).warnings
    assert "limits of value or rate" in warning
    assert warning.endswith("mass2.force")
    wide = {"subsystems.mass2.inputs": {"force": {"min": -5e3, "max": 5e3}}}
    assert hilrt.simulate(TWO_MASS, {"session.duration": 0.5, **wide}).warnings == []


class Body(Solver):
    inputs = (Port("force", "N"),)
    outputs = (Port("x", "m"), Port("v", "m/s"))

    def __init__(self) -> None:
        self.x, self.v = 1.0, 0.0

    def initialize(self, t0: float, u0: np.ndarray) -> Sample:
        return Sample(np.array([self.x, self.v]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        a = u(t)[0] / 2.0
        self.x, self.v = self.x + h * self.v + 0.5 * h * h * a, self.v + h * a
        return Sample(np.array([self.x, self.v]))


class LaggingSpring(Solver):
    """Answers with the inputs of the step's beginning, however short the step is."""

    inputs = (Port("x", "m"), Port("v", "m/s"))
    outputs = (Port("force", "N", feedthrough=("x", "v")),)

    def initialize(self, t0: float, u0: np.ndarray) -> Sample:
        return Sample(np.array([-200.0 * u0[0] - u0[1]]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        x, v = u(t)
        return Sample(np.array([-200.0 * x - v]))


COLLAPSING = f"""
[session]
name = "lag"
duration = 0.3
pace = "asap"
[master]
step = 0.005
step_control = {{ method = "local", rtol = 1e-3 }}
[subsystems.body]
adapter = "inprocess"
model = "{__name__}:Body"
[subsystems.spring]
adapter = "inprocess"
model = "{__name__}:LaggingSpring"
[[connections]]
from = "body.x"
to = "spring.x"
[[connections]]
from = "body.v"
to = "spring.v"
[[connections]]
from = "spring.force"
to = "body.force"
"""


@pytest.mark.parametrize(("minimum", "told"), [(1e-9, True), (5e-5, False)])
def test_a_step_that_collapses_is_told_with_a_minimum(
    minimum: float, told: bool, tmp_path: Path
) -> None:
    (tmp_path / "lag.toml").write_text(COLLAPSING)
    key = "master.step_control.minimum"
    result = hilrt.simulate(tmp_path / "lag.toml", {key: minimum}, record=False)
    said = [line for line in result.warnings if line.startswith("step control went down to")]
    assert bool(said) == told
    assert all("minimum = 5e-05" in line for line in said)
    if told:
        assert result.verdict != "good"
        assert said[0] in result.summary["reasons"]
