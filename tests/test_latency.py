"""A bench that is far away: what compensation makes of it (docs/methods.md, "Compensation")."""

from __future__ import annotations

import numpy as np
import pytest

from hilrt.solver import Floats
from tests.tip_in import Distance, errors, run


@pytest.fixture(scope="module")
def reference() -> Floats:
    """The same tip-in and tip-out without latency and loss."""
    return run(Distance(), compensated=True)


def test_the_manoeuvre_is_one(reference: Floats) -> None:
    speed, torque = reference.T
    assert np.ptp(speed) > 100.0
    assert torque.max() > 100.0
    assert torque.min() < -10.0


# Of 10 ms, a lost sample in the wrong place is worth a seventh: two courses of losses.
@pytest.mark.parametrize(("latency", "seeds"), [(0.002, [0]), (0.005, [0]), (0.010, [0, 1])])
def test_compensation_takes_two_thirds_of_the_error(
    latency: float, seeds: list[int], reference: Floats
) -> None:
    distance = Distance(latency, jitter=0.0005, loss=0.02)
    without = errors(run(distance, compensated=False), reference)
    compensated = [errors(run(distance, compensated=True, seed=seed), reference) for seed in seeds]
    assert np.all(np.mean(compensated, axis=0) <= without / 3.0)


def test_with_noise_on_the_sensors_the_speed_keeps_to_it() -> None:
    """The slope of a noisy torque, carried on over the latency, is what remains of the error."""
    distance = Distance(0.005, jitter=0.0005, loss=0.02)
    reference = run(Distance(), compensated=True, noise=True)
    without = errors(run(distance, compensated=False, noise=True), reference)
    compensated = errors(run(distance, compensated=True, noise=True), reference)
    assert compensated[0] <= without[0] / 3.0
    assert compensated[1] <= without[1] / 2.0
