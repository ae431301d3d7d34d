from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench_configs.models.mass_chain import two_mass_chain
from hilrt.coupling.build_model import MAX_VARIABLES, Jacobians, build_model
from hilrt.coupling.jacobian import assemble
from hilrt.coupling.true_inputs import basis_by_degree, lagrange_basis
from hilrt.errors import ConfigError
from hilrt.solver import Floats
from hilrt.tables.record import cloned
from tests.coupling.corrections import Corrections, network_of

#: Share of L ∇^{p+1} ȳ in δu_c (Haid et al. 2022, eqs. 22 to 25; here for any order).
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
    if not L.any():
        return
    ny, nu = 4, 5
    rng = np.random.default_rng(seed + 1)
    # The order of a session is that of its connections: one of the five has to exist.
    past = [rng.normal(size=ny)]
    session = Corrections(network_of(L, p), gamma, alpha, y0=past[0])
    gamma = np.where((L != 0).any(axis=1), gamma, 0.0)
    basis = lagrange_basis(1.0 - np.arange(p + 1.0))
    G = np.tensordot(basis[0], gamma, 1)
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
        corrected, du = session.correct(y, sent)
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
    # Haid et al. (2022), eqs. 16, 18 and 19
    G = [CB0 + D, CB1 / h + D, CB1 / (2 * h) + CB2 / h**2 + D][p]
    scale = np.array([1.0, 1e3, 1e5])  # of displacement, velocity and force
    rng = np.random.default_rng(p)
    past = [rng.normal(size=3) * scale for _ in range(p + 1)]
    network = network_of(L, p, parts=[(2, 1), (1, 2)], h=h)
    session = Corrections(network, known[: p + 1], y0=past[-1])
    session.model.session["samples"] = p + 1
    session.outputs["past"][:, : p + 1] = np.transpose(past)
    du = rng.normal(size=3) * (L @ scale) * 0.01
    session.inputs["offset"] = du
    sent = extrapolate(past, p, L)
    sent[0] += du
    y = rng.normal(size=3) * scale
    guess = [past[0], 2 * past[0] - past[-1], 0.0][p]
    if p == 2:
        guess = 3 * past[0] - 3 * past[1] + past[2]
    expected = np.linalg.solve(np.eye(3) - G @ L, y - G @ L @ guess - (CB0 + D) @ du)
    corrected, _ = session.correct(y, sent)
    np.testing.assert_allclose(corrected / scale, expected / scale, rtol=1e-12, atol=1e-12)


def test_an_uncoupled_sum_as_sent_wrong_by_a_known_amount() -> None:
    # y2 = 3 u; u = 2 y0 - y1 was sent 0.5 too low in the step that ended
    gamma = np.zeros((1, 3, 1))
    gamma[0, 2, 0] = 3.0
    L = np.array([[2.0, -1.0, 0.0]])
    session = Corrections(network_of(L), gamma, 0.0, y0=np.zeros(3))
    corrected, _ = session.correct(np.array([1.0, 0.5, 3.0 * 1.0]), np.array([[1.0]]))
    np.testing.assert_allclose(corrected, [1.0, 0.5, 3.0 * 1.5], rtol=1e-15)


def test_what_has_no_jacobian_is_left_as_it_is() -> None:
    gamma, L = random_network(3, 1)
    gamma[:, :2] = 0.0  # outputs 0 and 1 belong to a subsystem of which nothing is known
    gamma[:, :, :2] = 0.0  # and inputs 0 and 1
    feedthrough = np.zeros((4, 5), dtype=bool)
    feedthrough[:2, :2] = True
    session = Corrections(network_of(L, 1, feedthrough=feedthrough), gamma)
    rng = np.random.default_rng(0)
    for _ in range(5):
        y = rng.normal(size=4)
        corrected, du = session.correct(y, rng.normal(size=(2, 5)))
        np.testing.assert_array_equal(corrected[:2], y[:2])
        assert not du[:2].any()
        assert (corrected[2:] != y[2:]).all()


def test_inputs_without_connection_count_as_right() -> None:
    gamma = np.ones((2, 1, 2))
    session = Corrections(network_of(np.array([[1.0], [0.0]]), 1), gamma, y0=np.zeros(1))
    sent = np.array([[0.0, 7.0], [0.0, -3.0]])  # the second input is driven from elsewhere
    corrected, du = session.correct(np.zeros(1), sent)
    assert corrected == 0.0
    assert not du.any()


def test_offsets_of_connections_are_part_of_the_true_input() -> None:
    network = network_of(np.eye(1), 0, offset=10.0)
    session = Corrections(network, np.full((1, 1, 1), 0.5), y0=np.array([2.0]))
    corrected, du = session.correct(np.array([2.0]), np.array([[12.0]]))
    np.testing.assert_allclose(corrected, [2.0])
    np.testing.assert_allclose(du, [0.0], atol=1e-15)


def test_mixed_orders_take_each_connection_at_its_own() -> None:
    # y0 feeds both inputs: the first held, the second at first order
    gamma = np.zeros((2, 3, 2))
    gamma[:, 1, 0] = [1.0, 0.4]
    gamma[:, 2, 1] = [1.0, 0.4]
    L = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    network = network_of(L, np.array([[0, 0, 0], [1, 1, 1]]))
    session = Corrections(network, gamma, 0.0, y0=np.array([1.0, 0.0, 0.0]))
    session.correct(np.array([2.0, 0.0, 0.0]), np.array([[1.0, 1.0]]))
    sent = np.array([[2.0, 2.0], [0.0, 1.0]])
    corrected, _ = session.correct(np.array([4.0, 0.0, 0.0]), sent)
    # held: true input 4 against 2; first order: slope 2 against 1
    np.testing.assert_allclose(corrected, [4.0, 2.0, 0.4], rtol=1e-14)


def test_variable_step_uses_the_nodes_given() -> None:
    # y = t² sampled at t = -2, 0, 1: the mean over [0, 1] of the parabola is 1/3
    gamma = np.zeros((2, 2, 2))
    gamma[:, :, 1] = 1e-30  # only there to let δu_c act
    network = network_of(np.array([[0.0, 0.0], [1.0, 0.0]]), 1)
    session = Corrections(network, gamma, y0=np.array([4.0, 0.0]))
    basis, means = basis_by_degree(1, np.array([1.0, 0.0, -2.0]))
    session.plan.model.settings["basis"][0, :3, :3, :3] = basis
    session.plan.model.settings["means"][0, :3, :3] = means
    session.model.session["samples"] = 2
    session.outputs["past"][:, :2] = [[0.0, 4.0], [0.0, 0.0]]
    _, du = session.correct(np.array([1.0, 0.0]), np.zeros((2, 2)))
    np.testing.assert_allclose(du[1], 1 / 3, rtol=1e-13)


@pytest.mark.parametrize("p", range(5))
def test_a_smooth_signal_is_corrected_from_the_first_step_on(p: int) -> None:
    # y1 = Γ-weighted input of a parabola of degree p in y0; sent polynomials are held constants
    gamma = np.zeros((p + 1, 2, 1))
    gamma[:, 1, 0] = 1.0 / np.arange(1.0, p + 2.0)  # an integrator of the input over s
    session = Corrections(network_of(np.array([[1.0, 0.0]]), p), gamma, 0.0, y0=np.zeros(2))
    for n in range(1, 8):
        held = np.array([[(n - 1.0) ** p]])
        corrected, _ = session.correct(np.array([float(n) ** p, held[0, 0]]), held)
        if n >= p:  # p + 1 points fix the polynomial
            right = (n ** (p + 1) - (n - 1) ** (p + 1)) / (p + 1) if p else 1.0
            np.testing.assert_allclose(corrected[1], right, rtol=1e-10)


def test_bad_values_pass_uncorrected_and_do_not_stay() -> None:
    gamma, L = random_network(1, 1)
    session = Corrections(network_of(L, 1), gamma, y0=np.zeros(4))
    bad = np.array([1.0, np.nan, 2.0, 3.0])
    corrected, du = session.correct(bad, np.zeros((2, 5)))
    np.testing.assert_array_equal(corrected, bad)
    assert not du.any()
    for _ in range(4):
        corrected, du = session.correct(np.ones(4), np.zeros((2, 5)))
        assert np.isfinite(corrected).all()
    assert (corrected != 1.0).any()


def test_a_loop_that_cannot_be_solved_corrects_nothing() -> None:
    session = Corrections(network_of(np.eye(1)), np.ones((1, 1, 1)), y0=np.zeros(1))  # y = y
    corrected, du = session.correct(np.array([5.0]), np.array([[2.0]]))
    assert not session.model.session["solvable"].any()
    assert corrected == 5.0
    assert du == 0.0


@pytest.mark.parametrize(("shape", "order"), [((1, 2, 1), 0), ((2, 1, 1), 2)])
def test_a_jacobian_of_the_wrong_shape_is_named(shape: tuple[int, int, int], order: int) -> None:
    network, _ = network_of(np.eye(1), order)
    jacobians = Jacobians(1e-3, {0: np.zeros(shape)}, [], np.ones(1, dtype=bool))
    with pytest.raises(ValueError, match="s0 has shape"):
        build_model(network, np.zeros(1), jacobians)


@pytest.mark.parametrize("order", [-1, 5])
def test_jacobians_have_orders_up_to_four(order: int) -> None:
    with pytest.raises(ValueError, match="orders 0 to 4"):
        basis_by_degree(order)


def test_a_session_that_is_too_large_is_refused() -> None:
    n = MAX_VARIABLES // 2 + 1
    network, _ = network_of(np.eye(n))
    jacobians = Jacobians(1e-3, {0: np.zeros((1, n, n))}, [], np.ones(n, dtype=bool))
    with pytest.raises(ConfigError, match=f"{2 * n} coupling variables"):
        build_model(network, np.zeros(n), jacobians)


def test_offsets_keep_off_what_is_not_corrected() -> None:
    # two subsystems, crosswise: y0 feeds u1, y1 feeds u0; only y1 is corrected
    L = np.array([[0.0, 1.0], [1.0, 0.0]])
    gamma = np.zeros((1, 2, 2))
    gamma[0, 1, 1] = 0.5
    alphas = []
    for feedthrough in ([[True, False], [False, True]], [[False, False], [False, True]]):
        session = Corrections(network_of(L, 0, feedthrough=feedthrough), gamma)
        session.correct(np.ones(2), np.zeros((1, 2)))
        alphas.append(session.inputs["alpha"].tolist())
    # u0 shows in y0 at once if that depends on it; u1 rests on y0, which is not corrected
    assert alphas == [[0.0, 0.0], [1.0, 0.0]]


def test_jacobians_that_replace_others_correct_with_the_past_at_hand() -> None:
    gamma, L = random_network(5, 2)
    session, other = (Corrections(network_of(L, 2), part) for part in (2.0 * gamma, gamma))
    session.given.gamma[...] = gamma
    session.given.session["renewed"] = 1
    rng = np.random.default_rng(0)
    for _ in range(5):
        y, sent = rng.normal(size=4), rng.normal(size=(3, 5))
        first, offsets = session.correct(y, sent)
        second, others = other.correct(y, sent)
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(offsets, others)
        assert (first != y).any()
        session.given.session["renewed"] = 0
    np.testing.assert_array_equal(session.model.triangles, other.model.triangles)


@pytest.mark.parametrize("p", [0, 1, 3])
def test_input_errors_are_what_the_correction_corrects(p: int) -> None:
    gamma, L = random_network(7, p)
    session = Corrections(network_of(L, p, offset=0.3), gamma)
    rng = np.random.default_rng(1)
    for n in range(6):
        y, sent = rng.normal(size=4), rng.normal(size=(p + 1, 5))
        corrected, _ = session.correct(y, sent)
        errors = session.inputs["error"][:, : p + 1].T
        if n >= p:
            expected = y + np.einsum("myu,mu->y", gamma, errors)
            np.testing.assert_allclose(corrected, expected, rtol=1e-11, atol=1e-11)


def test_a_step_of_another_length_is_not_corrected_and_starts_the_past_anew() -> None:
    gamma, L = random_network(2, 1)
    session = Corrections(network_of(L, 1), gamma)
    rng = np.random.default_rng(1)
    for _ in range(3):
        session.correct(rng.normal(size=4), rng.normal(size=(2, 5)))
    assert session.model.session["samples"] == 2
    y, session.h = rng.normal(size=4), 2.0 * session.h
    corrected, offsets = session.correct(y, rng.normal(size=(2, 5)))
    np.testing.assert_array_equal(corrected, y)
    assert not offsets.any()
    assert session.model.session["samples"] == 1
    np.testing.assert_array_equal(session.outputs["past"][:, 0], y)


def test_a_copy_is_independent() -> None:
    gamma, L = random_network(2, 1)
    session = Corrections(network_of(L, 1), gamma, y0=np.zeros(4))
    snapshot = Corrections(network_of(L, 1), gamma, y0=np.zeros(4))
    snapshot.state = cloned(session.state)
    snapshot.model = snapshot.state.model
    first, _ = session.correct(np.ones(4), np.ones((2, 5)))
    again, _ = snapshot.correct(np.ones(4), np.ones((2, 5)))
    np.testing.assert_array_equal(first, again)
