"""The correction's matrices against the compiled stage that corrects in the macro step."""

from __future__ import annotations

import numpy as np
import pytest

from hilrt.analyze.corrector_matrices import (
    corrector_matrices,
    coupling_by_order,
    interpolation_weights,
)
from tests.coupling.corrections import Corrections, network_of

NY, NU = 3, 4
#: The last input has no connection.
COUPLED = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1], [0, 0, 0]])


@pytest.mark.parametrize("highest", range(5))
@pytest.mark.parametrize("samples", [1, 2, 5])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_they_correct_as_the_stage_does(highest: int, samples: int, alpha: float) -> None:
    """From the start-up on, with connections of different orders, uncorrected outputs and sums."""
    rng = np.random.default_rng(10 * highest + samples)
    L, order = rng.normal(size=(NU, NY)) * COUPLED, rng.integers(0, highest + 1, (NU, NY))
    order[0, 0] = highest
    gamma = rng.normal(scale=0.2, size=(highest + 1, NY, NU))
    gamma[:, 1] = 0.0
    feedthrough = np.zeros((NY, NU), dtype=bool)
    feedthrough[1, 2] = feedthrough[0, 1] = True
    past = rng.normal(size=(min(samples, highest + 1), NY))
    network = network_of(L, order, feedthrough=feedthrough)
    stage = Corrections(network, gamma, alpha, y0=past[0])
    stage.model.session["samples"], stage.outputs["past"][:, : len(past)] = len(past), past.T
    coupling = coupling_by_order(stage.network)
    matrices = corrector_matrices(coupling, gamma, alpha, stage.network.feedthrough)
    assert (matrices.alpha[2:] == 0.0).all()  # the offset would stay in output 1; no connection
    if alpha:
        np.testing.assert_array_equal(matrices.alpha[:2], alpha)
    offset = np.zeros((NU, 1))
    for _ in range(4):
        y, sent = rng.normal(size=NY), rng.normal(size=(highest + 1, NU))
        corrected, offset = matrices.correct(y[:, None], past[..., None], sent[..., None], offset)
        found, du = stage.correct(y, sent)
        np.testing.assert_allclose(found, corrected[:, 0], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(du, offset[:, 0], rtol=1e-11, atol=1e-12)
        assert np.abs(found - y).max() > 1e-3
        past = np.vstack([found, past])[: highest + 1]


def test_without_a_solution_nothing_is_corrected() -> None:
    L, no = np.eye(1), np.zeros((1, 1), dtype=bool)
    matrices = corrector_matrices({0: L}, np.ones((1, 1, 1)), 0.0, no)  # y = y
    stage = Corrections(network_of(L), np.ones((1, 1, 1)), 0.0)
    y, sent = np.array([2.0]), np.array([[5.0]])
    corrected, _ = matrices.correct(
        y[:, None], np.ones((1, 1, 1)), sent[..., None], np.zeros((1, 1))
    )
    assert corrected[0, 0] == stage.correct(y, sent)[0][0] == 2.0


def test_jacobians_of_another_order_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        corrector_matrices({1: np.eye(2)}, np.zeros((1, 2, 2)), 1.0, np.zeros((2, 2), dtype=bool))


def test_weights_are_those_of_polynomials_through_the_samples() -> None:
    parts = {0: np.array([[2.0, 0.0]]), 2: np.array([[0.0, 3.0]])}
    W = interpolation_weights(parts, 2, (4, 3))
    t = np.array([1.0, 0.0, -1.0, -2.0])
    y = np.stack([np.full(4, 7.0), 1.0 + t - t**2], axis=1)
    np.testing.assert_allclose(np.einsum("jmuy,jy->m", W, y), [17.0, 3.0, -3.0])
    line = interpolation_weights(parts, 1, (4, 3))
    np.testing.assert_allclose(np.einsum("jmuy,jy->m", line, y), [17.0, 0.0, 0.0], atol=1e-14)
