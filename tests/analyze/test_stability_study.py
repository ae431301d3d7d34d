from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hilrt.analyze.stability_study import (
    MapAxis,
    StabilityMap,
    find_scheme,
    growth,
    parse_axis,
    radius_and_margin,
    study,
    verdict,
)
from hilrt.config.session_file import SessionFile, load_session
from hilrt.errors import ConfigError

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT.parent / "shared" / "reference" / "mbcorr_stability.json"
MODEL, UNDAMPED = ROOT / "bench_configs/two_mass_model.toml", ROOT / "bench_configs/two_mass.toml"
ORDERS = {"ZOH": 0, "FOH": 1, "SOH": 2}
DAMPED = ["subsystems.mass1.params.c=1.0", "subsystems.mass2.params.c=1.0"]


def two_mass(ck: float, dk: float, method: str) -> SessionFile:
    """The session file with another coupling, order and corrector."""
    A = [[0.0, 1.0], [-(ck + 1e7) / 10, -(dk + 2) / 10]]
    mass2 = {
        "A": A,
        "B": [[0.0, 0.0], [ck / 10, dk / 10]],
        "C": [[ck, dk], [1.0, 0.0], [0.0, 1.0]],
        "D": [[-ck, -dk], [0.0, 0.0], [0.0, 0.0]],
    }
    overrides = [f"subsystems.mass2.params.{key}={value}" for key, value in mass2.items()]
    overrides.append(f"master.extrapolation.order={ORDERS[method[:3]]}")
    if not method.endswith("MBCorr"):
        overrides.append("bonds.coupling.correction.method=none")
    return load_session(MODEL, overrides)


@pytest.mark.parametrize(
    ("ck", "dk", "h_min"),
    [("1e+05", "1e+02", 1e-4), ("1e+06", "1e+03", 1e-4), ("1e+08", "1e+04", 1e-7)],
)
def test_crossings_of_the_reference(ck: str, dk: str, h_min: float) -> None:
    if not REFERENCE.exists():
        pytest.skip("the reference numbers are not beside the repository")
    expected = json.loads(REFERENCE.read_text())["crossings_s"][f"ck={ck}"][f"dk={dk}"]
    for method, steps in expected.items():
        file = two_mass(float(ck), float(dk), method)
        found = study(file, h_min, 10**-2.5, points=50)
        assert [h for h, _ in found.crossings] == pytest.approx(steps, rel=1e-3), method


def test_the_session_as_configured() -> None:
    found = study(load_session(MODEL), 1e-5, 1e-2, points=30)
    assert (found.session, found.step, found.cycle) == ("two-mass-model", 2e-4, 1)
    assert found.verdict == "stable"
    assert found.radius < 1.0
    assert found.growth == pytest.approx(math.log(found.radius) / 2e-4)
    assert found.subsystems == [("mass1", 2, "its matrices"), ("mass2", 2, "its matrices")]
    assert found.order == "0"
    assert [above for _, above in found.crossings] == [True]
    assert (np.diff(found.steps) > 0.0).all()
    assert found.left_out == []


def test_all_crossings_of_a_radius_that_is_not_monotone() -> None:
    scheme = find_scheme(load_session(UNDAMPED, DAMPED))
    found = study(load_session(UNDAMPED, DAMPED), 3e-3, 0.2, points=60)
    assert [above for _, above in found.crossings] == [True, False, True, False]
    for step, above in found.crossings:
        assert (radius_and_margin(scheme, 1.001 * step)[0] > 1.0) == above
        assert (radius_and_margin(scheme, 0.999 * step)[0] > 1.0) != above


def test_without_damping_a_hold_is_unstable_at_every_step() -> None:
    found = study(load_session(UNDAMPED), 1e-6, 1e-2, points=40)
    assert found.verdict == "unstable"
    assert found.crossings == []
    assert found.left_out == ["the energy correction of spring: it is not linear"]


def test_two_rates_are_a_cycle_of_several_steps() -> None:
    file = load_session(UNDAMPED, [*DAMPED, "subsystems.mass1.every=4"])
    scheme = find_scheme(file)
    assert scheme.cycle == 4
    radius, _ = radius_and_margin(scheme, 1e-3)
    values = np.linalg.eigvals(scheme.matrix(1e-3))
    assert radius == pytest.approx(np.abs(values).max() ** 0.25)


FREE = """
[session]
name = "free"
duration = 1.0
pace = "asap"
[master]
step = 0.001
extrapolation = { order = 1 }
[subsystems.motor]
adapter = "inprocess"
model = "hilrt.models.linear:Linear"
params = { A = [[0.0, 1.0], [0.0, 0.0]], B = [[0.0], [0.5]], C = [[1.0, 0.0], [0.0, 1.0]] }
[subsystems.shaft]
adapter = "inprocess"
model = "hilrt.models.linear:Linear"
[subsystems.shaft.params]
A = [[0.0, 1.0], [-90.0, -6.0]]
B = [[0.0, 0.0], [90.0, 6.0]]
C = [[30.0, 2.0]]
D = [[-30.0, -2.0]]
[[connections]]
from = "motor.y0"
to = "shaft.u0"
[[connections]]
from = "motor.y1"
to = "shaft.u1"
[[connections]]
from = "shaft.y0"
to = "motor.u0"
"""


def test_free_motion_is_neutral_and_crosses_nothing(tmp_path: Path) -> None:
    """Two inertias that turn freely together: a double eigenvalue of 1, sensitive to rounding."""
    (tmp_path / "free.toml").write_text(FREE)
    file = load_session(tmp_path / "free.toml")
    found = study(file, 1e-5, 0.7, points=80)
    assert found.verdict == "neutral"
    assert found.crossings == [(pytest.approx(0.62631, rel=1e-4), True)]
    assert verdict(*radius_and_margin(find_scheme(file), 1e-4)) == "neutral"


def test_a_map_over_the_step_and_a_key() -> None:
    file = load_session(UNDAMPED, DAMPED)
    steps = MapAxis("master.step", [1e-3, 1e-2], True)
    springs = MapAxis("subsystems.mass1.params.kc", [50.0, 100.0, 800.0], False)
    drawn = study(file, 1e-4, 1e-2, [steps, springs], points=10).map
    assert drawn is not None
    for j, kc in enumerate(springs.values):
        for i, h in enumerate(steps.values):
            override = f"subsystems.mass1.params.kc={kc}"
            scheme = find_scheme(load_session(UNDAMPED, [*DAMPED, override]))
            assert drawn.radius[j, i] == radius_and_margin(scheme, h)[0]
    turned = study(file, 1e-4, 1e-2, [springs, steps], points=10).map
    assert turned is not None
    np.testing.assert_array_equal(turned.radius, drawn.radius.T)
    alone = study(file, 1e-4, 1e-2, [springs], points=10).map
    assert alone is not None
    assert (alone.x.key, alone.y) == ("master.step", springs)
    assert alone.x.values[0] == pytest.approx(1e-4)


def test_a_map_over_two_keys_at_the_configured_step() -> None:
    file = load_session(UNDAMPED, DAMPED)
    orders = MapAxis("connections.1.order", [0, 1], False)
    springs = MapAxis("subsystems.mass1.params.kc", [100.0, 900.0], False)
    drawn = study(file, 1e-4, 1e-2, [orders, springs], points=10).map
    assert drawn is not None
    assert drawn.radius[0, 0] == radius_and_margin(find_scheme(file), 1e-3)[0]
    assert len(set(drawn.radius.ravel().tolist())) == 4


def test_json_of_a_study_without_infinities() -> None:
    axes = MapAxis("master.step", [1e-4, 1.0], True), MapAxis("a.b", [0, 1], False)
    found = replace(
        study(two_mass(1e6, 1e3, "ZOH"), 1e-4, 1e-3, points=20),
        radius=math.inf,
        map=StabilityMap(*axes, np.array([[0.5, math.inf], [0.25, 2.0]])),
    ).as_json()
    again: Any = json.loads(json.dumps(found, allow_nan=False))
    assert again["crossings"] == [
        {"step_s": pytest.approx(5.3603e-4, rel=1e-3), "unstable_above": True}
    ]
    assert again["spectral_radius"] is None
    assert again["growth_per_s"] is None
    assert again["map"] == {
        "x": {"key": "master.step", "values": [1e-4, 1.0]},
        "y": {"key": "a.b", "values": [0, 1]},
        "spectral_radius": [[0.5, None], [0.25, 2.0]],
    }
    assert again["range_s"] == [pytest.approx(1e-4), pytest.approx(1e-3)]


@pytest.mark.parametrize(
    ("text", "values", "logarithmic"),
    [
        ("a.b=0:4:5", [0, 1, 2, 3, 4], False),
        ("a.b=0:1:3", [0.0, 0.5, 1.0], False),
        ("a.b=1:100:3", [1.0, 10.0, 100.0], True),
        ("a.b=1:100:3:lin", [1.0, 50.5, 100.0], False),
        ("a.b=1:4:3:log", [1.0, 2.0, 4.0], True),
        ("a.b=2.0:1.0:3", [2.0, 1.5, 1.0], False),
    ],
)
def test_axes_on_the_command_line(text: str, values: list[float], logarithmic: bool) -> None:
    axis = parse_axis(text)
    assert axis.key == "a.b"
    assert axis.values == pytest.approx(values)
    assert [type(v) for v in axis.values] == [type(v) for v in values]
    assert axis.logarithmic == logarithmic


@pytest.mark.parametrize(
    "text", ["a.b", "ab=0:1:3", "a.b=0:1", "a.b=0:1:1", "a.b=0:0:3", "a.b=x:1:3", "a.b=0:inf:3"]
)
def test_axes_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write it as table\.key=lowest"):
        parse_axis(text)


def test_a_logarithmic_axis_needs_positive_ends() -> None:
    with pytest.raises(ConfigError, match="positive"):
        parse_axis("a.b=0:1:3:log")


def test_what_cannot_be_drawn_or_searched() -> None:
    file = load_session(UNDAMPED)
    step, key = MapAxis("master.step", [1e-3, 2e-3], False), MapAxis("a.b", [1.0, 2.0], False)
    for axes, remedy in (
        ([step], "second key"),
        ([key, key], "another key"),
        ([step, key, key], "two axes"),
    ):
        with pytest.raises(ConfigError, match=remedy):
            study(file, 1e-4, 1e-3, axes, points=3)
    for low, high in ((0.0, 1.0), (1e-2, 1e-3)):
        with pytest.raises(ConfigError, match="range of the macro step"):
            study(file, low, high)
    with pytest.raises(ConfigError, match="unknown"):
        study(file, 1e-4, 1e-3, [step, key], points=3)


def test_growth_of_what_vanishes_or_explodes() -> None:
    assert growth(0.0, 1e-3) == -math.inf
    assert growth(math.inf, 1e-3) == math.inf
    assert growth(math.e, 0.5) == 2.0
