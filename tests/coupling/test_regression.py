from __future__ import annotations

import numpy as np
import pytest

from hilrt.coupling import identify, regression
from hilrt.coupling.build_model import MAX_REGRESSORS, Identified, Jacobians, build_model
from hilrt.coupling.past import fill_regressors
from hilrt.coupling.regression import change_of_scale, rescale_input, rescale_output
from hilrt.errors import ConfigError
from hilrt.solver import Floats
from tests.coupling.corrections import Learner, network_of
from tools.qualification.soak_identify import soak

RNG = np.random.default_rng


def feed(model: Learner, n: int, seed: int = 0, noise: float = 0.0, gain: float = 3.0) -> None:
    """A first-order lag ``y ← 0.9 y + gain u`` under white inputs."""
    rng, y = RNG(seed), 0.0
    for _ in range(n):
        u = rng.normal()
        y = 0.9 * y + gain * u + noise * rng.normal()
        model.observe(np.array([y]), np.array([[u]]))


def batch(phi: Floats, y: Floats, model: Learner) -> Floats:
    """Weighted least squares with the prior, solved at once."""
    weights = model.at.forgetting ** np.arange(len(y) - 1, -1, -1)
    information = phi.T @ (weights[:, None] * phi) + np.diag(model.weight[0])
    right = phi.T @ (weights[:, None] * y) + model.weight[0][:, None] * model.prior
    solution: Floats = np.linalg.solve(information, right)
    return solution


def test_finds_the_response_to_the_input() -> None:
    model = Learner(1, 1)
    feed(model, 200)
    np.testing.assert_allclose(model.jacobian(), [[[3.0]]], rtol=1e-9)


def test_agrees_with_batch_least_squares() -> None:
    model = Learner(2, 1, output_lags=1, input_lags=1, memory=80.0, excitation=1e-2)
    rng, rows, targets = RNG(4), [], []
    for n in range(400):
        y, sent = rng.normal(size=2) * [1.0, 50.0], rng.normal(size=(1, 1))
        outputs = model.learning.outputs
        if model.memory.seen == model.at.warm_up:
            scales = outputs["scale"].copy()
        if model.memory.seen >= model.at.warm_up:
            model.take(y, sent)
            fill_regressors(model.at, model.learning, model.work.phi)
            rows.append(model.work.phi.copy())
            targets.append((y - outputs["centre"]) / outputs["scale"])
        model.observe(y, sent)
        assert n < 20 or (outputs["scale"] == scales).all()  # the comparison needs one scale
    expected = batch(np.array(rows), np.array(targets), model)
    np.testing.assert_allclose(model.parameters, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("log_y", "log_u"), [(-8, 8), (8, -8), (5, 5), (-7, -3)])
def test_units_do_not_matter(log_y: float, log_u: float) -> None:
    unit_y, unit_u = 10.0**log_y, 10.0**log_u
    model = Learner(1, 1)
    rng, y = RNG(3), 0.0
    for _ in range(150):
        u = rng.normal()
        y = 0.9 * y + 3.0 * u
        model.observe(np.array([y * unit_y]), np.array([[u * unit_u]]))
    np.testing.assert_allclose(model.jacobian() * unit_u / unit_y, [[[3.0]]], rtol=1e-6)


def test_a_changed_scale_changes_nothing_else() -> None:
    model = Learner(1, 1, order=1)
    feed(model, 100)
    scale_y = model.learning.outputs["scale"].copy()
    sent = np.array([[0.7]])
    before, gamma = model.predict(sent), model.jacobian()
    rescale_output(model.at, model.learning, 0, 0, 8.0)
    rescale_input(model.at, model.learning, 0, 0, 0.125)
    assert model.learning.outputs["scale"] == 8.0 * scale_y
    np.testing.assert_allclose(model.predict(sent), before, rtol=1e-12)
    np.testing.assert_allclose(model.jacobian(), gamma, rtol=1e-12)


def test_scales_follow_a_signal_that_grows() -> None:
    model = Learner(1, 1)
    feed(model, 200, gain=3.0)
    small = model.learning.outputs["scale"].copy()
    feed(model, 400, gain=300.0)
    assert model.learning.outputs["scale"] >= 16.0 * small
    np.testing.assert_allclose(model.jacobian(), [[[300.0]]], rtol=1e-2)


def test_without_excitation_gamma_stays_at_zero_and_the_covariance_bounded() -> None:
    # a slow oscillation answers with two more: three signals in a space of two dimensions
    model = Learner(1, 1)
    bound = 2.0 * np.linalg.norm(model.factor, 2)
    for n in range(1500):
        y, u = np.sin(0.1 * n + 0.1), np.cos(0.1 * n)
        model.observe(np.array([y]), np.array([[u]]))
    assert abs(model.jacobian()[0, 0, 0]) < 1e-2
    assert np.linalg.norm(model.factor, 2) < bound
    assert abs(model.predict(np.array([[np.cos(150.0)]]))[0] - np.sin(150.1)) < 1e-5


def test_a_given_gamma_stays_where_nothing_speaks_against_it() -> None:
    model = Learner(1, 1, given=np.array([[[-5.0]]]))
    for n in range(500):
        model.observe(np.array([np.sin(0.1 * n + 0.1)]), np.array([[np.cos(0.1 * n)]]))
    np.testing.assert_allclose(model.jacobian(), [[[-5.0]]], rtol=1e-2)
    feed(model, 300)
    np.testing.assert_allclose(model.jacobian(), [[[3.0]]], rtol=1e-3)


@pytest.mark.parametrize("quiet", [False, True])
def test_the_factor_stays_regular(quiet: bool) -> None:
    model = Learner(2, 2)
    rng = RNG(0)
    for n in range(1500):
        busy = not quiet or n % 500 < 100
        y, sent = rng.normal(size=2) * busy, rng.normal(size=(1, 2)) * busy
        model.observe(y, sent)
    covariance = model.factor @ model.factor.T
    eigenvalues = np.linalg.eigvalsh(covariance)
    assert eigenvalues[0] > 0.0
    assert eigenvalues[-1] < 4.0 / model.weight.min()


def test_gaps_and_nonsense_are_not_learned() -> None:
    model = Learner(1, 1)
    feed(model, 100)
    gamma, one = model.jacobian(), np.array([[1.0]])
    assert not model.observe(np.array([np.nan]), one)
    assert not model.observe(np.array([5.0]), np.array([[np.inf]]))
    model.take(np.array([99.0]), one)
    identify.bridge(model.at, model.learning, 0)  # it is no sample
    for _ in range(3):  # until the past is whole again
        assert not model.observe(np.array([99.0]), one)
    np.testing.assert_array_equal(model.jacobian(), gamma)
    assert model.observe(np.array([99.0]), one)


def test_not_its_turn() -> None:
    model = Learner(1, 1)
    feed(model, 100)
    theta = model.parameters.copy()
    assert not model.observe(np.array([1.0]), np.array([[1.0]]), learn=False)
    np.testing.assert_array_equal(model.parameters, theta)
    assert model.learning.past_outputs[0] == 1.0
    assert model.observe(np.array([1.0]), np.array([[1.0]]))


def test_after_a_jump_the_new_parameters_count() -> None:
    model = Learner(1, 1)
    feed(model, 300, gain=3.0)
    model.forget()
    feed(model, 60, gain=-2.0, seed=1)
    np.testing.assert_allclose(model.jacobian(), [[[-2.0]]], rtol=1e-2)


def test_predicts_over_missing_samples() -> None:
    model = Learner(1, 1)
    feed(model, 200)
    y = model.learning.past_outputs[0, 0]
    for u in (0.5, -1.0, 2.0):
        y = 0.9 * y + 3.0 * u
        predicted = model.predict(np.array([[u]]))
        regression.assume(model.at, model.learning, 0)
        np.testing.assert_allclose(predicted, [y], rtol=1e-6, atol=1e-6)


def test_the_innovation_is_what_the_rest_does_not_predict() -> None:
    model = Learner(1, 1)
    rng, u, y, learned = RNG(2), 0.0, 0.0, False
    for _ in range(400):
        fresh = rng.normal()
        y, u = 0.9 * y + 3.0 * u, 0.8 * u + fresh  # the input follows itself, but for `fresh`
        learned = model.observe(np.array([0.9 * y + 3.0 * u]), np.array([[u]]))
    assert learned
    innovation = model.work.innovation[0] * model.learning.inputs["scale"][0]
    assert abs(innovation - fresh) < 0.3 * abs(fresh) + 0.1


@pytest.mark.parametrize("ratio", [1e-9, 0.01, 0.2, 0.25, 1.0, 3.9, 4.0, 5.7, 1e3, 1e12])
def test_a_scale_changes_to_the_nearest_power_of_two(ratio: float) -> None:
    signal = Learner(1, 1).learning.outputs[0]
    signal.scale, signal.mean_square = 0.5, (0.5 * ratio) ** 2
    expected = 1.0 if 0.25 < ratio < 4.0 else 2.0 ** np.round(np.log2(ratio))
    assert change_of_scale(signal) == expected


def test_a_copy_is_independent() -> None:
    model = Learner(1, 1)
    feed(model, 50)
    snapshot = model.copy()
    feed(model, 50, seed=1)
    feed(snapshot, 50, seed=1)
    np.testing.assert_array_equal(model.parameters, snapshot.parameters)
    assert not np.shares_memory(model.factor, snapshot.factor)


def test_a_given_jacobian_of_the_wrong_shape_is_named() -> None:
    with pytest.raises(ValueError, match="s0 has shape"):
        Learner(1, 1, order=1, given=np.zeros((1, 1, 1)))


def test_a_subsystem_that_is_too_large_is_refused() -> None:
    network, _ = network_of(np.eye(100))
    identified = [Identified(0, output_lags=5)]
    jacobians = Jacobians(1e-3, {}, identified, np.ones(100, dtype=bool))
    with pytest.raises(ConfigError, match=f"801 regressors, at most {MAX_REGRESSORS}"):
        build_model(network, np.zeros(100), jacobians)


def test_a_short_soak() -> None:
    assert soak(5_000, seed=3) == []
