"""What a bench made of an input, where the output that measures it can be used."""

from __future__ import annotations

import math

from hilrt.compilation.compiled import compiled
from hilrt.tables.record import Table


@compiled
def realised_input(at: Table, outputs: Table, given: Table) -> float:
    """Value that a bench realised of the input `at`, in the input's unit; NaN where unknown.

    So it is while the sample that measures it is withheld.
    """
    if at.realised_by >= 0 and outputs[at.realised_by].withheld != 0:
        return math.nan
    value: float = given.realised
    return value
