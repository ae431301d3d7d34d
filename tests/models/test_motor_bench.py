from __future__ import annotations

import pytest

from hilrt.models import motor_bench as mb
from hilrt.models.bench_sequence import BenchState
from hilrt.models.dynamometer import DynoMode
from hilrt.models.motor_bench import MotorBench, MotorFaultCause
from tests.models.in_frames import assert_carried, assert_named


class Rig:
    """A bench under virtual time with a gateway that sends both demands every cycle."""

    def __init__(self, seed: int = 0) -> None:
        self.bench = MotorBench(seed)
        self.n = 0
        self.speed = self.dyno_torque = self.motor_torque = 0.0
        self.mode, self.enable = DynoMode.SPEED, True
        self.counting = True

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 1000)):
            self.n += 1
            now, alive = self.n * 1e-3, self.n % 256 if self.counting else 0
            dyno = {"Speed": self.speed, "Torque": self.dyno_torque, "Mode": float(self.mode)}
            enable = {"Enable": float(self.enable), "Alive": alive}
            self.bench.receive("DynoDemand", {**dyno, **enable}, now)
            self.bench.receive("MotorDemand", {"Torque": self.motor_torque, "Alive": alive}, now)
            self.bench.advance(now)

    def at(self, speed: float, torque: float) -> Rig:
        """Enabled, at a speed [rad/s] and with a torque demand of the motor [N m]."""
        self.run(0.25)
        self.speed, self.motor_torque = speed, torque
        self.run(1.5)
        return self

    @property
    def state(self) -> tuple[BenchState, int]:
        return self.bench.sequence.state, self.bench.sequence.fault


@pytest.mark.parametrize(
    ("speed", "demand", "torque"),
    [(200, 80, 80), (200, 500, 120), (800, 100, 60), (800, -100, -60), (-300, 50, 50)],
)
def test_torque_follows_its_demand_within_peak_torque_and_power(
    speed: float, demand: float, torque: float
) -> None:
    rig = Rig().at(speed, demand)
    assert rig.bench.dyno.speed == pytest.approx(speed, abs=0.1)
    drag = mb.DRAG * speed
    assert rig.bench.dyno.shaft_torque == pytest.approx(torque - drag, abs=0.1)


def test_power_at_the_inverter_covers_the_losses_and_comes_back_when_braking() -> None:
    driving, braking = Rig().at(400, 100).bench, Rig().at(400, -100).bench
    for bench, sign in ((driving, 1.0), (braking, -1.0)):
        slow = bench.measure("MotorSlow")
        mechanical = bench.motor_torque * bench.dyno.machine_speed
        losses = slow["DcVoltage"] * slow["DcCurrent"] - mechanical
        assert losses == pytest.approx(mb.COPPER_LOSS * 100**2 + mb.IRON_LOSS * 400, rel=0.01)
        assert sign * slow["DcCurrent"] > 0.0


def test_torque_mode_balances_the_motor_and_the_mode_is_confirmed() -> None:
    rig = Rig().at(300, 40)
    rig.mode, rig.dyno_torque = DynoMode.TORQUE, -40.0
    rig.run(0.5)
    assert rig.bench.measure("MotorSlow")["Mode"] == DynoMode.TORQUE
    assert rig.bench.dyno.torque == pytest.approx(-40.0)
    assert rig.bench.dyno.speed == pytest.approx(300.0, abs=10.0)


def test_enable_handshake_and_withdrawal() -> None:
    rig = Rig()
    rig.motor_torque = 50.0
    rig.run(0.19)
    assert rig.bench.measure("MotorSlow")["Enabled"] == 0.0
    assert rig.bench.motor_torque == 0.0
    rig.run(0.03)
    assert rig.bench.measure("MotorSlow")["Enabled"] == 1.0
    rig.at(300, 50)
    rig.enable = False
    rig.run(1.5)
    assert rig.state == (BenchState.OFF, 0)
    assert rig.bench.dyno.speed == pytest.approx(0.0, abs=1.0)


def test_lost_demands_bring_it_down() -> None:
    rig = Rig().at(300, 50)
    rig.counting = False
    rig.run(0.11)
    assert rig.state == (BenchState.FAULT, MotorFaultCause.DEMAND_LOST)
    rig.run(1.5)
    assert rig.bench.dyno.speed == pytest.approx(0.0, abs=1.0)


def test_a_free_shaft_that_runs_away_is_caught() -> None:
    rig = Rig().at(1150, 0)
    rig.mode, rig.dyno_torque = DynoMode.TORQUE, 50.0
    rig.run(0.5)
    assert rig.state == (BenchState.FAULT, MotorFaultCause.OVERSPEED)
    rig.run(3.0)
    assert rig.bench.dyno.speed == pytest.approx(0.0, abs=1.0)


def test_a_hot_winding_trips() -> None:
    rig = Rig().at(100, 120)
    warm = rig.bench.winding
    rig.run(1.0)
    heat = mb.COPPER_LOSS * 120**2 - mb.COOLING * (warm - mb.COOLANT)
    assert rig.bench.winding - warm == pytest.approx(heat / mb.HEAT_CAPACITY, rel=0.01)
    rig.bench.winding = mb.WINDING_MAX - 0.1
    rig.run(1.0)
    assert rig.state == (BenchState.FAULT, MotorFaultCause.OVERHEATED)


def test_database_carries_what_the_bench_measures() -> None:
    for rig in (Rig(), Rig().at(1150, 120), Rig().at(-1150, 120)):
        assert_carried("motor_bench.dbc", rig.bench)
    assert_named("motor_bench.dbc", "MotorSlow", "FaultCause", MotorFaultCause)
