"""A step of an FMI 2.0 FMU as calls of C functions, as compiled loops make them.

Set the inputs, step, read the outputs.
"""

from __future__ import annotations

from typing import NamedTuple

#: What was asked when an FMU answered otherwise, or that its outputs were no numbers.
SET, STEP, GET, LOOK = range(1, 5)


class Fmi2Calls(NamedTuple):
    """Addresses of an instance, of its functions and of their value references; sizes.

    `offset` is FMU time at session time 0, s.
    """

    instance: int
    set_reals: int
    inputs: int
    n_inputs: int
    get_reals: int
    outputs: int
    n_outputs: int
    do_step: int
    never_back: int
    offset: float
