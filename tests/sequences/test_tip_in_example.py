"""The worked example of tip-in and tip-out on the model of the engine."""

from pathlib import Path

import hilrt
from tests.session.test_simulate import assert_equal

SESSION = Path(__file__).parents[2] / "bench_configs/tip_in_models.toml"


def test_it_passes_with_a_good_verdict_and_twice_with_the_same_log():
    first, second = (hilrt.simulate(SESSION) for _ in range(2))
    assert [one["result"] for one in first.summary["results"]] == ["passed", "passed"]
    assert (first.fault, first.verdict, first.summary["reasons"]) == (None, "good", [])
    assert_equal(first.log, second.log)


def test_a_pedal_faster_than_the_bench_allows_is_flagged():
    found = hilrt.simulate(SESSION, {"subsystems.test.params": {"pedal_rate": 5000.0}})
    assert found.verdict == "degraded"
    assert "demand_cut" in found.summary["reasons"][0]
