"""What a late solver gets one after another."""

from types import SimpleNamespace

import numpy as np
import pytest

from hilrt.exchange.channel import Channel, PendingIntervals
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


def test_a_solver_that_is_behind_has_a_parameter_from_its_time_on():
    """In the order in which a solver in time would have been told."""
    told = []
    link = SimpleNamespace(
        dispatch=lambda tick, t, h, coefficients: told.append(t),
        set_parameter=lambda name, value: told.append((name, value)) or "",
        returns=SimpleNamespace(initialize_again=lambda t0, u0: told.append("anew")),
    )
    table = SimpleNamespace(
        rows={"every": [1], "restarting": [0]}, busy=[1], answer_ns=[0], pending_end_ns=[0]
    )
    inbox = SimpleNamespace(discard=lambda: None)
    channel = Channel(0, link, table, inbox, slice(0, 2), C, True)
    changes = {1: [("k", 2.0), ("m", 1.0)], 3: [("k", 3.0)]}
    for tick in range(4):
        for name, value in changes.get(tick, ()):
            assert channel.set_parameter(1e-3 * tick, name, value) == ""
        channel.add_pending(tick, 1e-3 * tick, 1e-3, C, (tick + 1) * MS, MS)
    for _ in range(4):
        table.busy[0] = 0
        channel.send_pending()
    assert told == [0.0, ("k", 2.0), ("m", 1.0), 1e-3, 2e-3, ("k", 3.0), 3e-3]
    channel.set_parameter(4e-3, "k", 4.0)  # in time again
    assert told[-1] == ("k", 4.0)
    channel.add_pending(4, 4e-3, 1e-3, C, 5 * MS, MS)
    channel.set_parameter(5e-3, "k", 5.0)
    channel.restart(6 * MS, np.zeros(2))
    assert told[-2:] == ["anew", ("k", 5.0)]
    assert not channel.pending.settings


def test_a_solver_that_starts_anew_has_nothing_to_catch_up_with():
    pending = PendingIntervals()
    pending.add(0, 0.0, 1e-3, C, MS, MS)
    pending.restart(7 * MS)
    assert not pending.waiting
    assert pending.end_ns == 7 * MS
