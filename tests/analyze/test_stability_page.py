from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hilrt.analyze.stability_page import edges, shade, write_page
from hilrt.analyze.stability_study import MapAxis, StabilityMap
from hilrt.cli.main import app
from hilrt.errors import RecordError
from tests.analyze.test_stability_table import STUDY

UNDAMPED = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"
DRAWN = StabilityMap(
    MapAxis("master.step", [1e-4, 1e-3, 1e-2], True),
    MapAxis("subsystems.a.params.<k>", [0.0, 1.0], False),
    np.array([[0.9, 0.99, np.inf], [0.5, 1.0, 3.0]]),
)


def test_the_page_holds_everything_and_needs_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    page = write_page(replace(STUDY, session="<shaft>", map=DRAWN), folder)
    assert page == folder / "stability.html"
    text = page.read_text()
    assert "&lt;shaft&gt;: stability of the coupling" in text
    assert "<shaft>" not in text
    assert "0.0025 s: unstable above" in text
    assert "the limits of engine.torque" in text
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text)
    assert text.count("<section>") == 2
    assert "Infinity" not in text.rpartition("<section>")[2]


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        write_page(STUDY, tmp_path / "file")


def test_cells_of_a_map_touch() -> None:
    left, right = edges(np.array([1.0, 10.0, 100.0]), logarithmic=True)
    np.testing.assert_allclose(left[1:], right[:-1])
    np.testing.assert_allclose(left, [10**-0.5, 10**0.5, 10**1.5])
    left, right = edges(np.array([3.0, 2.0, 0.0]), logarithmic=False)
    np.testing.assert_allclose(left[1:], right[:-1])
    np.testing.assert_allclose([left[0], right[-1]], [3.5, -1.0])


def test_shades_spread_what_lies_near_one() -> None:
    found = shade(np.array([0.0, 0.7, 0.999, 1.0, 1.001, 1.3, 9.0]))
    np.testing.assert_allclose(found[[0, 1, 3, 5, 6]], [0.7, 0.7, 1.0, 1.3, 1.3])
    assert 1.01 < found[4] < 1.02
    assert found[2] == pytest.approx(2.0 - found[4])


def test_the_command(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app,
        [
            *("analyze", "stability", str(UNDAMPED), "--h-min", "1e-4", "--h-max", "1e-3"),
            *("--set", "subsystems.mass1.every=2", "--map", "connections.1.order=0:1:2"),
            *("--out", str(tmp_path), "--json"),
        ],
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["cycle_steps"] == 2
    assert found["map"]["y"] == {"key": "connections.1.order", "values": [0, 1]}
    assert (tmp_path / "stability.html").exists()


def test_the_command_in_words() -> None:
    arguments = ["analyze", "stability", str(UNDAMPED), "--h-min", "1e-4", "--h-max", "1e-3"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "two-mass: extrapolation of order 0" in result.stdout
    assert "above 1 everywhere" in " ".join(result.stdout.split())
