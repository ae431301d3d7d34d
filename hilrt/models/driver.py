"""A driver following a drive cycle: feed-forward, PI correction, one foot for both pedals."""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hilrt.errors import ConfigError
from hilrt.files.text import read_regular

if TYPE_CHECKING:
    from hilrt.models.driveline import Driveline
    from hilrt.models.vehicle_data import VehicleData

COLUMNS = {"speed_km_h": 1.0 / 3.6, "speed_m_s": 1.0}


class DriveCycle:
    """Demanded vehicle speed over time, linear between the points, held beyond the ends.

    Parameters
    ----------
    times : list of float, shape (n,)
        Strictly increasing, s.
    speeds : list of float, shape (n,)
        Not negative, m/s.
    """

    def __init__(self, times: list[float], speeds: list[float]) -> None:
        self.times = times
        self.speeds = speeds

    def speed(self, t: float) -> float:
        """Demanded speed at cycle time `t` [s], m/s."""
        times, speeds = self.times, self.speeds
        i = bisect_right(times, t)
        if i == 0:
            return speeds[0]
        if i == len(times):
            return speeds[-1]
        t0, v0 = times[i - 1], speeds[i - 1]
        return v0 + (speeds[i] - v0) * ((t - t0) / (times[i] - t0))

    def start_of_motion(self) -> float:
        """Time of the last point at standstill before the cycle first moves, s."""
        moving = next((i for i, v in enumerate(self.speeds) if v > 0.0), 0)
        return self.times[max(moving - 1, 0)]


def read_cycle(path: str | Path) -> DriveCycle:
    """Read a drive cycle from a CSV file with the columns time_s and speed_km_h (or speed_m_s).

    Empty lines and lines that start with ``#`` are skipped.

    Raises
    ------
    ConfigError
        If the file cannot be read or is no drive cycle; the message names file, line and remedy.
    """
    file = Path(path)
    try:
        lines = read_regular(file).decode("utf-8-sig").splitlines()
    except (OSError, ValueError) as error:  # ValueError: it is not text
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise ConfigError(
            f"drive cycle {str(file)!r}: cannot be read ({reason}); give the path of a CSV file, "
            f"relative to the current folder {str(Path.cwd())!r} or absolute"
        ) from None
    rows = [
        (number, [cell.strip() for cell in next(csv.reader([line]))])
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not rows:
        raise ConfigError(
            f"drive cycle {str(file)!r}: has no lines; write 'time_s,speed_km_h', then one point "
            "in each line"
        )
    number, header = rows[0]
    if len(header) != 2 or header[0] != "time_s" or header[1] not in COLUMNS:
        raise ConfigError(
            f"drive cycle {str(file)!r}, line {number}: found {','.join(header)!r}; the first line "
            "must name the columns, 'time_s,speed_km_h' or 'time_s,speed_m_s'"
        )
    return _points(str(file), rows[1:], COLUMNS[header[1]])


def _points(file: str, rows: list[tuple[int, list[str]]], scale: float) -> DriveCycle:
    if not rows:
        raise ConfigError(
            f"drive cycle {file!r}: has a header but no points; add at least one line 'time,speed'"
        )
    times: list[float] = []
    speeds: list[float] = []
    for number, cells in rows:
        where = f"drive cycle {file!r}, line {number}"
        try:
            t, v = (float(cell) for cell in cells)
        except ValueError:
            raise ConfigError(
                f"{where}: found {','.join(cells)!r}; write two numbers, time and speed, with a "
                "decimal point and a comma between them"
            ) from None
        if not (math.isfinite(t) and math.isfinite(v)):
            raise ConfigError(f"{where}: found {t}, {v}; both numbers must be finite")
        if v < 0.0:
            raise ConfigError(f"{where}: the speed is {v}; it must not be negative")
        if times and t <= times[-1]:
            raise ConfigError(
                f"{where}: the time is {t:g} s after {times[-1]:g} s; sort the points, one at each "
                "time"
            )
        times.append(t)
        speeds.append(v * scale)
    return DriveCycle(times, speeds)


@dataclass(slots=True)
class DriverState:
    """State of the driver: both pedals in %, and the PI controller's integral in N."""

    pedal: float = 0.0
    brake: float = 0.0
    integral: float = 0.0


class Driver:
    """Driver that follows a drive cycle with the accelerator or the brake, never with both.

    The demanded traction force is that of the upcoming acceleration and of the road load, plus a PI
    correction of the speed error. The force with released accelerator (creep at idle, engine
    braking above) separates accelerating from braking.
    """

    PREVIEW = 0.7  # s, the demanded acceleration is the cycle's mean slope over this time
    LEAD = 0.15  # s, preview of the speed, which compensates intake, converter and shifts
    KP = 1.5  # 1/s, demanded acceleration per speed error
    KI = 0.35  # 1/s²
    INTEGRAL_MAX = 2.5  # m/s², bound of the integral part
    PEDAL_RATE = 300.0  # %/s
    BRAKE_RATE = 250.0  # %/s
    REV_GAIN = 1.0  # N*m per rad/s of difference from the engine speed that the torque needs
    BRAKE_GAP = 60.0  # N, dead band between the pedals, against chattering
    STANDSTILL_DEMAND = 0.15  # m/s, a lower demand counts as standstill
    STANDSTILL_SPEED = 0.7  # m/s, below this the driver ends the roll-out and holds the brake
    STANDSTILL_BRAKE = 25.0  # %

    def __init__(self, cycle: DriveCycle, data: VehicleData) -> None:
        self.cycle = cycle
        self.data = data
        self.state = DriverState()
        self._inertia = data.translating_mass
        # The engine's torque at idle equals the converter's at standstill.
        self._idle_torque = data.converter_capacity * data.idle_speed**2

    def save(self) -> tuple[float, ...]:
        """Copy of the state."""
        return astuple(self.state)

    def restore(self, state: tuple[float, ...]) -> None:
        """Restore a state that `save` returned."""
        self.state = DriverState(*state)

    def step(self, dt: float, t: float, driveline: Driveline) -> None:
        """Move the pedals over `dt` [s].

        Parameters
        ----------
        dt : float
            s.
        t : float
            Cycle time, s.
        driveline : Driveline
            The driven vehicle; the driver senses its speeds and its gear.
        """
        v, engine_speed = driveline.state.vehicle_speed, driveline.state.engine_speed
        s = self.state
        now = self.cycle.speed(t)
        ahead = self.cycle.speed(t + self.LEAD)
        later = self.cycle.speed(t + self.PREVIEW)
        if v < self.STANDSTILL_SPEED and max(now, later) < self.STANDSTILL_DEMAND:
            s.integral = 0.0
            self._move(dt, 0.0, self.STANDSTILL_BRAKE)
            return
        d = self.data
        error = ahead - v
        wanted = (
            self._inertia * ((later - now) / self.PREVIEW + self.KP * error)
            + s.integral
            + d.f0
            + ahead * (d.f1 + ahead * d.f2)
        )
        closed = self._closed_torque(engine_speed)
        traction = driveline.traction()
        torque = wanted / traction
        ceiling = self._ceiling(engine_speed)
        # With an open converter the torque acts only once the engine has reached its speed: rev
        # up when setting off, and release the pedal while a shift slows the engine.
        rev = (1.0 - driveline.state.lockup) * self.REV_GAIN
        rev *= driveline.speed_for(torque) - engine_speed if torque > 0.0 else 0.0
        pedal = self._pedal_for((torque + rev - closed) / (d.engine_torque_max - closed), driveline)
        brake = 100.0 * ((closed - torque) * traction - self.BRAKE_GAP) / d.brake_force_max
        # Integrate only while the pedals can respond, or towards the range where they can.
        if (pedal < ceiling or error < 0.0) and (brake < 100.0 or error > 0.0):
            limit = self._inertia * self.INTEGRAL_MAX
            integral = s.integral + self._inertia * self.KI * error * dt
            s.integral = min(max(integral, -limit), limit)
        self._move(dt, min(max(pedal, 0.0), ceiling), min(max(brake, 0.0), 100.0))

    def _closed_torque(self, engine_speed: float) -> float:
        """Torque that the driver expects from the engine with the accelerator closed, N*m."""
        d = self.data
        drag = -d.engine_drag * (0.3 + 0.7 * engine_speed / d.engine_speed_max)
        above_idle = (engine_speed - d.idle_speed) / (0.5 * d.idle_speed)
        share = min(max(above_idle, 0.0), 1.0)
        return self._idle_torque + share * (drag - self._idle_torque)

    def _pedal_for(self, share: float, driveline: Driveline) -> float:
        """Accelerator position [%] for a share of the engine's torque range, unlimited."""
        speed = driveline.state.engine_speed / self.data.engine_speed_max
        steeper = self.data.pedal_steepness * max(1.0 - speed, 0.0)
        return 100.0 * share / (1.0 + steeper * (1.0 - min(max(share, 0.0), 1.0)))

    def _ceiling(self, engine_speed: float) -> float:
        """Maximum accelerator position, %: the driver lifts near the engine's top speed."""
        top = self.data.engine_speed_max
        return 100.0 * min(max((0.97 * top - engine_speed) / (0.07 * top), 0.0), 1.0)

    def _move(self, dt: float, pedal: float, brake: float) -> None:
        """Move the pedals towards their targets at a foot's speed, one at a time."""
        s = self.state
        if s.brake > 0.0 or brake > 0.0:
            pedal = 0.0
        step = self.PEDAL_RATE * dt
        s.pedal += min(max(pedal - s.pedal, -step), step)
        if s.pedal > 0.0:
            brake = 0.0
        step = self.BRAKE_RATE * dt
        s.brake += min(max(brake - s.brake, -step), step)
