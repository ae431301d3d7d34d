"""The long chain (paper, sections 6.2, 6.3 and 6.5), reduced, against monolithic runs of scipy."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from bench_configs.long_chain import (
    CONTACT,
    FORCE,
    FREQUENCY,
    GROWTH,
    PROPERTIES,
    TOUCH,
    WAVE,
    Segment,
    Segments,
    chain,
    session,
)
from hilrt.session.result import Result
from hilrt.session.simulate import reference, simulate
from hilrt.solver import InputPolynomial
from hilrt_adapters.inprocess import InProcessLink

CONFIGS = Path(__file__).parents[2] / "bench_configs"
SEGMENTS, MASSES = 20, 100
DURATION = 3e-4  # s; the first impulse begins after 0.1 ms


def monolithic(whole: Segment | Segments, times: np.ndarray, **params: float) -> np.ndarray:
    """Displacements and velocities of all masses by scipy's LSODA, shape (times, 2, n)."""
    table, start, of = whole.table, whole.state.T.ravel(), PROPERTIES | params

    def rates(t: float, y: np.ndarray) -> np.ndarray:
        x, v = np.pad(y[::2], 1), np.pad(y[1::2], 1)
        e, w = np.diff(x), np.diff(v)
        pull = of["c"] * e + of["C"] * e**3 + of["d"] * w + of["D"] * w**3
        rise, fall = (np.tanh((t - at) / 1e-5) for at in (1e-4, 2.6e-3))
        force = np.diff(pull) + table[FORCE] * 0.5 * (rise - fall)
        force += table[TOUCH] * np.exp(np.minimum(5e5 * y[::2], 100.0))
        force += table[WAVE] * np.sin(table[FREQUENCY] * t) ** 95
        return np.stack((y[1::2], force / of["m"]), axis=1).ravel()

    span, band = (0.0, float(times[-1])), {"lband": 3, "uband": 3}
    found = solve_ivp(rates, span, start, "LSODA", times, rtol=1e-8, atol=1e-12, **band)
    assert found.success
    return np.moveaxis(found.y.T.reshape(len(times), -1, 2), 1, 2)


def global_error(result: Result, whole: Segments, **params: float) -> float:
    """Error of the coupling bodies (eq. 36)."""
    log, square = result.log, 0.0
    truth = monolithic(whole, log.t, **params)
    for i, (first, end) in enumerate(pairwise(whole.first)):
        for place, mass in (("first", first), ("last", end - 1)):
            for k, name in enumerate("xv"):
                z = truth[:, k, mass]
                off = z - log[f"s{i}.{name}_{place}"]
                square += np.sum(off**2) / np.sum((z - z.mean()) ** 2)
    return float(np.sqrt(square))


class Run(NamedTuple):
    """A run: its macro steps, steps of all segments that were computed, error (eq. 36), and log."""

    steps: int
    effort: int
    error: float
    result: Result


def run(scheme: str, duration: float = DURATION, **params: float) -> Run:
    """The reduced chain; a trial for the interface Jacobian counts as a step."""
    trials, tried = [0], InProcessLink.tried

    def counted(self: InProcessLink, h: float, coefficients: np.ndarray) -> np.ndarray:
        trials[0] += 1
        return tried(self, h, coefficients)

    file = session(SEGMENTS, MASSES, duration=duration, **params).build(CONFIGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InProcessLink, "tried", counted)
        result = simulate(file, {"master.scheme": scheme})
    assert not result.fault
    again, steps = result.summary["repeated"], result.summary["steps"]
    effort = steps + again["refused"] + again["unsettled"] + again["corrections"] + trials[0]
    error = global_error(result, chain(SEGMENTS, MASSES, **params), **params)
    return Run(steps, effort, error, result)


CASES: dict[str, dict[str, float]] = {
    "base": {},
    "d = 5e5": {"d": 5e5},
    "c = 1e8": {"c": 1e8},
    "m = 5e-3": {"m": 5e-3},
    "m = 1": {"m": 1.0},
}


@pytest.fixture(scope="module")
def runs() -> dict[tuple[str, str], Run]:
    found = {}
    for name, params in CASES.items():
        duration = 1.5e-4 if "m" in params else DURATION
        for scheme in ("explicit", "implicit"):
            found[name, scheme] = run(scheme, duration, **params)
    return found


@pytest.mark.parametrize("params", [{}, {"displacement": 1e-4, "velocity": 10.0}])
def test_a_segment_moves_as_scipy_says(params: dict[str, float]) -> None:
    """A whole chain of 60 masses in one, with contacts and the first impulse."""
    times = np.arange(0.0, 2.01e-4, 1e-5)
    one = Segment(0, 60, walls="both", **params)
    truth = monolithic(one, times)
    for t, h, after in zip(times, np.diff(times), truth[1:], strict=False):
        one.advance(t, h, InputPolynomial(t, np.zeros((1, 2))))
        np.testing.assert_allclose(one.state[0], after[0], atol=1e-9)
        np.testing.assert_allclose(one.state[1], after[1], atol=2e-4)


@pytest.mark.parametrize("h", [1.3e-6, 1e-7])
def test_a_fast_mass_bounces_off_its_wall(h: float) -> None:
    """``m v' = A e^{B x}`` has the solution ``v = -V tanh(V B (t - t_turn) / 2)``."""
    one, speed, far = Segment(0, 1), 310.0, -2.76e-4
    one.table[TOUCH], one.table[FORCE] = CONTACT, 0.0
    deepest = np.log(-PROPERTIES["m"] * speed**2 * GROWTH / (2.0 * CONTACT)) / GROWTH
    turn = (deepest - far + np.log(2.0) * 2.0 / GROWTH) / speed  # ln cosh z = z - ln 2
    one.state = np.array([[far], [speed]])
    for k in range(round(3.9e-6 / h)):
        one.advance(k * h, h, InputPolynomial(k * h, np.zeros((1, 2))))
    t = round(3.9e-6 / h) * h
    assert t > 2.0 * turn
    back = deepest - (speed * (t - turn) - 2.0 / GROWTH * np.log(2.0))
    np.testing.assert_allclose(one.state[:, 0], [back, -speed], rtol=1e-4)


def test_a_segment_alone_moves_as_beside_others() -> None:
    """Bit for bit, under polynomials of degree 2."""
    coefficients = np.random.default_rng(7).normal(size=(3, 6)) * [[1e5], [1e10], [1e15]]
    group = chain(3, 17)  # its members stay at their start
    group.advance(2e-4, 3e-6, InputPolynomial(2e-4, coefficients))
    for i, (member, own) in enumerate(zip(group.parts, group.save_state(), strict=True)):
        part = coefficients[:, 2 * i : 2 * i + 2]
        alone = member.hosted.solver
        alone.advance(2e-4, 3e-6, InputPolynomial(2e-4, part))
        assert np.array_equal(alone.save_state(), own)


def test_what_is_torn_apart_is_said() -> None:
    one = Segment(0, 4)
    push = InputPolynomial(0.0, np.full((1, 2), np.nan))
    with pytest.raises(ValueError, match=r"segment 0: no step is short enough at t = 0 s"):
        one.advance(0.0, 1e-6, push)
    with pytest.raises(TypeError, match="k: give m, c, d, C, D"):
        Segment(0, 4, k=1.0)


def test_the_coupled_runs_are_right(runs: dict[tuple[str, str], Run]) -> None:
    """Figs 17 and 18: ExSLocal at d = 1e4 and ImSLocal at d = 5e5, and the others."""
    assert runs["base", "explicit"].error < 1e-4
    assert runs["d = 5e5", "implicit"].error < 1e-4
    assert max(one.error for one in runs.values()) < 3e-3
    for one in runs.values():
        assert one.result.log["cut:error"][1:].max() <= 1.0


def test_the_implicit_scheme_steps_longer_and_is_more_exact(
    runs: dict[tuple[str, str], Run],
) -> None:
    """Figs 19 to 23, (b) and (c): at all dampings, stiffnesses and masses."""
    for name in CASES:
        assert runs[name, "implicit"].steps < runs[name, "explicit"].steps
        assert runs[name, "implicit"].error < runs[name, "explicit"].error


@pytest.mark.parametrize(
    ("explicit", "implicit"),
    [
        (("base",), ("d = 5e5",)),  # Fig. 21
        (("base", "c = 1e8"), ()),  # Fig. 22
        (("m = 1",), ("m = 5e-3",)),  # Fig. 23
    ],
)
def test_which_scheme_is_cheaper(
    runs: dict[tuple[str, str], Run], explicit: tuple[str, ...], implicit: tuple[str, ...]
) -> None:
    """By the steps of segments that are computed, where the paper measures time."""
    for name in explicit:
        assert runs[name, "explicit"].effort < runs[name, "implicit"].effort, name
    for name in implicit:
        assert runs[name, "implicit"].effort < 0.7 * runs[name, "explicit"].effort, name


def test_its_true_error_is_found() -> None:
    """`hilrt analyze reference` against scipy, to 1 %, of three segments up to the impulse."""
    file, whole = session(3, 12, duration=1.2e-4).build(CONFIGS), chain(3, 12)
    log = simulate(file).log
    assert log.t[-1] > 1.2e-4  # the reference has to reach beyond the duration, too
    truth, seconds = monolithic(whole, log.t), np.diff(log.t, prepend=-log.t[1])
    found = reference(file)
    of = PROPERTIES
    for i, mass in enumerate(whole.first[1:-1]):
        e, w = (truth[:, k, mass] - truth[:, k, mass - 1] for k in (0, 1))
        force = of["c"] * e + of["C"] * e**3 + of["d"] * w + of["D"] * w**3
        squares = (log[f"calculated.f{i}"] - force) ** 2
        error = np.sqrt(np.average(squares, weights=seconds))  # over time, not over samples
        assert found.signals[f"calculated.f{i}"].error == pytest.approx(error, rel=0.01)
