from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_configs.models.mass_chain import two_mass_chain
from hilrt.coupling.jacobian import LinearSubsystem, assemble, block_diagonal, discretize, expm


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.floats(-6, 2))
def test_exponential_agrees_with_scipy(seed: int, n: int, exponent: float) -> None:
    matrix = np.random.default_rng(seed).normal(size=(n, n)) * 10.0**exponent / n
    expected = scipy.linalg.expm(matrix)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(expm(matrix), expected, rtol=0, atol=1e-9 * scale)


def test_exponential_of_a_badly_scaled_oscillator() -> None:
    omega = 1e6  # 1/s
    matrix = np.array([[0.0, 1.0], [-(omega**2), 0.0]]) * 1e-6
    expected = [[math.cos(1.0), math.sin(1.0) / omega], [-omega * math.sin(1.0), math.cos(1.0)]]
    np.testing.assert_allclose(expm(matrix), expected, rtol=1e-12)


def test_exponential_of_zero_and_of_nonsense() -> None:
    np.testing.assert_array_equal(expm(np.zeros((3, 3))), np.eye(3))
    with pytest.raises(ValueError, match="not finite"):
        expm(np.array([[np.nan]]))


@pytest.mark.parametrize("h", [1e-6, 1e-3, 2.0])
def test_input_integrals_of_an_integrator(h: float) -> None:
    # x' = b u with u = s^m: the step adds b h / (m + 1)
    _, B_s = discretize(np.zeros((1, 1)), np.array([[3.0]]), h, 4)
    np.testing.assert_allclose(B_s[:, 0, 0], 3.0 * h / np.arange(1, 6), rtol=1e-13)


def test_jacobian_is_the_response_to_a_power_of_time() -> None:
    first, second = two_mass_chain(2e5, 5e2)[0]
    h, order = 2e-4, 4
    for subsystem in (first, second):
        gamma = subsystem.jacobian(h, order)
        nodes, weights = np.polynomial.legendre.leggauss(20)
        s = (nodes + 1.0) / 2.0
        for m in range(order + 1):
            integral = sum(
                w / 2.0 * h * scipy.linalg.expm(subsystem.A * h * (1.0 - si)) @ subsystem.B * si**m
                for si, w in zip(s, weights, strict=True)
            )
            expected = subsystem.C @ integral + subsystem.D
            np.testing.assert_allclose(gamma[m], expected, rtol=1e-11)


def test_first_jacobian_tends_to_the_feedthrough() -> None:
    second = two_mass_chain(1e5, 1e2)[0][1]
    np.testing.assert_allclose(second.jacobian(1e-9, 0)[0], second.D, rtol=1e-3)


def test_assemble_leaves_zeros_where_nothing_is_known() -> None:
    part = np.arange(4.0).reshape(2, 1, 2)
    gamma = assemble([None, part], [2, 1], [1, 2], order=1)
    assert gamma.shape == (2, 3, 3)
    np.testing.assert_array_equal(gamma[:, 2, 1:], part[:, 0])
    assert np.count_nonzero(gamma) == 3
    with pytest.raises(ValueError, match="shape"):
        assemble([part], [1], [1], order=1)


def test_matrices_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="B has shape"):
        LinearSubsystem(np.eye(2), np.zeros((3, 1)), np.zeros((1, 2)), np.zeros((1, 1)))


def test_block_diagonal_of_the_two_mass_chain() -> None:
    subsystems, L = two_mass_chain(2e5, 5e2)
    whole = block_diagonal(subsystems)
    assert whole.A.shape == (4, 4)
    assert whole.B.shape == (4, 3)
    assert L.shape == whole.D.T.shape
    np.testing.assert_array_equal(whole.D[2, 1:], [-2e5, -5e2])
