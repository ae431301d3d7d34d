"""Accuracy limits of the corrector, and what Haid et al. (2022), section 4.2, say of them."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_configs.models.mass_chain import two_mass_chain
from hilrt.analyze.stability import crossings, spectral_radius
from tools.papers.accuracy import ACCURATE, accuracy_limits, global_error, sums
from tools.papers.linear_scheme import LinearScheme, coupling_errors, propagation_matrix

X0 = np.array([1.0, 0.0, 0.6, 0.0])
DURATION = 0.3
#: Stiff and hardly damped, moderate, strongly damped.
STIFF, MODERATE, DAMPED = (1e7, 1e1), (2e5, 5e2), (1e5, 1e4)
PAIRS = [STIFF, MODERATE, DAMPED]


def error(pair: tuple[float, float], h: float, scheme: LinearScheme) -> float:
    return global_error(*two_mass_chain(*pair), h, scheme, X0, DURATION)


@functools.cache
def limits(pair: tuple[float, float], order: int, corrected: bool) -> list[tuple[float, bool]]:
    scheme = LinearScheme(order, corrected)
    return accuracy_limits(
        *two_mass_chain(*pair), scheme, X0, DURATION, steps=(1e-7, 3e-3), points=24
    )


def limit(pair: tuple[float, float], order: int, corrected: bool) -> float:
    return limits(pair, order, corrected)[-1][0]


def gain(pair: tuple[float, float], order: int) -> float:
    """How much longer the macro step may be with the corrector."""
    return limit(pair, order, True) / limit(pair, order, False)


@given(st.integers(1, 70), st.integers(0, 1000))
def test_doubling_adds_up_what_a_loop_adds_up(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, z = rng.normal(size=(3, 3)) * 0.5, rng.normal(size=3)
    path = [z]
    for _ in range(n - 1):
        path.append(matrix @ path[-1])
    squares, total = sums(matrix, z, n)
    np.testing.assert_allclose(squares, sum(np.outer(p, p) for p in path), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(total, sum(path), rtol=1e-9, atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(
    st.floats(4.0, 8.0),
    st.floats(0.0, 5.0),
    st.floats(-4.5, -3.3),
    st.integers(0, 2),
    st.booleans(),
)
def test_equals_the_error_along_the_trajectory(
    ck: float, dk: float, h: float, order: int, corrected: bool
) -> None:
    chain, L = two_mass_chain(10**ck, 10**dk)
    scheme = LinearScheme(order, corrected)
    with np.errstate(over="ignore", invalid="ignore"):
        _, expected = coupling_errors(chain, L, 10**h, scheme, X0, DURATION)
    found = global_error(chain, L, 10**h, scheme, X0, DURATION)
    if 1e-5 < expected < 1e6:
        assert found == pytest.approx(expected, rel=1e-4)
    else:
        assert found < 1e-4 or not found < 1e5


def test_a_run_that_leaves_the_range_of_numbers_has_no_finite_error() -> None:
    assert error((1e10, 1e7), 1e-4, LinearScheme(2)) == np.inf


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_limit_is_where_the_error_is_a_hundredth(pair: tuple[float, float], order: int) -> None:
    found = limit(pair, order, True)
    assert error(pair, found, LinearScheme(order, True)) == pytest.approx(ACCURATE, rel=0.02)


# -- what the paper says -------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_corrector_allows_longer_steps_everywhere(
    pair: tuple[float, float], order: int
) -> None:
    assert gain(pair, order) > 1.3


def test_it_helps_most_where_the_coupling_is_stiff_and_hardly_damped_and_the_order_low() -> None:
    assert gain(STIFF, 0) > 100.0
    for pair in (MODERATE, DAMPED):
        assert gain(STIFF, 0) > 5.0 * gain(pair, 0)
    for pair in PAIRS:
        assert gain(pair, 0) > 3.0 * gain(pair, 1) > 3.0 * gain(pair, 2)


def test_an_accurate_step_makes_all_shorter_ones_accurate() -> None:
    for pair in PAIRS:
        for order in (0, 1, 2):
            for corrected in (False, True):
                assert [up for _, up in limits(pair, order, corrected)] == [True]


def test_second_order_gains_accuracy_where_it_no_longer_gains_stability() -> None:
    def radius(h: float, corrected: bool) -> float:
        chain, L = two_mass_chain(*STIFF)
        return spectral_radius(propagation_matrix(chain, L, h, LinearScheme(2, corrected)))

    first = [crossings(lambda h, c=c: radius(h, c), 1e-5, 3e-3, 40, 1e-3)[0][0] for c in (0, 1)]
    assert first[1] < first[0]
    assert gain(STIFF, 2) > 2.0


def accurate(h: float, scheme: LinearScheme) -> float:
    """Share of stiffnesses 1 … 1e10 and dampings 1 … 1e7 that are accurate."""
    errors = [
        error((ck, dk), h, scheme)
        for ck in np.geomspace(1.0, 1e10, 11)
        for dk in np.geomspace(1.0, 1e7, 8)
    ]
    return float(np.mean(np.array(errors) <= ACCURATE))


def test_held_inputs_are_nowhere_accurate_at_a_step_where_the_corrector_is() -> None:
    h = 10**-3.5
    assert accurate(h, LinearScheme(0)) == 0.0
    corrected = accurate(h, LinearScheme(0, True))
    assert corrected > 0.2
    # without correction, a region of that size needs a step about thirty times shorter
    assert accurate(10**-4.5, LinearScheme(0)) < corrected
    assert accurate(10**-5.5, LinearScheme(0)) > corrected


def test_the_error_has_a_local_minimum_over_the_stiffness() -> None:
    """Fig. 7: second order with the corrector, next to the limit of accuracy."""
    stiffness = np.geomspace(1e6, 3e7, 41)
    errors = np.array([error((ck, 40.0), 10**-3.5, LinearScheme(2, True)) for ck in stiffness])
    (low,) = [i for i in range(1, 40) if errors[i] < min(errors[i - 1], errors[i + 1])]
    assert 7e6 < stiffness[low] < 1e7
    assert errors[low] < ACCURATE < 2.0 * ACCURATE < errors[:low].max()
    assert errors[low:].max() > 10.0 * ACCURATE
