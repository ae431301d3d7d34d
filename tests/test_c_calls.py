"""C functions called from kernels by their addresses."""

import ctypes
import math
import sys
import time

import numpy as np
import pytest

from hilrt.c_calls import call, clock_ns
from hilrt.c_functions import address, clock_address
from hilrt.compiled import compiled

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no C library by name")


@compiled
def absolute(function, value):
    return call(function, (value,))


@compiled
def compare(function, one, other, n):
    return call(function, (one.ctypes.data, other.ctypes.data, n))


def test_a_function_is_called_with_its_arguments():
    libc = ctypes.CDLL(None)
    assert absolute(address(libc.abs), -42) == 42
    one, other = (np.frombuffer(text, dtype=np.uint8) for text in (b"hilrt-a", b"hilrt-b"))
    assert compare(address(libc.memcmp), one, other, 6) == 0
    assert compare(address(libc.memcmp), one, other, 7) < 0


def test_numbers_travel_as_they_are():
    seen = []
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_double, ctypes.c_int)
    called = kind(lambda *arguments: seen.append(arguments) or 3)

    @compiled
    def ask(function, pointer, number, whole):
        return call(function, (pointer, number, whole))

    assert ask(address(called), 2**40, math.pi, -1) == 3
    assert seen == [(2**40, math.pi, -1)]


@pytest.mark.skipif(sys.platform != "linux", reason="its clock is that of Python on Linux")
def test_the_clock_is_that_of_python():
    before = time.monotonic_ns()
    now = clock_ns(clock_address(), np.zeros(2, dtype=np.int64))
    assert before <= now <= time.monotonic_ns()
