"""What late samples, missed ticks and capped corrections do to the coupling, and its verdict."""

import math
from pathlib import Path

import numpy as np
import pytest

import hilrt
from hilrt.reliability.advice import SendingBench, advice
from hilrt.reliability.estimates import Estimate
from hilrt.reliability.expected_error import AdviceBasis
from hilrt.reliability.flags import flag_totals
from hilrt.reliability.verdict import SessionCourse, Verdict, verdict
from hilrt.solver import Port
from tests.stepping import MemoryLink, Recorded, Stepping

STEP = 1e-3
TWO_MASS = Path(__file__).parents[2] / "bench_configs" / "two_mass.toml"


def session(omega: float, hold_back, order: int = 1, **tables) -> Stepping:
    """A solver that reads the sine [omega, rad/s] of another one, whose answers may stay away."""
    source = Recorded({"y": lambda t: 5.0 * math.sin(omega * t)})
    return Stepping(
        {
            "source": MemoryLink("source", source, hold_back=hold_back),
            "reader": Recorded({"z": lambda t: 0.0}, [Port("u")]),
        },
        master={"step": STEP},
        connections=[{"from": "source.y", "to": "reader.u", "order": order}],
        subsystems={"source": {"late": {"max_misses": 10_000}}, "reader": {}},
        **tables,
    )


def judged(s: Stepping) -> Verdict:
    return verdict(flag_totals(s.numerics.checks, s.state), SessionCourse(s.t))


def defects(s: Stepping, duration: float) -> tuple[np.ndarray, np.ndarray]:
    """Connection defect of ``reader.u`` and its ratio to the threshold at every tick."""
    i = s.input("reader.u")
    check = s.plan.causes["first"][s.numerics.checks.causes.index("connection_defect")] + i
    seen = s.run(duration, lambda s: (s.state.inputs["defect"][i], s.state.checks["ratio"][check]))
    defect, ratio = np.array(seen).T
    return defect, ratio


def test_samples_that_are_bridged_for_a_millisecond_are_good():
    # 144 late samples in 30,000 ticks; held for 50 ms each, their flags were up for 24 % of it
    s = session(4.0, lambda tick: tick % 208 == 100)
    s.run(3.0)
    late = flag_totals(s.numerics.checks, s.state)["sample_late"]
    assert late.raised == 14
    assert late.seconds > 0.2 * s.t
    assert late.affected_s == pytest.approx(14 * 2 * STEP)  # missing, then behind by a step
    assert judged(s) == ("good", [], False)


@pytest.mark.parametrize(("sends", "every"), [(0.01, 10), (0.0, None), (0.002, None)])
def test_advice_names_the_interval_of_a_bench_that_sends_too_rarely(
    sends: float, every: int | None
) -> None:
    """One sample every 10 steps, known to be its interval; or for a reason that is not known."""
    link = MemoryLink(
        "bench", Recorded({"y": lambda t: t}), hold_back=lambda tick: 99 * (tick % 10 > 0)
    )
    link.physical = True
    s = Stepping(
        {"bench": link, "model": Recorded({"z": lambda t: 0.0}, [Port("u")])},
        master={"step": STEP},
        connections=[{"from": "bench.y", "to": "model.u"}],
        subsystems={"bench": {"late": {"max_misses": 100}}, "model": {}},
    )
    s.run(0.5)
    late = float(s.exchange.channels["late"][0]) / s.tick
    assert late == pytest.approx(0.7, abs=0.1)  # all but the first 2.5 steps of ten
    totals = flag_totals(s.numerics.checks, s.state)
    bench = SendingBench("bench", 0, sends, sends, late)
    wrong = {"model.u": Estimate("", 0.5, 0.5, 1.0, 1.0, "gain range")}
    found = advice(s.network, s.plan, s.state, wrong, totals, AdviceBasis(s.t), [bench])
    change = found.changes[0]
    assert change.settings == ({"subsystems.bench.every": every} if every else {})
    assert ("every = 10, or a step of 10.0 ms" in change.text) == (every is not None)
    assert ("processors" in change.text) == (every is None)


def test_a_late_sample_is_unknown_until_it_comes_and_then_measures_the_gap():
    gap = 120  # ticks; of a signal that turns by 0.4 rad meanwhile
    s = session(3.3, lambda tick: gap * (tick == 500), order=0)
    found, ratio = defects(s, 1.0)
    per_step = 5.0 * 3.3 * STEP
    assert found[500] < 1.01 * per_step
    in_gap = found[502 : 500 + gap]
    assert (np.diff(in_gap) > 0.0).all()  # the bound grows with the time since the last sample
    true = np.abs(
        [5.0 * math.sin(3.3 * STEP * k) - 5.0 * math.sin(3.3 * 0.5) for k in range(502, 500 + gap)]
    )
    assert (in_gap >= true).all()
    arrived = 501 + gap
    assert found[arrived] == pytest.approx(
        abs(5.0 * math.sin(3.3 * 0.5) - 5.0 * math.sin(3.3 * STEP * 501)), abs=per_step * (gap + 1)
    )
    affected = flag_totals(s.numerics.checks, s.state)["connection_defect"].affected_s
    assert 0.3 * gap < np.count_nonzero(ratio >= 1.0) < gap  # by the bound, before it came
    assert affected == pytest.approx((gap + 1) * STEP, abs=1.5 * STEP)  # once, all of it


def test_what_a_sample_measures_counts_for_the_gap_that_no_flag_has_counted():
    # A signal that has hardly moved so far and jumps while it is late: the bound knows nothing.
    source = Recorded({"y": lambda t: 5.0 if t < 0.5 else 10.0})
    s = Stepping(
        {
            "source": MemoryLink("source", source, hold_back=lambda tick: 50 * (tick == 480)),
            "reader": Recorded({"z": lambda t: 0.0}, [Port("u")]),
        },
        master={"step": STEP},
        connections=[{"from": "source.y", "to": "reader.u"}],
        subsystems={"source": {"late": {"max_misses": 100}}, "reader": {}},
    )
    s.run(0.6)
    affected = flag_totals(s.numerics.checks, s.state)["connection_defect"].affected_s
    assert 50 * STEP <= affected <= 54 * STEP


def test_two_tenths_of_a_second_of_silence_are_never_good():
    for ticks, word in ((150, "good"), (250, "degraded")):
        s = session(0.1, lambda tick, ticks=ticks: ticks * (tick == 1000))  # hardly moves
        s.run(3.0)
        found = judged(s)
        assert found.word == word
        assert [reason.partition(":")[0] for reason in found.reasons][:1] == (
            [] if word == "good" else ["subsystem_silent"]
        )


def test_a_master_that_stood_still_has_heard_nobody():
    s = session(0.1, lambda tick: 0)
    s.run(2.0)
    s.tick, s.t_ns, s.elapsed_ns = s.tick + 250, s.t_ns + 250_000_000, 250_000_000
    s.look()
    silent = flag_totals(s.numerics.checks, s.state)["subsystem_silent"]
    assert silent.raised == 1
    assert judged(s).word == "degraded"


def test_a_slow_source_keeps_its_defect_between_its_points():
    source = Recorded({"y": lambda t: math.sin(20.0 * t)})
    s = Stepping(
        {"source": source, "reader": Recorded({"z": lambda t: 0.0}, [Port("u")])},
        master={"step": STEP},
        connections=[{"from": "source.y", "to": "reader.u", "order": 0}],
        subsystems={"source": {"every": 10}, "reader": {}},
    )
    found, _ = defects(s, 0.5)
    points = found[20::10]
    assert (found[21:30] == points[0]).all()
    held = [abs(math.sin(0.2 * k) - math.sin(0.2 * (k - 1))) for k in range(2, 51)]
    np.testing.assert_allclose(points, held, atol=1e-12)


def test_the_worst_second_is_that_of_a_sliding_window():
    s = session(4.0, lambda tick: 0)
    names = s.numerics.checks.causes
    missed = [k for k in range(1, 4001) if 1250 <= k < 1650 or k % 100 == 0]
    shares = []
    for k in range(4001):
        s.numerics.slack["missed"] = k in missed
        s.look()
        shares.append(s.state.causes["second"][names.index("deadline_missed")])
        s.go()
    total = flag_totals(s.numerics.checks, s.state)["deadline_missed"]
    assert total.affected_s == pytest.approx(len(missed) * STEP)
    assert total.worst_second == max(shares)
    counts = np.bincount(missed, minlength=4001)
    sliding = np.convolve(counts, np.ones(1000))[:4001].max() / 1000
    assert total.worst_second == pytest.approx(sliding, abs=0.02)
    assert shares[-1] == pytest.approx(0.01, abs=0.002)


def test_a_capped_correction_is_judged_by_the_energy_that_it_left():
    result = hilrt.simulate(TWO_MASS, record=False)
    last = {name: port["last"] for name, port in result.summary["ports"].items()}
    a, b = last["mass1.x"], last["mass2.x"]
    energy = last["mass1.v"] ** 2 + last["mass2.v"] ** 2 + 10.0 * a**2 + 1000.0 * b**2
    energy += 100.0 * (a - b) ** 2
    assert energy == pytest.approx(2e4, rel=0.03)
    assert 0.01 < result.summary["bonds"]["spring"]["cap_share"] < 0.02
    assert (result.verdict, result.summary["reasons"]) == ("good", [])
    capped = hilrt.simulate(TWO_MASS, {"bonds.spring.correction.cap": 0.02}, record=False)
    assert capped.verdict == "degraded"  # + 23 % of energy: 11 % of the motion
    causes = [reason.partition(":")[0] for reason in capped.summary["reasons"]]
    assert causes[-2:] == ["energy_drift", "correction_capped"]
    assert set(causes[:-2]) == {"estimated error"}


def test_limits_that_the_sources_reach_are_no_error_of_the_exchange():
    s = Stepping(
        {
            "source": Recorded({"y": lambda t: 5.0 * math.sin(4.0 * t)}),
            "reader": Recorded({"z": lambda t: 0.0}, [Port("u", min=-2.0, max=2.0)]),
        },
        master={"step": STEP},
        connections=[{"from": "source.y", "to": "reader.u", "order": 1}],
        subsystems={"source": {}, "reader": {}},
    )
    found, _ = defects(s, 3.0)
    assert np.nanmax(found) < 0.03
    totals = flag_totals(s.numerics.checks, s.state)
    assert totals["input_limited"].affected_s > 0.6 * s.t
    assert totals["demand_cut"].raised == 0
    assert judged(s) == ("good", [], False)


@pytest.mark.parametrize(
    ("limits", "share"),
    [({"max": 250.0}, (300.0 - 250.0) / 200.0 + 1.0), ({"max_rate": 150.0}, 300.0 / 150.0)],
)
def test_a_stimulus_beyond_the_limits_of_an_input_without_a_connection_is_a_cut_demand(
    limits, share
):
    """No exchange is wrong: nothing is connected."""
    segments = [
        {"shape": "ramp", "to": 300.0, "rate": 200.0},
        {"shape": "hold", "duration": 1.0},
    ]
    s = Stepping(
        {"reader": Recorded({"z": lambda t: 0.0}, [Port("u", start=0.0, **limits)])},
        master={"step": STEP},
        connections=[],
        subsystems={"reader": {}},
        stimuli=[{"name": "ramp", "input": "reader.u", "start": 1.0, "segments": segments}],
    )
    s.run(3.5)
    totals = flag_totals(s.numerics.checks, s.state)
    assert totals["demand_cut"].affected_s == pytest.approx(share, rel=0.05)
    assert totals["connection_defect"].affected_s < 2.0 * STEP  # the step in which the limit ends


def test_limits_make_no_energy_and_a_correction_that_they_cut_off_counts():
    limits = {f"subsystems.mass2.inputs.force.{k}": x for k, x in (("min", -600.0), ("max", 600.0))}
    exchange = {"master.extrapolation.order": 2, "bonds.spring.correction.method": "none"}
    result = hilrt.simulate(TWO_MASS, limits | exchange, record=False)
    assert (result.verdict, list(result.summary["flags"])) == ("good", ["input_limited"])
    bond = result.summary["bonds"]["spring"]
    assert abs(bond["interface_energy_j"]) < 0.001 * bond["carried_energy_j"]
    corrected = hilrt.simulate(TWO_MASS, limits, record=False)
    assert corrected.verdict == "degraded"
    assert "demand_cut" in " ".join(corrected.summary["reasons"])
