"""Compiled loops: numerics over all channels at the speed of the machine.

The arrays of a macro step are short (tens of channels), so that a numpy expression costs about a
microsecond per operation whatever its length. A loop compiled by numba costs a microsecond per
call, however many operations it makes, and keeps the order of every sum: the same build gives the
same bits. Kernels take and fill arrays, know no objects, and stay next to the function that names
their meaning. None returns an array: numba unpickles the type of each, for more than a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from hilrt.kernel_cache import kernel_folder

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def compiled(function: Kernel) -> Kernel:
    """Compile `function` at its first call, or load it from the cache of an earlier one.

    Floating point is exact IEEE arithmetic, as in numpy: no reordering, no fused operations, and
    a division by zero gives infinity or NaN instead of an exception. What the function calls, and
    constants that it uses, stand in files that say they are compiled (`hilrt.kernel_cache`).
    """
    config: Any = numba.config
    users, file = config.CACHE_DIR, Path(function.__code__.co_filename)
    if file.is_file():  # not in a program that was packed into one file: that never changes
        config.CACHE_DIR = str(kernel_folder(file))  # looked at here, not at the first call
    try:
        return cast(Kernel, numba.njit(cache=True, error_model="numpy")(function))
    finally:
        config.CACHE_DIR = users


def entry_point(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """The compiled code of `function` for these arguments, called without numba's dispatcher.

    The dispatcher looks at the type of every field of every table at every call: 3 us for two
    tables, where the code itself is entered in 0.1. Later arguments must have the very types of
    these; what has other types is not found out, and crashes.
    """
    dispatcher: Any = function
    typeof: Any = numba.typeof
    signature = tuple(typeof(argument) for argument in arguments)
    dispatcher.compile(signature)
    return cast(Callable[..., Any], dispatcher.get_overload(signature))
