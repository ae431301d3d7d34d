"""Compensation: samples valid before the communication point brought to it (METHODS section 8)."""

from __future__ import annotations

import numpy as np

from hilrt.coupling.extrapolate import History, divided_differences, newton_value
from hilrt.network import Ints
from hilrt.solver import Floats


def outputs_at(history: History, now: float, degree: Ints) -> Floats:
    """Value of every output at `now` [s], shape (ny,).

    A sample valid at `now` is taken as it is; an older one is carried on by the polynomial of the
    given `degree` (ny,) through the newest samples, degree 0 being hold.
    """
    if np.count_nonzero(history.t[0] == now) == len(history.count):
        return history.y[0].copy()
    differences, nodes = divided_differences(history, now)
    return newton_value(differences, nodes, degree)
