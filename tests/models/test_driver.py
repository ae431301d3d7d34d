from pathlib import Path

import pytest
from scipy.integrate import trapezoid

from hilrt.errors import ConfigError
from hilrt.models.driveline import Driveline
from hilrt.models.driver import DriveCycle, Driver, read_cycle
from hilrt.models.vehicle_data import VehicleData

WLTC = Path(__file__).parents[2] / "bench_configs" / "wltc_class3b.csv"
DT = 0.0005


def driver(times: list[float], speeds: list[float], **params: float) -> tuple[Driver, Driveline]:
    data = VehicleData(**params)
    line = Driveline(data)
    line.start(speeds[0])
    return Driver(DriveCycle(times, speeds), data), line


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "cycle.csv"
    path.write_text(text, encoding="utf-8")
    return path


# --- the cycle -----------------------------------------------------------------------------------


def test_wltc_has_the_regulation_s_length_and_top_speed() -> None:
    cycle = read_cycle(WLTC)
    assert cycle.times == [float(t) for t in range(1801)]
    assert max(cycle.speeds) * 3.6 == pytest.approx(131.3)
    # Trapezoid over 1 Hz; class 3b: 23 266 m.
    assert trapezoid(cycle.speeds, cycle.times) == pytest.approx(23266.0, abs=5.0)
    assert cycle.start_of_motion() == 11.0


def test_cycle_is_linear_between_points_and_held_beyond() -> None:
    cycle = DriveCycle([1.0, 2.0, 4.0], [0.0, 3.0, 1.0])
    assert [cycle.speed(t) for t in (0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 9.0)] == [
        0.0,
        0.0,
        1.5,
        3.0,
        2.0,
        1.0,
        1.0,
    ]


@pytest.mark.parametrize(
    ("speeds", "start"),
    [([0.0, 0.0, 1.0], 1.0), ([5.0, 0.0, 1.0], 0.0), ([0.0, 0.0, 0.0], 0.0)],
)
def test_start_of_motion(speeds: list[float], start: float) -> None:
    assert DriveCycle([0.0, 1.0, 2.0], speeds).start_of_motion() == start


def test_comments_units_and_byte_order_mark(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeff# a comment\ntime_s, speed_m_s\n\n0, 1.5\n 2 ,2.5\n")
    cycle = read_cycle(path)
    assert cycle.times == [0.0, 2.0]
    assert cycle.speeds == [1.5, 2.5]
    assert read_cycle(write(tmp_path, "time_s,speed_km_h\n0,36\n")).speeds == [10.0]


HEADER = "# a comment\ntime_s,speed_km_h\n0,0\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "has no lines"),
        ("# only a comment\n\n", "has no lines"),
        ("time_s,speed_km_h\n", "has a header but no points"),
        ("0,0\n1,2\n", "line 1: found '0,0'; the first line must name the columns"),
        ("time_s,speed_mph\n0,0\n", "line 1: found 'time_s,speed_mph'"),
        ("time_s\n0\n", "line 1: found 'time_s'"),
        (HEADER + "1,fast\n", "line 4: found '1,fast'; write two numbers"),
        (HEADER + "1,2,3\n", "line 4: found '1,2,3'; write two numbers"),
        (HEADER + "1\n", "line 4: found '1'; write two numbers"),
        (HEADER + "1,nan\n", "line 4: found 1.0, nan; both numbers must be finite"),
        (HEADER + "1,-3\n", "line 4: the speed is -3.0; it must not be negative"),
        (HEADER + "2,1\n2,3\n", "line 5: the time is 2 s after 2 s; sort the points"),
        (HEADER + "2,1\n1,3\n", "line 5: the time is 1 s after 2 s; sort the points"),
    ],
)
def test_bad_cycle_names_file_line_and_remedy(tmp_path: Path, text: str, expected: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        read_cycle(path)
    assert repr(str(path)) in str(error.value)
    assert expected in str(error.value)


def test_missing_folder_and_binary_cycle_files(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(ConfigError, match=r"cannot be read .*; give the path of a CSV file"):
            read_cycle(path)
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x80\x81")
    with pytest.raises(ConfigError, match="it is not a text file"):
        read_cycle(binary)


# --- the driver ----------------------------------------------------------------------------------


def test_holds_the_brake_at_standstill() -> None:
    foot, line = driver([0.0, 100.0], [0.0, 0.0])
    for i in range(2000):
        foot.step(DT, i * DT, line)
    assert foot.state.brake == foot.STANDSTILL_BRAKE
    assert foot.state.pedal == 0.0
    assert foot.state.integral == 0.0


def test_wants_the_torque_that_balances_acceleration_and_road_load() -> None:
    foot, line = driver([0.0, 100.0], [15.0, 65.0], pedal_steepness=0.0)  # 0.5 m/s²
    foot.KI = 0.0
    d = line.data
    line.state.lockup = 1.0
    for i in range(1, 1001):
        line.state.vehicle_speed = 15.0 + 0.5 * i * DT
        line.state.engine_speed = line.state.ratio * line.state.vehicle_speed
        foot.step(DT, i * DT, line)
    ahead = 15.25 + 0.5 * foot.LEAD
    road = d.f0 + d.f1 * ahead + d.f2 * ahead**2
    force = line.translating_mass * (0.5 + foot.KP * 0.5 * foot.LEAD) + road
    torque = force / (line.state.ratio * d.gear_efficiency)
    closed = -d.engine_drag * (0.3 + 0.7 * line.state.engine_speed / d.engine_speed_max)
    expected = 100.0 * (torque - closed) / (d.engine_torque_max - closed)
    assert foot.state.pedal == pytest.approx(expected, abs=1e-3)


def test_less_pedal_for_an_engine_that_answers_early() -> None:
    pedals = []
    for steepness in (0.0, 1.5):
        foot, line = driver([0.0, 100.0], [15.0, 15.0], pedal_steepness=steepness)
        line.state.lockup = 1.0
        line.state.engine_speed = line.state.ratio * 15.0
        for i in range(400):
            foot.step(DT, i * DT, line)
        pedals.append(foot.state.pedal)
    assert 0.0 < pedals[1] < pedals[0]
    foot, line = driver([0.0, 100.0], [60.0, 60.0], pedal_steepness=1.5)
    line.start(20.0)
    for i in range(2000):
        foot.step(DT, i * DT, line)
    assert foot.state.pedal == 100.0  # full is full


def test_brakes_for_a_stop_and_never_with_both_feet() -> None:
    foot, line = driver([0.0, 1.0, 3.0, 6.0, 7.0], [20.0, 20.0, 2.0, 25.0, 25.0])
    used = set()
    last = (0.0, 0.0)
    for i in range(14000):
        foot.step(DT, i * DT, line)
        pedal, brake = foot.state.pedal, foot.state.brake
        assert pedal == 0.0 or brake == 0.0
        assert 0.0 <= pedal <= 100.0
        assert 0.0 <= brake <= 100.0
        assert abs(pedal - last[0]) <= foot.PEDAL_RATE * DT + 1e-9
        assert abs(brake - last[1]) <= foot.BRAKE_RATE * DT + 1e-9
        used |= {name for name, x in (("pedal", pedal), ("brake", brake)) if x > 20.0}
        last = pedal, brake
    assert foot.PEDAL_RATE < 500.0
    assert used == {"pedal", "brake"}


def test_integral_does_not_wind_up_at_full_pedal() -> None:
    foot, line = driver([0.0, 100.0], [40.0, 40.0])
    line.start(5.0)
    for i in range(10000):  # the vehicle stays at 5 m/s whatever the driver does
        foot.step(DT, i * DT, line)
    assert foot.state.pedal == 100.0
    assert abs(foot.state.integral) < 1.0


def test_lifts_before_the_engine_overspeeds() -> None:
    foot, line = driver([0.0, 100.0], [60.0, 60.0])
    line.start(20.0)
    pedals = []
    for w in (500.0, 610.0, 640.0):
        line.state.engine_speed = w
        for i in range(2000):
            foot.step(DT, i * DT, line)
        pedals.append(foot.state.pedal)
    assert pedals[0] == 100.0
    assert 0.0 < pedals[1] < 100.0
    assert pedals[2] == 0.0


def test_save_and_restore() -> None:
    foot, line = driver([0.0, 1.0], [10.0, 14.0])
    saved = foot.save()
    for i in range(100):
        foot.step(DT, i * DT, line)
    moved = foot.save()
    assert moved != saved
    foot.restore(saved)
    assert foot.save() == saved
