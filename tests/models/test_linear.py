"""The linear solver against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from hilrt.models.linear import Linear
from hilrt.solver import InputPolynomial

A = [[0.0, 1.0], [-40.0, -0.6]]
B = [[0.0, 0.1], [2.0, 0.0]]
C = [[1.0, 0.0], [0.5, 2.0]]
D = [[0.0, 0.3], [0.0, 0.0]]


@pytest.mark.parametrize("order", [0, 1, 2, 4])
def test_a_step_under_a_polynomial_is_exact(order: int) -> None:
    coefficients = np.arange(1.0, 2.0 * (order + 1) + 1.0).reshape(order + 1, 2)
    u = InputPolynomial(0.2, coefficients)
    solver = Linear(A, B, C, D, x0=[1.0, -1.0])
    y = solver.advance(0.2, 0.3, u).y

    def slope(t: float, x: np.ndarray) -> np.ndarray:
        return np.array(A) @ x + np.array(B) @ u(t)

    x = solve_ivp(slope, (0.2, 0.5), [1.0, -1.0], rtol=1e-11, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(y, np.array(C) @ x + np.array(D) @ u(0.5), rtol=1e-8)


def test_ports_have_names_units_and_feedthrough() -> None:
    solver = Linear(A, B, C, D, inputs=["force [N]", "v [m/s]"], outputs=["x [m]", "s"])
    assert [(port.name, port.unit) for port in solver.inputs] == [("force", "N"), ("v", "m/s")]
    assert [port.feedthrough for port in solver.outputs] == [("v",), ()]


def test_restoring_repeats_a_step_bit_for_bit() -> None:
    solver = Linear(A, B, C, D, x0=[1.0, 0.0])
    saved = solver.save_state()
    u = InputPolynomial(0.0, np.ones((1, 2)))
    first = solver.advance(0.0, 0.1, u).y
    solver.restore_state(saved)
    np.testing.assert_array_equal(solver.advance(0.0, 0.1, u).y, first)


@pytest.mark.parametrize(
    ("change", "text"),
    [({"x0": [1.0]}, "x0"), ({"inputs": ["a"]}, "1 port names"), ({"D": [[1.0]]}, "D has shape")],
)
def test_matrices_that_do_not_fit_are_named(change: dict[str, object], text: str) -> None:
    arguments: dict[str, object] = {"A": A, "B": B, "C": C, "D": D, **change}
    with pytest.raises(ValueError, match=text):
        Linear(**arguments)
