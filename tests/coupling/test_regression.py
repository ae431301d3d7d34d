from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from hilrt.coupling import regression, scales
from hilrt.coupling.regression import Settings, observe, predict
from hilrt.solver import Floats

RNG = np.random.default_rng


def feed(
    model: regression.Model, n: int, seed: int = 0, noise: float = 0.0, gain: float = 3.0
) -> None:
    """A first-order lag ``y ← 0.9 y + gain u`` under white inputs."""
    rng, y = RNG(seed), 0.0
    for _ in range(n):
        u = rng.normal()
        y = 0.9 * y + gain * u + noise * rng.normal()
        observe(model, np.array([y]), np.array([[u]]))


def batch(phi: Floats, y: Floats, model: regression.Model) -> Floats:
    """Weighted least squares with the prior, solved at once."""
    weights = model.keep ** np.arange(len(y) - 1, -1, -1)
    information = phi.T @ (weights[:, None] * phi) + np.diag(model.weight)
    right = phi.T @ (weights[:, None] * y) + model.weight[:, None] * model.prior
    solution: Floats = np.linalg.solve(information, right)
    return solution


def test_finds_the_response_to_the_input() -> None:
    model = regression.start(Settings(), 1, 1)
    feed(model, 200)
    np.testing.assert_allclose(model.jacobian(), [[[3.0]]], rtol=1e-9)


def test_agrees_with_batch_least_squares() -> None:
    model = regression.start(Settings(lags_y=1, lags_u=1, memory=80.0, excitation=1e-2), 2, 1)
    rng, rows, targets = RNG(4), [], []
    for n in range(400):
        y, sent = rng.normal(size=2) * [1.0, 50.0], rng.normal(size=(1, 1))
        if model.seen == model.settings.warm_up:
            before = (model.scale_y.copy(), model.scale_u.copy())
        if model.seen >= model.settings.warm_up:
            rows.append(regression.regressors(model, sent)[0])
            targets.append((y - model.centre_y) / model.scale_y)
        observe(model, y, sent)
        assert n < 20 or (model.scale_y == before[0]).all()  # the comparison needs one scale
    expected = batch(np.array(rows), np.array(targets), model)
    np.testing.assert_allclose(model.theta, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("log_y", "log_u"), [(-8, 8), (8, -8), (5, 5), (-7, -3)])
def test_units_do_not_matter(log_y: float, log_u: float) -> None:
    unit_y, unit_u = 10.0**log_y, 10.0**log_u
    model = regression.start(Settings(), 1, 1)
    rng, y = RNG(3), 0.0
    for _ in range(150):
        u = rng.normal()
        y = 0.9 * y + 3.0 * u
        observe(model, np.array([y * unit_y]), np.array([[u * unit_u]]))
    np.testing.assert_allclose(model.jacobian() * unit_u / unit_y, [[[3.0]]], rtol=1e-6)


def test_a_changed_scale_changes_nothing_else() -> None:
    model = regression.start(Settings(order=1), 1, 1)
    feed(model, 100)
    before, sent = predict(model, np.array([[0.7]])), np.array([[0.7]])
    gamma = model.jacobian()
    scales.rescale(model, np.array([8.0]), np.array([0.125]))
    np.testing.assert_allclose(predict(model, sent), before, rtol=1e-12)
    np.testing.assert_allclose(model.jacobian(), gamma, rtol=1e-12)


def test_scales_follow_a_signal_that_grows() -> None:
    model = regression.start(Settings(), 1, 1)
    feed(model, 200, gain=3.0)
    small = model.scale_y.copy()
    feed(model, 400, gain=300.0)
    assert model.scale_y[0] >= 16.0 * small[0]
    np.testing.assert_allclose(model.jacobian(), [[[300.0]]], rtol=1e-2)


def test_without_excitation_gamma_stays_at_zero_and_the_covariance_bounded() -> None:
    # a slow oscillation answers with two more: three signals in a space of two dimensions
    model = regression.start(Settings(), 1, 1)
    bound = 2.0 * np.linalg.norm(model.S, 2)
    for n in range(1500):
        y, u = np.sin(0.1 * n + 0.1), np.cos(0.1 * n)
        observe(model, np.array([y]), np.array([[u]]))
    assert abs(model.jacobian()[0, 0, 0]) < 1e-2
    assert np.linalg.norm(model.S, 2) < bound
    assert abs(predict(model, np.array([[np.cos(150.0)]]))[0] - np.sin(150.1)) < 1e-5


def test_a_given_gamma_stays_where_nothing_speaks_against_it() -> None:
    model = regression.start(Settings(), 1, 1, prior=np.array([[[-5.0]]]))
    for n in range(500):
        observe(model, np.array([np.sin(0.1 * n + 0.1)]), np.array([[np.cos(0.1 * n)]]))
    np.testing.assert_allclose(model.jacobian(), [[[-5.0]]], rtol=1e-2)
    feed(model, 300)
    np.testing.assert_allclose(model.jacobian(), [[[3.0]]], rtol=1e-3)


@pytest.mark.parametrize("quiet", [False, True])
def test_the_factor_stays_regular(quiet: bool) -> None:
    model = regression.start(Settings(), 2, 2)
    rng = RNG(0)
    for n in range(1500):
        busy = not quiet or n % 500 < 100
        y, sent = rng.normal(size=2) * busy, rng.normal(size=(1, 2)) * busy
        observe(model, y, sent)
    covariance = model.S @ model.S.T
    eigenvalues = np.linalg.eigvalsh(covariance)
    assert eigenvalues[0] > 0.0
    assert eigenvalues[-1] < 4.0 / model.weight.min()


def test_gaps_and_nonsense_are_not_learned() -> None:
    model = regression.start(Settings(), 1, 1)
    feed(model, 100)
    gamma = model.jacobian()
    assert observe(model, np.array([np.nan]), np.array([[1.0]])) is None
    assert observe(model, np.array([5.0]), np.array([[np.inf]])) is None
    assert observe(model, np.array([99.0]), np.array([[1.0]]), measured=False) is None
    for _ in range(3):  # until the past is whole again
        assert observe(model, np.array([99.0]), np.array([[1.0]])) is None
    np.testing.assert_array_equal(model.jacobian(), gamma)
    assert observe(model, np.array([99.0]), np.array([[1.0]])) is not None


def test_not_its_turn() -> None:
    model = regression.start(Settings(), 1, 1)
    feed(model, 100)
    theta = model.theta.copy()
    assert observe(model, np.array([1.0]), np.array([[1.0]]), learn=False) is None
    np.testing.assert_array_equal(model.theta, theta)
    assert model.past_y[0] == 1.0
    assert observe(model, np.array([1.0]), np.array([[1.0]])) is not None


def test_after_a_jump_the_new_parameters_count() -> None:
    model = regression.start(Settings(), 1, 1)
    feed(model, 300, gain=3.0)
    regression.forget(model)
    feed(model, 60, gain=-2.0, seed=1)
    np.testing.assert_allclose(model.jacobian(), [[[-2.0]]], rtol=1e-2)


def test_predicts_over_missing_samples() -> None:
    model = regression.start(Settings(), 1, 1)
    feed(model, 200)
    y = model.past_y[0, 0]
    for u in (0.5, -1.0, 2.0):
        sent = np.array([[u]])
        y = 0.9 * y + 3.0 * u
        predicted = predict(model, sent)
        regression.assume(model, predicted, sent)
        np.testing.assert_allclose(predicted, [y], rtol=1e-6, atol=1e-6)


def test_the_innovation_is_what_the_rest_does_not_foretell() -> None:
    model = regression.start(Settings(), 1, 1)
    rng, u, y = RNG(2), 0.0, 0.0
    for _ in range(400):
        fresh = rng.normal()
        y, u = 0.9 * y + 3.0 * u, 0.8 * u + fresh  # the input follows itself, but for `fresh`
        sent = np.array([[u]])
        step = observe(model, np.array([0.9 * y + 3.0 * u]), sent)
    assert step is not None
    assert abs(step.innovation[0] * model.scale_u[0] - fresh) < 0.3 * abs(fresh) + 0.1


def test_a_copy_is_independent() -> None:
    model = regression.start(Settings(), 1, 1)
    feed(model, 50)
    snapshot = model.copy()
    feed(model, 50, seed=1)
    feed(snapshot, 50, seed=1)
    np.testing.assert_array_equal(model.theta, snapshot.theta)
    assert model.S is not snapshot.S


def test_a_prior_of_the_wrong_shape_is_named() -> None:
    with pytest.raises(ValueError, match="prior"):
        regression.start(Settings(order=1), 1, 1, prior=np.zeros((1, 1, 1)))


def test_a_short_soak() -> None:
    path = Path(__file__).parents[2] / "tools" / "soak_identify.py"
    soak = runpy.run_path(str(path))["soak"]
    assert soak(5_000, seed=3) == []
