"""The comparison of a folder's FMUs with FMPy: same, different, refused, failing."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.fmu.build import mass, needs_compiler
from tools.qualification.fmus_against_fmpy import Row, at_points, compare, difference, distinct

STEP = 2.0**-9


@needs_compiler
@pytest.mark.parametrize("major", [2, 3])
def test_an_fmu_agrees_with_fmpy(major: int) -> None:
    row = compare(mass(major), "mass.fmu", 20, STEP, 60.0)
    assert row == Row("mass.fmu", f"{major}.0", "3, 3", row.result, True)
    assert float(row.result) <= 1e-12


@needs_compiler
def test_what_fails_in_both_or_is_refused_is_said(tmp_path: Path) -> None:
    broken = compare(mass(2, flags=("-DCRASH",)), "broken.fmu", 20, STEP, 60.0)
    assert broken.agrees
    assert broken.result.startswith("fails in both: crashes (signal ")
    old = tmp_path / "old.fmu"
    old.write_bytes(b"no archive")
    row = compare(old, "old.fmu", 20, STEP, 60.0)
    assert (row.version, row.agrees) == ("", True)
    assert row.result.startswith("not run: ")


@needs_compiler
def test_the_same_contents_count_once(tmp_path: Path) -> None:
    for name in ("b/one.fmu", "a/two.FMU"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(mass(2), tmp_path / name)
    shutil.copy(mass(3), tmp_path / "three.fmu")
    found = [path.relative_to(tmp_path).as_posix() for path in distinct(tmp_path)]
    assert found == ["a/two.FMU", "three.fmu"]


def test_differences_are_relative_and_a_missing_value_is_one() -> None:
    there = np.array([[0.0, 4.0], [2.0, -8.0]])
    assert difference(there, there) == 0.0
    assert difference(there * [1.0, 1.05], there) == pytest.approx(0.05)
    assert difference(np.full((2, 2), np.nan), there) == np.inf
    rows = at_points(np.array([0.0, 0.1, 0.1, 0.15]), np.array([[1.0], [2], [3], [4]]), 2, 0.1)
    np.testing.assert_array_equal(rows, [[1.0], [3.0], [np.nan]])
