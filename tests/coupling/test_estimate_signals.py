"""Half widths of the bands about the outputs, point by point."""

from __future__ import annotations

import numpy as np

from hilrt.coupling.closed_loop import Sensitivities
from hilrt.coupling.estimate_signals import MOST_SHARE, estimate_signals
from hilrt.link import Ports
from hilrt.reliability.calibrated import HIGH
from hilrt.solver import Port
from hilrt.step.build_plan import Platform
from hilrt.step.numerics import build_numerics
from hilrt.step_log.signals import build_columns
from tests.random_stages import build
from tests.stepping import make_network


def test_an_error_that_has_become_unknown_leaves_no_band_that_dies_out() -> None:
    numerics = build("fixed")
    state = numerics.state
    state.inputs["disturbance"] = 0.1
    for error, known in ((0.0, True), (np.nan, False)):
        state.outputs["error"] = error
        estimate_signals(numerics.plan, state, numerics.given)
        assert np.isfinite(state.outputs["estimated_error"]).all() == known


def test_an_input_that_was_zero_so_far_makes_no_error_beyond_all_numbers() -> None:
    numerics = build("fixed")
    state, plan = numerics.state, numerics.plan
    state.outputs["error"] = 0.0
    state.outputs["scale"] = 2.0
    state.inputs["peak"], state.inputs["disturbance_peak"] = 0.0, 1e-3
    estimate_signals(plan, state, numerics.given)
    by_gains = (plan.outputs["error_high"] > 0.0) & (plan.outputs["followed"] == 0)
    assert by_gains.any()
    found = state.outputs["estimated_error"][by_gains]
    np.testing.assert_allclose(found, 2.0 * MOST_SHARE * plan.outputs["error_high"][by_gains])


def estimated(of_loop: Sensitivities | None) -> dict[str, float]:
    """Factors of the bands of a plant with its controller, a source, a display and a channel."""
    ports = {
        "source": Ports((), (Port("w"), Port("z"))),
        "plant": Ports((Port("u"), Port("w")), (Port("y"), Port("inner"))),
        "controller": Ports((Port("y"),), (Port("u"), Port("state"))),
        "display": Ports((Port("y"),), (Port("shown"),)),
        "calculated": Ports((), (Port("c"),)),
    }
    network, tables = make_network(
        ports,
        connections=[
            {"from": source, "to": to}
            for source, to in (
                ("source.w", "plant.w"),
                ("plant.y", "controller.y"),
                ("controller.u", "plant.u"),
                ("plant.y", "display.y"),
            )
        ],
        calculated=[{"name": "c", "expression": "plant.y"}],
    )
    platform = Platform(np.zeros(len(ports), np.bool_), np.zeros(len(ports)), None, of_loop)
    numerics = build_numerics(network, tables, platform, np.zeros(8), network.u_start)
    columns = build_columns(numerics)["errors"]
    named = {c.signal.name for c in columns if c.signal.name.endswith(":estimated_error")}
    factors = numerics.plan.outputs["error_high"]
    found = dict(zip(network.outputs.names, factors.tolist(), strict=True))
    assert {f"{name}:estimated_error" for name, f in found.items() if np.isfinite(f)} == named
    return found


def test_outputs_that_nothing_takes_are_estimated_like_those_that_something_does() -> None:
    """But for a channel; and what takes nothing has no error in what it only tells."""
    gains = HIGH["gain range"]
    found = estimated(None)
    assert np.isnan(found.pop("calculated.c"))
    assert found.pop("source.z") == 0.0
    assert set(found.values()) == {gains}
    tried = Sensitivities(1, [], [], [], [2, 3, 4, 5], [1.0] * 4, linear=True)
    found = estimated(tried)
    assert found["plant.inner"] == found["controller.state"] == HIGH["sensitivities"]
    assert found["display.shown"] == gains  # it was not probed, as it gives nothing
    assert found["source.z"] == 0.0
