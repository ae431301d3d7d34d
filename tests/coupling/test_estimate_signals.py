"""Half widths of the bands about the outputs, point by point."""

from __future__ import annotations

import numpy as np

from hilrt.coupling.estimate_signals import estimate_signals
from tests.random_stages import build


def test_an_error_that_has_become_unknown_leaves_no_band_that_dies_out() -> None:
    numerics = build("fixed")
    state = numerics.state
    state.inputs["disturbance"] = 0.1
    for error, known in ((0.0, True), (np.nan, False)):
        state.outputs["error"] = error
        estimate_signals(numerics.plan, state, numerics.given)
        assert np.isfinite(state.outputs["estimated_error"]).all() == known
