from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
from rich.console import Console

from hilrt.analyze.stability_page import MAX_COLUMNS, range_line, show, summary_line, thinned
from hilrt.analyze.stability_study import MapAxis, StabilityMap, StabilityStudy

STUDY = StabilityStudy(
    session="shaft",
    step=1e-3,
    radius=0.99,
    verdict="stable",
    cycle=1,
    subsystems=[("engine", 3, "its matrices")],
    order="0 and 1",
    crossings=[(2.5e-3, True), (4e-3, False)],
    steps=np.geomspace(1e-4, 1e-2, 5),
    radii=np.array([0.999, 0.99, 0.98, 1.2, 0.9]),
    left_out=["the limits of engine.torque"],
)


def text_of(study: StabilityStudy) -> str:
    file = io.StringIO()
    show(study, Console(file=file, width=100))
    return file.getvalue()


def test_everything_found_is_said() -> None:
    text = text_of(STUDY)
    for part in (
        "shaft: extrapolation of order 0 and 1",
        "spectral radius 0.99: stable; the slowest mode decays at 10.05 1/s",
        "its matrices",
        "0.0025 s  unstable above",
        "0.004 s  stable above",
        "left out: the limits of engine.torque",
    ):
        assert part in text


def test_verdicts_in_words() -> None:
    unstable = replace(STUDY, radius=1.1, verdict="unstable", cycle=4, crossings=[])
    assert "a mode grows at 95.31 1/s" in summary_line(unstable)
    assert "of a cycle of 4" in summary_line(unstable)
    assert "above 1 everywhere" in range_line(unstable)
    neutral = replace(STUDY, radius=1.0, verdict="neutral", crossings=[])
    assert "free to move" in summary_line(neutral)
    assert "does not cross 1 between 0.0001 s and 0.01 s" in range_line(neutral)


def test_a_large_map_is_thinned_out_to_what_fits() -> None:
    radius = np.full((3, 50), 0.5)
    radius[2, 49] = 1234.5
    drawn = StabilityMap(
        MapAxis("master.step", np.geomspace(1e-5, 1e-2, 50).tolist(), True),
        MapAxis("bonds.b.correction.alpha", [0.0, 0.5, 1.0], False),
        radius,
    )
    lines = text_of(replace(STUDY, map=drawn)).splitlines()
    title = next(i for i, line in enumerate(lines) if "across master.step" in line)
    assert len(lines[title + 1].split()) == MAX_COLUMNS
    top, *_, bottom = lines[title + 2 : title + 5]
    assert top.split()[0] == "1"
    assert top.split()[-1] == "1.2e+03"
    assert bottom.split()[:2] == ["0", "0.50000"]


def test_thinning_keeps_both_ends() -> None:
    assert list(thinned(5, 9)) == [0, 1, 2, 3, 4]
    assert list(thinned(100, 4)) == [0, 33, 66, 99]
