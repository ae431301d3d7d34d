"""The page of a sweep, its front, and its sensitivities against exact indices."""

import itertools

import numpy as np
import pytest

from hilrt.errors import ConfigError
from hilrt.studies.axes import axes_of, cases_of
from hilrt.studies.run_cases import StudyCase, SweptSession, lost_row
from hilrt.studies.sweep import SweepResult
from hilrt.studies.sweep_data import PARTS, AboutSweep, load_sweep, write_about, write_part
from hilrt.studies.sweep_page import (
    find_sensitivities_of,
    pareto_front,
    ranked_cases,
    write_sweep_page,
)
from tools.site import foreign_requests

RANGES = {f"model.{name}": f"{-np.pi!r}:{np.pi!r}" for name in "abc"}
SWEPT = SweptSession("/sessions/two mass.toml", "", ("session.duration=1.0",))


def ishigami(case):
    """Ishigami and Homma (1990), with a = 7 and b = 0.1."""
    a, b, c = case.values()
    return np.sin(a) + 7.0 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a)


def folder_of(folder, cases, design, error, cost=lambda case: 1.0, verdict="good", lacking=None):
    """A sweep's folder with what `error` and `cost` say of each case."""
    (folder / PARTS).mkdir(parents=True)
    named = [StudyCase(",".join(map(repr, case.values())), case) for case in cases]
    rows = [
        lost_row(SWEPT, case, "")
        | {"verdict": verdict, "error": error(case.settings), "cost": cost(case.settings)}
        | ({} if lacking is None else {"evidence_lacking": lacking(case.settings)})
        for case in {case.name: case for case in named}.values()
    ]
    write_part(folder, rows)
    names = [case.name for case in named]
    about = ("hilrt-sweep-1", SWEPT.path, "0", "0", [], list(cases[0]), design, 0, names)
    write_about(folder, AboutSweep(*about))
    return folder


def indices(folder, output="error"):
    found = find_sensitivities_of(load_sweep(folder))
    return {s.key: s for s in found.sensitivities if s.output == output}, found.notes


def test_total_effects_of_the_ishigami_function(tmp_path):
    """Exact: 0.5576, 0.4424, 0.2437 (Saltelli, Global Sensitivity Analysis, 2008, section 4.7)."""
    cases = cases_of(axes_of(RANGES), "saltelli", 1024, 0)
    assert len(cases) == 1024 * 5
    found, notes = indices(folder_of(tmp_path, cases, "saltelli", lambda c: 10 ** ishigami(c)))
    assert notes == []
    for key, exact in zip(RANGES, (0.5576, 0.4424, 0.2437), strict=True):
        assert found[key].value == pytest.approx(exact, abs=0.04)
        assert found[key].low < exact < found[key].high


def test_morris_effects_of_a_linear_function(tmp_path):
    """Of log10 y = 3 a + b on unit ranges: the coefficients, exactly; nothing of c."""
    axes = axes_of(dict.fromkeys(RANGES, "0:1"))
    cases = cases_of(axes, "morris", 8, 0)
    assert len(cases) == 8 * 4

    def error(case):
        a, b, _ = case.values()
        return 10 ** (3.0 * a + b)

    found, _ = indices(folder_of(tmp_path, cases, "morris", error))
    values = [found[key].value for key in RANGES]
    assert values == pytest.approx([3.0, 1.0, 0.0], abs=1e-4)


def test_pawn_tells_what_matters_from_what_does_nothing(tmp_path):
    cases = cases_of(axes_of(dict.fromkeys(RANGES, "0:1:7")), "grid", None, 0)

    def error(case):
        a, b, _ = case.values()
        return 10 ** (3.0 * a + b)

    folder = folder_of(tmp_path, cases, "grid", error, cost=lambda case: np.nan)
    found, notes = indices(folder)
    a, b, c = (found[key] for key in RANGES)
    assert a.value > 2.0 * b.value > 2.0 * b.high
    assert c.value < 1.5 * c.high
    assert notes == ["sensitivity of cost: 0 cases are not enough; at least 40 are needed"]


def test_indices_of_a_design_need_all_cases(tmp_path):
    cases = cases_of(axes_of(RANGES), "saltelli", 16, 0)
    lost = cases[3]
    folder = folder_of(
        tmp_path, cases, "saltelli", lambda c: np.nan if c == lost else 10 ** ishigami(c)
    )
    found, notes = indices(folder)
    assert {s.method for s in found.values()} == {"PAWN"}
    assert "1 cases have none" in notes[0]
    with pytest.raises(ConfigError, match="power of two"):
        cases_of(axes_of(RANGES), "saltelli", 15, 0)


def test_the_front_is_what_no_other_beats():
    generator = np.random.default_rng(1)
    cost, error = generator.random(60), generator.random(60)
    cost[7], error[9] = np.nan, np.nan
    known = [i for i in range(60) if np.isfinite(cost[i] + error[i])]
    beaten = {
        i
        for i, j in itertools.permutations(known, 2)
        if cost[j] <= cost[i] and error[j] <= error[i]
    }
    front = pareto_front(cost, error)
    assert set(front) == set(known) - beaten
    assert list(cost[front]) == sorted(cost[front])


def test_the_page_has_commands_and_loads_nothing(tmp_path):
    cases = cases_of(
        axes_of({"a.<b>": "0:1:5", "a.w": ["p", "q"], "a.y": "0:1:3"}), "grid", None, 0
    )
    folder = folder_of(tmp_path, cases, "grid", lambda c: 0.1 + c["a.<b>"] * c["a.y"])
    page = write_sweep_page(folder).read_text("utf-8")
    assert foreign_requests(folder) == []
    assert "30 cases: 30 good" in page
    assert "hilrt run &#x27;/sessions/two mass.toml&#x27; --set session.duration=1.0" in page
    for heading in ("Cost and error", "Error over a.&lt;b&gt; and a.y", "Best settings"):
        assert heading in page
    best = ranked_cases(load_sweep(folder)).iloc[0]
    assert best["error"] == 0.1


def test_cases_that_lack_evidence_are_told_apart(tmp_path):
    """From those degraded by a measurement, on the page and in a notebook."""
    cases = cases_of(axes_of({"a.x": "0:1:5"}), "grid", None, 0)
    folder = folder_of(
        *(tmp_path, cases, "grid", lambda c: 0.1 + c["a.x"]),
        verdict="degraded",
        lacking=lambda c: c["a.x"] > 0.6,
    )
    page = write_sweep_page(folder).read_text("utf-8")
    assert "5 cases: 3 degraded, 2 degraded for lack of evidence" in page
    assert "inverted_triangle" in page
    html = SweepResult(folder, 5, 5, 0)._repr_html_()
    assert "3 degraded, 2 degraded for lack of evidence" in html
    assert html.count("<td>degraded for lack of evidence</td>") == 2
    assert set(load_sweep(folder)["verdict"]) == {"degraded"}


def test_a_sweep_without_any_result_has_a_page(tmp_path):
    cases = cases_of(axes_of({"a.x": "0:1:5"}), "grid", None, 0)
    folder = folder_of(tmp_path, cases, "grid", lambda c: np.nan, verdict="")
    assert "5 cases: 5 without a result" in write_sweep_page(folder).read_text("utf-8")


def test_a_sweep_shows_its_best_cases_in_a_notebook(tmp_path):
    cases = cases_of(axes_of({"a.<b>": "0:1:5"}), "grid", None, 0)
    folder = folder_of(tmp_path / "<i>", cases, "grid", lambda c: 0.1 + abs(c["a.<b>"] - 0.75))
    html = SweepResult(folder, 5, 2, 0)._repr_html_()
    assert "5 cases, 2 run now, 0 without a result, 5 good" in html
    assert "&lt;i&gt;" in html
    assert "<b>a" not in html.replace("a.&lt;b&gt;", "")
    first = html[html.index("<tbody>") :].split("<tr>")[1]
    assert "<td>0.75</td>" in first
    assert "<td>0.1</td>" in first
    assert html.count("<polyline") == 1
    lost = folder_of(tmp_path / "lost", cases, "grid", lambda c: np.nan, verdict="")
    assert "5 without a result" in SweepResult(lost, 5, 5, 5)._repr_html_()
