from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench_configs.models.mass_chain import two_mass_chain
from hilrt.analyze.stability import (
    corrector_matrices,
    coupling_by_order,
    crossings,
    interpolation_weights,
    spectral_radius,
)
from hilrt.coupling.jacobian import block_diagonal
from hilrt.coupling.true_inputs import lagrange_basis
from tests.coupling.corrections import Corrections, network_of
from tools.papers.linear_scheme import (
    LinearScheme,
    coupling_errors,
    propagation_matrix,
    reference_matrix,
    trajectory,
)

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
X0 = np.array([1.0, 0.0, 0.6, 0.0])
METHODS = ["ZOH", "ZOH_MBCorr", "FOH", "FOH_MBCorr", "SOH", "SOH_MBCorr"]


def reference(name: str) -> Any:
    path = REFERENCE / name
    if not path.exists():
        pytest.skip(f"the reference numbers {name} are not beside the repository")
    return json.loads(path.read_text())


def scheme(method: str) -> LinearScheme:
    orders = {"ZOH": 0, "FOH": 1, "SOH": 2, "3OH": 3, "4OH": 4}
    return LinearScheme(orders[method[:3]], corrected=method.endswith("MBCorr"))


@pytest.mark.parametrize("method", METHODS)
def test_all_crossings_of_the_reference(method: str) -> None:
    for ck, dampings in reference("mbcorr_stability.json")["crossings_s"].items():
        for dk, expected in dampings.items():
            chain, L = two_mass_chain(float(ck[3:]), float(dk[3:]))

            def radius(h: float, chain: Any = chain, L: Any = L) -> float:
                return spectral_radius(propagation_matrix(chain, L, h, scheme(method)))

            found = [h for h, _ in crossings(radius, 1e-7, 10**-2.5, points=130, tolerance=1e-4)]
            assert found == pytest.approx(expected[method], rel=1e-3), (ck, dk)


def test_first_crossings_quoted_from_the_paper() -> None:
    chain, L = two_mass_chain(1e7, 1e1)
    expected = [3.6e-7, 1.07e-4, 9.11e-5, 2.11e-4, 5.45e-4, 3.74e-4]
    for method, h in zip(METHODS, expected, strict=True):
        found = crossings(
            lambda h, m=method: spectral_radius(propagation_matrix(chain, L, h, scheme(m))),
            1e-7,
            3e-3,
            points=80,
        )
        assert found[0][0] == pytest.approx(h, rel=0.02), method
        assert found[0][1], method


@pytest.mark.parametrize(
    "h", ["1e-06", "3e-06", "1e-05", "3e-05", "1e-04", "3e-04", "1e-03", "3e-03"]
)
def test_local_errors_of_the_reference(h: str) -> None:
    table = reference("mbcorr_convergence.json")["local_error_at_dT"]
    chain, L = two_mass_chain(2e5, 5e2)
    for method, errors in table.items():
        local, _ = coupling_errors(chain, L, float(h), scheme(method), X0, 0.3)
        if errors[h] > 1e-11:  # below, both are rounding
            assert local == pytest.approx(errors[h], rel=1e-4), method


def test_the_corrector_raises_the_order_by_one() -> None:
    fitted = reference("mbcorr_convergence.json")["order_1e-5_to_1e-4"]
    chain, L = two_mass_chain(2e5, 5e2)
    steps = np.array([3e-5, 5e-5, 1e-4])
    for method, order in fitted.items():
        errors = [coupling_errors(chain, L, h, scheme(method), X0, 0.3)[0] for h in steps]
        slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
        assert slope == pytest.approx(order, abs=0.02), method
        nominal = scheme(method).order + 1 + scheme(method).corrected
        assert slope == pytest.approx(nominal, abs=0.03), method


def test_steps_for_a_local_error() -> None:
    table = reference("mbcorr_convergence.json")["dT_for_local_error"]
    chain, L = two_mass_chain(2e5, 5e2)
    compared = 0
    for method, steps in table.items():
        for wanted, h in steps.items():
            if h is not None:
                local, _ = coupling_errors(chain, L, h, scheme(method), X0, 0.3)
                assert local == pytest.approx(float(wanted), rel=0.002), (method, wanted)
                compared += 1
    assert compared > 50


@pytest.mark.parametrize("order", range(5))
@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_the_matrix_is_what_the_stage_does(order: int, alpha: float) -> None:
    chain, L = two_mass_chain(2e5, 5e2)
    h, steps = 1e-4, 8
    system = block_diagonal(chain)
    A_d, B_s = system.discretize(h, order)
    C = reference_matrix(chain, L, h)[1]
    back = reference_matrix(chain, L, -h)[0]
    past = (C @ trajectory(back, X0, order + 1)).T
    network = network_of(L, order, feedthrough=system.D != 0.0, h=h)
    stage = Corrections(network, system.C @ B_s + system.D, alpha, y0=past[0])
    stage.model.session["samples"] = order + 1
    stage.outputs["past"][:, : order + 1] = past[: order + 1].T
    basis = lagrange_basis(-np.arange(order + 1.0))
    x, y, du = X0, list(past[: order + 1]), np.zeros(3)
    for _ in range(steps):
        sent = np.array(
            [sum(basis[j, m] * L @ y[j] for j in range(order + 1)) for m in range(order + 1)]
        )
        sent[0] += du
        x = A_d @ x + np.einsum("mxu,mu->x", B_s, sent)
        corrected, du = stage.correct(system.C @ x + system.D @ sent.sum(axis=0), sent)
        y = [corrected, *y[:order]]
    matrix = propagation_matrix(chain, L, h, LinearScheme(order, True, alpha))
    z = trajectory(matrix, np.concatenate([X0, past[: order + 1].ravel(), np.zeros(3)]), steps)[
        :, -1
    ]
    scale = np.array([1.0, 1e3, 2e5])
    np.testing.assert_allclose(z[:4], x, rtol=0, atol=1e-8)
    np.testing.assert_allclose(z[4:7] / scale, y[0] / scale, rtol=0, atol=1e-9)
    np.testing.assert_allclose(z[-3:], du, rtol=0, atol=1e-6 * max(1.0, np.abs(du).max()))


def test_wrong_jacobians_are_seen_by_the_analysis() -> None:
    chain, L = two_mass_chain(1e6, 1e3)
    h = 1e-3
    system = block_diagonal(chain)
    exact = system.C @ system.discretize(h, 0)[1] + system.D
    corrected = LinearScheme(0, corrected=True)
    right = spectral_radius(propagation_matrix(chain, L, h, corrected, exact))
    wrong = spectral_radius(propagation_matrix(chain, L, h, corrected, -exact))
    assert right == spectral_radius(propagation_matrix(chain, L, h, corrected))
    assert wrong > 1.0 > right


def test_the_reference_solution_decays() -> None:
    chain, L = two_mass_chain(1e6, 1e3)
    assert spectral_radius(reference_matrix(chain, L, 1e-3)[0]) < 1.0


def test_crossings_reports_direction_and_refuses_nothing_between() -> None:
    found = crossings(lambda h: 1.0 + np.sin(np.log(h)), 0.5, 30.0, points=200)
    assert [direction for _, direction in found] == [True, False]
    np.testing.assert_allclose([h for h, _ in found], np.exp([0.0, np.pi]), rtol=1e-5)
    assert crossings(lambda h: 0.5, 0.1, 1.0, points=10) == []


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
    matrices = corrector_matrices(coupling, gamma, alpha, stage.network.feedthrough.dense() != 0.0)
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
