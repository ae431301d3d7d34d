"""Threads of the libraries that a command loads."""

from __future__ import annotations

import os

from hilrt.isolation.limited_process import set_for_this_process

#: Either is the user's word on the number of threads.
_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def single_thread() -> None:
    """Have OpenBLAS start no threads, unless the user has said how many.

    To be called before numpy is imported. The matrices here are small, and OpenBLAS's threads keep
    a processor busy while they wait for work: 0.1 s at the start of a command that reads a file,
    0.25 s of a session. Solvers in processes of their own do not inherit it.
    """
    if not any(name in os.environ for name in _VARIABLES):
        set_for_this_process(_VARIABLES[0], "1")
