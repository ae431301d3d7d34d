"""Random sessions beside their truth: the truth is one, samples arrive by their script."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from hilrt.reliability import calibrated
from hilrt.reliability.estimates import OF_MODEL
from hilrt.solver import InputPolynomial
from tests.collected import received
from tools.calibration import (
    advised,
    compare,
    fit,
    judge,
    law,
    mistaken,
    report,
    runs,
    sessions,
)
from tools.calibration.groups import GROUPS
from tools.calibration.parts import PartSolver, RestorableSolver
from tools.calibration.scripted_links import (
    BenchLink,
    Measurement,
    Script,
    StallingClock,
    SteppedLink,
)
from tools.calibration.systems import coupled_matrices
from tools.calibration.truth import Truth

NAMES = list(GROUPS)


def clean(number: int, steps: int, refined: int) -> law.Draw:
    """A drawn session without any effect, of `steps` steps that are shorter by a factor."""
    draw = law.draw(number)
    h = round(0.1 / draw.system.omega / refined * 1e9) * 1e-9
    draw.integrator, draw.scripts, draw.bench, draw.stalls = "exact", {}, "", (0.0, 0.0)
    for measurement in draw.measurements.values():
        measurement.noise[:] = measurement.step[:] = 0.0
    draw.duration = min(draw.duration, steps * h * refined)
    draw.tables["master"] = {"step": h, "extrapolation": {"order": 1}}
    for table in draw.tables["subsystems"].values():
        table.pop("every", None)
        table.pop("jacobian", None)
    for bond in draw.tables["bonds"]:
        bond["correction"] = {"method": "none"}
    return draw


@pytest.mark.parametrize("group", range(len(NAMES)), ids=NAMES)
def test_a_clean_session_approaches_its_truth(group: int) -> None:
    errors = []
    for refined in (1, 4):
        draw = clean(group, 25, refined)
        errors.append(compare.compare(draw, sessions.make_session(draw))["error"])
    assert errors[1] < 0.4 * errors[0] < 0.05


def test_the_truth_of_a_linear_system_is_that_of_an_integrator() -> None:
    system = GROUPS["random linear"](np.random.default_rng(4))
    truth = Truth(system, 3.0 / system.omega, law.free_limits(system))
    M, N = coupled_matrices(system)
    times = np.round(np.linspace(0.0, truth.duration, 7), 9)
    right = solve_ivp(
        lambda t, x: M @ x, (0.0, times[-1]), truth.x0, "DOP853", times, rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(truth.outputs(times), (N @ right.y).T, rtol=1e-8, atol=1e-8)


def test_one_number_is_one_session() -> None:
    first, again = (law.draw(17) for _ in range(2))
    assert json.dumps(first.settings, default=runs.plain) == json.dumps(
        again.settings, default=runs.plain
    )
    assert first.group == NAMES[17 % len(NAMES)]


def part_solver() -> PartSolver:
    return PartSolver(GROUPS["random linear"](np.random.default_rng(1)).parts[0])


def test_an_answer_arrives_after_its_delay() -> None:
    clock, solver = StallingClock(0.0, 0, np.random.default_rng(0)), part_solver()
    link = SteppedLink("one", solver, exactly(solver), np.random.default_rng(0))
    link.clock, link.script = clock, Script(latency=0.5)
    asyncio.run(link.initialize(0.0, np.zeros(1)))
    link.dispatch(0, 0.0, 1.0, np.zeros((1, 1)))
    clock.advance(499_999_999)
    assert not received(link)
    clock.advance(1)
    (arrival,) = received(link)
    assert solver.seen[-1] == (1.0, arrival.sample.y.tolist())
    assert not received(link)


def test_a_bench_runs_in_its_own_cycle_and_holds_set_points() -> None:
    clock, solver = StallingClock(0.0, 0, np.random.default_rng(0)), part_solver()
    link = BenchLink("one", solver, exactly(solver), np.random.default_rng(0))
    link.clock = clock
    link.script = Script(latency=0.3, cycle=0.25, command_latency=0.25)
    asyncio.run(link.initialize(0.0, np.zeros(1)))
    link.dispatch(0, 0.0, 1.0, np.array([[2.0], [5.0]]))
    clock.advance(1_000_000_000)
    arrived = received(link)
    assert [a.t_arrived for a in arrived] == pytest.approx([0.55, 0.8])
    assert [t for t, _ in solver.seen] == [0.0, 0.25, 0.5, 0.75, 1.0]
    other = part_solver()
    other.initialize(0.0, np.zeros(1))
    for k, u in enumerate((0.0, 2.0)):
        sample = other.advance(0.25 * k, 0.25, InputPolynomial(0.25 * k, np.array([[u]])))
    np.testing.assert_array_equal(arrived[1].sample.y, sample.y)
    assert arrived[1].sample.t_valid is not None
    assert arrived[1].sample.t_valid[0] == 0.5


def exactly(solver: PartSolver) -> Measurement:
    ny = solver.part.sizes[1]
    return Measurement(np.zeros(ny), np.zeros(ny))


def test_what_is_tried_out_leaves_no_trace() -> None:
    part = part_solver().part
    solver = RestorableSolver(part, bonds=[([0], [0])])
    solver.initialize(0.0, np.zeros(1))
    state, u = solver.save_state(), InputPolynomial(0.0, np.ones((1, 1)))
    solver.advance(0.0, 0.1, u)
    solver.restore_state(state)
    assert (solver.x, solver.energy, len(solver.seen)) == (list(part.x0), [0.0], 1)


def line(number: int, error: float, estimated: float, verdict: str = "good") -> dict[str, object]:
    """A session as it is recorded, of one signal that varies by 1."""
    signal = {"error": error, "relative": error, "scale": 1.0, "resolution": 0.0}
    settings = {"h_omega": 0.1, "order": 1, "pace": "asap", "method": "none", "control": "fixed"}
    settings |= {"integrator": "exact", "every": 1, "limited": False}
    estimate = {"unit": "", "value": estimated, "low": 0.0, "high": estimated, "how": "gain range"}
    port = {"spread": {"std": 1.0, "rms": 1.0}}
    said = {"verdict": verdict, "reasons": [], "flags": {}, "bonds": {}, "fault": None}
    said |= {"steps": 100, "time_s": 1.0, "missed_ticks": 0, "ports": {"one.y": port}}
    return {
        "number": number,
        "group": NAMES[number % len(NAMES)],
        "settings": settings,
        "truth": {
            "error": error,
            "class": compare.error_class(error),
            "signals": {"one.y": signal},
            "ended": None,
        },
        "said": said | {"estimated_error": {"one.y": estimate}},
    }


def test_a_recorded_session_is_judged_by_other_constants() -> None:
    of = ({"gain range": value} for value in (0.5, 3.0, 0.01, 0.015))
    constants = judge.Constants(*of)
    before = dict(calibrated.GOOD)
    found = judge.judged(line(0, 0.03, 0.02), constants)["said"]
    assert found["verdict"] == "unreliable"
    estimate = found["estimated_error"]["one.y"]
    assert (estimate["low"], estimate["high"]) == pytest.approx((0.01, 0.06))
    assert before == calibrated.GOOD


def test_the_shortest_interval_leaves_out_the_longer_tail() -> None:
    values = [*np.linspace(0.9, 1.1, 95), 0.1, 0.2, 5.0, 9.0, 20.0]
    of = [fit.Ratio("pendula", "gain range", float(v)) for v in values]
    assert fit.shortest_interval(of) == pytest.approx((0.9, 1.1))


def test_constants_cover_and_tell_the_good() -> None:
    errors = np.linspace(0.001, 0.1, 120)
    lines = [line(n, error, 0.5 * error) for n, error in enumerate(errors.tolist())]
    found = fit.constants(lines)
    assert found.low["gain range"] == pytest.approx(2.0)
    assert found.high["gain range"] == pytest.approx(2.0)
    assert 0.02 < found.good["gain range"] < 0.027  # 3 % of those up to it may be worse
    assert found.high["sensitivities"] == calibrated.HIGH["sensitivities"]


def test_unreliable_are_estimates_that_hardly_any_within_5_percent_has() -> None:
    small = [fit.Worst("pendula", "gain range", 0.001 * k, 0.01) for k in range(100)]
    large = [fit.Worst("pendula", "gain range", 0.002 * k, 0.5) for k in range(100)]
    assert fit.unreliable_above(small + large) == pytest.approx(0.098)
    exactly = [w._replace(estimate=w.true) for w in small + large]
    assert fit.unreliable_above(exactly) == fit.MOST_UNRELIABLE


def test_the_report_counts_verdicts_by_true_error(tmp_path: Path) -> None:
    lines = [line(0, 0.005, 0.001), line(1, 0.1, 0.002), line(2, 0.3, 0.4)]
    path = tmp_path / "lines.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + '\n{"number": 3, "cut off')
    text = report.report(path)
    assert "| < 1 % | 1 (100.0 %) | 0 (0.0 %) | 0 (0.0 %) | 0 (0.0 %) | 1 |" in text
    assert "| `good`: true error < 5 % | ≥ 95.0 % | 50.0 % | **no** |" in text
    assert "| > 20 %: called `unreliable` | ≥ 90.0 % | 100.0 % | yes |" in text
    assert "| all | 3 |" in text


def test_the_page_gets_its_results_and_keeps_the_rest(tmp_path: Path) -> None:
    path, page = tmp_path / "lines.jsonl", tmp_path / "page.md"
    path.write_text("\n".join(json.dumps(line(n, 0.005, 0.005)) for n in range(3)))
    page.write_text("# Page\n\n## Results\n\nOld.\n\n### Advice\n\nKept.\n\n## Why\n\nText.\n")
    report.write_page(page, path, None)
    text = page.read_text()
    assert text.startswith("# Page\n\n## Results\n\nMade on ")
    assert text.endswith("### Advice\n\nKept.\n\n## Why\n\nText.\n")
    assert "Old." not in text


def test_advice_is_applied_to_the_session_file_s_tables() -> None:
    drawn = law.draw(0)
    advised.apply(drawn, {"master.extrapolation.order": 3, "bonds.bond.correction.method": "none"})
    assert drawn.tables["master"]["extrapolation"]["order"] == 3
    assert drawn.tables["bonds"][0]["correction"]["method"] == "none"


def test_reference_models_are_the_systems_with_numbers_that_are_wrong():
    for number in (11, 12, 15):  # drawn as matrices, linear, nonlinear
        draw = law.draw(number, 5)
        assert mistaken.add_references(draw, 5)
        for part in draw.system.parts:
            table = draw.tables["subsystems"][part.name]
            assert ("reference_model" in table) == (not draw.restorable[part.name])
            if "reference_model" not in table:
                continue
            wrong = mistaken.Mistaken(**table["reference_params"]).part
            assert (wrong.inputs, wrong.outputs) == (part.inputs, part.outputs)
            u = [0.1] * part.sizes[0]
            right, other = (np.array(p.rate(0.0, p.x0, u)) for p in (part, wrong))
            n = 2  # of each part's own; sines stand behind
            assert not np.allclose(other[:n], right[:n])
            assert np.all(np.sign(wrong.feedthrough) == np.sign(part.feedthrough))


def test_ways_of_estimating_are_fitted_apart():
    def line(how: str) -> dict[str, object]:
        return {"said": {"estimated_error": {"a.y": {"how": how}}}}

    assert fit.fitted_ways([line("gain range"), line(OF_MODEL)]) == [OF_MODEL]
    assert OF_MODEL not in fit.fitted_ways([line("gain range")])
