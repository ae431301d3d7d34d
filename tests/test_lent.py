"""Loans of objects to kernels: what is seen there is what the object has."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hilrt.compiled import compiled
from hilrt.lent import Lent


@dataclass
class Inner:
    values: np.ndarray
    mask: np.ndarray


@dataclass
class Owner:
    table: np.ndarray
    count: np.ndarray
    factor: float
    tick: int
    on: bool
    inner: Inner = field(default_factory=lambda: Inner(np.arange(3.0), np.array([True, False])))


LAYOUT = dict.fromkeys(("table", "count", "factor", "tick", "on")) | {
    "inner": dict.fromkeys(("values", "mask"))
}


@compiled
def look(lent, seen, shape):
    """Everything that there is, in a row."""
    shape[0], shape[1] = lent.table.shape
    k = 0
    for i in range(len(lent.table)):
        for j in range(lent.table.shape[1]):
            seen[k] = lent.table[i, j]
            k += 1
    for count in lent.count:
        seen[k] = count
        k += 1
    seen[k], seen[k + 1], seen[k + 2] = lent.factor, lent.tick, lent.on
    k += 3
    for value in lent.inner.values:
        seen[k] = value
        k += 1
    for marked in lent.inner.mask:
        seen[k] = marked
        k += 1


@compiled
def change(lent):
    lent.table[0, -1] = -1.0
    lent.inner.mask[:] = True
    lent.tick += 1
    lent.factor = lent.factor * 2.0
    lent.on = not lent.on


def owner(rows=2, columns=3):
    table = np.arange(1.0 * rows * columns).reshape(rows, columns)
    return Owner(table, np.array([7, -7]), 0.1, 41, True)


def flat(owner):
    parts = (
        owner.table.ravel(),
        owner.count,
        [owner.factor, owner.tick, owner.on],
        owner.inner.values,
        owner.inner.mask,
    )
    return np.concatenate([np.asarray(part, dtype=float) for part in parts])


@given(arrays(float, st.tuples(st.integers(1, 4), st.integers(0, 4))), st.floats(), st.booleans())
def test_a_kernel_sees_what_the_object_has(table, factor, on):
    one = Owner(np.ascontiguousarray(table), np.array([3], dtype=np.intp), factor, -5, on)
    seen, shape = np.zeros(len(flat(one))), np.zeros(2, dtype=np.int64)
    look(Lent(one, LAYOUT), seen, shape)
    np.testing.assert_array_equal(seen, flat(one))
    assert tuple(shape) == table.shape


def test_arrays_are_changed_in_place_and_numbers_in_the_loan():
    one = owner()
    lent = Lent(one, LAYOUT)
    change(lent)
    assert one.table[0, -1] == -1.0
    assert one.inner.mask.all()
    assert (one.tick, one.factor, one.on) == (41, 0.1, True)
    assert (lent.number("tick"), lent.number("factor"), lent.number("on")) == (42, 0.2, 0)


def test_a_loan_is_renewed():
    """Two arrays that have changed places, and a number that is another one now."""
    one = owner()
    lent = Lent(one, LAYOUT)
    one.table, one.factor, one.inner.values = np.full((2, 3), 5.0), 9.0, np.zeros(3)
    seen = np.zeros(len(flat(one)))
    lent.renew()
    look(lent, seen, np.zeros(2, dtype=np.int64))
    np.testing.assert_array_equal(seen, flat(one))


@pytest.mark.parametrize("other", [np.zeros((3, 4))[:, ::2], np.zeros((2, 3), dtype=np.float32)])
def test_memory_of_another_kind_is_not_lent(other):
    one = owner()
    lent = Lent(one, LAYOUT)
    one.table = other
    with pytest.raises(ValueError, match="'table' is not contiguous, or no longer of float64"):
        lent.renew()


def test_what_is_not_lent_is_not_seen():
    one = owner()
    lent = Lent(one, {"tick": None})
    with pytest.raises(Exception, match="table"):
        change(lent)
