import numpy as np
import pytest
from scipy.linalg import expm

from bench_configs.models.two_mass_rotational import Side1, Side2
from hilrt.solver import InputPolynomial


def test_small_steps_follow_the_exact_solution_of_the_coupled_oscillator():
    # states φ1, ω1, φ2, ω2 with J = 10, c = 1, d = (1, 2), ck = 1, dk = 2 (Glumac and Kovačić 2023)
    A = np.array(
        [[0, 1, 0, 0], [-0.2, -0.3, 0.1, 0.2], [0, 0, 0, 1], [0.1, 0.2, -0.2, -0.4]], dtype=float
    )
    exact = expm(A) @ [0.1, 0.1, 0.2, 0.1]
    one, two, h = Side1(), Side2(), 1e-3
    for k in range(1000):
        t = k * h
        torque = one.initialize(t, np.array([two.state[1]])).y[0]
        omega2 = two.state[1]
        one.advance(t, h, InputPolynomial(t, np.array([[omega2]])))
        two.advance(t, h, InputPolynomial(t, np.array([[torque]])))
    np.testing.assert_allclose([*one.state[:2], *two.state], exact, atol=2e-4)
    assert one.state[2] == pytest.approx(two.state[0], abs=1e-12)  # side 1's copy of φ2


@pytest.mark.parametrize("solver", [Side1(), Side2()])
def test_the_middle_is_a_half_step(solver):
    u = InputPolynomial(2.0, np.array([[0.3], [1.5]]))
    saved = solver.save_state()
    middle = solver.advance(2.0, 0.1, u).y_mid
    solver.restore_state(saved)
    np.testing.assert_allclose(solver.advance(2.0, 0.05, u).y, middle, rtol=1e-15)


def test_torque_has_feedthrough_and_is_evaluated_with_the_input_at_the_end():
    side = Side1()
    y = side.advance(0.0, 0.1, InputPolynomial(0.0, np.array([[0.0], [10.0]]))).y
    torque, phi, omega, phi2 = y
    assert torque == pytest.approx((phi - phi2) + 2.0 * (omega - 1.0))
    assert side.outputs[0].feedthrough == ("omega2",)
