"""A bench emulated by its table: frames decoded by cantools, a solver against the exact answer."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cantools
import numpy as np
import pytest

from hilrt.bench.bench_on_bus import BenchOnBus
from hilrt.bench.bench_options import BenchOptions
from hilrt.bench.emulate import Emulation
from hilrt.bench.read_bench import read_bench
from hilrt.can.frame import Frame
from hilrt.can.protection import MessageOptions
from hilrt.config.from_toml import build
from hilrt.errors import ConfigError
from hilrt.hosting import database_bench
from hilrt.hosting.database_bench import DatabaseBench, bench_maker, emulate_session
from hilrt.solver import Floats, InputPolynomial, Parameter, Port, Sample, Solver
from tests.scenarios.test_generated import DATABASE

MESSAGES: Any = cantools.database.load_string(DATABASE, "dbc")
TABLE: dict[str, Any] = {
    "adapter": "can",
    "bus": {"interface": "virtual", "fd": True},
    "database": "rig.dbc",
    "enable": {"request": "RigCmd.DriveEnable", "state": "RigFast.EnableAck"},
    "messages": {
        "RigCmd": {
            "counter": "CmdCounter",
            "protection": {"method": "sum", "signal": "CmdChecksum"},
        },
    },
    "outputs": {
        "torque": "RigFast.Torque",
        "speed": "RigFast.Speed",
        "oil": "RigMux.Oil",
        "water": "RigMux.Water",
        "dc_link": "RigSlow.DcLink",
    },
    "inputs": {
        "speed_set": {
            "signal": "RigCmd.SpeedSet",
            "realised": "speed",
            "min": 0.0,
            "max": 6000.0,
            "max_rate": 1000.0,
            "safe": 0.0,
        },
        "flow": {
            "signal": "MuxCmd.Flow",
            "min": 0.0,
            "max": 500.0,
            "max_rate": 100.0,
            "safe": 0.0,
        },
    },
}
LAG = 0.1  # s
GAIN = 2.0  # N m s


class Rig(Solver):
    """Torque that follows the speed [rad/s] with a lag; exact for a constant input."""

    inputs = (Port("speed_set", "rad/s"),)
    outputs = (Port("torque", "kN*m"),)

    def __init__(self, lag: float = LAG) -> None:
        self.lag, self.torque = lag, 0.0

    def initialize(self, t0: float, u0: Floats) -> Sample:
        return Sample(np.array([self.torque]))

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        target = 1e-3 * GAIN * u(t)[0]
        self.torque += (1.0 - np.exp(-h / self.lag)) * (target - self.torque)
        return Sample(np.array([self.torque]))


class Stranger(Rig):
    inputs = (Port("pressure", "bar"),)
    outputs = (Port("level", "m"),)


@pytest.fixture
def options(tmp_path: Path) -> BenchOptions:
    (tmp_path / "rig.dbc").write_text(DATABASE)
    problems: list[str] = []
    built = build(BenchOptions, TABLE, "", problems)
    assert built is not None, problems
    return built


class Rehearsal:
    """The bench on a bus of two lists; demands by cantools."""

    def __init__(self, folder: Path, options: BenchOptions, bench: DatabaseBench) -> None:
        self.bus = BenchOnBus(
            bench, folder / options.database, None, None, options.messages, options.alive
        )
        self.sent: list[Frame] = []
        self.incoming: list[Frame] = []
        self.bus.attach(self._drain, self.sent.append)
        self.cycles = 0

    def _drain(self) -> list[Frame]:
        frames, self.incoming = self.incoming, []
        return frames

    def run(self, cycles: int, demand: dict[str, float] | None = None) -> None:
        for _ in range(cycles):
            self.cycles += 1
            if demand is not None and self.cycles % 10 == 0:
                self.demand(demand)
            self.bus.cycle(1e-3 * self.cycles)

    def demand(self, values: dict[str, float]) -> None:
        message = MESSAGES.get_message_by_name("RigCmd")
        whole = {"CoolEnable": 0, "CmdCounter": self.cycles // 10 % 16, "CmdChecksum": 0, **values}
        data = bytearray(message.encode(whole))
        data[7] = sum(data[:7]) & 0xFF
        self.incoming.append(Frame(message.frame_id | 1 << 31, bytes(data)))

    def decoded(self, name: str) -> list[dict[str, Any]]:
        message = MESSAGES.get_message_by_name(name)
        return [
            message.decode(frame.data, decode_choices=False)
            for frame in self.sent
            if frame.identifier == message.frame_id
        ]


def rehearse(
    folder: Path, options: BenchOptions, values: dict[str, float], solver: Solver | None = None
) -> Rehearsal:
    bench = DatabaseBench(read_bench("bench", options, folder), values, solver)
    return Rehearsal(folder, options, bench)


def test_every_message_comes_as_the_database_says(tmp_path: Path, options: BenchOptions) -> None:
    on = rehearse(tmp_path, options, {"torque": 12.3, "water": 30.0})
    on.run(2000)
    fast, forms, slow = (on.decoded(name) for name in ("RigFast", "RigMux", "RigSlow"))
    assert [len(found) for found in (fast, forms, slow)] == [200, 40, 2]
    assert [frame["Alive"] for frame in fast] == list(range(200))
    assert [frame["Torque"] for frame in fast] == pytest.approx(200 * [12.3])
    assert [frame["Page"] for frame in forms] == 20 * [1, 2]
    assert forms[1]["Water"] == pytest.approx(30.0)
    assert all(f.fd for f in on.sent if f.identifier == 304)
    assert not any(frame["EnableAck"] for frame in fast)


def test_constants_change_while_it_runs(tmp_path: Path, options: BenchOptions) -> None:
    on = rehearse(tmp_path, options, {"torque": 12.3})
    found = {one.name: one for one in on.bus.bench.parameters}  # type: ignore[attr-defined]
    assert list(found) == ["torque", "oil", "water", "dc_link"]  # the speed follows its set-point
    assert (found["torque"].default, found["torque"].unit) == (12.3, "Nm")
    assert (found["oil"].min, found["oil"].max) == (-40.0, 200.0)
    on.run(100)
    assert on.bus.bench.set_parameter("torque", -7.5) == ""  # type: ignore[attr-defined]
    assert on.bus.bench.set_parameter("water", 55.0) == ""  # type: ignore[attr-defined]
    on.run(100)
    assert [f["Torque"] for f in on.decoded("RigFast")] == pytest.approx([12.3] * 10 + [-7.5] * 10)
    assert on.decoded("RigMux")[-1]["Water"] == pytest.approx(55.0)


class Adjusted(Rig):
    """Its gain may change, and is not negative."""

    parameters = (Parameter("gain", "N*m*s/rad", GAIN),)

    def __init__(self) -> None:
        super().__init__(lag=1e-9)
        self.gain = GAIN

    def set_parameter(self, name: str, value: float) -> None:
        if value < 0.0:
            raise ValueError("a gain is not negative")
        super().set_parameter(name, value)

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        return Sample(np.array([1e-3 * self.gain * u(t)[0]]))


def test_parameters_of_its_solver_change_while_it_runs(
    tmp_path: Path, options: BenchOptions
) -> None:
    on = rehearse(tmp_path, options, {}, Adjusted())
    bench = on.bus.bench
    assert isinstance(bench, DatabaseBench)
    assert [one.name for one in bench.parameters] == ["gain", "oil", "water", "dc_link"]
    on.run(1000, {"SpeedSet": 500.0, "DriveEnable": 1})
    speed = 500.0 * 2.0 * np.pi / 60.0
    assert on.decoded("RigFast")[-1]["Torque"] == pytest.approx(GAIN * speed, rel=1e-3)
    assert "a gain is not negative" in bench.set_parameter("gain", -1.0)
    assert bench.set_parameter("gain", 1.0) == ""
    on.run(20, {"SpeedSet": 500.0, "DriveEnable": 1})
    assert on.decoded("RigFast")[-1]["Torque"] == pytest.approx(speed, rel=1e-3)


def test_set_points_are_followed_while_they_come(tmp_path: Path, options: BenchOptions) -> None:
    on = rehearse(tmp_path, options, {})
    on.run(1000, {"SpeedSet": 500.0, "DriveEnable": 1})
    fast = on.decoded("RigFast")
    assert fast[-1]["EnableAck"] == 1
    speeds = [frame["Speed"] for frame in fast]
    assert max(np.diff(speeds)) == pytest.approx(10.0)  # 1000 1/min per s, every 10 ms
    assert speeds[-1] == pytest.approx(500.0)
    on.run(1500)  # no demand: it disables itself, and stays so until the request is withdrawn
    assert on.decoded("RigFast")[-1]["EnableAck"] == 0
    assert on.decoded("RigFast")[-1]["Speed"] == 0.0
    on.run(100, {"SpeedSet": 500.0, "DriveEnable": 1})
    assert on.decoded("RigFast")[-1]["EnableAck"] == 0
    on.run(100, {"SpeedSet": 0.0, "DriveEnable": 0})
    on.run(100, {"SpeedSet": 500.0, "DriveEnable": 1})
    assert on.decoded("RigFast")[-1]["EnableAck"] == 1


def test_damaged_demands_are_none(tmp_path: Path, options: BenchOptions) -> None:
    on = rehearse(tmp_path, options, {})
    on.demand({"SpeedSet": 500.0, "DriveEnable": 1})
    whole = on.incoming[0]
    on.incoming = [whole._replace(data=whole.data[:7] + b"\0")]
    on.run(10)
    assert on.bus.checksum_errors == 1
    assert on.decoded("RigFast")[-1]["EnableAck"] == 0


def test_solver_computes_the_outputs_in_its_own_units(
    tmp_path: Path, options: BenchOptions
) -> None:
    on = rehearse(tmp_path, options, {}, Rig())
    rate = 1000.0 * 2.0 * np.pi / 60.0  # rad/s², of the ramp
    on.run(10, {"SpeedSet": 6000.0, "DriveEnable": 1})
    on.run(1000, {"SpeedSet": 6000.0, "DriveEnable": 1})
    t = 1.0 - 0.0045  # the steps hold the input of their end, the ramp begins at 10 ms
    exact = GAIN * rate * (t - LAG * (1.0 - np.exp(-t / LAG)))
    assert on.decoded("RigFast")[-1]["Torque"] == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize(
    ("values", "solver", "says"),
    [
        ({"torq": 1.0}, None, "'torq' is not an output; did you mean 'torque'"),
        ({"torque": "high"}, None, "torque = 'high': is not a number"),
        ({}, Stranger(), "has an input 'pressure' that the subsystem lacks"),
        ({}, Stranger(), "has none of the bench's outputs"),
    ],
)
def test_what_does_not_fit(
    values: dict[str, Any],
    solver: Solver | None,
    says: str,
    tmp_path: Path,
    options: BenchOptions,
) -> None:
    with pytest.raises(ConfigError, match=says):
        rehearse(tmp_path, options, values, solver)


def test_long_message_without_can_fd_cannot_be_emulated(
    tmp_path: Path, options: BenchOptions
) -> None:
    bench = read_bench("bench", options, tmp_path)
    bench.outputs["dc_link"].message._is_fd = False
    with pytest.raises(ConfigError, match="message RigSlow cannot be emulated"):
        DatabaseBench(bench, {})


# ---- by a session file -------------------------------------------------------------------------


def test_which_bench_a_name_makes(tmp_path: Path, options: BenchOptions) -> None:
    assert bench_maker("bench", options, "engine", tmp_path) is None
    with pytest.raises(ConfigError, match="no such emulated bench; did you mean 'database'"):
        bench_maker("bench", options, "databas", tmp_path)
    options.emulator_params["lag"] = 0.2
    with pytest.raises(ConfigError, match="'engine' has no parameters; remove them"):
        bench_maker("bench", options, "engine", tmp_path)
    make = bench_maker("bench", options, f"{__name__}:Rig", tmp_path)
    assert make is not None
    assert make().sends == {"RigFast": 10, "RigMux": 50, "RigSlow": 1000}


GIVEN = Emulation("", {}, Path(), duration=3.0, seed=4, fault="die@1")


def session(monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    tables = SimpleNamespace(
        subsystems={"engine": SimpleNamespace(**options)},
        faults=[],
        adjusted_parameters=lambda subsystem: [],
    )
    loaded = SimpleNamespace(tables=tables, folder=Path("/sessions"), path=Path("/sessions/s.toml"))
    monkeypatch.setattr(database_bench, "load_session", lambda path, overrides: loaded)


def test_session_table_gives_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Emulation] = []
    monkeypatch.setattr(database_bench, "main", lambda what: called.append(what) or 0)
    options = {"database": "b.dbc", "emulator": "engine", "scenario": "bad_day.toml"}
    options["emulator_params"] = {}
    messages = {"EngineFast": MessageOptions(counter="Count")}
    table = {"adapter": "can", "bus": {"interface": "x"}, "messages": messages, "alive": "Seq"}
    session(monkeypatch, **table, **options)
    assert emulate_session("s.toml", "engine", GIVEN) == 0
    expected = Emulation(
        name="engine",
        bus={"interface": "x"},
        database=Path("/sessions/b.dbc"),
        duration=3.0,
        seed=4,
        fault="die@1",
        scenario=Path("/sessions/bad_day.toml"),
        messages=messages,
        alive="Seq",
        label="[subsystems.engine] bus",
    )
    assert called == [expected]


@pytest.mark.parametrize(
    ("subsystem", "options", "message"),
    [
        ("engin", {"adapter": "can"}, "there is no [subsystems.engin]; did you mean 'engine'?"),
        ("engine", {"adapter": "zeromq"}, "'zeromq' has no bus"),
        (
            "engine",
            {"adapter": "can", "bus": {}, "database": "b.dbc", "emulator": None},
            "emulator: missing; name one of database, engine",
        ),
    ],
)
def test_session_table_that_is_wrong(
    subsystem: str,
    options: dict[str, Any],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    session(monkeypatch, **options)
    assert emulate_session("s.toml", subsystem, Emulation("", {}, Path())) == 2
    assert message in capsys.readouterr().err
