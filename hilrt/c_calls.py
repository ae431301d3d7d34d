"""Calls of C functions from compiled loops, by their addresses.

An FMU's functions are known when its binary has been loaded, a kernel is compiled and cached long
before: so it is given addresses, as integers. Pointers are integers to a kernel, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from hilrt.compiled import compiled

#: ``CLOCK_MONOTONIC`` of Linux, which is that of `time.monotonic_ns`, too.
_MONOTONIC = 1


@intrinsic
def _call(_typing: Any, function: Any, arguments: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        pointer, packed = values
        kinds = signature.args[1].types
        taken = [builder.extract_value(packed, i) for i in range(len(kinds))]
        of = ir.FunctionType(ir.IntType(32), [context.get_value_type(kind) for kind in kinds])
        return builder.call(builder.inttoptr(pointer, of.as_pointer()), taken)

    return types.int32(types.int64, arguments), generate


#: ``call(address, (a, b, …))`` calls ``int address(a, b, …)``, arguments by their types. Pointers,
#: sizes and smaller integers are all integers of 64 bits, to which the calling conventions of
#: 64-bit machines widen them.
call: Any = _call


@compiled
def clock_ns(clock: int, reading: NDArray[np.int64]) -> int:
    """Monotonic clock, ns.

    Parameters
    ----------
    clock : int
        Of `hilrt.c_functions.clock_address`.
    reading : ndarray of int, shape (2,)
        Scratch.
    """
    call(clock, (_MONOTONIC, reading.ctypes.data))
    return int(reading[0] * 1_000_000_000 + reading[1])
