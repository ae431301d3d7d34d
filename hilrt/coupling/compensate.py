"""Compensation: samples valid before the communication point brought to it (METHODS section 8)."""

from __future__ import annotations

import numpy as np

from hilrt.coupling.extrapolate import newton_value
from hilrt.network import Ints
from hilrt.solver import Floats


def outputs_at(differences: Floats, nodes: Floats, degree: Ints) -> Floats:
    """Value of every output at the communication point, shape (ny,).

    A sample valid there is taken as it is; an older one is carried on by the polynomial of the
    given `degree` (ny,) through the newest samples, degree 0 being hold.

    Parameters
    ----------
    differences, nodes : ndarray, shape (depth, ny)
        From `divided_differences`; `nodes` are relative to the communication point, s.
    """
    if not np.count_nonzero(nodes[0]):
        newest: Floats = differences[0].copy()
        return newest
    return newton_value(differences, nodes, degree)
