"""Compilation of functions of tables to machine code.

In reading order: `compiled` (what stages and entry points are marked with, and how they are bound
to tables), `numba_inside` (what numba does not document: a namedtuple of tables as one pointer,
a cache that damaged files do not stop), `code_cache` (where compiled code is kept).
"""
