"""Compilation of functions of tables to machine code.

In reading order: `compiled` (what stages and entry points are marked with, and how they are bound
to tables), `numba_tables` (a namedtuple of tables as one pointer), `code_cache` (where compiled
code is kept).
"""
