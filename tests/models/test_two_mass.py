import numpy as np
import pytest

from hilrt.models.two_mass import Mass1, Mass2, micro_steps
from hilrt.solver import InputPolynomial


@pytest.mark.parametrize(
    ("h", "longest", "n"), [(1e-3, 1e-3, 1), (0.003, 0.001, 3), (0.3, 0.1, 3), (1e-4, 1e-3, 1)]
)
def test_micro_steps_survive_rounding(h, longest, n):
    assert micro_steps(h, longest) == n


def test_one_symplectic_step_of_mass_1():
    mass = Mass1(m=2.0, k=10.0, kc=100.0, c=1.0, cc=3.0, x=0.1, v=4.0, micro_step=0.01)
    u = InputPolynomial(0.0, np.array([[0.02, 1.0], [1.0, 0.0]]))  # x2 moves, v2 does not
    force, x, v = mass.advance(0.0, 0.01, u).y
    coupling = 100.0 * (0.1 - 0.02) + 3.0 * (4.0 - 1.0)
    assert v == pytest.approx(4.0 + 0.01 * (-10.0 * 0.1 - 1.0 * 4.0 - coupling) / 2.0)
    assert x == pytest.approx(0.1 + 0.01 * v)
    assert force == pytest.approx(100.0 * (x - 0.03) + 3.0 * (v - 1.0))  # inputs at the end


def test_mass_2_reads_its_input_at_every_micro_step():
    force = np.array([[5.0], [1000.0]])
    coarse, fine = Mass2(micro_step=0.01), Mass2(micro_step=0.005)
    v = coarse.v
    coarse.advance(1.0, 0.01, InputPolynomial(1.0, force))
    assert coarse.v == pytest.approx(v + 0.01 * 5.0)
    fine.advance(1.0, 0.01, InputPolynomial(1.0, force))
    middle = v + 0.005 * 5.0
    x = 0.005 * middle
    later = InputPolynomial(0.0, force)(0.005)[0]
    assert fine.v == pytest.approx(middle + 0.005 * (later - 1000.0 * x))


def test_energy_of_the_uncoupled_oscillator_stays():
    mass = Mass2()
    energy = []
    for k in range(1000):
        mass.advance(k * 1e-3, 1e-3, InputPolynomial(k * 1e-3, np.zeros((1, 1))))
        energy.append(0.5 * mass.v**2 + 0.5 * mass.k * mass.x**2)
    assert np.mean(energy[-200:]) == pytest.approx(0.5 * 100.0**2, rel=0.005)


@pytest.mark.parametrize(("solver", "n_inputs"), [(Mass1(), 2), (Mass2(), 1)])
def test_a_step_from_a_restored_state_is_the_same_step(solver, n_inputs):
    u = InputPolynomial(0.0, np.ones((1, n_inputs)))
    saved = solver.save_state()
    first = solver.advance(0.0, 0.01, u).y
    solver.restore_state(saved)
    np.testing.assert_array_equal(solver.advance(0.0, 0.01, u).y, first)
    assert len(first) == len(solver.outputs)
