"""Decorators that compile the numerics of a macro step with numba.

The tables of a macro step are short, and a numpy expression costs about a microsecond whatever its
length; loops compiled by numba cost only their operations. With ``NUMBA_DISABLE_JIT=1`` the same
source runs interpreted, with identical results bit for bit. It is therefore limited to loops, + - *
/, square roots, `math.exp` and `math.log`; no reductions, integer powers, array expressions or
linear algebra.

Compiled code is stored by `hilrt.compilation.code_cache`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

from hilrt.compilation.code_cache import COMPILED_PACKAGES, PACKAGE, cache_folder, cache_of
from hilrt.compilation.numba_inside import Tables, code_for, difference, is_cached, jit

#: numba declares neither all of its options nor its settings.
_numba: Any = numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function of tables, records, arrays and numbers at its first call, or load it.

    Floating point is exact IEEE arithmetic, as in numpy: no reordering, no fused operations, and
    a division by zero gives infinity or NaN instead of an exception. The function must not create
    arrays: without numba's reference counting a macro step takes 1 us instead of 6.

    Raises
    ------
    ValueError
        If its file is in none of `COMPILED_PACKAGES`: its changes would not rename the cache.
    """
    return _compile(function, forceinline=False)


def stage(function: Function) -> Function:
    """Compile a function of (plan, state, given), which LLVM inlines."""
    return _compile(function, forceinline=True)


def _compile(function: Function, *, forceinline: bool) -> Function:
    config = _numba.config
    if config.DISABLE_JIT:
        return function
    file = Path(function.__code__.co_filename)
    if file.is_relative_to(PACKAGE) and file.relative_to(PACKAGE).parts[0] not in COMPILED_PACKAGES:
        raise ValueError(f"{file}: compiled functions must be in {', '.join(COMPILED_PACKAGES)}")
    before, folder = config.CACHE_DIR, cache_folder()
    config.CACHE_DIR = folder or before
    try:
        return cast(Function, jit(function, cache_of(function, folder), forceinline=forceinline))
    finally:
        config.CACHE_DIR = before


def entry_point(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """Compiled code of `function` for these arguments, called without numba's dispatcher.

    The dispatcher checks the type of every field of every table at every call: 16 to 22 us for
    three namedtuples of six tables, while entering the code itself takes 0.75. Later arguments must
    have exactly the types of these; other types are not detected, and crash.
    """
    if _numba.config.DISABLE_JIT:
        return interpreted(function)
    return _code(function, tuple(_numba.typeof(argument) for argument in arguments))


def _code(function: Callable[..., Any], signature: tuple[Any, ...]) -> Callable[..., Any]:
    with rare_collections():
        return code_for(function, signature)


def bound(
    function: Callable[..., Any], *tables: Any, numbers: tuple[int | float, ...] = ()
) -> Callable[..., Any]:
    """Bind `function` to these tables; the result is called with numbers of these types.

    Tables are namedtuples of tables, or arrays. A namedtuple is one pointer
    (`hilrt.compilation.numba_inside`). The first call determines the types. Tables of other types
    are refused here, since nothing checks them later.

    Raises
    ------
    TypeError
        If a table is no array, not contiguous, or of another type than before.
    """
    if _numba.config.DISABLE_JIT:
        return functools.partial(interpreted(function), *tables)
    dispatcher: Any = function
    given, signature = _pointers((*tables, *numbers))
    for known in dispatcher.signatures:
        if [type(kind) for kind in known] != [type(kind) for kind in signature]:
            continue  # called from Python with the namedtuples themselves
        for number, (kind, before) in enumerate(zip(signature, known, strict=True)):
            if kind != before:
                raise TypeError(
                    f"{dispatcher.py_func.__name__}: {difference(kind, before)} in argument "
                    f"{number + 1}; create it with `hilrt.tables.record.table` and its layout"
                )
    return functools.partial(_code(function, signature), *given[: len(tables)])


def is_kept(function: Callable[..., Any], *tables: Any) -> bool:
    """Whether `bound` needs no compilation; also True if compiled code is not stored."""
    if _numba.config.DISABLE_JIT:
        return True
    dispatcher: Any = function
    _, signature = _pointers(tables)
    return is_cached(dispatcher, signature)


def _pointers(arguments: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, ...]]:
    """Convert arguments to those of the compiled code; also return their types."""
    given = [Tables(t) if isinstance(t, tuple) else t for t in arguments]
    return given, tuple(_numba.typeof(t) for t in given)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Make garbage collections rare while the compiler creates millions of objects.

    The collector ran 7100 times in a compilation of the whole step, which took 11.5 of 51 s of
    processor time; with this they take 2.7 s, and 130 MB more memory. Rejected: no collections,
    which takes 550 MB more.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` in plain Python, with the results of compiled code for divisions by zero."""

    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return run
