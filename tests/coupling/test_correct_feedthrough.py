"""Feedthrough correction: outputs as if evaluated with the inputs now known."""

from __future__ import annotations

import numpy as np
import pytest

from hilrt.coupling.correct_outputs import build_feedthrough, feedthrough_matrices
from hilrt.solver import Floats
from tests.coupling.corrections import Corrections, network_of

L = np.array([[0.0, 1.0], [1.0, 0.0]])  # u0 = y1, u1 = y0


def corrected(D: Floats, y: Floats, sent: Floats, base: Floats) -> Floats:
    session = Corrections(network_of(L, offset=base), feedthrough=build_feedthrough(D, L))
    return session.correct(y, sent[None])[0]


def test_an_effort_is_put_right_exactly() -> None:
    """Output 0 is 3 x − 5 u0, evaluated with what was sent; output 1 has no feedthrough."""
    D = np.array([[-5.0, 0.0], [0.0, 0.0]])
    x, y1, sent = 2.0, 0.7, np.array([0.4, 9.0])
    y = np.array([3.0 * x - 5.0 * sent[0], y1])
    np.testing.assert_allclose(corrected(D, y, sent, np.zeros(2)), [3.0 * x - 5.0 * y1, y1])


def test_a_loop_of_feedthroughs_is_solved() -> None:
    D = np.array([[-0.5, 0.0], [0.0, 0.25]])
    free, sent, base = np.array([1.0, -2.0]), np.array([0.1, 0.2]), np.array([0.3, 0.0])
    found = corrected(D, free + D @ sent, sent, base)
    np.testing.assert_allclose(found, free + D @ (L @ found + base))


def test_a_singular_loop_is_refused() -> None:
    with pytest.raises(ValueError, match="singular"):
        build_feedthrough(np.array([[1.0, 0.0], [0.0, 1.0]]), L)


def test_the_matrices_stand_in_the_plan() -> None:
    D = np.array([[-0.5, 0.1], [0.0, 0.0]])
    correction = build_feedthrough(D, L)
    plan = Corrections(network_of(L), feedthrough=correction).plan
    found = feedthrough_matrices(plan.model, 2, 2)
    assert found is not None
    np.testing.assert_array_equal(found.KD, correction.KD)
    np.testing.assert_allclose(found.K, correction.K, rtol=1e-15)
    without = Corrections(network_of(L), np.zeros((1, 2, 2))).plan
    assert feedthrough_matrices(without.model, 2, 2) is None
