"""Compiled functions: the numerics of a macro step, at the speed of the machine.

The tables of a macro step are short, and a numpy expression costs about a microsecond whatever its
length; loops compiled by numba cost the operations that they make. The same source runs
interpreted with ``NUMBA_DISABLE_JIT=1``, bit for bit. For that it uses loops, + - * /, square
roots, `math.exp` and `math.log`; no reductions, integer powers, array expressions or linear
algebra.

Where compiled code is kept is in `hilrt.compilation.code_cache`.
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

from hilrt.compilation.code_cache import PACKAGE, ROOMS, cache_folder, cache_of
from hilrt.compilation.stage_compiler import EntryCompiler, PartCompiler

#: It declares neither all of its options nor its settings.
_numba: Any = numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile a function of records, arrays and numbers at its first call, or load it.

    Floating point is exact IEEE arithmetic, as in numpy: no reordering, no fused operations, and
    a division by zero gives infinity or NaN instead of an exception. The function must not make
    arrays: without numba's counting of references, a macro step takes 1 us where it took 6.

    Raises
    ------
    ValueError
        If its file is in none of `ROOMS`: a change there would not reach the cache's name.
    """
    jit = _compile(function, inline="never")
    if not _numba.config.DISABLE_JIT:
        # What other compiled functions call; it is kept as part of these.
        jit.part = _jit(function, PartCompiler, inline="never", no_cpython_wrapper=True)
    return cast(Function, jit)


def stage(function: Function) -> Function:
    """As `compiled`, for functions of whole plans, states and inputs.

    They become part of the function that calls them: a call would pass each of their 60 tables in
    seven parts, which doubles the time of compiling the step, and of the step itself.
    """
    return cast(Function, _compile(function, inline="always"))


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    """A function that Python calls; its code is kept."""
    config = _numba.config
    if config.DISABLE_JIT:
        return function
    file = Path(function.__code__.co_filename)
    if file.is_relative_to(PACKAGE) and file.relative_to(PACKAGE).parts[0] not in ROOMS:
        raise ValueError(f"{file}: compiled functions stand in {', '.join(ROOMS)}")
    before, folder = config.CACHE_DIR, cache_folder()
    config.CACHE_DIR = folder or before
    try:
        jit = _jit(function, EntryCompiler, **options)
        jit._cache = cache_of(function, folder)  # as with `cache=True`, which gives up on errors
        return jit
    finally:
        config.CACHE_DIR = before


def _jit(function: Callable[..., Any], compiler: type[Any], **options: Any) -> Any:
    return _numba.njit(
        error_model="numpy",
        _nrt=False,
        no_cfunc_wrapper=True,  # an entry for callers in C
        pipeline_class=compiler,
        **options,
    )(function)


def entry_point(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """The compiled code of `function` for these arguments, called without numba's dispatcher.

    The dispatcher looks at the type of every field of every table at every call: 16 to 22 us for
    three namedtuples of six tables, where the code itself is entered in 0.75. Later arguments must
    have the very types of these; what has other types is not found out, and crashes.
    """
    if _numba.config.DISABLE_JIT:
        return interpreted(function)
    dispatcher: Any = function
    signature = tuple(_numba.typeof(argument) for argument in arguments)
    with rare_collections():
        dispatcher.compile(signature)
    return cast(Callable[..., Any], dispatcher.get_overload(signature))


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Let the garbage collector run rarely while the compiler makes millions of objects.

    It collected 7100 times in a compilation of the whole step, which took 11.5 of 51 s of processor
    time; so it takes 2.7, and 130 MB more. Rejected: none at all, which takes 550 MB more.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` in Python, with divisions by zero as in compiled code."""

    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*arguments)

    return run
