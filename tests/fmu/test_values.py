"""Vectors of numbers to typed variables and back, through every type of both versions."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

from hilrt.errors import SolverError
from hilrt.fmu.values import Values, ValueSubset
from hilrt.fmu.variables import TYPES

KINDS = [(major, kind) for major, kinds in TYPES.items() for kind in kinds]
WHOLE = [(m, k) for m, k in KINDS if np.issubdtype(TYPES[m][k][2], np.integer) and k != "Boolean"]


class Library:
    """Functions of an FMU that keep what they are given, by C type and value reference."""

    def __init__(self, major, status=0):
        self.kept, self.status = {}, status
        for name, c_type, _ in TYPES[major].values():
            setattr(self, f"fmi{major}Get{name}", self.function(c_type, True))
            setattr(self, f"fmi{major}Set{name}", self.function(c_type, False))

    def function(self, c_type, reads):
        def call(_instance, references, n, pointer, *sizes):
            size = sizes[0] if sizes else n
            block = ctypes.cast(pointer, ctypes.POINTER(c_type * size)).contents
            key = (c_type, *references[:n])
            if reads:
                block[:] = self.kept[key]
            else:
                self.kept[key] = list(block)
            return self.status

        return call


def check(function, status):
    raise SolverError(f"{function} returned {status}")


def values(lib, major, kinds):
    """One variable of each kind, a vector of 2 of each real one."""
    variables = [
        (SimpleNamespace(type=kind, valueReference=i), 2 if "Float" in kind else 1)
        for i, kind in enumerate(kinds)
    ]
    return Values(lib, major, variables, check, None)


@pytest.mark.parametrize(("major", "kind"), KINDS)
def test_every_type_comes_back(major, kind):
    some = values(Library(major), major, [kind])
    given = np.ones(some.size)
    some.write(given)
    assert some.read().tolist() == given.tolist()


@pytest.mark.parametrize(("major", "kind"), WHOLE)
def test_whole_numbers_are_rounded_to_and_kept_inside_their_type(major, kind):
    some = values(Library(major), major, [kind])
    limits = np.iinfo(TYPES[major][kind][2])
    for given, wanted in ((2.6, 3.0), (1e30, limits.max), (-1e30, limits.min)):
        some.write(np.array([given]))
        assert some.read()[0] == pytest.approx(float(wanted), rel=1e-15)


@pytest.mark.parametrize("major", [2, 3])
def test_booleans_are_true_from_a_half_up(major):
    some = values(Library(major), major, ["Boolean"])
    got = []
    for given in (-3.0, 0.4, 0.5, 7.0):
        some.write(np.array([given]))
        got.append(some.read()[0])
    assert got == [0.0, 0.0, 1.0, 1.0]


def test_mixed_types_keep_their_places_and_clocks_are_none():
    some = values(Library(3), 3, ["Float64", "Int8", "Clock", "Float32", "Boolean"])
    some.write(np.array([1.5, 2.5, 3.0, 9.0, 0.25, 0.5, 1.0]))
    assert some.read().tolist() == [1.5, 2.5, 3.0, 0.0, 0.25, 0.5, 1.0]


def test_a_part_leaves_the_others_alone():
    part = ValueSubset(np.array([0, 2]), values(Library(3), 3, ["Float64"]))
    part.write(np.array([1.0, 7.0, 2.0]))
    y = np.full(3, 5.0)
    part.read(y)
    assert y.tolist() == [1.0, 5.0, 2.0]


@pytest.mark.parametrize("kinds", [["Float64"], ["Float64", "Int16"]])
def test_a_status_is_told_with_its_function(kinds):
    some = values(Library(3, status=3), 3, kinds)
    with pytest.raises(SolverError, match="fmi3SetFloat64 returned 3"):
        some.write(np.zeros(some.size))
