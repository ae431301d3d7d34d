from __future__ import annotations

import math

import pytest

from hilrt.models import hydraulic_axis_bench as hb
from hilrt.models.bench_sequence import BenchState
from hilrt.models.hydraulic_axis_bench import AxisFaultCause, AxisMode, HydraulicAxisBench
from tests.models.in_frames import assert_carried, assert_named


class Rig:
    """A bench under virtual time with a gateway that sends the demand every cycle."""

    def __init__(self, seed: int = 0) -> None:
        self.bench = HydraulicAxisBench(seed)
        self.n = 0
        self.position = self.force = 0.0  # mm, kN
        self.mode, self.enable = AxisMode.POSITION, True
        self.sending = True

    def tick(self) -> None:
        self.n += 1
        now = self.n * 1e-3
        if self.sending:
            demand = {"Position": self.position, "Force": self.force, "Mode": float(self.mode)}
            enable = {"Enable": float(self.enable), "Alive": self.n % 256}
            self.bench.receive("AxisDemand", {**demand, **enable}, now)
        self.bench.advance(now)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 1000)):
            self.tick()

    def at(self, position: float) -> Rig:
        """Enabled, at a position [mm]."""
        self.run(0.25)
        self.position = position
        self.run(1.5)
        return self

    @property
    def state(self) -> tuple[BenchState, int]:
        return self.bench.sequence.state, self.bench.sequence.fault


@pytest.mark.parametrize("position", [-60.0, 5.0, 60.0])
def test_position_is_held_against_the_specimen(position: float) -> None:
    axis = Rig().at(position).bench.axis
    assert 1e3 * axis.position == pytest.approx(position, abs=0.05)
    assert axis.force == pytest.approx(hb.SPECIMEN_STIFFNESS * axis.position, rel=0.01)
    balance = hb.AREA * (axis.pressure_a - axis.pressure_b)
    assert balance == pytest.approx(axis.force, rel=0.01)


def test_position_follows_a_sine_of_3_hz() -> None:
    rig = Rig().at(0.0)
    sine = cosine = 0.0
    for n in range(2000):
        phase = 2 * math.pi * 3.0 * n * 1e-3
        rig.position = 10.0 * math.sin(phase)
        rig.tick()
        if n >= 1000:
            sine += 2e3 * rig.bench.axis.position * math.sin(phase) / 1000
            cosine += 2e3 * rig.bench.axis.position * math.cos(phase) / 1000
    assert math.hypot(sine, cosine) == pytest.approx(10.0, rel=0.05)
    assert abs(math.atan2(cosine, sine)) < 0.1


def test_force_mode_takes_over_without_a_bump_and_is_confirmed() -> None:
    rig = Rig().at(30.0)
    rig.mode, rig.force = AxisMode.FORCE, 6.0  # what the specimen bears there
    rig.run(0.019)
    assert rig.bench.measure("AxisSlow")["Mode"] == AxisMode.POSITION
    for _ in range(300):
        rig.tick()
        assert rig.bench.axis.force == pytest.approx(6000.0, abs=500.0)
    assert rig.bench.measure("AxisSlow")["Mode"] == AxisMode.FORCE
    rig.force = -4.0
    rig.run(2.0)
    assert rig.bench.axis.force == pytest.approx(-4000.0, abs=50.0)
    rig.mode, rig.position = AxisMode.POSITION, 10.0
    rig.run(2.0)
    assert 1e3 * rig.bench.axis.position == pytest.approx(10.0, abs=0.05)


def test_speed_is_what_the_valve_lets_through() -> None:
    rig = Rig().at(-60.0)
    rig.position = 60.0
    fastest = 0.0
    for _ in range(600):
        rig.tick()
        fastest = max(fastest, rig.bench.axis.velocity)
        assert abs(rig.bench.axis.spool) <= 1.0
    assert hb.POSITION_SLEW <= fastest < 1.5 * hb.POSITION_SLEW


def test_without_enable_the_specimen_pushes_the_piston_back() -> None:
    rig = Rig().at(40.0)
    rig.enable = False
    rig.tick()
    assert rig.state == (BenchState.OFF, 0)
    rig.run(3.0)
    assert 1e3 * rig.bench.axis.position == pytest.approx(0.0, abs=0.5)
    assert rig.bench.axis.spool == pytest.approx(0.0, abs=1e-6)


def test_set_points_do_nothing_while_off() -> None:
    rig = Rig()
    rig.enable, rig.position = False, 50.0
    rig.run(0.5)
    assert rig.bench.axis.position == 0.0


def test_lost_demands_bring_it_down() -> None:
    rig = Rig().at(40.0)
    rig.sending = False
    rig.run(0.11)
    assert rig.state == (BenchState.FAULT, AxisFaultCause.DEMAND_LOST)
    rig.run(3.0)
    assert 1e3 * rig.bench.axis.position == pytest.approx(0.0, abs=0.5)


@pytest.mark.parametrize(
    ("attribute", "value", "cause"),
    [("position", 0.096, AxisFaultCause.OVERTRAVEL), ("force", 31e3, AxisFaultCause.OVERLOAD)],
)
def test_what_is_too_much_trips(attribute: str, value: float, cause: AxisFaultCause) -> None:
    rig = Rig().at(40.0)
    setattr(rig.bench.axis, attribute, value)
    rig.tick()
    assert rig.state == (BenchState.FAULT, cause)


def test_database_carries_what_the_bench_measures() -> None:
    for rig in (Rig(), Rig().at(90.0), Rig().at(-90.0)):
        assert_carried("hydraulic_axis_bench.dbc", rig.bench)
    assert_named("hydraulic_axis_bench.dbc", "AxisSlow", "FaultCause", AxisFaultCause)
