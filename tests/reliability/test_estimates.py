"""The estimated error of each signal, held to the truth: the coupled system in closed form."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.integrate import solve_ivp
from scipy.linalg import expm as scipy_expm

from hilrt.analyze.log_statistics import LogStatistics
from hilrt.analyze.report_tables import short_tables
from hilrt.coupling.closed_loop import FINER, sensitivities_of
from hilrt.coupling.jacobian import expm
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import find_linear_model
from hilrt.link import LinearModel, Probes
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.monitor.closing_table import closing_table
from hilrt.reliability.estimates import BondError, Estimate, disturbed_shares
from hilrt.reliability.flags import FlagTotal
from hilrt.reliability.verdict import SessionCourse, verdict
from hilrt.session.result import Result
from hilrt.session.simulate import simulate
from hilrt.solver import Floats, Port, Ports
from hilrt_adapters.inprocess import InProcessLink
from tests.stepping import make_network

TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"
CORRECTION = "bonds.spring.correction"
NONE = {f"{CORRECTION}.method": "none"}
NO_STEP = "no step below the 5.00 ms of this one helps"
RIGHT_D = {
    f"{CORRECTION}.method": "feedthrough",
    "subsystems.mass1.jacobian.source": "given",
    "subsystems.mass1.jacobian.D": [[-100.0, 0.0], [0.0, 0.0], [0.0, 0.0]],
}
EXACT = {f"subsystems.{name}.params.integrator": "exact" for name in ("mass1", "mass2")}


def order(p: int, step: float) -> dict[str, Any]:
    return {**NONE, "master.extrapolation.order": p, "master.step": step}


def true_states(result: Result) -> Floats:
    """Position and speed of both masses, shape (4, n)."""
    log = result.log
    A = np.array([[0, 1, 0, 0], [-110, 0, 100, 0], [0, 0, 0, 1], [100, 0, -1100, 0]], dtype=float)
    E, x = expm(A * (log.t[1] - log.t[0])), np.array([0.0, 100.0, 0.0, -100.0])
    states = [x]
    for _ in range(len(log.t) - 1):
        states.append(E @ states[-1])
    found: Floats = np.array(states).T
    return found


def true_errors(result: Result) -> dict[str, tuple[float, float]]:
    """RMS error of each coupling signal, and what it is relative to."""
    log, (x1, _, x2, v2) = result.log, true_states(result)
    truth = {"mass1.force": 100.0 * (x1 - x2), "mass2.v": v2, "mass2.x": x2}
    return {
        name: (float(np.sqrt(np.mean((log[name] - y) ** 2))), float(y.std()))
        for name, y in truth.items()
    }


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({**RIGHT_D, **EXACT}, "unreliable"),  # + 45 % of energy, and was good
        ({"master.step": 0.002}, "degraded"),  # mu = 0.5: + 41 %, 19 % of the speed, and was good
        (order(1, 0.005), "unreliable"),  # + 13 %, 33 % of the speed, and was good
        (order(2, 0.005), "degraded"),  # - 9 %, 5 % of the speed, and was good
        (RIGHT_D, "good"),
        ({}, "good"),
        (order(1, 0.001) | EXACT, "good"),
        (order(2, 0.001), "good"),
        (NONE, "unreliable"),
    ],
)
def test_verdict_and_estimate_follow_the_true_error(settings: dict[str, Any], word: str) -> None:
    result = simulate(TWO_MASS, settings)
    assert result.verdict == word, result.summary["reasons"]
    own = 0.013  # what symplectic Euler does by itself at a step of 1 ms; 5 ms are five of these
    for name, (error, spread) in true_errors(result).items():
        found = result.summary["estimated_error"][name]
        assert found["how"] == "sensitivities"
        assert found["value"] == pytest.approx(error, rel=0.1, abs=own * spread)


def test_bands_about_outputs_that_nothing_takes_hold_the_truth() -> None:
    """Position and speed of the first mass: what is tested on it, and no signal of the coupling."""
    result = simulate(TWO_MASS, {"master.step": 0.002, "session.duration": 2.0} | EXACT)
    log, truth = result.log, true_states(result)
    for name, y in (("mass1.x", truth[0]), ("mass1.v", truth[1])):
        error, band = np.abs(log[name] - y), log[f"{name}:estimated_error"]
        assert name not in result.summary["estimated_error"]
        assert error.max() > 0.01 * y.std()
        known = np.isfinite(band)
        assert known[2:].all()
        assert np.mean(error[known] <= band[known]) > 0.95
        assert band[known].max() < 20.0 * error.max()


def test_energy_of_the_interface_is_that_of_the_system_between_the_points_too() -> None:
    summary = simulate(TWO_MASS, RIGHT_D | EXACT, record=False).summary
    bond, last = summary["bonds"]["spring"], {n: p["last"] for n, p in summary["ports"].items()}
    a, b = last["mass1.x"], last["mass2.x"]
    energy = 0.5 * (last["mass1.v"] ** 2 + last["mass2.v"] ** 2)
    energy += 0.5 * (10.0 * a**2 + 1000.0 * b**2 + 100.0 * (a - b) ** 2)
    assert bond["interface_energy_j"] == pytest.approx(energy - 1e4, rel=0.02)
    assert abs(bond["drift_energy_j"]) < 10.0  # which looks at the points alone


@pytest.mark.parametrize(
    ("params", "fineness"),
    [({}, 0.0), ({"micro_step": 5e-4}, 0.5), ({"integrator": "exact"}, 1.0)],
)
def test_a_trial_tells_the_dynamics_and_how_finely_inputs_are_followed(
    params: dict[str, Any], fineness: float
) -> None:
    hosted = HostedSolver(Mass1(**params))
    hosted.initialize(0.0, np.zeros(2))
    model = find_linear_model(hosted, np.zeros(2), 1e-3)
    assert model is not None
    assert model.linear
    np.testing.assert_allclose(model.A, [[0.0, 1.0], [-110.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(model.B, [[0.0, 0.0], [100.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(model.C, [[100.0, 0.0], [1.0, 0.0], [0.0, 1.0]], atol=1e-6)
    np.testing.assert_allclose(model.D, [[-100.0, 0.0], [0.0, 0.0], [0.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(model.fineness, fineness, atol=1e-3)
    assert hosted.solver.save_state() == (0.0, 100.0)  # as it was


def _model(solver: Mass1 | Mass2, inputs: int) -> Any:
    hosted = HostedSolver(solver)
    hosted.initialize(0.0, np.zeros(inputs))
    return find_linear_model(hosted, np.zeros(inputs), 1e-3)


def _matrix(entries: list[tuple[int, int, int, float]], of_input: int, shape: Any) -> Floats:
    matrix = np.zeros(shape)
    for row, column, kind, factor in entries:
        if kind == of_input:
            matrix[row, column] = factor
    return matrix


def test_the_closed_loop_is_the_coupled_system_and_needs_all_of_a_loop() -> None:
    ports = {
        name: Ports(solver.inputs, solver.outputs)
        for name, solver in (("mass1", Mass1()), ("mass2", Mass2()))
    }
    network, _ = make_network(
        ports,
        connections=[
            {"from": "mass1.force", "to": "mass2.force"},
            {"from": "mass2.x", "to": "mass1.x2"},
            {"from": "mass2.v", "to": "mass1.v2"},
        ],
    )
    models = [_model(Mass1(), 2), _model(Mass2(), 1)]
    found = sensitivities_of(network, models, 0.01)
    A = np.array([[0, 1, 0, 0], [-110, 0, 100, 0], [0, 0, 0, 1], [100, 0, -1100, 0]], dtype=float)
    assert found.states == 4
    np.testing.assert_allclose(_matrix(found.paths, 0, (4, 4)), expm(A * 0.01), atol=1e-6)
    C = _matrix(found.answers, 0, (5, 4))  # force = 100 (x1 - x2)
    np.testing.assert_allclose(C[0], [100.0, 0.0, -100.0, 0.0], atol=1e-6)
    variable = sensitivities_of(network, models, 0.01, variable=True)
    powers = np.array(variable.powers).reshape(-1, len(variable.paths))
    for power, length in ((FINER, 0.01), (FINER + 2, 0.04)):
        paths = [(*path[:3], f) for path, f in zip(variable.paths, powers[power - 1], strict=True)]
        np.testing.assert_allclose(_matrix(paths, 0, (4, 4)), expm(A * length), atol=1e-6)
    unknown = sensitivities_of(network, [models[0], None], 0.01)
    assert (unknown.states, unknown.paths) == (0, [])
    assert unknown.direct == [(0, 0, pytest.approx(-100.0))]


@pytest.mark.parametrize("drag", [2.0, 0.0])
def test_what_no_input_reaches_or_no_output_shows_passes_no_error_on(drag: float) -> None:
    """A mass on a spring, driven by a sine in its state, which also counts the integral of x."""
    A = np.zeros((5, 5))
    A[0, 1], A[1, :3] = 1.0, (-100.0, -drag, 1.0)
    A[2, 3], A[3, 2], A[4, 0] = 7.0, -7.0, 1.0
    B, C = np.eye(5)[:, 1:2], np.eye(5)[:1]
    ports = {name: Ports((Port("u"),), (Port("y"),)) for name in ("mass", "unknown")}
    connections = [
        {"from": "mass.y", "to": "unknown.u"},
        {"from": "unknown.y", "to": "mass.u"},
    ]
    network, _ = make_network(ports, connections=connections)
    model = LinearModel(A, B, C, np.zeros((1, 1)), np.ones(1), True)
    memory = sensitivities_of(network, [model, None], 0.01).memory[0]
    period = 2.0 * np.pi / np.sqrt(100.0 - 0.25 * drag**2)
    first, next_ = ((C @ scipy_expm(A * t) @ B).item() for t in (0.1, 0.1 + period))
    assert next_ / first == pytest.approx(np.exp(-period / memory) if memory else 1.0)


def test_without_a_trial_a_gain_range_says_what_is_known() -> None:
    class Opaque(Mass2):
        def save_state(self) -> Any:
            return object()  # no numbers

    assert find_linear_model(HostedSolver(Opaque()), np.zeros(1), 1e-3) is None


def estimate(value: float, low: float, high: float, how: str = "sensitivities") -> Estimate:
    return Estimate("N*m", value, low, high, 10.0, how)


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (estimate(0.2, 0.1, 0.4), "good"),
        (estimate(0.5, 0.3, 0.6), "degraded"),  # it may be more than 5 %
        (estimate(3.0, 1.0, 6.0), "unreliable"),
        (estimate(np.nan, np.nan, np.nan, "unknown: no step ended"), "unverified"),
    ],
)
def test_a_verdict_follows_the_estimate_and_is_never_good_without_one(
    error: Estimate, word: str
) -> None:
    found = verdict({}, SessionCourse(10.0, errors={"engine.torque": error}))
    assert found.word == word
    assert all("engine.torque" in reason for reason in found.reasons)


def test_an_error_of_a_signal_that_never_moved_is_told_without_a_share() -> None:
    still = estimate(3.0, 1.0, 6.0)._replace(spread=0.0)
    assert verdict({}, SessionCourse(10.0, errors={"a.y": still})).word == "unreliable"
    assert (still.as_json()["high"], still.as_json()["relative"]) == (6.0, None)
    told = io.StringIO()
    summary = {"estimated_error": {"a.y": still.as_json()}}
    Console(file=told, width=120).print(closing_table(summary))
    assert "± 6 N*m" in told.getvalue()
    told = "".join(short_tables(summary, LogStatistics(), {}))
    assert "± 6 N*m" in told
    assert "Of the coupling alone: the models&#x27; own integration is not included." in told


def test_a_disturbance_that_is_unknown_is_no_small_one() -> None:
    numbers = {"disturbance_square": 4.0, "disturbance_seconds": 1.0, "moment": 0.0}
    numbers |= {"square_moment": 4.0, "moment_seconds": 1.0, "origin": 0.0, "peak": 2.0}
    inputs = np.zeros(2, dtype=[(name, "f8") for name in numbers])
    for name, number in numbers.items():
        inputs[name] = number
    inputs["disturbance_square"][1] = np.nan
    np.testing.assert_array_equal(disturbed_shares(inputs), [1.0, np.nan])


def test_energy_made_at_a_bond_counts_like_an_error_of_its_signals() -> None:
    words = ((0.5, "good"), (-1.5, "degraded"), (6.0, "unreliable"), (np.nan, "unverified"))
    for made, word in words:
        found = verdict({}, SessionCourse(10.0, bonds={"shaft": BondError(made, 10.0)}))
        assert found.word == word


def relative(result: Result) -> float:
    """Worst estimate relative to what its signal varies by."""
    errors = result.summary["estimated_error"].values()
    return max(error["value"] / error["high"] * error["relative"] for error in errors)


@pytest.mark.parametrize("settings", [NONE, order(1, 0.005), {"master.step": 0.002}])
def test_the_advice_is_checked_by_following_it(settings: dict[str, Any]) -> None:
    before = simulate(TWO_MASS, settings, record=False)
    changes = before.summary["advice"]
    assert 0 < len(changes) <= 2
    for change in changes:
        after = simulate(TWO_MASS, settings | change["settings"], record=False)
        assert relative(after) < 0.2 * relative(before)
        assert relative(after) == pytest.approx(change["expected"], rel=0.5)


def test_a_good_session_needs_no_advice_and_a_wrong_correction_is_named_first() -> None:
    assert simulate(TWO_MASS, {"session.duration": 1.0}, record=False).summary["advice"] == []
    wrong = {**RIGHT_D, "subsystems.mass1.jacobian.D": [[50.0, 0.0], [0.0, 0.0], [0.0, 0.0]]}
    summary = simulate(TWO_MASS, {**wrong, "session.duration": 1.0}, record=False).summary
    probed = {"subsystems.mass1.jacobian.source": "probe"}
    assert summary["advice"][0]["settings"] == probed
    after = simulate(TWO_MASS, {**wrong, **probed, "session.duration": 1.0}, record=False)
    assert (summary["verdict"], after.verdict) == ("degraded", "good")


def test_energy_that_a_bond_alone_makes_has_its_advice_too() -> None:
    weak = {**NONE, "subsystems.mass1.params.kc": 5.0}
    before = simulate(TWO_MASS, weak, record=False)
    assert before.verdict == "degraded"
    assert "of the energy that bond spring carried" in before.summary["reasons"][0]
    changes = before.summary["advice"]
    assert [list(change["settings"]) for change in changes] == [
        ["master.extrapolation.order"],
        ["master.step"],
    ]
    for change in changes:
        assert simulate(TWO_MASS, weak | change["settings"], record=False).verdict == "good"


@pytest.mark.parametrize(("every", "least"), [(0.0, 0.5e-3), (2e-3, 2.5e-3), (5e-3, None)])
def test_no_step_is_advised_below_what_a_bench_sends(
    every: float, least: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InProcessLink, "sending_interval", every)
    summary = simulate(TWO_MASS, {**NONE, "master.step": 5e-3}, record=False).summary
    steps = [change["settings"].get("master.step") for change in summary["advice"]]
    assert [step for step in steps if step] == ([] if least is None else [least])
    texts = [change["text"] for change in summary["advice"] if not change["settings"]]
    assert texts == ([] if least else [f"a bench that sends more often: {NO_STEP}"])
    assert set(summary["sending_interval_s"].values()) == ({every} if every else set())


@pytest.mark.parametrize(("limit", "steps"), [({"max_rate": 1e3}, False), ({"max": 50.0}, True)])
def test_no_step_is_advised_where_a_limit_of_rate_holds_an_input_back(
    limit: dict[str, float], steps: bool
) -> None:
    limited = {f"subsystems.mass2.inputs.force.{key}": value for key, value in limit.items()}
    summary = simulate(TWO_MASS, {**NONE, **limited}, record=False).summary
    assert "input_limited" in summary["flags"]
    change = summary["advice"][0]
    assert bool(change["settings"]) == steps
    assert ("mass2.force: max_rate" in change["text"]) == (not steps)


@pytest.mark.parametrize(
    ("how", "word"),
    [
        ("sensitivities", "good"),  # the estimate has what the flag has measured
        ("sensitivities of the start", "degraded"),
        ("gain range", "degraded"),
    ],
)
def test_what_is_measured_explains_an_error_that_is_known_from_it(how: str, word: str) -> None:
    course = SessionCourse(10.0, errors={"a.y": estimate(0.01, 0.01, 0.02, how)})
    totals = {"connection_defect": FlagTotal(1, 9.0, 9.0, 1.0)}
    assert verdict(totals, course).word == word
    assert verdict(totals, SessionCourse(10.0)).word == "unreliable"
    larger = SessionCourse(10.0, errors={"a.y": estimate(0.5, 0.5, 1.0, "gain range")})
    assert verdict(totals, larger).word == "unreliable"
    inside = {"output_defect": FlagTotal(1, 9.0, 9.0, 1.0)}  # the points do not show it
    assert verdict(inside, course).word == "degraded"
    fault = {"subsystem_silent": FlagTotal(1, 0.3, 0.3, 0.3)}
    assert verdict(fault, course).word == "degraded"


def test_what_grows_for_ever_about_the_start_says_nothing_of_a_session_that_stays_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The growth is 40/s, over 25 s: e^1000 is no number; the session is within 1 %."""
    monkeypatch.setattr(InProcessLink, "renewed_model", Probes.renewed_model)
    result = simulate(Path(__file__).with_name("hill.toml"))
    right = solve_ivp(
        lambda t, s: [40.0 * (s[0] - s[0] ** 3) + 0.1 * s[1], s[0] - s[1]],
        (0.0, 25.0), [1e-3, 0.0], "DOP853", np.minimum(result.log.t, 25.0), rtol=1e-10, atol=1e-12,
    ).y  # fmt: skip
    for y, (name, found) in zip(right, result.summary["estimated_error"].items(), strict=True):
        true = np.sqrt(np.mean((result.log[name] - y) ** 2)) / y.std()
        assert found["how"] == "gain range, as the sensitivities of the start do not hold"
        assert found["low"] <= true * y.std() <= found["high"]
        error = result.log[f"{name}:estimated_error"]
        assert np.isfinite(error).all()
    assert result.verdict == "unverified"
    assert "sensitivities of the start" in result.summary["reasons"][0]
