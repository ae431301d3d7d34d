"""``hilrt analyze stability``: a coupling's stability over the macro step and other keys.

`stability_page` prints and draws the results; they are also written as JSON.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hilrt.analyze.propagation import SessionScheme
from hilrt.analyze.stability import crossings, spectral_radius
from hilrt.analyze.subsystem_models import find_subsystem_models
from hilrt.config.session_file import SessionFile, load_session
from hilrt.config.structs import CALCULATED
from hilrt.errors import ConfigError
from hilrt.files.formats import json_numbers
from hilrt.solver import Floats

#: The key of the macro step in a session file.
STEP = "master.step"
#: Points of the search over the macro step; crossings closer than a grid interval are missed.
POINTS = 400
#: Default number of macro steps in a map.
MAP_POINTS = 40
#: Relative accuracy of the matrices' entries, for exact and for differentiated subsystems.
ROUNDING, DIFFERENTIATED = 1e-14, 1e-8
#: Distance of a spectral radius from 1 below which the effect of rounding is estimated.
NEAR_ONE = 1e-4
#: Number of random disturbances for that estimate.
DRAWS = 4


@dataclass(frozen=True)
class MapAxis:
    """One parameter of a map: key of the session file, and its values in order."""

    key: str
    values: list[float]
    logarithmic: bool

    def overrides(self, value: float) -> list[str]:
        """``--set`` arguments for a value; none for the macro step."""
        return [] if self.key == STEP else [f"{self.key}={value!r}"]


@dataclass(frozen=True)
class StabilityMap:
    """Spectral radius per macro step over two parameters, `radius` of shape (ny, nx)."""

    x: MapAxis
    y: MapAxis
    radius: Floats


@dataclass(frozen=True)
class StabilityStudy:
    """Result of an analysis.

    Attributes
    ----------
    session : str
    step, radius : float
        The configured macro step [s], and the spectral radius there per macro step.
    verdict : str
        "stable", "unstable", or "neutral" (1 except for rounding).
    cycle : int
        Period in macro steps after which all subsystems communicate at the same time.
    subsystems : list of (name, number of states, origin of its matrices)
    order : str
        Degree of the extrapolation.
    crossings : list of (float, bool)
        Every macro step [s] at which the spectral radius crosses 1, and whether the coupling is
        unstable above it.
    steps, radii : ndarray, shape (n,)
        Spectral radius over the macro step.
    left_out : list of str
        Properties of the session that a linear analysis ignores.
    map : StabilityMap or None
    """

    session: str
    step: float
    radius: float
    verdict: str
    cycle: int
    subsystems: list[tuple[str, int, str]]
    order: str
    crossings: list[tuple[float, bool]]
    steps: Floats
    radii: Floats
    left_out: list[str]
    map: StabilityMap | None = None

    @property
    def growth(self) -> float:
        """Rate at which the dominant mode grows at the configured step, 1/s."""
        return growth(self.radius, self.step)

    def as_json(self) -> dict[str, Any]:
        """Content of ``--json``."""
        built: dict[str, Any] = {
            "session": self.session,
            "step_s": self.step,
            "spectral_radius": self.radius,
            "growth_per_s": self.growth,
            "verdict": self.verdict,
            "cycle_steps": self.cycle,
            "subsystems": [
                {"name": name, "states": states, "source": source}
                for name, states, source in self.subsystems
            ],
            "range_s": [float(self.steps[0]), float(self.steps[-1])],
            "crossings": [{"step_s": h, "unstable_above": above} for h, above in self.crossings],
            "left_out": self.left_out,
        }
        if self.map is not None:
            built["map"] = {
                "x": {"key": self.map.x.key, "values": self.map.x.values},
                "y": {"key": self.map.y.key, "values": self.map.y.values},
                "spectral_radius": self.map.radius.tolist(),
            }
        found: dict[str, Any] = json_numbers(built)
        return found


def growth(radius: float, step: float) -> float:
    """Growth of a mode, 1/s, from its spectral radius per macro step."""
    if math.isinf(radius):
        return math.inf
    return math.log(radius) / step if radius > 0.0 else -math.inf


def find_scheme(file: SessionFile) -> SessionScheme:
    """The coupling scheme of a session file.

    `ConfigError` if a connection leads through a calculated channel, which the analysis cannot
    represent; without it, the loop would be open.
    """
    for connection in file.tables.connections:
        if connection.source.startswith(CALCULATED + "."):
            raise ConfigError(
                f"connection {connection.source} -> {connection.target}: comes from a calculated "
                "channel, which the analysis does not support; connect the signal itself"
            )
    return SessionScheme(file.tables, find_subsystem_models(file))


def radius_and_margin(scheme: SessionScheme, h: float) -> tuple[float, float]:
    """Spectral radius per macro step at `h` [s], and its uncertainty due to rounding.

    A mode that neither grows nor decays (a freely moving mass) has the eigenvalue 1, but the
    computed one is slightly above or below. Random disturbances of the matrix show the effect of
    rounding.
    """
    power = 1.0 / scheme.cycle
    with np.errstate(all="ignore"):
        matrix = scheme.matrix(h)
        if not np.isfinite(matrix).all():
            return math.inf, 0.0
        radius = spectral_radius(matrix) ** power if len(matrix) else 0.0
        if abs(radius - 1.0) > NEAR_ONE:
            return radius, 0.0
        exact = all(subsystem.dynamics.linear for subsystem in scheme.subsystems)
        noise = np.random.default_rng(0).uniform(-1.0, 1.0, (DRAWS, *matrix.shape))
        noise *= ROUNDING if exact else DIFFERENTIATED
        # Of two opposite disturbances one splits a double eigenvalue along the real axis.
        disturbed = np.concatenate([matrix * (1.0 + noise), matrix * (1.0 - noise)])
        moved = np.abs(np.linalg.eigvals(disturbed)).max(axis=1) ** power
    spread = float(np.abs(moved - radius).max())
    return radius, 2.0 * spread + 4.0 * float(np.finfo(float).eps)


def study(
    file: SessionFile,
    h_min: float,
    h_max: float,
    axes: Sequence[MapAxis] = (),
    points: int = POINTS,
) -> StabilityStudy:
    """Analyse a session.

    Parameters
    ----------
    file : SessionFile
    h_min, h_max : float
        Range of the macro step, s.
    axes : sequence of MapAxis
        One or two parameters of a map; the default for the second is the macro step.
    points : int
        Number of points of the logarithmic grid on which crossings are searched.

    Raises
    ------
    ConfigError
        If the range is empty, or the session cannot be analysed.
    """
    if not 0.0 < h_min < h_max:
        raise ConfigError(
            f"--h-min {h_min:g} --h-max {h_max:g}: give a range of the macro step in s, above 0"
        )
    with contextlib.closing(find_scheme(file)) as scheme:
        found = _along_the_step(file, scheme, h_min, h_max, points)
    return replace(found, map=draw_map(file, axes, h_min, h_max)) if axes else found


def _along_the_step(
    file: SessionFile, scheme: SessionScheme, h_min: float, h_max: float, points: int
) -> StabilityStudy:
    radii: dict[float, float] = {}

    def judged(h: float) -> float:
        radii[h], margin = radius_and_margin(scheme, h)
        return radii[h] - margin

    found = crossings(judged, h_min, h_max, points)
    steps = np.array(sorted(radii))
    step = file.tables.master.step
    radius, margin = radius_and_margin(scheme, step)
    return StabilityStudy(
        session=file.tables.session.name,
        step=step,
        radius=radius,
        verdict=verdict(radius, margin),
        cycle=scheme.cycle,
        subsystems=[(m.name, m.dynamics.states, m.dynamics.source) for m in scheme.subsystems],
        order=scheme.describe_order(),
        crossings=found,
        steps=steps,
        radii=np.array([radii[h] for h in steps.tolist()]),
        left_out=scheme.left_out,
    )


def verdict(radius: float, margin: float) -> str:
    """Verdict from the spectral radius and its uncertainty."""
    if abs(radius - 1.0) <= margin:
        return "neutral"
    return "unstable" if radius > 1.0 else "stable"


def draw_map(
    file: SessionFile, axes: Sequence[MapAxis], h_min: float, h_max: float
) -> StabilityMap:
    """Compute the map; for parameters other than the step, the session is read again."""
    x, y = _two(axes, h_min, h_max)
    if y.key == STEP:
        turned = draw_map(file, [y, x], h_min, h_max)
        return StabilityMap(x, y, turned.radius.T)
    rows = []
    for v in y.values:
        if x.key == STEP:
            rows.append(_radii(file, y.overrides(v), x.values))
        else:
            overrides = [[*x.overrides(value), *y.overrides(v)] for value in x.values]
            rows.append([_radii(file, o, [file.tables.master.step])[0] for o in overrides])
    return StabilityMap(x, y, np.array(rows))


def _radii(file: SessionFile, overrides: list[str], steps: Sequence[float]) -> list[float]:
    """Spectral radius at each of `steps` [s], with some keys of the session changed."""
    changed = load_session(file.path, [*file.overrides, *overrides])
    with contextlib.closing(find_scheme(changed)) as scheme:
        return [radius_and_margin(scheme, h)[0] for h in steps]


def _two(axes: Sequence[MapAxis], h_min: float, h_max: float) -> tuple[MapAxis, MapAxis]:
    if len(axes) > 2:
        raise ConfigError(f"--map is given {len(axes)} times; a map has two axes")
    if len(axes) == 2:
        if axes[0].key == axes[1].key:
            raise ConfigError(f"--map {axes[0].key} is given twice; name another key")
        return axes[0], axes[1]
    if axes[0].key == STEP:
        raise ConfigError(f"--map {STEP}: name a second key to draw the map over")
    steps = np.geomspace(h_min, h_max, MAP_POINTS).tolist()
    return MapAxis(STEP, steps, logarithmic=True), axes[0]


def parse_axis(text: str) -> MapAxis:
    """Parse an axis ``KEY=lo:hi:n``; spaced logarithmically over a decade or more.

    ``:lin`` and ``:log`` at its end select the spacing. Whole numbers stay whole if possible.
    """
    key, _, span = text.partition("=")
    parts = span.split(":")
    remedy = ConfigError(
        f"--map {text}: write it as table.key=lowest:highest:points, for example "
        f"{STEP}=1e-5:1e-2:40 or connections.0.order=0:4:5"
    )
    if "." not in key or len(parts) not in (3, 4) or parts[3:] not in ([], ["lin"], ["log"]):
        raise remedy
    try:
        low, high, n = float(parts[0]), float(parts[1]), int(parts[2])
    except ValueError:
        raise remedy from None
    if not (math.isfinite(low) and math.isfinite(high)) or n < 2 or low == high:
        raise remedy
    logarithmic = low > 0.0 and high > 0.0 and max(low / high, high / low) >= 10.0
    if parts[3:]:
        logarithmic = parts[3] == "log"
    if logarithmic and not (low > 0.0 and high > 0.0):
        raise ConfigError(f"--map {text}: a logarithmic axis needs positive ends")
    values: list[float] = (np.geomspace if logarithmic else np.linspace)(low, high, n).tolist()
    if not logarithmic and _whole(parts[0]) and _whole(parts[1]) and (high - low) % (n - 1) == 0:
        values = [round(value) for value in values]
    return MapAxis(key, values, logarithmic)


def _whole(text: str) -> bool:
    return text.lstrip("+-").isdecimal()
