"""Axes as they are written, and the cases of designs."""

import numpy as np
import pytest
from scipy.stats import qmc

from hilrt.errors import ConfigError
from hilrt.studies.axes import axes_of, axes_of_items, cases_of, parse_axis, read_cases


def test_ranges_lists_and_words_are_read():
    assert parse_axis("a.b", "0:1:5").values == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert parse_axis("a.b", "0:4:3").values == (0, 2, 4)
    assert all(type(v) is int for v in parse_axis("a.b", "0:4:3").values)
    assert parse_axis("a.b", "1:100:log3").values == (1.0, 10.0, 100.0)
    assert parse_axis("a.b", "1:3:int").values == (1, 2, 3)
    assert parse_axis("a.b", "energy,none").values == ("energy", "none")
    assert parse_axis("a.b", '"a:b",[1, 2],3').values == ("a:b", [1, 2], 3)
    assert parse_axis("a.b", np.array([1.5, 2.5])).values == (1.5, 2.5)


def test_a_logarithmic_range_of_steps_is_in_whole_nanoseconds():
    """Of 10 values between 0.5 and 5 ms, 8 are no whole nanoseconds."""
    values = parse_axis("master.step", "0.5e-3:5e-3:log10").values
    assert values[0] == 0.5e-3
    assert values[-1] == 5e-3
    assert all(step == round(step * 1e9) / 1e9 for step in values)
    np.testing.assert_allclose(values, np.geomspace(0.5e-3, 5e-3, 10), rtol=1e-5)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("1:0:3", "LOW must be below HIGH"),
        ("0:1:log3", "starts above 0"),
        ("0:1:x", "is not a number of values"),
        ("0:1:1", "is not a number of values"),
        ("a:b:3", "not numbers"),
        ("0:inf:3", "both finite"),
        ("0:1.5:int", "whole numbers"),
        ("1,,2", "empty value"),
        ("", "empty value"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_place(given, part):
    with pytest.raises(ConfigError, match=part) as refused:
        parse_axis("bonds.spring.correction.mu", given)
    assert "bonds.spring.correction.mu" in str(refused.value)


def test_a_grid_has_every_combination():
    cases = cases_of(axes_of({"a.x": "0:1:3", "a.y": ["p", "q"]}), "grid", None, 0)
    assert [tuple(case.values()) for case in cases] == [
        (0.0, "p"), (0.0, "q"), (0.5, "p"), (0.5, "q"), (1.0, "p"), (1.0, "q"),
    ]  # fmt: skip


@pytest.mark.parametrize("design", ["random", "latin", "sobol"])
def test_designs_fill_their_ranges_and_repeat_with_their_seed(design):
    axes = axes_of({"a.x": "-2:2", "a.y": "1e-3:1e1:log", "a.n": "0:3:int", "a.w": ["p", "q"]})
    cases = cases_of(axes, design, 256, 7)
    assert cases == cases_of(axes, design, 256, 7)
    assert cases != cases_of(axes, design, 256, 8)
    x = np.array([case["a.x"] for case in cases])
    logs = np.log10([case["a.y"] for case in cases])
    assert (x >= -2.0).all()
    assert (x < 2.0).all()
    assert abs(np.mean(x)) < 0.2
    assert abs(np.mean(logs) + 1.0) < 0.2
    assert {case["a.n"] for case in cases} == {0, 1, 2, 3}
    assert {case["a.w"] for case in cases} == {"p", "q"}


def test_a_latin_hypercube_has_one_point_in_each_stratum_and_sobol_is_more_even_than_random():
    axes = axes_of({"a.x": "0:1", "a.y": "0:1"})
    points = {
        design: np.array([list(case.values()) for case in cases_of(axes, design, 64, 3)])
        for design in ("random", "latin", "sobol")
    }
    for column in points["latin"].T:
        assert sorted((column * 64).astype(int)) == list(range(64))
    assert qmc.discrepancy(points["sobol"]) < 0.2 * qmc.discrepancy(points["random"])


def test_designs_that_do_not_go_with_their_axes_are_refused():
    with pytest.raises(ConfigError, match="a grid needs a number of values"):
        cases_of(axes_of({"a.x": "0:1"}), "grid", None, 0)
    with pytest.raises(ConfigError, match="nothing varies"):
        cases_of([], "grid", None, 0)
    with pytest.raises(ConfigError, match="give 1 to"):
        cases_of(axes_of({"a.x": "0:1"}), "latin", 0, 0)
    with pytest.raises(ConfigError, match="more than"):
        cases_of(axes_of({f"a.{i}": "0:1:101" for i in range(4)}), "grid", None, 0)
    with pytest.raises(ConfigError, match="already varies"):
        axes_of_items(["a.x=1,2", "a.x=3"])
    with pytest.raises(ConfigError, match="write it as"):
        axes_of_items(["a.x"])


def test_cases_of_a_csv(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text('master.step,a.method\n1e-3,energy\n0.002,"[1, 2]"\n')
    assert read_cases(path) == [
        {"master.step": 1e-3, "a.method": "energy"},
        {"master.step": 0.002, "a.method": [1, 2]},
    ]
    for text, part in (
        ("a.x\n", "no cases"),
        ("a.x,a.x\n1,2\n", "a different key"),
        ("a.x\n1,2\n", "row 2"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError, match=part):
            read_cases(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_cases(tmp_path / "none.csv")
