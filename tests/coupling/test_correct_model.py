from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hilrt.coupling import correct_model
from hilrt.coupling.correct_model import build_plan, correct, input_errors
from hilrt.coupling.jacobian import assemble
from hilrt.coupling.true_inputs import couple, lagrange_basis
from hilrt.models.two_mass_chain import two_mass_chain
from hilrt.solver import Floats

#: Share of L ∇^{p+1} ȳ in δu_c (Haid et al. 2022, eqs. 24 and 25).
GAMMA_P = [1 / 2, 5 / 12, 3 / 8, 251 / 720, 95 / 288]


def random_network(seed: int, p: int, ny: int = 4, nu: int = 5) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(nu, ny)) * (rng.random((nu, ny)) < 0.5)  # sums, gains, zero rows
    return rng.normal(size=(p + 1, ny, nu)) * 0.2, L


def extrapolate(past: list[Floats], p: int, L: Floats) -> Floats:
    """Power coefficients on s of the polynomial through past[0] (newest, s = 0), past[1], …"""
    basis = lagrange_basis(-np.arange(p + 1.0))
    return np.array([sum(basis[j, m] * (L @ past[j]) for j in range(p + 1)) for m in range(p + 1)])


@given(st.integers(1, 6))
def test_basis_is_one_at_its_node_and_zero_at_the_others(n: int) -> None:
    nodes = 1.0 - np.arange(n) * np.linspace(1.0, 1.4, n)
    values = lagrange_basis(nodes) @ np.vander(nodes, increasing=True).T
    np.testing.assert_allclose(values, np.eye(n), atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0]))
def test_equals_the_paper_when_nothing_else_touched_the_inputs(
    seed: int, p: int, alpha: float
) -> None:
    gamma, L = random_network(seed, p)
    ny, nu = 4, 5
    rng = np.random.default_rng(seed + 1)
    plan = build_plan(couple(L, p), gamma, alpha)
    gamma = np.where((L != 0).any(axis=1), gamma, 0.0)
    basis = lagrange_basis(1.0 - np.arange(p + 1.0))
    G = np.tensordot(basis[0], gamma, 1)
    state = correct_model.start(plan, rng.normal(size=ny))
    past = [state.stack[ny : 2 * ny].copy()]
    du = np.zeros(nu)
    for step in range(12):
        full = step >= p + 1
        sent = extrapolate(past, min(p, len(past) - 1), L)
        sent[0] += du
        y = rng.normal(size=ny)
        expected = expected_du = None
        if full:
            E = sum((-1) ** j * math.comb(p + 1, j + 1) * past[j] for j in range(p + 1))
            expected = np.linalg.solve(np.eye(ny) - G @ L, y - G @ L @ E - gamma[0] @ du)
            newest = [expected, *past]
            difference = sum((-1) ** j * math.comb(p + 1, j) * newest[j] for j in range(p + 2))
            expected_du = (1.0 - alpha) * du + alpha * GAMMA_P[p] * (L @ difference)
        corrected, du = correct(state, plan, y, sent)
        if full:
            scale = max(1.0, np.abs(past).max(), np.abs(expected).max())
            np.testing.assert_allclose(corrected, expected, rtol=0, atol=2e-13 * scale)
            if alpha:
                np.testing.assert_allclose(du, expected_du, rtol=0, atol=2e-13 * scale)
            else:
                assert not du.any()
        past = [corrected, *past[: p + 1]]


@pytest.mark.parametrize("p", [0, 1, 2])
def test_the_papers_hold_formulas(p: int) -> None:
    subsystems, L = two_mass_chain(2e5, 5e2)
    h = 2e-4
    known = assemble([s.jacobian(h, 2) for s in subsystems], [2, 1], [1, 2], order=2)
    CB0, CB1, CB2 = (  # C B_dm, from Γ_m = m!/H^m C B_dm + D
        (known[m] - assemble([s.D[None] for s in subsystems], [2, 1], [1, 2], order=0)[0])
        * h**m
        / math.factorial(m)
        for m in range(3)
    )
    D = assemble([s.D[None] for s in subsystems], [2, 1], [1, 2], order=0)[0]
    G = [CB0 + D, CB1 / h + D, CB1 / (2 * h) + CB2 / h**2 + D][p]  # eq. 15, 18, 19
    scale = np.array([1.0, 1e3, 1e5])  # of displacement, velocity and force
    rng = np.random.default_rng(p)
    past = [rng.normal(size=3) * scale for _ in range(p + 1)]
    plan = build_plan(couple(L, p), known[: p + 1])
    state = correct_model.start(plan, past[-1])
    state.samples = p + 1
    state.stack[3 : 3 * (p + 2)] = np.concatenate(past)
    state.du = rng.normal(size=3) * (L @ scale) * 0.01
    du = state.du
    sent = extrapolate(past, p, L)
    sent[0] += du
    y = rng.normal(size=3) * scale
    guess = [past[0], 2 * past[0] - past[-1], 0.0][p]
    if p == 2:
        guess = 3 * past[0] - 3 * past[1] + past[2]
    expected = np.linalg.solve(np.eye(3) - G @ L, y - G @ L @ guess - (CB0 + D) @ du)
    corrected, _ = correct(state, plan, y, sent)
    np.testing.assert_allclose(corrected / scale, expected / scale, rtol=1e-12, atol=1e-12)


def test_an_uncoupled_sum_as_sent_wrong_by_a_known_amount() -> None:
    # y2 = 3 u; u = 2 y0 - y1 was sent 0.5 too low in the step that ended
    gamma = np.zeros((1, 3, 1))
    gamma[0, 2, 0] = 3.0
    L = np.array([[2.0, -1.0, 0.0]])
    plan = build_plan(couple(L, 0), gamma, 0.0)
    state = correct_model.start(plan, np.zeros(3))
    y = np.array([1.0, 0.5, 3.0 * 1.0])
    corrected, _ = correct(state, plan, y, np.array([[1.0]]))
    np.testing.assert_allclose(corrected, [1.0, 0.5, 3.0 * 1.5], rtol=1e-15)


def test_what_has_no_jacobian_is_left_as_it_is() -> None:
    gamma, L = random_network(3, 1)
    gamma[:, :2] = 0.0  # outputs 0 and 1 belong to a subsystem of which nothing is known
    gamma[:, :, :2] = 0.0  # and inputs 0 and 1
    plan = build_plan(couple(L, 1), gamma)
    state = correct_model.start(plan, np.ones(4))
    rng = np.random.default_rng(0)
    for _ in range(5):
        y = rng.normal(size=4)
        corrected, du = correct(state, plan, y, rng.normal(size=(2, 5)))
        np.testing.assert_array_equal(corrected[:2], y[:2])
        assert not du[:2].any()
        assert (corrected[2:] != y[2:]).all()


def test_inputs_without_connection_count_as_right() -> None:
    gamma = np.ones((2, 1, 2))
    L = np.array([[1.0], [0.0]])
    plan = build_plan(couple(L, 1), gamma)
    state = correct_model.start(plan, np.zeros(1))
    sent = np.array([[0.0, 7.0], [0.0, -3.0]])  # the second input is driven from elsewhere
    corrected, du = correct(state, plan, np.zeros(1), sent)
    assert corrected == 0.0
    assert not du.any()


def test_offsets_of_connections_are_part_of_the_true_input() -> None:
    plan = build_plan(couple(np.eye(1), 0, offset=10.0), np.full((1, 1, 1), 0.5))
    state = correct_model.start(plan, np.array([2.0]))
    corrected, du = correct(state, plan, np.array([2.0]), np.array([[12.0]]))
    np.testing.assert_allclose(corrected, [2.0])
    np.testing.assert_allclose(du, [0.0], atol=1e-15)


def test_mixed_orders_take_each_connection_at_its_own() -> None:
    # y0 feeds both inputs: the first held, the second at first order
    gamma = np.zeros((2, 3, 2))
    gamma[:, 1, 0] = [1.0, 0.4]
    gamma[:, 2, 1] = [1.0, 0.4]
    L = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    orders = np.array([[0, 0, 0], [1, 1, 1]])
    plan = build_plan(couple(L, orders), gamma, 0.0)
    state = correct_model.start(plan, np.array([1.0, 0.0, 0.0]))
    correct(state, plan, np.array([2.0, 0.0, 0.0]), np.array([[1.0, 1.0]]))
    sent = np.array([[2.0, 2.0], [0.0, 1.0]])
    corrected, _ = correct(state, plan, np.array([4.0, 0.0, 0.0]), sent)
    # held: true input 4 against 2; first order: slope 2 against 1
    np.testing.assert_allclose(corrected, [4.0, 2.0, 0.4], rtol=1e-14)


def test_variable_step_uses_the_nodes_given() -> None:
    # y = t² sampled at t = -2, 0, 1: the mean over [0, 1] of the parabola is 1/3
    nodes = np.array([1.0, 0.0, -2.0])
    gamma = np.zeros((2, 2, 2))
    gamma[:, :, 1] = 1e-30  # only there to let δu_c act
    plan = build_plan(couple(np.array([[0.0, 0.0], [1.0, 0.0]]), 1, nodes=nodes), gamma)
    state = correct_model.start(plan, np.array([4.0, 0.0]))
    state.samples = 2
    state.stack[2:6] = [0.0, 0.0, 4.0, 0.0]
    _, du = correct(state, plan, np.array([1.0, 0.0]), np.zeros((2, 2)))
    np.testing.assert_allclose(du[1], 1 / 3, rtol=1e-13)


@pytest.mark.parametrize("p", range(5))
def test_a_smooth_signal_is_corrected_from_the_first_step_on(p: int) -> None:
    # y1 = Γ-weighted input of a parabola of degree p in y0; sent polynomials are held constants
    gamma = np.zeros((p + 1, 2, 1))
    gamma[:, 1, 0] = 1.0 / np.arange(1.0, p + 2.0)  # an integrator of the input over s
    L = np.array([[1.0, 0.0]])
    plan = build_plan(couple(L, p), gamma, 0.0)
    state = correct_model.start(plan, np.zeros(2))
    for n in range(1, 8):
        held = np.array([[(n - 1.0) ** p]])
        corrected, _ = correct(state, plan, np.array([float(n) ** p, held[0, 0]]), held)
        if n >= p:  # p + 1 points fix the polynomial
            right = (n ** (p + 1) - (n - 1) ** (p + 1)) / (p + 1) if p else 1.0
            np.testing.assert_allclose(corrected[1], right, rtol=1e-10)


def test_bad_values_pass_uncorrected_and_do_not_stay() -> None:
    gamma, L = random_network(1, 1)
    plan = build_plan(couple(L, 1), gamma)
    state = correct_model.start(plan, np.zeros(4))
    bad = np.array([1.0, np.nan, 2.0, 3.0])
    corrected, du = correct(state, plan, bad, np.zeros((2, 5)))
    np.testing.assert_array_equal(corrected, bad)
    assert not du.any()
    for _ in range(4):
        corrected, du = correct(state, plan, np.ones(4), np.zeros((2, 5)))
        assert np.isfinite(corrected).all()
    assert (corrected != 1.0).any()


def test_a_loop_that_cannot_be_solved_corrects_nothing() -> None:
    plan = build_plan(couple(np.eye(1), 0), np.ones((1, 1, 1)))  # y = y
    assert plan.singular
    state = correct_model.start(plan, np.zeros(1))
    corrected, _ = correct(state, plan, np.array([5.0]), np.zeros((1, 1)))
    assert corrected == 5.0


@pytest.mark.parametrize(
    ("shape", "order", "words"),
    [
        ((1, 2, 1), 0, "shape"),
        ((2, 1, 1), 2, "shape"),
        ((6, 1, 1), 5, "at most"),
        ((1, 1, 1), -1, "at most"),
    ],
)
def test_wrong_arguments_are_named(shape: tuple[int, int, int], order: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build_plan(couple(np.eye(1), order), np.zeros(shape))


def test_offsets_keep_off_what_is_not_corrected() -> None:
    # two subsystems, crosswise: y0 feeds u1, y1 feeds u0; only y1 is corrected
    L = np.array([[0.0, 1.0], [1.0, 0.0]])
    gamma = np.zeros((1, 2, 2))
    gamma[0, 1, 1] = 0.5
    without = build_plan(couple(L, 0), gamma)
    assert without.alpha.tolist() == [0.0, 0.0]  # u0 might show in y0 at once
    told = build_plan(couple(L, 0, feedthrough=np.array([[False, False], [False, True]])), gamma)
    assert told.alpha.tolist() == [1.0, 0.0]  # u1 rests on y0, which is not corrected


def test_a_plan_without_start_up_waits_for_its_history() -> None:
    gamma, L = random_network(5, 2)
    plan = build_plan(couple(L, 2), gamma, start_up=False)
    full = build_plan(couple(L, 2), gamma)
    state, other = correct_model.start(plan, np.ones(4)), correct_model.start(full, np.ones(4))
    rng = np.random.default_rng(0)
    for n in range(5):
        y, sent = rng.normal(size=4), rng.normal(size=(3, 5))
        first, _ = correct(state, plan, y, sent)
        second, _ = correct(other, full, y, sent)
        if n < 2:
            np.testing.assert_array_equal(first, y)
            assert (second != y).any()
    np.testing.assert_array_equal(plan.outputs[-1], full.outputs[-1])


@pytest.mark.parametrize("p", [0, 1, 3])
def test_input_errors_are_what_the_correction_corrects(p: int) -> None:
    gamma, L = random_network(7, p)
    plan = build_plan(couple(L, p, offset=0.3), gamma)
    state = correct_model.start(plan, np.ones(4))
    rng = np.random.default_rng(1)
    for n in range(6):
        y, sent = rng.normal(size=4), rng.normal(size=(p + 1, 5))
        corrected, _ = correct(state, plan, y, sent)
        errors = input_errors(state, plan, sent)
        if n >= p:
            expected = y + np.einsum("myu,mu->y", gamma, errors)
            np.testing.assert_allclose(corrected, expected, rtol=1e-11, atol=1e-11)


def test_a_copy_is_independent() -> None:
    gamma, L = random_network(2, 1)
    plan = build_plan(couple(L, 1), gamma)
    state = correct_model.start(plan, np.zeros(4))
    snapshot = state.copy()
    y = np.ones(4)
    first, _ = correct(state, plan, y, np.ones((2, 5)))
    again, _ = correct(snapshot, plan, y, np.ones((2, 5)))
    np.testing.assert_array_equal(first, again)
