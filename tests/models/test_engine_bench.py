from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from hilrt.models import engine_bench as eb
from hilrt.models.bench_sequence import BenchState
from hilrt.models.dynamometer import DynoMode
from hilrt.models.engine_bench import EngineBench, EngineFaultCause
from tests.models.in_frames import assert_carried, assert_named


class Rig:
    """A bench under virtual time with a gateway that sends both demands every cycle."""

    def __init__(self, seed: int = 0) -> None:
        self.bench = EngineBench(seed)
        self.n = 0
        self.speed = self.torque = 0.0
        self.mode = DynoMode.SPEED
        self.pedal = 0.0
        self.enable = True
        self.sending = True
        self.counting = True
        self._alive = 0

    def tick(self) -> None:
        self.n += 1
        if self.sending:
            self._alive = (self._alive + self.counting) % 256
            dyno = {
                "Speed": self.speed,
                "Torque": self.torque,
                "Mode": float(self.mode),
                "Enable": float(self.enable),
                "Alive": self._alive,
            }
            now = self.n * 1e-3
            self.bench.receive("DynoDemand", dyno, now)
            self.bench.receive("EngineDemand", {"Pedal": self.pedal, "Alive": self._alive}, now)
        self.bench.advance(self.n * 1e-3)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 1000)):
            self.tick()

    def ramp(self, to: float, rate: float = 800.0) -> Iterable[float]:
        """Ramp the demand; tracking error of every cycle, rad/s."""
        while self.speed != to:
            step = rate * 1e-3
            self.speed += max(-step, min(step, to - self.speed))
            self.tick()
            yield self.bench.dyno.speed - self.speed

    def at(self, speed: float, pedal: float = 0.0, settle: float = 1.0) -> Rig:
        self.run(0.25)
        for _ in self.ramp(speed):
            pass
        self.pedal = pedal
        self.run(settle)
        return self

    @property
    def state(self) -> tuple[BenchState, int]:
        return self.bench.sequence.state, self.bench.sequence.fault


# ---- engine ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speed", "torque"), [(80, 110), (240, 200), (480, 200), (580, 190), (650, 140)]
)
def test_full_load_torque_is_delivered_at_the_shaft(speed: float, torque: float) -> None:
    rig = Rig().at(speed, pedal=100)
    assert rig.bench.dyno.speed == pytest.approx(speed, abs=0.01)
    assert rig.bench.dyno.shaft_torque == pytest.approx(torque, abs=0.2)


def test_peak_torque_and_power_of_the_map() -> None:
    speeds = range(691)
    assert max(eb.full_load_torque(s) for s in speeds) == 200.0
    assert max(s * eb.full_load_torque(s) for s in speeds) == pytest.approx(110.2e3, rel=0.001)


@pytest.mark.parametrize("speed", [60.0, 150.0, 300.0, 500.0, 640.0])
def test_torque_rises_with_the_pedal(speed: float) -> None:
    torques = [eb.indicated_torque(speed, p) - eb.drag_torque(speed) for p in range(0, 101, 5)]
    assert torques == sorted(torques)
    assert torques[-1] == pytest.approx(eb.full_load_torque(speed))


def test_idle_governor_holds_idle_speed_from_both_sides() -> None:
    assert Rig().at(80).bench.dyno.shaft_torque == pytest.approx(0.0, abs=0.1)
    assert Rig().at(65).bench.dyno.shaft_torque == pytest.approx(30.0, abs=0.5)
    assert Rig().at(120).bench.dyno.shaft_torque == pytest.approx(-eb.drag_torque(120), abs=0.5)


def test_engine_does_not_fire_below_firing_speed_or_when_disabled() -> None:
    cranked = Rig().at(30, pedal=100)
    assert cranked.bench.fuel == 0.0
    assert cranked.bench.dyno.shaft_torque == pytest.approx(-eb.drag_torque(30), abs=0.1)
    running = Rig().at(200, pedal=50)
    assert running.bench.fuel > 0.5
    running.enable = False
    running.tick()
    assert running.bench.fuel == 0.0


def test_intake_lag_is_first_order() -> None:
    rig = Rig().at(300)
    start = rig.bench.indicated
    rig.pedal = 100
    rig.run(eb.INTAKE_LAG_S)
    end = eb.indicated_torque(300, 100)
    assert (rig.bench.indicated - start) / (end - start) == pytest.approx(
        1 - math.exp(-1), abs=0.01
    )


def test_shaft_torque_contains_the_reaction_of_the_engine_inertia() -> None:
    rig = Rig().at(100)
    for _ in rig.ramp(500):
        pass
    motored = -eb.drag_torque(rig.bench.dyno.machine_speed)
    expected = motored - eb.ENGINE_INERTIA * 800.0
    assert rig.bench.dyno.shaft_torque == pytest.approx(expected, abs=3.0)


def test_temperatures_move_slowly_towards_the_load() -> None:
    rig = Rig().at(500, pedal=100, settle=3.0)
    assert 300.0 < rig.bench.thermal.exhaust < 900.0
    assert 70.0 < rig.bench.thermal.coolant < 95.0
    thermal = eb.Thermal()
    for _ in range(3000):
        thermal.advance(1.0, 8.0)
    assert thermal.coolant == pytest.approx(87.0, abs=5.0)  # held by the thermostat


# ---- dynamometer -------------------------------------------------------------------------------


def follow(rig: Rig, frequency: float, amplitude: float) -> tuple[float, float]:
    """Gain of the speed control at a frequency [Hz], and the largest error [rad/s]."""
    centre, periods = rig.speed, max(2, round(frequency))
    settle = round(2000 / frequency) if frequency > 2 else 1000
    sine = cosine = worst = 0.0
    count = round(periods * 1000 / frequency)
    for n in range(settle + count):
        phase = 2 * math.pi * frequency * n * 1e-3
        rig.speed = centre + amplitude * math.sin(phase)
        rig.tick()
        if n >= settle:
            sine += (rig.bench.dyno.speed - centre) * math.sin(phase)
            cosine += (rig.bench.dyno.speed - centre) * math.cos(phase)
            worst = max(worst, abs(rig.bench.dyno.speed - rig.speed))
    return 2 * math.hypot(sine, cosine) / count / amplitude, worst


def test_dynamometer_follows_a_sine_of_2_hz() -> None:
    gain, worst = follow(Rig().at(250, pedal=30), 2.0, 10.0)
    assert gain == pytest.approx(1.0, abs=0.02)
    assert worst < 0.3


def test_dynamometer_bandwidth_is_above_60_hz_without_a_sharp_resonance() -> None:
    rig = Rig().at(250, pedal=30)
    gains = [follow(rig, f, 0.5)[0] for f in (5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0)]
    assert min(gains) > math.sqrt(0.5)
    assert max(gains) < 1.7


def test_dynamometer_follows_ramps() -> None:
    rig = Rig().at(100, pedal=30)
    errors = [abs(e) for e in rig.ramp(500)]
    assert max(errors) < 2.5
    assert max(errors[200:]) < 0.2
    rig.pedal = 0.0
    rig.run(1.0)
    assert max(abs(e) for e in rig.ramp(100)) < 2.5


def test_dynamometer_torque_is_limited_and_recovers() -> None:
    rig = Rig().at(100)
    rig.speed = 400.0  # a jump: the drive's own slew and torque limits hold
    worst = 0.0
    for _ in range(1000):
        rig.tick()
        worst = max(worst, abs(rig.bench.dyno.torque))
    assert worst <= eb.DYNO_TORQUE_MAX
    assert worst > 0.99 * eb.DYNO_TORQUE_MAX
    rig.run(1.0)
    assert rig.bench.dyno.speed == pytest.approx(400.0, abs=0.05)


def test_shaft_eigenfrequency_and_damping() -> None:
    inverse = 1 / eb.ENGINE_INERTIA + 1 / eb.DYNO_INERTIA
    omega = math.sqrt(eb.SHAFT_STIFFNESS * inverse)
    assert 15.0 < omega / (2 * math.pi) < 30.0
    assert 0.1 < eb.SHAFT_DAMPING * inverse / (2 * omega) < 0.3


def test_torque_mode_is_confirmed_and_leaves_the_speed_to_the_engine() -> None:
    rig = Rig().at(200, pedal=30)
    rig.mode, rig.torque = DynoMode.TORQUE, -60.0
    rig.run(0.015)
    assert rig.bench.measure("EngineSlow")["Mode"] == DynoMode.SPEED
    rig.run(0.01)
    assert rig.bench.measure("EngineSlow")["Mode"] == DynoMode.TORQUE
    rig.run(1.0)
    assert rig.bench.dyno.torque == pytest.approx(-60.0, abs=1e-6)
    assert abs(rig.bench.dyno.speed - 200.0) > 10.0  # what the engine makes of that load
    rig.mode = DynoMode.SPEED
    rig.run(1.0)
    assert rig.bench.dyno.speed == pytest.approx(200.0, abs=0.1)


# ---- coupled to a virtual inertia --------------------------------------------------------------


def coupled(inertia: float, delay: int, drop: int = 0) -> tuple[float, float]:
    """Torque ripple at the end [N m] and the deviation from a rigid shaft [rad/s].

    The demand is the speed of an inertia driven by the measured torque, `delay` cycles late; every
    `drop`-th demand comes one cycle later still, together with the next one.
    """
    rig = Rig().at(200, pedal=20)
    omega = rigid = 200.0
    pending = [omega] * delay
    load = rig.bench.dyno.shaft_torque
    torques: list[float] = []
    deviation = 0.0
    for n in range(2500):
        rig.pedal = 60.0 if n >= 200 else 20.0
        torque = rig.bench.measure("EngineFast")["ShaftTorque"]
        omega += 1e-3 * (torque - load - 0.3 * (omega - 200.0)) / inertia
        net = rig.bench.indicated - eb.drag_torque(rigid) - load - 0.3 * (rigid - 200.0)
        rigid += 1e-3 * net / (inertia + eb.ENGINE_INERTIA)
        pending.append(omega)
        while len(pending) > delay + (drop > 0 and n % drop == 0):
            rig.speed = pending.pop(0)
        rig.tick()
        torques.append(torque)
        deviation = max(deviation, abs(omega - rigid))
    tail = torques[-300:]
    mean = [sum(tail[i : i + 30]) / 30 for i in range(270)]
    return max(abs(t - m) for t, m in zip(tail[15:], mean, strict=False)), deviation


@pytest.mark.parametrize("inertia", [0.15, 0.2])
@pytest.mark.parametrize("delay", [0, 1, 2, 5])
def test_loop_through_a_virtual_inertia_is_stable(inertia: float, delay: int) -> None:
    ripple, deviation = coupled(inertia, delay)
    assert ripple < 5 * eb.TORQUE_NOISE
    assert deviation < 3.0


def test_loop_is_stable_when_demands_bunch() -> None:
    ripple, _ = coupled(0.15, 2, drop=3)
    assert ripple < 10 * eb.TORQUE_NOISE


# ---- sequence control --------------------------------------------------------------------------


def test_enable_handshake() -> None:
    rig = Rig()
    rig.enable = False
    rig.run(0.2)
    assert rig.bench.sequence.state is BenchState.OFF
    rig.enable = True
    seen = []
    for _ in range(300):
        rig.tick()
        if rig.bench.sequence.state not in seen:
            seen.append(rig.bench.sequence.state)
            if rig.bench.sequence.state is BenchState.ENABLED:
                assert rig.n * 1e-3 == pytest.approx(0.2 + 0.2, abs=0.003)
    assert seen == [BenchState.STARTING, BenchState.READY, BenchState.ENABLED]
    slow = rig.bench.measure("EngineSlow")
    assert (slow["Enabled"], slow["State"]) == (1.0, 3.0)


def test_withdrawn_enable_brakes_to_standstill() -> None:
    rig = Rig().at(300, pedal=50)
    rig.enable = False
    rig.tick()
    assert rig.bench.measure("EngineSlow")["Enabled"] == 0.0
    rig.run(1.5)
    assert rig.bench.sequence.state is BenchState.OFF
    assert rig.bench.dyno.speed == pytest.approx(0.0, abs=0.5)
    assert rig.bench.dyno.torque == pytest.approx(0.0, abs=0.01)


def test_set_points_do_nothing_while_off() -> None:
    rig = Rig()
    rig.enable, rig.speed, rig.pedal = False, 300.0, 100.0
    rig.run(0.5)
    assert rig.bench.dyno.speed == 0.0
    assert rig.bench.fuel == 0.0


@pytest.mark.parametrize("how", ["silent", "frozen"])
def test_lost_demands_bring_the_bench_down_by_itself(how: str) -> None:
    rig = Rig().at(300, pedal=50)
    rig.sending = how != "silent"
    rig.counting = False
    rig.run(0.095)
    assert rig.bench.sequence.enabled
    rig.run(0.01)
    assert rig.state == (BenchState.FAULT, EngineFaultCause.DEMAND_LOST)
    assert rig.bench.fuel == 0.0
    rig.run(1.5)
    assert rig.bench.dyno.speed == pytest.approx(0.0, abs=0.5)


def test_a_stall_of_the_bench_itself_is_no_lost_demand() -> None:
    rig = Rig().at(300, pedal=50)
    rig.n += 500  # demands have been waiting on the bus meanwhile
    rig.run(0.2)
    assert rig.bench.sequence.enabled


def test_a_fault_is_cleared_by_withdrawing_enable_only() -> None:
    rig = Rig().at(300)
    rig.sending = False
    rig.run(0.2)
    rig.sending = True
    rig.run(0.5)
    assert rig.bench.sequence.state is BenchState.FAULT
    rig.enable = False
    rig.tick()
    assert rig.state == (BenchState.OFF, EngineFaultCause.NONE)
    rig.enable = True
    rig.run(0.3)
    assert rig.bench.sequence.enabled


def test_overspeed_is_a_fault() -> None:
    rig = Rig().at(640)
    rig.speed = 1000.0
    rig.run(1.0)
    assert rig.state == (BenchState.FAULT, EngineFaultCause.OVERSPEED)


def test_a_motored_bench_needs_no_pedal_message() -> None:
    bench = EngineBench()
    for n in range(400):
        demand = {"Speed": 0.0, "Torque": 0.0, "Mode": 0.0, "Enable": 1.0, "Alive": n % 256}
        bench.receive("DynoDemand", demand, n * 1e-3)
        bench.advance(n * 1e-3)
    assert bench.sequence.enabled


# ---- measurements ------------------------------------------------------------------------------


def test_noise_follows_the_seed() -> None:
    def torques(seed: int) -> list[float]:
        rig = Rig(seed).at(200, settle=0.1)
        return [rig.bench.measure("EngineFast")["ShaftTorque"] for _ in range(200)]

    first = torques(1)
    assert first == torques(1)
    assert first != torques(2)
    mean = sum(first) / len(first)
    spread = math.sqrt(sum((t - mean) ** 2 for t in first) / len(first))
    assert spread == pytest.approx(eb.TORQUE_NOISE, rel=0.2)


def test_database_carries_what_the_bench_measures() -> None:
    for rig in (Rig(), Rig().at(640, pedal=100, settle=3.0)):
        assert_carried("engine_bench.dbc", rig.bench)
    assert_named("engine_bench.dbc", "EngineSlow", "State", BenchState)
