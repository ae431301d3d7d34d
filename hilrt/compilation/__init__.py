"""How functions of tables become machine code.

In reading order: `compiled` (what stages and entry points are marked with), `code_cache` (where
their code is kept), `stage_compiler` with `stage_passes` (numba's compiler with fewer passes).
"""
