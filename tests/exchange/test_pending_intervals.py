"""What a late solver gets one after another."""

import numpy as np
import pytest

from hilrt.exchange.channel import PendingIntervals
from hilrt.solver import InputPolynomial

MS = 1_000_000
C = np.array([[1.0, 2.0], [10.0, -20.0]])


def test_an_interval_keeps_the_polynomial_of_its_time():
    pending, mine = PendingIntervals(), C.copy()
    pending.add(0, 0.0, 1e-3, mine, MS, MS)
    mine[:] = 0.0
    pending.add(1, 1e-3, 1e-3, mine, 2 * MS, MS)
    first, second = pending.waiting
    np.testing.assert_array_equal(first.coefficients, C)
    assert (first.tick, first.t, first.h, first.end_ns) == (0, 0.0, 1e-3, MS)
    assert (second.tick, second.end_ns, pending.end_ns) == (1, 2 * MS, 2 * MS)


def test_ticks_that_were_left_out_are_covered_in_steps_of_the_solvers_own():
    pending = PendingIntervals()
    pending.restart(5 * MS)
    pending.add(9, 5e-3, 4e-3, C, 9 * MS, MS)
    pieces = list(pending.waiting)
    assert [piece.end_ns for piece in pieces] == [6 * MS, 7 * MS, 8 * MS, 9 * MS]
    assert [piece.t for piece in pieces] == pytest.approx([5e-3, 6e-3, 7e-3, 8e-3])
    assert [piece.h for piece in pieces] == pytest.approx([1e-3] * 4)
    for piece in pieces:  # all of them on the one polynomial
        np.testing.assert_allclose(
            InputPolynomial(0.0, piece.coefficients)(0.5e-3),
            InputPolynomial(0.0, C)(piece.t + 0.5e-3 - 5e-3),
        )


def test_a_solver_that_starts_anew_has_nothing_to_catch_up_with():
    pending = PendingIntervals()
    pending.add(0, 0.0, 1e-3, C, MS, MS)
    pending.restart(7 * MS)
    assert not pending.waiting
    assert pending.end_ns == 7 * MS
