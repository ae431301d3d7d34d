import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from hilrt.models.driveline import Driveline
from hilrt.models.vehicle_data import VehicleData

DT = 0.0005


def driveline(speed: float = 0.0, **params: object) -> Driveline:
    line = Driveline(VehicleData.from_params(params))
    line.start(speed)
    return line


def hold_gear(line: Driveline, gear: int, lockup: float = 0.0) -> None:
    line.state.gear = gear
    line.state.ratio = line.state.ratio_from = line.ratios[gear - 1]
    line.state.lockup = lockup
    line.state.lockup_wanted = lockup > 0.0


# --- torque converter and clutch -----------------------------------------------------------------


def test_converter_multiplies_torque_at_stall() -> None:
    load, turbine = driveline().coupling(80.0, 0.0, 0.0)
    assert load == pytest.approx(17.92)  # 2.8e-3 · 80²
    assert turbine == pytest.approx(34.048)  # · 1.9


def test_converter_passes_torque_unchanged_above_the_coupling_ratio() -> None:
    load, turbine = driveline().coupling(200.0, 190.0, 0.0)
    assert load == turbine
    assert load == pytest.approx(2.8e-3 * (200.0**2 - 190.0**4 / 200.0**2))


def test_converter_is_smooth_where_driving_turns_into_overrun() -> None:
    line = driveline()
    d = 1e-4
    before, at, after = (line.coupling(200.0, 200.0 + x, 0.0)[0] for x in (-d, 0.0, d))
    assert at == 0.0
    assert (at - before) / d == pytest.approx((after - at) / d, rel=1e-4)


@given(st.floats(40.0, 650.0), st.floats(0.0, 800.0), st.floats(0.0, 1.0))
def test_converter_and_clutch_only_lose_power(w: float, turbine_speed: float, lock: float) -> None:
    load, turbine = driveline().coupling(w, turbine_speed, lock)
    assert load * w - turbine * turbine_speed >= -1e-9 * abs(load * w)


def test_closed_clutch_carries_no_more_than_its_capacity() -> None:
    line = driveline(converter_capacity=0.0, lockup_capacity=120.0)
    assert line.coupling(400.0, 100.0, 1.0)[0] == pytest.approx(120.0)
    assert line.coupling(100.0, 400.0, 1.0)[0] == pytest.approx(-120.0)
    assert line.coupling(400.0, 100.0, 0.5)[0] == pytest.approx(60.0)


@given(st.floats(0.1, 300.0), st.floats(0.0, 12.0))
def test_speed_for_a_torque_inverts_the_converter(torque: float, v: float) -> None:
    line = driveline()
    line.state.vehicle_speed = v
    w = line.speed_for(torque)
    assert line.coupling(w, line.state.ratio * v, 0.0)[0] == pytest.approx(torque, rel=1e-6)


# --- balances ------------------------------------------------------------------------------------


def test_constant_speed_balances_road_load() -> None:
    """By hand, 20 m/s in fourth gear, locked.

    Road load 130 + 0.6·20 + 0.42·400 = 310 N; n = 1.15·3.6/0.31 = 13.35484 rad/m; turbine torque
    310/(13.35484·0.95) = 24.43448 N*m at 267.0968 rad/s; slip (350/30)·artanh(24.43448/350)
    = 0.815811 rad/s.
    """
    line = driveline(converter_capacity=0.0)
    n = line.ratios[3]
    assert n == pytest.approx(13.35484, rel=1e-6)
    dw, dv = line.derivatives(24.43448, 267.0968 + 0.815811, 20.0, n, 1.0, 0.0)
    assert dw == pytest.approx(0.0, abs=1e-2)
    assert dv == pytest.approx(0.0, abs=1e-4)
    # 1 N*m more accelerates the input side by 1/0.18.
    more, _ = line.derivatives(25.43448, 267.0968 + 0.815811, 20.0, n, 1.0, 0.0)
    assert more - dw == pytest.approx(5.5556, rel=1e-4)


def test_constant_speed_is_kept() -> None:
    line = driveline(20.0, converter_capacity=0.0)
    hold_gear(line, 4, lockup=1.0)
    line.state.engine_speed = 267.9126
    line.state.since_shift = -1e9  # no shift on its own account
    for _ in range(4000):
        line.step(DT, (24.43448, 24.43448), 15.0, 0.0)
    assert line.state.vehicle_speed == pytest.approx(20.0, abs=1e-5)
    assert line.state.engine_speed == pytest.approx(267.9126, abs=1e-3)


def power_flows(line: Driveline, torque: float, brake: float) -> dict[str, float]:
    """Flows of the engine's power at the present state, W; ``engine`` = sum of the others."""
    s, d = line.state, line.data
    w, v = s.engine_speed, s.vehicle_speed
    dw, dv = line.derivatives(torque, w, v, s.ratio, s.lockup, brake)
    load, turbine = line.coupling(w, s.ratio * v, s.lockup)
    return {
        "engine": torque * w,
        "input_inertia": d.input_inertia * w * dw,
        "converter": load * w - turbine * s.ratio * v,
        "gearbox": (turbine * s.ratio - line.wheel_force(turbine, s.ratio)) * v,
        "brake": 0.01 * brake * d.brake_force_max * v,
        "road": (d.f0 + v * (d.f1 + v * d.f2)) * v,
        "vehicle": line.translating_mass * v * dv,
    }


@given(
    torque=st.floats(-100.0, 300.0),
    w=st.floats(40.0, 650.0),
    v=st.floats(0.0, 60.0),
    n=st.floats(7.0, 50.0),
    lock=st.floats(0.0, 1.0),
    brake=st.floats(0.0, 100.0),
)
def test_power_is_accounted_for(
    torque: float, w: float, v: float, n: float, lock: float, brake: float
) -> None:
    line = driveline()
    s = line.state
    s.engine_speed, s.vehicle_speed, s.ratio, s.lockup = w, v, n, lock
    flows = power_flows(line, torque, brake)
    engine = flows.pop("engine")
    scale = sum(abs(p) for p in flows.values())
    assert sum(flows.values()) == pytest.approx(engine, abs=1e-9 * scale + 1e-9)
    for loss in ("converter", "gearbox", "brake", "road"):
        assert flows[loss] >= -1e-9 * scale, loss


# --- integration ---------------------------------------------------------------------------------


def reference(t_end: float, w0: float, v0: float) -> tuple[float, float]:
    """Scipy's solution of the locked fourth gear, with the equations written out again."""
    n, mass = 1.15 * 3.6 / 0.31, 1500.0 + 3.2 / 0.31**2

    def rhs(t: float, x: np.ndarray) -> list[float]:
        w, v = x
        wt = n * v
        if w >= wt:
            pump = 2.8e-3 * (w**2 - wt**4 / w**2)
            assert wt / w > 0.87  # no multiplication in this test
        else:
            pump = -2.8e-3 * (wt**2 - w**4 / wt**2)
        load = pump + 350.0 * math.tanh(30.0 * (w - wt) / 350.0)
        force = load * n * 0.95 if load > 0 else load * n / 0.95
        return [
            (torque_at(t) - load) / 0.18,
            (force - 130.0 - 0.6 * v - 0.42 * v**2) / mass,
        ]

    end = solve_ivp(rhs, (0.0, t_end), [w0, v0], rtol=1e-11, atol=1e-11, max_step=0.01).y[:, -1]
    return float(end[0]), float(end[1])


def torque_at(t: float) -> float:
    return 60.0 + 40.0 * math.sin(15.0 * t)


def test_micro_steps_converge_with_second_order() -> None:
    v0, t_end = 14.0, 0.4
    w0 = 1.15 * 3.6 / 0.31 * v0 + 2.0
    w, v = reference(t_end, w0, v0)
    steps = [200, 400, 800, 1600]
    errors = []
    for n in steps:
        line = driveline(v0)
        hold_gear(line, 4, lockup=1.0)
        line.state.engine_speed = w0
        dt = t_end / n
        for i in range(n):
            line.step(dt, (torque_at(i * dt), torque_at((i + 1) * dt)), 10.0, 0.0)
        assert line.state.gear == 4
        errors.append((abs(line.state.engine_speed - w), abs(line.state.vehicle_speed - v)))
    for error in np.array(errors).T:
        order = -np.polyfit(np.log(steps), np.log(error), 1)[0]
        assert order == pytest.approx(2.0, abs=0.15)


# --- brakes and standstill -----------------------------------------------------------------------


def test_brake_holds_the_creeping_vehicle_exactly() -> None:
    line = driveline()
    for _ in range(2000):
        line.step(DT, (17.92, 17.92), 0.0, 25.0)
        assert line.state.vehicle_speed == 0.0
    assert line.state.engine_speed == pytest.approx(80.0, abs=1e-6)


def test_vehicle_creeps_without_brake() -> None:
    line = driveline()
    for _ in range(2000):
        line.step(DT, (17.92, 17.92), 0.0, 0.0)
    # 34.05 N*m · 48.77 rad/m · 0.95 − 130 N on 1533 kg, falling as the converter spins up
    assert 0.5 < line.state.vehicle_speed < 0.95


def test_braking_ends_in_standstill_without_rolling_back() -> None:
    line = driveline(0.7)
    speeds = []
    for _ in range(2000):
        line.step(DT, (10.0, 10.0), 0.0, 30.0)
        speeds.append(line.state.vehicle_speed)
    assert all(b <= a for a, b in itertools.pairwise(speeds))
    assert min(speeds) == speeds[-1] == 0.0
    s = line.state
    assert line.derivatives(10.0, s.engine_speed, 0.0, s.ratio, 0.0, 30.0)[1] == 0.0


def test_starter_keeps_the_engine_from_stalling() -> None:
    line = driveline()
    for _ in range(4000):
        line.step(DT, (-80.0, -80.0), 0.0, 25.0)
    assert line.state.engine_speed == 50.0


# --- gearbox -------------------------------------------------------------------------------------


def drive_speed(line: Driveline, speeds: np.ndarray, pedal: float) -> list[int]:
    """Gear at each prescribed speed; the gearbox control alone is at work."""
    gears = []
    for v in speeds:
        line.state.vehicle_speed = float(v)
        line.control(0.01, pedal, 0.0)
        gears.append(line.state.gear)
    return gears


def test_shifts_up_and_down_one_gear_at_a_time_with_hysteresis() -> None:
    line = driveline()
    ramp = np.linspace(0.0, 30.0, 6000)
    up = drive_speed(line, ramp, 20.0)
    down = drive_speed(line, ramp[::-1], 20.0)[::-1]
    assert up[0] == 1
    assert up[-1] == 6
    assert down[0] == 1
    assert set(np.diff(up)) == {0, 1}
    assert set(np.diff(down)) == {0, 1}
    for gear in range(2, 7):
        assert ramp[up.index(gear)] > 1.1 * ramp[down.index(gear)]


def test_more_pedal_shifts_up_later() -> None:
    ramp = np.linspace(0.0, 30.0, 3000)
    light, full = (drive_speed(driveline(), ramp, pedal).index(2) for pedal in (10.0, 90.0))
    assert ramp[full] > 2.0 * ramp[light]


@pytest.mark.parametrize("pedal", [0.0, 20.0, 50.0, 100.0])
@pytest.mark.parametrize("v", [2.0, 5.0, 10.0, 15.0, 25.0])
def test_constant_speed_and_pedal_settle_in_one_gear(pedal: float, v: float) -> None:
    line = driveline()
    drive_speed(line, np.full(2000, v), pedal)
    assert len(set(drive_speed(line, np.full(2000, v), pedal))) == 1


def test_a_shift_blends_the_ratio_and_opens_the_clutch() -> None:
    line = driveline()
    hold_gear(line, 3, lockup=1.0)
    line.state.engine_speed = 260.0
    line.state.vehicle_speed = 260.0 / line.ratios[2]
    line.state.since_shift = 10.0
    ratios, speeds = [], []
    for _ in range(800):
        line.step(DT, (50.0, 50.0), 20.0, 0.0)
        ratios.append(line.state.ratio)
        speeds.append(line.state.engine_speed)
        if len(ratios) == 600:
            assert line.state.lockup < 0.5
    assert line.state.gear == 4
    assert ratios[-1] == line.ratios[3]
    shifting = np.abs(np.diff(ratios)) > 0.0
    assert shifting.sum() * DT == pytest.approx(0.3, abs=2 * DT)
    # No jump: the speed moves by no more than a bench can follow (800 rad/s²).
    assert np.max(np.abs(np.diff(speeds))) < 800.0 * DT


def test_does_not_shift_down_into_overspeed() -> None:
    line = driveline()
    hold_gear(line, 2)
    line.state.since_shift = 10.0
    line.state.pedal = 100.0
    line.DOWN_PER_PEDAL = 5.0  # a map that asks for it even at high speed
    assert line.choose_gear(200.0, 0.0) == 1  # 350 rad/s in first gear
    assert line.choose_gear(300.0, 0.0) == 2  # would be 525 rad/s


def test_starts_in_a_gear_that_suits_the_speed() -> None:
    assert driveline(0.0).state.gear == 1
    s = driveline(30.0).state
    assert s.gear == 6
    assert s.lockup == 1.0
    assert s.engine_speed == pytest.approx(30.0 * s.ratio)


def test_save_and_restore() -> None:
    line = driveline(10.0)
    saved = line.save()
    line.step(DT, (50.0, 50.0), 20.0, 0.0)
    moved = line.save()
    line.restore(saved)
    assert line.save() == saved != moved
    line.step(DT, (50.0, 50.0), 20.0, 0.0)
    assert line.save() == moved
