"""An FMU of FMI 3 whose states, inputs and outputs are arrays, against its own matrices."""

import numpy as np
import pytest
from scipy.integrate import quad_vec
from scipy.linalg import expm

from hilrt.fmu.description import read_fmu
from hilrt.hosting.hosted_solver import HostedSolver
from hilrt.hosting.linear_model import find_linear_model, renew_linear_model
from hilrt.session.simulate import simulate
from hilrt.solver import InputPolynomial
from tests.fmu.build import linear, needs_compiler
from tests.fmu.driving import fmu_solver
from tests.reliability.test_changing_sensitivities import judged, of_limit_cycle, uncovered

pytestmark = needs_compiler

STEP = 0.1
#: States, inputs, outputs: as the FMU has them without being told, and otherwise.
SIZES = [(3, 2, 2), (2, 1, 4), (4, 3, 1)]


def matrices(n, m, p):
    """A, B, C, D of a stable system, different in every element."""
    rng = np.random.default_rng(100 * n + 10 * m + p)
    A = rng.normal(size=(n, n)) * 3.0 - 6.0 * np.eye(n)
    return A, rng.normal(size=(n, m)), rng.normal(size=(p, n)), rng.normal(size=(p, m))


def made(sizes, outputs=None, **how):
    """The solver, at a state of its own, and the inputs it was initialized with."""
    names = dict(zip("ABCD", (one.ravel().tolist() for one in matrices(*sizes)), strict=True))
    sized = dict(zip("nmp", sizes, strict=True)) if sizes != SIZES[0] else {}
    start = {"x": np.linspace(1.0, 2.0, sizes[0]).tolist()}
    solver = fmu_solver(linear(**how), params={**sized, **names, **start}, outputs=outputs)
    u0 = np.linspace(-1.0, 1.0, sizes[1])
    hosted = HostedSolver(solver)
    hosted.initialize(0.0, u0)
    return hosted, u0


def reference(sizes, order, held=False):
    """Γ_0 … Γ_order by quadrature over scipy's matrix exponential, (order + 1, p, m)."""
    A, B, C, D = matrices(*sizes)

    def part(power):
        def under(tau):
            return expm(A * (STEP - tau)) @ B * (0.0 if held and power else (tau / STEP) ** power)

        return C @ quad_vec(under, 0.0, STEP, epsabs=1e-13, epsrel=1e-12)[0] + D

    return np.array([part(power) for power in range(order + 1)])


@pytest.mark.parametrize("sizes", SIZES)
def test_ports_are_arrays_of_the_sizes_that_structural_parameters_give(sizes):
    hosted, _ = made(sizes)
    assert [(port.name, port.size) for port in hosted.inputs] == [("u", sizes[1])]
    assert [(port.name, port.size) for port in hosted.outputs] == [("y", sizes[2])]
    hosted.stop("done")


@pytest.mark.parametrize("sizes", SIZES)
def test_directional_derivatives_give_the_matrices(sizes):
    hosted, _ = made(sizes)
    system = hosted.solver.linearised()
    for name, expected in zip("ABCD", matrices(*sizes), strict=True):
        np.testing.assert_allclose(getattr(system, name), expected, rtol=1e-14, err_msg=name)
    hosted.stop("done")


@pytest.mark.parametrize("inside", [True, False], ids=["intermediate update", "held"])
def test_a_trial_before_the_first_step_takes_the_derivatives(inside):
    hosted, u0 = made(SIZES[0], inside=inside)
    found = find_linear_model(hosted, u0, STEP)
    for one, expected in zip(found[:4], matrices(*SIZES[0]), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-14)
    assert found.fineness.tolist() == [1.0] * 2
    assert found.slope.tolist() == [float(inside)] * 2
    hosted.stop("done")


def test_without_derivatives_its_state_is_opaque_and_nothing_is_known():
    hosted, u0 = made(SIZES[0], directional=False)
    assert find_linear_model(hosted, u0, STEP) is None
    hosted.stop("done")


@pytest.mark.parametrize("sizes", SIZES)
def test_states_beside_outputs_are_outputs_of_it(sizes):
    """y and x in one vector: C and D get the rows of x, which has no feedthrough."""
    hosted, _ = made(sizes, ["y", "x"])
    system, n = hosted.solver.linearised(), sizes[0]
    _, _, C, D = matrices(*sizes)
    np.testing.assert_allclose(system.C, np.vstack([C, np.eye(n)]), rtol=1e-14)
    np.testing.assert_allclose(system.D, np.vstack([D, np.zeros((n, sizes[1]))]), rtol=1e-14)
    hosted.stop("done")


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("inside", [True, False], ids=["intermediate update", "held"])
@pytest.mark.parametrize("source", ["solver", "probe"])
def test_jacobians_are_those_of_the_matrix_exponential(sizes, inside, source):
    hosted, u0 = made(sizes, inside=inside)
    gamma = hosted.jacobian(source, 0.0, STEP, 2, u0)
    expected = reference(sizes, 2, held=not inside)
    np.testing.assert_allclose(gamma, expected, rtol=1e-6, atol=1e-8)
    hosted.stop("done")


def test_a_probe_needs_no_derivatives():
    """Nor do outputs: they have the inputs of the end, which are set before they are read."""
    sizes = SIZES[0]
    hosted, u0 = made(sizes, directional=False)
    assert not hosted.solver.fmu.directional
    gamma = hosted.jacobian("solver", 0.0, STEP, 1, u0)  # falls back on a probe
    np.testing.assert_allclose(gamma, reference(sizes, 1, held=True), rtol=1e-6, atol=1e-8)
    hosted.stop("done")


@pytest.mark.parametrize("sizes", SIZES)
def test_a_step_is_that_of_the_matrices(sizes):
    """The state, which the Jacobians leave out: y = C e^{AH} x + Σ Γ_m a_m."""
    hosted, u0 = made(sizes, inside=True)
    A, _, C, _ = matrices(*sizes)
    x0 = np.linspace(1.0, 2.0, sizes[0])
    rates = np.linspace(3.0, 5.0, sizes[1])
    y = hosted.solver.advance(0.0, STEP, InputPolynomial(0.0, np.array([u0, rates]))).y
    gamma = reference(sizes, 1)
    expected = C @ expm(A * STEP) @ x0 + gamma[0] @ u0 + gamma[1] @ rates * STEP
    np.testing.assert_allclose(y, expected, rtol=1e-7, atol=1e-9)
    hosted.stop("done")


def test_its_description_follows_the_standard():
    for inside in (True, False):
        assert read_fmu(linear(inside=inside)).notes == []


def test_a_trial_along_the_way_takes_the_derivatives_and_leaves_the_steps_as_they_are():
    (hosted, u0), (other, _) = made(SIZES[0]), made(SIZES[0])
    for k in range(3):
        t = k * STEP
        y, expected = (one.advance(t, STEP, u0[None]).y for one in (hosted, other))
        np.testing.assert_array_equal(y, expected)
        found = renew_linear_model(hosted, t + STEP, u0, STEP)
        for one, matrix in zip(found[:4], matrices(*SIZES[0]), strict=True):
            np.testing.assert_allclose(one, matrix, rtol=1e-14)
    hosted.stop("done")
    other.stop("done")


def test_sensitivities_along_the_way_follow_a_limit_cycle_of_which_a_half_is_an_fmu(tmp_path):
    """Van der Pol's oscillator from beside its unstable point: as with two Python solvers."""
    scalar = "n = 1, m = 1, p = 1, A = [0.0], B = [1.0], C = [1.0], D = [0.0], x = [0.01]"
    path = tmp_path / "cycle.toml"
    path.write_text(f"""
[session]
name = "cycle"
pace = "asap"
duration = 30.0
[master]
step = 0.005
extrapolation.order = 0
[subsystems.position]
adapter = "fmu"
fmu = "{linear()}"
params = {{ {scalar} }}
feedthrough = {{ y = [] }}
[subsystems.speed]
adapter = "inprocess"
model = "tests.reliability.changing_systems:Speed"
[[connections]]
from = "position.y"
to = "speed.x"
[[connections]]
from = "speed.v"
to = "position.u"
""")
    result = simulate(path)
    errors = judged(result, of_limit_cycle, {"position.y": 0.01, "speed.v": 0.0})
    assert not uncovered(result, errors)
    assert all(0.05 < true < 0.2 for true, _ in errors.values())
    assert result.verdict == "degraded"
