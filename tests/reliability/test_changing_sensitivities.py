"""Systems whose answers change: the estimate follows them, and the verdict is that of the truth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from hilrt.exchange.sensitivities import relative_change
from hilrt.link import Probes
from hilrt.record.messages import ASIDES, SENSITIVITIES
from hilrt.record.reader import LogStream
from hilrt.replay.replay_log import replay
from hilrt.session.result import Result
from hilrt.session.simulate import simulate
from hilrt.solver import Floats, InputPolynomial
from hilrt_adapters.inprocess import InProcessLink
from tests.reliability.changing_systems import (
    CLOSED_S,
    ENGAGED_S,
    Predator,
    Prey,
    covers,
    drag,
    drive_torque,
)
from tests.replay.recording_tools import record_file

MODELS = "tests.reliability.changing_systems"


def session(folder: Path, models: Mapping[str, str], links: Mapping[str, str]) -> Path:
    """A session file of in-process solvers, extrapolated by order 0."""
    lines = [
        "[session]",
        'name = "changing"',
        'pace = "asap"',
        "duration = 10.0",
        "[master]",
        "step = 0.005",
    ]
    lines += ["extrapolation.order = 0"]
    for name, model in models.items():
        kind, _, params = model.partition(" ")
        lines += [f"[subsystems.{name}]", 'adapter = "inprocess"', f'model = "{MODELS}:{kind}"']
        lines += [f"params = {params}"] if params else []
    for source, to in links.items():
        lines += ["[[connections]]", f'from = "{source}"', f'to = "{to}"']
    path = folder / "changing.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def animals(folder: Path) -> Path:
    models = {"prey": "Prey", "predator": "Predator"}
    return session(folder, models, {"prey.x": "predator.x", "predator.y": "prey.y"})


def clutch(folder: Path, by: str) -> Path:
    models = {
        "one": f'Engaged {{ x = 1.0, own = 10.0, by = "{by}" }}',
        "two": f'Engaged {{ x = 0.0, own = 15.0, by = "{by}" }}',
        "lever": "Lever",
    }
    links = {"one.x": "two.other", "two.x": "one.other"}
    path = session(folder, models, links)
    commands = "".join(
        f'[[connections]]\nfrom = "lever.command"\nto = "{name}.command"\n'
        for name in ("one", "two")
    )
    path.write_text(path.read_text() + commands)
    return path


def limit_cycle(folder: Path) -> Path:
    models = {"position": "Position", "speed": "Speed"}
    return session(folder, models, {"position.x": "speed.x", "speed.v": "position.v"})


def of_animals(t: float, z: Floats) -> list[float]:
    return [z[0] * (1.0 - 0.1 * z[1]), z[1] * (0.075 * z[0] - 1.5)]


def of_clutch(t: float, z: Floats) -> list[float]:
    k = 30.0 * (t >= ENGAGED_S)
    return [z[2], z[3], -10.0 * z[0] - k * (z[0] - z[1]), -15.0 * z[1] - k * (z[1] - z[0])]


def of_limit_cycle(t: float, z: Floats) -> list[float]:
    return [z[1], (1.0 - z[0] ** 2) * z[1] - z[0]]


def judged(
    result: Result, rates: Callable[[float, Floats], list[float]], start: Mapping[str, float]
) -> dict[str, tuple[float, dict[str, Any]]]:
    """True error, RMS, and estimate of each signal, in this order the first of the states."""
    t = result.log.t
    z0 = list(start.values())
    legs = [t[t <= ENGAGED_S], t[t >= ENGAGED_S]] if rates is of_clutch else [t]
    values = np.zeros((len(z0), 0))
    for leg in legs:
        leg_z0 = values[:, -1] if values.size else z0
        found = solve_ivp(rates, (leg[0], leg[-1]), leg_z0, "DOP853", leg, rtol=1e-11, atol=1e-12)
        values = np.hstack([values[:, : values.shape[1] - bool(values.size)], found.y])
    estimates = result.summary["estimated_error"]
    return {
        name: (float(np.sqrt(np.mean((result.log[name] - y) ** 2)) / y.std()), estimates[name])
        for name, y in zip(start, values, strict=False)
        if name in estimates
    }


def true_word(errors: Mapping[str, tuple[float, Any]]) -> str:
    """The verdict that true errors of `judged` deserve."""
    worst = max(true for true, _ in errors.values())
    return "unreliable" if worst > 0.2 else "degraded" if worst > 0.025 else "good"


def uncovered(result: Result, errors: Mapping[str, tuple[float, dict[str, Any]]]) -> list[Any]:
    """Signals of `judged` whose estimate is not one along the way, or is without their error."""
    return [
        (name, true, estimate)
        for name, (true, estimate) in errors.items()
        if not estimate["how"].startswith("sensitivities along the way")
        or not covers(estimate, true * result.log[name].std())
    ]


ANIMALS = {"prey.x": 10.0, "predator.y": 5.0}
CLUTCH = {"one.x": 1.0, "two.x": 0.0, "one.v": 0.0, "two.v": 0.0}
CYCLE = {"position.x": 0.01, "speed.v": 0.0}


CASES: dict[str, tuple[Any, ...]] = {
    "animals": (animals, of_animals, ANIMALS),
    "clutch": (lambda folder: clutch(folder, "time"), of_clutch, CLUTCH),
    "clutch by command": (lambda folder: clutch(folder, "command"), of_clutch, CLUTCH),
    "limit cycle": (limit_cycle, of_limit_cycle, CYCLE),
}


@pytest.mark.parametrize(
    ("case", "seconds", "step", "word"),
    [
        ("animals", 100.0, 0.005, "unreliable"),  # 131 %, and was good
        ("animals", 20.0, 0.005, "degraded"),
        ("animals", 20.0, 0.0005, "good"),
        ("clutch", 20.0, 0.01, "unreliable"),
        ("clutch", 10.0, 0.005, "degraded"),
        ("clutch", 10.0, 0.0002, "good"),
        ("clutch by command", 20.0, 0.01, "unreliable"),
        ("clutch by command", 10.0, 0.001, "degraded"),
        ("limit cycle", 30.0, 0.02, "unreliable"),
        ("limit cycle", 30.0, 0.005, "degraded"),
        ("limit cycle", 30.0, 0.001, "good"),  # 2 %, and was 6e8 %
    ],
)
def test_the_verdict_is_that_of_the_true_error(
    case: str, seconds: float, step: float, word: str, tmp_path: Path
) -> None:
    make, rates, start = CASES[case]
    result = simulate(make(tmp_path), {"session.duration": seconds, "master.step": step})
    errors = judged(result, rates, start)
    assert (result.verdict, true_word(errors)) == (word, word), (errors, result.summary["reasons"])
    assert not uncovered(result, errors)
    for name, (true, estimate) in errors.items():
        near = 0.4 if true < 0.5 else 1.0  # beyond that errors are none of a linear system
        assert estimate["value"] / result.log[name].std() == pytest.approx(true, rel=near)


@pytest.mark.parametrize(("step", "fed"), [(0.005, True), (0.0005, False)])
def test_a_spread_that_the_sessions_own_error_feeds_is_named(
    step: float, fed: bool, tmp_path: Path
) -> None:
    """Animals whose orbit widens: relative to its own variation their error looks smaller."""
    settings = {"session.duration": 60.0, "master.step": step}
    result = simulate(animals(tmp_path), settings)
    true, estimate = judged(result, of_animals, ANIMALS)["prey.x"]
    varies = result.log["prey.x"].std()
    truly = solve_ivp(of_animals, (0.0, 60.0), [10.0, 5.0], "DOP853", result.log.t, rtol=1e-10)
    error = true * truly.y[0].std()
    assert (error > 0.5 * truly.y[0].std()) == (estimate["value"] > 0.5 * varies) == fed
    assert error / varies < true
    assert ("error_feeds_spread" in result.summary["flags"]) == fed
    named = [reason for reason in result.summary["reasons"] if "error_feeds_spread: " in reason]
    assert any("prey.x" in reason for reason in named) == fed


def test_a_switch_between_two_trials_is_found_by_its_jolt(tmp_path: Path) -> None:
    """A clutch that slips in every trial, and sticks once a pulse; 6.8 % wrong, and was good."""
    models = {"motor": "DragMotor", "load": "DragLoad"}
    path = session(tmp_path, models, {"motor.speed": "load.speed", "load.torque": "motor.torque"})
    result = simulate(path, {"session.duration": 8.0})
    t = result.log.t

    def rates(at: float, w: Floats) -> list[float]:
        torque = drag(at, w[0] - w[1])
        return [(drive_torque(at) - torque - 0.05 * w[0]) / 0.2, torque - 0.2 * w[1]]

    w = np.zeros((2, 1))
    for leg in (t[t <= CLOSED_S], t[t >= CLOSED_S]):
        found = solve_ivp(rates, (leg[0], leg[-1]), w[:, -1], "LSODA", leg, rtol=1e-9, atol=1e-9)
        w = np.hstack([w[:, :-1], found.y])
    torque = np.array([drag(at, motor - load) for at, motor, load in zip(t, *w, strict=True)])
    for name, true in (("motor.speed", w[0]), ("load.torque", torque)):
        estimate = result.summary["estimated_error"][name]
        assert estimate["how"].startswith("sensitivities along the way")
        assert covers(estimate, float(np.sqrt(np.mean((result.log[name] - true) ** 2))))
    assert np.std(result.log["load.torque"] - torque) > 0.05 * torque.std()
    assert result.verdict == "degraded"


def test_a_state_that_is_changed_in_place_is_not_moved_by_trials(tmp_path: Path) -> None:
    """`save_state` returns the solver's own array, as a user may write it."""
    path = animals(tmp_path)
    settings = {"session.duration": 20.0, "master.step": 0.0005}
    log = simulate(path, settings).log
    path.write_text(path.read_text().replace(":Prey", ":InPlace"))
    result = simulate(path, settings)
    assert np.array_equal(result.log["prey.x"], log["prey.x"])
    true, estimate = judged(result, of_animals, ANIMALS)["prey.x"]
    assert covers(estimate, true * result.log["prey.x"].std())


def test_what_was_silent_at_the_start_is_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without trials along the way the clutch, which is open at the start, answers to nothing."""
    monkeypatch.setattr(InProcessLink, "renewed_model", Probes.renewed_model)
    settings = {"session.duration": 10.0, "master.step": 0.005}
    result = simulate(clutch(tmp_path, "time"), settings)
    errors = judged(result, of_clutch, CLUTCH)
    assert max(true for true, _ in errors.values()) > 0.15
    for _, estimate in errors.values():
        assert estimate["how"] == "gain range, as the sensitivities of the start do not hold"
    assert result.verdict in ("unverified", "degraded")


def test_trials_leave_the_session_as_it_is(tmp_path: Path) -> None:
    """Bit for bit the same as explicit Jacobi steps by hand."""
    result = simulate(animals(tmp_path), {"session.duration": 5.0})
    prey, predator = Prey(), Predator()
    x, y = 10.0, 5.0
    for k, t in enumerate(result.log.t.tolist()):
        assert (result.log["prey.x"][k], result.log["predator.y"][k]) == (x, y)
        held_x, held_y = np.array([[x]]), np.array([[y]])
        x = float(prey.advance(t, 0.005, InputPolynomial(t, held_y)).y[0])
        y = float(predator.advance(t, 0.005, InputPolynomial(t, held_x)).y[0])


def test_a_solver_with_noise_is_not_tried_out_again(tmp_path: Path) -> None:
    """Its trials would take numbers from a generator that is not saved."""
    path = session(
        tmp_path,
        {"prey": "Prey", "predator": "Counted"},
        {"prey.x": "predator.x", "predator.y": "prey.y"},
    )
    summary = simulate(path, {"session.duration": 2.0}, record=False).summary
    hows = {estimate["how"] for estimate in summary["estimated_error"].values()}
    assert hows == {"sensitivities of the start"}


def test_renewed_sensitivities_are_recorded_and_replayed(tmp_path: Path) -> None:
    log = record_file(str(animals(tmp_path)), tmp_path / "run", duration=3.0)
    stream = LogStream(log, asides=ASIDES)
    list(stream.blocks())
    renewed = [aside for aside in stream.asides if aside.topic == SENSITIVITIES]
    assert len(renewed) >= 5
    outcome = replay(log)
    assert (outcome.difference, outcome.snapshots) == (None, 3)


def test_what_passes_nothing_on_does_not_change() -> None:
    one = np.array([[1.0, 0.0], [0.0, 0.0]])
    least = np.zeros(2)
    assert relative_change(one, one, least) == 0.0
    assert relative_change(one, 2.0 * one, least) == pytest.approx(0.5)
    assert relative_change(one, 2.0 * one, least + 10.0) == pytest.approx(0.1)
    assert relative_change(one, one * np.nan, least) == np.inf
