"""What the tools that measure watching make of what they have seen."""

from __future__ import annotations

import numpy as np
import pytest

from tools.benchmarks import bench_monitor
from tools.qualification import soak_monitor


def test_a_flag_is_timed_from_the_log_to_the_lamp() -> None:
    delays = bench_monitor.delays
    lamps = [(9.0, False), (10.2, True), (11.0, False)]
    found = delays([10.0], [10.05], lamps)
    assert found["counted"] == 1
    assert found["fault_to_flag_s"] == pytest.approx([0.05])
    assert found["flag_to_page_s"] == pytest.approx([0.15])


@pytest.mark.parametrize(
    ("raised", "lamps"),
    [
        ([9.9], [(9.0, False), (10.2, True)]),  # raised by something else
        ([10.05], [(9.0, True), (10.2, True)]),  # up already
        ([10.05], [(9.0, False)]),  # never shown
        ([10.3], [(9.0, False), (10.2, True)]),  # shown before: another one
    ],
)
def test_what_does_not_count(raised: list[float], lamps: list[tuple[float, bool]]) -> None:
    assert bench_monitor.delays([10.0], raised, lamps)["counted"] == 0


def test_slope_is_that_after_the_start_with_its_error() -> None:
    slope_per_hour = soak_monitor.slope_per_hour
    t = np.arange(0.0, 3600.0, 10.0)
    values = 100.0 + 2.0 * t / 3600.0 + np.where(t < 300.0, -50.0, 0.0)
    fit = slope_per_hour(t.tolist(), values.tolist())
    assert fit["slope"] == pytest.approx(2.0)
    assert fit["error"] < 1e-6
    noisy = values + np.random.default_rng(1).normal(0.0, 1.0, len(t))
    fit = slope_per_hour(t.tolist(), noisy.tolist())
    assert abs(fit["slope"] - 2.0) < 4.0 * fit["error"]
