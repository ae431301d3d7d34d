"""Compilation of functions on tables to machine code.

In reading order: `compiled` (decorators of stages, entry points, and how these are bound to
tables), `numba_inside` (use of undocumented parts of numba: a namedtuple of tables as one pointer,
a cache that tolerates damaged files), `code_cache` (where compiled code is stored).
"""
