"""The demonstration in simulated time: what its exchange is wrong by where nothing is late."""

import tomllib
from pathlib import Path

import numpy as np

from hilrt.models.dynamometer import DynoMode
from hilrt.models.engine_bench import EngineBench
from hilrt.models.vehicle import Vehicle
from hilrt.reliability.flags import flag_totals
from hilrt.reliability.verdict import SessionCourse, verdict
from hilrt.session.simulate import simulate
from hilrt.solver import Floats, InputPolynomial, Port, Sample, Solver
from tests.stepping import MemoryLink, Stepping

CONFIGS = Path(__file__).parents[2] / "bench_configs"
CYCLE_S = 1e-3
#: Cycles until the bench is enabled, and until it stands at the speed that the vehicle begins with.
ENABLED, MATCHED = 500, 6000


class Bench(Solver):
    """The emulated bench without its bus: one control cycle per millisecond."""

    inputs = (Port("speed_demand", "rad/s"), Port("pedal", "%"))
    outputs = (Port("torque", "N*m"), Port("speed", "rad/s"))

    def __init__(self) -> None:
        self.bench, self.cycles = EngineBench(), 0

    def cycle(self, speed: float, pedal: float) -> None:
        self.cycles += 1
        now, alive = self.cycles * CYCLE_S, self.cycles % 16
        mode = {"Mode": int(DynoMode.SPEED), "Torque": 0.0, "Enable": 1.0}
        self.bench.receive("DynoDemand", {"Speed": speed, "Alive": alive, **mode}, now)
        self.bench.receive("EngineDemand", {"Pedal": pedal, "Alive": alive}, now)
        self.bench.advance(now)

    def measured(self) -> Sample:
        found = self.bench.measure("EngineFast")
        return Sample(np.array([found["ShaftTorque"], found["ShaftSpeed"]]))

    def initialize(self, t0: float, u0: Floats) -> Sample:
        for k in range(MATCHED):
            self.cycle(min(u0[0], 0.05 * max(k - ENABLED, 0)), 0.0)
        return self.measured()

    def advance(self, t: float, h: float, u: InputPolynomial) -> Sample:
        for i in range(round(h / CYCLE_S)):
            self.cycle(*u(t + i * CYCLE_S).tolist())
        return self.measured()


def demonstration(**params: float) -> tuple[Stepping, Vehicle]:
    """The session and its vehicle, with the parameters of the file unless others are given."""
    tables = tomllib.loads((CONFIGS / "engine_in_the_loop.toml").read_text("utf-8"))
    words = tables["subsystems"]["vehicle"]["spawn"]
    found = dict(word.split("=") for word in words if "=" in word)
    vehicle = Vehicle(**found | {"cycle": str(CONFIGS / found["cycle"])} | params)
    s = Stepping(
        {"vehicle": vehicle, "engine": MemoryLink("engine", Bench(), physical=True)},
        master={key: tables["master"][key] for key in ("step", "extrapolation")},
        connections=tables["connections"],
        bonds=tables["bonds"],
        subsystems={"vehicle": {}, "engine": {}},
        lead={"engine": tables["subsystems"]["engine"]["actuation_delay"]},
    )
    return s, vehicle


def test_the_demonstration_is_good_where_nothing_is_late():
    s, _ = demonstration()
    s.run(5.0)
    totals = flag_totals(s.numerics.checks, s.state)
    assert verdict(totals, SessionCourse(s.t)) == ("good", [], False)
    assert 0.0 < totals["connection_defect"].affected_s < 0.05


def test_the_demonstration_starts_where_the_engine_idles_in_gear():
    """From elsewhere the first samples, which may be late, are those of a jump."""
    moved = []
    for params in ({}, {"idle_speed": 80.0}):
        s, vehicle = demonstration(**params)
        begin = vehicle.driveline.state.engine_speed
        s.run(0.5)
        moved.append(abs(vehicle.driveline.state.engine_speed - begin))
    assert moved[0] < 0.1  # rad/s
    assert moved[1] > 7.0


def test_the_models_alone_end_good_and_as_right_as_the_estimate_says():
    """Beside the same models in steps of a tenth: what the exchange is wrong by.

    From 80 rad/s. From idle, where little moves, an error of 6.6e-4 is above its estimate of 8e-5.
    """
    start = {"session.duration": 2.0, "subsystems.vehicle.params.idle_speed": 80.0}
    whole, fine = (
        simulate(CONFIGS / "engine_models.toml", start | {"master.step": h}) for h in (1e-3, 1e-4)
    )
    assert (whole.verdict, whole.summary["reasons"]) == ("good", [])
    for name, error in whole.summary["estimated_error"].items():
        assert error["how"] == "sensitivities along the way"
        true = whole.log[name] - np.interp(whole.log.t, fine.log.t, fine.log[name])
        assert np.sqrt(np.mean(true**2)) < error["high"]
