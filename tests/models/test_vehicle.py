import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import trapezoid

from hilrt.errors import ConfigError
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import find_linear_model
from hilrt.models.vehicle import Vehicle
from hilrt.solver import InputPolynomial

WLTC = str(Path(__file__).parents[2] / "bench_configs" / "wltc_class3b.csv")
H = 0.001
NAMES = [port.name for port in Vehicle(WLTC).outputs]


class StandInEngine:
    """2 l petrol engine: intake lag, drag, idle governor, inertia. Enough to close the loop.

    `steepness` bends the pedal map upwards at low speed; 0 is linear.
    """

    def __init__(self, steepness: float = 0.0) -> None:
        self.steepness = steepness
        self.intake = 0.0  # %
        self.idle = 18.0  # N*m, integral part of the idle governor
        self.last_speed = 80.0
        self.inertia = 0.1

    def torque(self, h: float, w: float, pedal: float) -> float:
        """Shaft torque over the next step [N*m], the engine turning at `w` [rad/s]."""
        self.intake += h / 0.1 * (pedal - self.intake)
        full = min(200.0 - 6e-4 * (w - 350.0) ** 2, 110e3 / w)
        drag = -10.0 - 25.0 * w / 650.0
        bend, share = self.steepness * (1.0 - w / 650.0), self.intake / 100.0
        torque = drag + (full - drag) * share * (1.0 + bend) / (1.0 + bend * share)
        if w < 110.0:
            self.idle = min(max(self.idle + h * 3.0 * (80.0 - w), 0.0), 60.0)
            torque = max(torque, min(60.0, self.idle + (80.0 - w)))
        torque -= self.inertia * (w - self.last_speed) / h
        self.last_speed = w
        return torque


def constant(t: float, *coefficients: float) -> InputPolynomial:
    return InputPolynomial(t, np.array(coefficients, dtype=float)[:, None])


def run(vehicle: Vehicle, duration: float, steepness: float = 0.0) -> tuple[NDArray, NDArray]:
    """Outputs, shape (n + 1, n_outputs), and torques, shape (n,), with the engine above."""
    y = vehicle.initialize(0.0, np.zeros(1)).y
    engine = StandInEngine(steepness)
    engine.last_speed = y[0]
    ys, torques = [y], []
    for k in range(round(duration / H)):
        torques.append(engine.torque(H, float(y[0]), float(y[1])))
        y = vehicle.advance(k * H, H, constant(k * H, torques[-1])).y
        ys.append(y)
    return np.array(ys), np.array(torques)


def cycle_file(tmp_path: Path, *points: tuple[float, float]) -> str:
    path = tmp_path / "cycle.csv"
    path.write_text("time_s,speed_m_s\n" + "".join(f"{t},{v}\n" for t, v in points))
    return str(path)


@pytest.fixture(scope="module")
def drive() -> tuple[dict[str, NDArray], NDArray]:
    """To the first stop, 90 s: outputs by name, each of shape (90001,), torques, shape (90000,)."""
    ys, torques = run(Vehicle(WLTC), 90.0)
    return dict(zip(NAMES, ys.T, strict=True)), torques


# --- ports ---------------------------------------------------------------------------------------


def test_ports() -> None:
    vehicle = Vehicle(WLTC)
    assert [port.name for port in vehicle.inputs] == ["engine_torque"]
    assert NAMES[:6] == [
        "engine_speed",
        "pedal",
        "vehicle_speed",
        "demanded_speed",
        "gear",
        "brake",
    ]
    assert all(port.feedthrough == () for port in vehicle.outputs)
    assert all(port.description for port in (*vehicle.inputs, *vehicle.outputs))


def test_starts_where_the_cycle_moves_with_the_engine_at_idle() -> None:
    vehicle = Vehicle(WLTC)
    sample = vehicle.initialize(3.0, np.zeros(1))
    y = dict(zip(NAMES, sample.y, strict=True))
    assert sample.y.shape == (len(vehicle.outputs),)
    assert vehicle.cycle_start == 11.0
    assert y["engine_speed"] == 80.0
    assert y["vehicle_speed"] == y["demanded_speed"] == y["pedal"] == y["acceleration"] == 0.0
    assert y["brake"] > 0.0
    # One second later the cycle demands 0.2 km/h, whatever the session's time began with.
    later = vehicle.advance(3.0, 1.0, constant(3.0, 17.9)).y
    assert later[3] * 3.6 == pytest.approx(0.2)


def test_can_start_in_the_middle_of_the_cycle() -> None:
    y = Vehicle(WLTC, cycle_start="1600").initialize(0.0, np.zeros(1)).y
    assert y[2] == y[3] > 20.0
    assert y[0] == pytest.approx(y[NAMES.index("turbine_speed")])


def test_outputs_do_not_depend_directly_on_the_torque() -> None:
    a, b = (Vehicle(WLTC, cycle_start=30.0) for _ in range(2))
    assert np.array_equal(a.initialize(0.0, np.zeros(1)).y, b.initialize(0.0, np.full(1, 150.0)).y)
    h = 1e-9
    ya = a.advance(0.0, h, constant(0.0, -50.0)).y
    yb = b.advance(0.0, h, constant(0.0, 300.0)).y
    # What is left is 350 N*m · h / J, seen through the clutch.
    assert np.max(np.abs(ya - yb)) < 1e-3 * 350.0 * H / 0.18


@pytest.mark.parametrize("start", [None, 30.0, 1600.0])
def test_a_trial_finds_no_direct_response_of_the_outputs(start: float | None) -> None:
    """Rounding of its differences, beside some 1e5 N*m s/rad of a clutch, is none."""
    hosted = HostedSolver(Vehicle(WLTC, cycle_start=start))
    hosted.initialize(0.0, np.zeros(1))
    found = find_linear_model(hosted, np.zeros(1), H)
    assert found is not None
    assert not found.D.any()
    assert found.B[:, 0].max() == pytest.approx(1.0 / hosted.solver.data.input_inertia, rel=1e-3)


# --- driving -------------------------------------------------------------------------------------


def test_cycle_is_followed_within_the_regulation_s_tolerance(
    drive: tuple[dict[str, NDArray], NDArray],
) -> None:
    y, _ = drive
    error = 3.6 * (y["vehicle_speed"] - y["demanded_speed"])
    assert np.max(np.abs(error)) < 2.0
    assert np.sqrt(np.mean(error**2)) < 0.7
    assert np.max(y["vehicle_speed"]) * 3.6 > 40.0


def test_cycle_is_followed_with_an_engine_that_answers_early_too() -> None:
    ys, _ = run(Vehicle(WLTC), 30.0, steepness=2.0)
    assert np.max(np.abs(3.6 * (ys[:, 2] - ys[:, 3]))) < 2.0


def test_gears_are_used_and_the_engine_stays_in_its_range(
    drive: tuple[dict[str, NDArray], NDArray],
) -> None:
    y, _ = drive
    assert set(np.unique(y["gear"])) == {1.0, 2.0, 3.0, 4.0}
    assert 5 <= np.count_nonzero(np.diff(y["gear"])) <= 20
    assert np.max(y["lockup"]) == 100.0
    assert np.min(y["engine_speed"]) > 70.0
    assert np.max(y["engine_speed"]) < 400.0
    assert np.max(np.abs(np.diff(y["engine_speed"]))) < 800.0 * H  # the bench's rate limit


def test_one_pedal_at_a_time_and_no_restless_feet(
    drive: tuple[dict[str, NDArray], NDArray],
) -> None:
    y, _ = drive
    assert not np.any((y["pedal"] > 0.0) & (y["brake"] > 0.0))
    assert np.max(np.abs(np.diff(y["pedal"]))) < 500.0 * H
    for name in ("pedal", "brake"):
        assert np.count_nonzero(np.diff(y[name] > 0.0)) < 20


def test_outputs_stay_within_their_ports_bounds(
    drive: tuple[dict[str, NDArray], NDArray],
) -> None:
    y, _ = drive
    for port in Vehicle(WLTC).outputs:
        assert np.min(y[port.name]) >= port.min, port.name
        assert np.max(y[port.name]) <= port.max, port.name


def test_energy_from_the_engine_is_found_again(
    drive: tuple[dict[str, NDArray], NDArray],
) -> None:
    """First law from standstill to standstill, from the outputs alone."""
    y, torque = drive
    w, v = y["engine_speed"], y["vehicle_speed"]

    def integral(power: NDArray) -> float:
        return float(trapezoid(power, dx=H))

    supplied = float(np.sum(torque * 0.5 * (w[1:] + w[:-1])) * H)
    mass = 1500.0 + 3.2 / 0.31**2
    stored = 0.5 * 0.18 * (w[-1] ** 2 - w[0] ** 2) + 0.5 * mass * (v[-1] ** 2 - v[0] ** 2)
    through = y["turbine_torque"] * y["turbine_speed"]
    converter = integral(y["load_torque"] * w - through)
    gearbox = integral(np.where(through > 0.0, 0.05 * through, through * (1.0 - 1.0 / 0.95)))
    brake = integral(140.0 * y["brake"] * v)
    road = integral((130.0 + 0.6 * v + 0.42 * v**2) * v)
    assert min(converter, gearbox, brake, road) > 0.0
    lost = converter + gearbox + brake + road
    assert supplied == pytest.approx(stored + lost, rel=1e-3)


def test_standstill_holds() -> None:
    ys, _ = run(Vehicle(WLTC, cycle_start=0.0), 3.0)
    y = dict(zip(NAMES, ys.T, strict=True))
    assert np.all(y["vehicle_speed"] == 0.0)
    assert np.all(y["acceleration"] == 0.0)
    assert np.all(y["pedal"] == 0.0)
    assert np.ptp(y["brake"]) == 0.0
    assert np.max(np.abs(y["engine_speed"] - 80.0)) < 1.0


def test_stops_with_the_cycle_and_stays(tmp_path: Path) -> None:
    path = cycle_file(tmp_path, (0, 6.0), (6, 0.0), (10, 0.0))
    ys, _ = run(Vehicle(path), 9.0)
    v, brake = ys[:, 2], ys[:, 5]
    assert np.min(v) == 0.0
    standing = int(np.argmax(v == 0.0))
    assert standing * H < 7.0
    assert np.all(v[standing:] == 0.0)
    assert brake[-1] > 20.0
    assert ys[-1, NAMES.index("gear")] == 1.0


def test_coast_down_follows_the_analytic_solution(tmp_path: Path) -> None:
    """Without a converter: v(t) = (q tan(atan((f1 + 2 f2 v0)/q) − q t/(2 m)) − f1) / (2 f2)."""
    path = cycle_file(tmp_path, (0, 30.0), (100, 30.0))
    vehicle = Vehicle(path, converter_capacity=0.0, lockup_capacity=0.0)
    vehicle.initialize(0.0, np.zeros(1))
    f0, f1, f2, mass = 130.0, 0.6, 0.42, 1500.0 + 3.2 / 0.31**2
    q = math.sqrt(4.0 * f2 * f0 - f1**2)
    for k in range(200):
        y = vehicle.advance(k * 0.05, 0.05, constant(k * 0.05, 0.0)).y
        phase = math.atan((f1 + 2.0 * f2 * 30.0) / q) - q * (k + 1) * 0.05 / (2.0 * mass)
        assert y[2] == pytest.approx((q * math.tan(phase) - f1) / (2.0 * f2), abs=1e-7)
    assert y[2] < 28.0


def test_engine_speed_stays_below_its_top_whatever_the_engine_does(tmp_path: Path) -> None:
    path = cycle_file(tmp_path, (0, 0.0), (1, 60.0), (100, 60.0))
    vehicle = Vehicle(path)
    vehicle.initialize(0.0, np.zeros(1))
    speeds, gears = [], []
    for k in range(500):
        y = vehicle.advance(k * 0.05, 0.05, constant(k * 0.05, 200.0)).y
        speeds.append(y[0])
        gears.append(y[4])
    assert max(speeds) < 650.0
    assert max(gears) >= 4.0


# --- steps ---------------------------------------------------------------------------------------


def test_merged_step_equals_single_steps() -> None:
    one, many = (Vehicle(WLTC, cycle_start=20.0) for _ in range(2))
    for vehicle in (one, many):
        vehicle.initialize(0.0, np.zeros(1))
    merged = one.advance(0.0, 0.05, constant(0.0, 40.0, 300.0)).y
    for k in range(50):
        single = many.advance(k * H, H, constant(k * H, 40.0 + 300.0 * k * H, 300.0)).y
    np.testing.assert_allclose(merged, single, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("h", "micro_steps"), [(0.001, 2), (0.0009, 2), (0.0011, 4), (0.05, 100)])
def test_micro_steps_are_half_a_millisecond_or_less(
    h: float, micro_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vehicle = Vehicle(WLTC)
    vehicle.initialize(0.0, np.zeros(1))
    taken: list[float] = []
    original = vehicle.driveline.step

    def step(dt: float, *args: object) -> None:
        taken.append(dt)
        original(dt, *args)

    monkeypatch.setattr(vehicle.driveline, "step", step)
    vehicle.advance(0.0, h, constant(0.0, 20.0))
    assert len(taken) == micro_steps
    assert sum(taken) == pytest.approx(h)
    assert max(taken) <= 0.0005 * (1.0 + 1e-9)


def test_mid_step_outputs_are_those_of_the_half_step() -> None:
    whole, half = (Vehicle(WLTC, cycle_start=20.0) for _ in range(2))
    for vehicle in (whole, half):
        vehicle.initialize(0.0, np.zeros(1))
    u = constant(0.0, 60.0, 500.0, -2000.0)
    y_mid = whole.advance(0.0, 0.002, u).y_mid
    assert y_mid is not None
    np.testing.assert_allclose(y_mid, half.advance(0.0, 0.001, u).y, rtol=1e-12)


def test_input_polynomial_is_read_about_its_own_time() -> None:
    a, b = (Vehicle(WLTC, cycle_start=20.0) for _ in range(2))
    for vehicle in (a, b):
        vehicle.initialize(0.0, np.zeros(1))
    # 50 + 200 t − 3000 t²/2 about 0, and the same about 0.1 s
    there = (50.0 + 20.0 - 15.0, 200.0 - 300.0, -3000.0)
    ya = a.advance(0.1, 0.01, constant(0.0, 50.0, 200.0, -3000.0)).y
    yb = b.advance(0.1, 0.01, constant(0.1, *there)).y
    np.testing.assert_allclose(ya, yb, rtol=1e-12, atol=1e-12)


def test_restored_state_replays_bit_for_bit() -> None:
    rng = np.random.default_rng(7)
    torques = rng.uniform(-20.0, 150.0, 3000)

    def replay(vehicle: Vehicle) -> NDArray:
        return np.array(
            [
                vehicle.advance(0.5 + k * H, H, constant(0.5 + k * H, T)).y
                for k, T in enumerate(torques)
            ]
        )

    vehicle = Vehicle(WLTC, cycle_start=15.0)
    vehicle.initialize(0.0, np.zeros(1))
    vehicle.advance(0.0, 0.5, constant(0.0, 80.0))
    assert vehicle.can_restore()
    state = vehicle.save_state()
    first = replay(vehicle)
    assert len(set(first[:, 4])) > 1  # a shift is under way in between
    vehicle.restore_state(state)
    assert np.array_equal(replay(vehicle), first)
    # Another process, the state having crossed the wire.
    other = Vehicle(WLTC, cycle_start=15.0)
    other.restore_state(msgspec.msgpack.decode(msgspec.msgpack.encode(state)))
    assert np.array_equal(replay(other), first)


def test_initialize_starts_afresh() -> None:
    vehicle = Vehicle(WLTC, cycle_start=20.0)
    first = vehicle.initialize(0.0, np.zeros(1)).y
    vehicle.advance(0.0, 0.5, constant(0.0, 100.0))
    assert np.array_equal(vehicle.initialize(0.0, np.zeros(1)).y, first)


# --- parameters ----------------------------------------------------------------------------------


def test_bad_parameters_are_config_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'mass'"):
        Vehicle(WLTC, masss=1400)
    with pytest.raises(ConfigError, match="'cycle_start': found 'soon'; give a time"):
        Vehicle(WLTC, cycle_start="soon")
    with pytest.raises(ConfigError, match=r"none\.csv.*cannot be read"):
        Vehicle(str(tmp_path / "none.csv"))


def test_cycle_path_is_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycle_file(tmp_path, (0, 0.0), (5, 0.0), (6, 1.0))
    monkeypatch.chdir(tmp_path)
    assert Vehicle(cycle="cycle.csv").cycle_start == 5.0


def test_idle_speed_is_a_parameter() -> None:
    assert Vehicle(WLTC, idle_speed=90.0).initialize(0.0, np.zeros(1)).y[0] == 90.0
