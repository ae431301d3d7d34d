from __future__ import annotations

import pytest

from hilrt.models.dynamometer import MODE_SWITCH_CYCLES, Dynamometer, DynoMode
from hilrt.models.motor_bench import DYNO


class Rig:
    """A dynamometer with a machine that gives a constant torque."""

    def __init__(self) -> None:
        self.dyno = Dynamometer(DYNO)
        self.machine = self.speed = self.torque = 0.0
        self.mode, self.enabled = DynoMode.SPEED, True
        self.dyno.start()

    def run(self, seconds: float) -> list[float]:
        """Air-gap torque of every cycle, N m."""
        torques = []
        for _ in range(round(1000 * seconds)):
            self.dyno.advance(
                self.machine,
                enabled=self.enabled,
                speed=self.speed,
                torque=self.torque,
                mode=self.mode,
            )
            torques.append(self.dyno.torque)
        return torques


def test_speed_mode_holds_the_speed_against_any_torque() -> None:
    rig = Rig()
    rig.speed = 300.0
    rig.run(1.0)
    for rig.machine in (80.0, -80.0):
        rig.run(1.0)
        assert rig.dyno.speed == pytest.approx(300.0, abs=0.01)
        assert rig.dyno.shaft_torque == pytest.approx(rig.machine, abs=0.1)


def test_torque_mode_gives_the_torque_whatever_the_speed() -> None:
    rig = Rig()
    rig.mode, rig.torque, rig.machine = DynoMode.TORQUE, -50.0, 55.0
    rig.run(0.2)
    before = rig.dyno.speed
    rig.run(0.5)
    assert rig.dyno.torque == pytest.approx(-50.0)
    inertia = DYNO.inertia + DYNO.machine_inertia
    assert rig.dyno.speed - before == pytest.approx(0.5 * 5.0 / inertia, rel=0.05)
    rig.torque = -1000.0
    rig.run(0.2)
    assert rig.dyno.torque == pytest.approx(-DYNO.torque_max)


def test_a_mode_takes_over_without_a_bump_once_it_has_been_asked_for_long_enough() -> None:
    rig = Rig()
    rig.speed, rig.machine = 300.0, 60.0 + 300.0 * DYNO.friction
    rig.run(1.0)
    rig.mode, rig.torque = DynoMode.TORQUE, -60.0
    rig.run(1e-3 * (MODE_SWITCH_CYCLES - 1))
    assert rig.dyno.mode is DynoMode.SPEED
    rig.mode = DynoMode.SPEED  # a request that does not stand is none
    rig.run(0.001)
    rig.mode = DynoMode.TORQUE
    rig.run(1e-3 * (MODE_SWITCH_CYCLES - 1))
    assert rig.dyno.mode is DynoMode.SPEED
    torques = rig.run(0.2)
    assert rig.dyno.mode is DynoMode.TORQUE
    rig.mode, rig.speed = DynoMode.SPEED, rig.dyno.speed
    torques += rig.run(0.2)
    assert rig.dyno.mode is DynoMode.SPEED
    assert all(t == pytest.approx(-60.0, abs=0.5) for t in torques)


@pytest.mark.parametrize("mode", list(DynoMode))
def test_it_brakes_to_standstill_in_either_mode(mode: DynoMode) -> None:
    rig = Rig()
    rig.speed, rig.mode = 400.0, DynoMode.SPEED
    rig.run(1.0)
    rig.mode = mode
    rig.run(0.1)
    rig.enabled = False
    rig.run(1.5)
    assert rig.dyno.mode is DynoMode.SPEED
    assert rig.dyno.speed == pytest.approx(0.0, abs=1.0)
    assert rig.dyno.torque == pytest.approx(0.0, abs=1e-3)
