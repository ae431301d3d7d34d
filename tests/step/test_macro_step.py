"""The macro step against the methods' published and independently computed numbers."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from bench_configs.models.two_mass_rotational import Side1, Side2
from hilrt.models.two_mass import Mass1, Mass2
from hilrt.reliability.flags import active_flags, flag_totals
from hilrt.solver import Port, Sample, Solver
from tests.stepping import MemoryLink, Recorded, Stepping
from tests.two_mass_reference import simulate

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "energy_two_mass.json"

# --- Energy of the two-mass oscillator: Rodríguez et al. (2022), case 1 ---------------------------

FEEDTHROUGH_SLOW = {"every": (10, 1), "base": 1e-4}
FEEDTHROUGH_FAST = {"every": (1, 10), "base": 1e-4}
FOH_FORCE = {**FEEDTHROUGH_SLOW, "order_force": 1}
FOH_MOTION = {**FEEDTHROUGH_FAST, "order_motion": 1, "output_with_last_micro_input": True}
FIRST_ORDER = {"order_force": 1, "order_motion": 1}

#: Mean energy error over the tenth second; the longer numbers are those of `REFERENCE`.
ROWS = {
    "uncorrected": (0.939217, {}),
    "corrected": (-0.007899, {"mu": 0.5}),
    "corrected, nu": (-0.019658, {"mu": 0.5, "nu": 0.25}),
    "cap 1 %": (0.448, {"mu": 0.5, "cap": 0.01}),
    "cap 10 %": (0.024, {"mu": 0.5, "cap": 0.1}),
    "cap 25 %": (0.0002, {"mu": 0.5, "cap": 0.25}),
    "first order": (0.0006, FIRST_ORDER),
    "first order, held": (-0.35, {**FIRST_ORDER, "mu": 0.5}),
    "first order, as sent": (-0.0003, {**FIRST_ORDER, "mu": 0.5, "held": False}),
    "FOH force, as sent": (0.0007, {"order_force": 1, "mu": 1.0, "held": False}),
    "FOH force, as sent, half": (0.35, {"order_force": 1, "mu": 0.5, "held": False}),
    "R=10 ZOH uncorrected": (1.833664, FEEDTHROUGH_SLOW),
    "R=10 ZOH": (-0.003860, {**FEEDTHROUGH_SLOW, "mu": 0.725}),
    "R=10 FOH uncorrected": (0.940542, FOH_FORCE),
    "R=10 FOH": (-0.006984, {**FOH_FORCE, "mu": 0.5}),
    "R=10 FOH, as sent": (0.0005, {**FOH_FORCE, "mu": 1.0, "held": False}),
    "R=0.1 ZOH uncorrected": (0.988893, FEEDTHROUGH_FAST),
    "R=0.1 ZOH": (-0.001936, {**FEEDTHROUGH_FAST, "mu": 0.5}),
    "corrected, as sent": (-0.007899, {"mu": 0.5, "held": False}),  # held inputs: the same
    "R=10 ZOH, as sent": (-0.003860, {**FEEDTHROUGH_SLOW, "mu": 0.725, "held": False}),
    "R=0.1 ZOH, as sent": (-0.001936, {**FEEDTHROUGH_FAST, "mu": 0.5, "held": False}),
    "R=0.1 FOH uncorrected": (0.060070, FOH_MOTION),
    "R=0.1 FOH": (-0.001248, {**FOH_MOTION, "mu": 0.05}),
    "R=0.1 FOH, as sent": (-0.0013, {**FOH_MOTION, "mu": 0.1, "held": False}),
}


class LastInput(Mass1):
    """Mass 1 with its output evaluated with the last micro step's input."""

    def advance(self, t, h, u):
        super().advance(t, h, u)
        return self._sample(u(t))


def case_1(
    *,
    base=1e-3,
    every=(1, 1),
    order_force=0,
    order_motion=0,
    mu=0.0,
    nu=0.0,
    cap=1.0,
    held=True,
    output_with_last_micro_input=False,
):
    """The oscillator in the core; the same keywords as `simulate`."""
    first = LastInput if output_with_last_micro_input else Mass1
    residual = "held" if held else "sent"
    correction = {"method": "energy", "residual": residual, "mu": mu, "nu": nu, "cap": cap}
    solvers = {
        "one": first(micro_step=every[0] * base),  # each side: one micro step per own interval
        "two": Mass2(micro_step=every[1] * base),
    }
    return Stepping(
        solvers,
        master={"step": base, "extrapolation": {"order": 0}},
        subsystems={name: {"every": n} for name, n in zip(solvers, every, strict=True)},
        connections=[
            {"from": "one.force", "to": "two.force", "order": order_force},
            {"from": "two.x", "to": "one.x2", "order": order_motion},
            {"from": "two.v", "to": "one.v2", "order": order_motion},
        ],
        bonds=[
            {"name": "spring", "effort": "one.force", "flow": "two.v", "correction": correction}
        ],
    )


def motion(s: Stepping) -> tuple[float, float, float, float]:
    one, two = s.links["one"].solver, s.links["two"].solver
    return one.x, one.v, two.x, two.v


@pytest.mark.parametrize("row", ROWS)
def test_second_implementation_reproduces_the_energy_table(row):
    expected, case = ROWS[row]
    assert simulate(**case).mean_energy_error() == pytest.approx(expected, abs=0.003)


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference numbers are not at hand")
def test_rows_are_those_of_the_reference():
    results = json.loads(REFERENCE.read_text())["results"]
    single, multi = results["case1_single_rate"], results["case1_multi_rate"]
    pairs = {
        "uncorrected": single["uncorrected"],
        "corrected": single["mu=0.5 cap=1.0"],
        "corrected, nu": single["mu=0.5 cap=1.0 nu=0.25"],
        "R=10 ZOH uncorrected": multi["R=10 ZOH uncorrected"],
        "R=10 ZOH": multi["R=10 ZOH mu=0.725"],
        "R=10 FOH uncorrected": multi["R=10 FOH uncorrected"],
        "R=10 FOH": multi["R=10 FOH mu=0.5"],
        "R=0.1 ZOH uncorrected": multi["R=0.1 ZOH uncorrected"],
        "R=0.1 ZOH": multi["R=0.1 ZOH mu=0.5"],
        "R=0.1 FOH uncorrected": multi["R=0.1 FOH uncorrected"],
        "R=0.1 FOH": multi["R=0.1 FOH mu=0.05"],
    }
    for row, reference in pairs.items():
        assert ROWS[row][0] == pytest.approx(reference["E_rel_dev_mean_last_1s"], abs=1e-6)


@pytest.mark.parametrize("row", ROWS)
def test_core_takes_the_steps_of_the_second_implementation(row):
    _, case = ROWS[row]
    duration = 0.3 if "every" not in case else 0.08  # both beyond the first zeros of the flow
    expected = simulate(duration=duration, **case)
    bond = max(case.get("every", (1,)))

    def look(s):
        energy = s.state.bonds[0]
        if s.tick % bond:
            return None
        return (*motion(s), energy.correction_computed, energy.uncorrected)

    seen = [row for row in case_1(**case).run(duration, look) if row is not None]
    state, correction = np.array(seen)[:, :4], np.array(seen)[:, 4]
    np.testing.assert_allclose(state, expected.state, rtol=0, atol=1e-9)
    np.testing.assert_allclose(correction, expected.correction, rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.array(seen)[:, 5], expected.uncorrected, rtol=0, atol=1e-9)
    if case.get("mu"):
        assert np.abs(correction).max() > 1.0  # N: there is something to compare


def test_ten_seconds_of_the_core_end_with_the_energy_of_the_table():
    s = case_1(mu=0.5)
    seen = np.array(s.run(10.0, lambda s: (s.t, *motion(s))))
    t, x1, v1, x2, v2 = seen.T
    energy = (v1**2 + v2**2 + 10.0 * x1**2 + 1000.0 * x2**2 + 100.0 * (x1 - x2) ** 2) / 2.0
    assert energy[t >= 9.0].mean() / energy[0] - 1.0 == pytest.approx(-0.0079, abs=0.001)
    assert np.abs(energy / energy[0] - 1.0).max() < 0.025  # integrator ripple
    ledger = s.state.bonds[0]
    # Half of what was created was taken out again, but for what the cap kept.
    closed = 0.5 * ledger.residual_energy - ledger.budget
    assert ledger.corrected_energy == pytest.approx(closed - ledger.uncorrected, abs=1e-6)
    assert abs(ledger.uncorrected) < 0.05 * ledger.corrected_energy
    assert ledger.shadow_energy == ledger.corrected_energy
    assert 0.0 < ledger.capped_steps / ledger.steps < 0.05
    assert ledger.steps == 10_000


def test_shadow_computes_a_correction_and_applies_none():
    correction = {"method": "energy", "mu": 0.5, "cap": 1.0}
    tables = {
        "master": {"step": 1e-3, "extrapolation": {"order": 0}},
        "connections": [
            {"from": "one.force", "to": "two.force"},
            {"from": "two.x", "to": "one.x2"},
            {"from": "two.v", "to": "one.v2"},
        ],
        "bonds": [
            {"name": "spring", "effort": "one.force", "flow": "two.v", "correction": correction}
        ],
    }
    shadow = Stepping({"one": Mass1(), "two": Mass2()}, shadow=True, **tables)
    shadow.run(0.1)
    np.testing.assert_allclose(motion(shadow), simulate(duration=0.1).state[-1], atol=1e-9)
    ledger = shadow.state.bonds[0]
    assert ledger.corrected_energy == 0.0
    assert abs(ledger.shadow_energy) > 1.0
    assert ("correction_shadow", "spring") in active_flags(shadow.numerics.checks, shadow.state)


# --- Rotational oscillator: Glumac and Kovačić (2023) ---------------------------------------------

A = np.array([[0, 1, 0, 0], [-0.2, -0.3, 0.1, 0.2], [0, 0, 0, 1], [0.1, 0.2, -0.2, -0.4]])
TORQUE = np.array([1.0, 2.0, -1.0, -2.0])  # of the states φ1, ω1, φ2, ω2
NODES, WEIGHTS = np.polynomial.legendre.leggauss(5)


def rotational(step: float, **control) -> Stepping:
    return Stepping(
        {"one": Side1(), "two": Side2()},
        master={"step": step, "extrapolation": {"order": 0}, "step_control": control},
        connections=[
            {"from": "one.torque", "to": "two.torque"},
            {"from": "two.omega", "to": "one.omega2"},
        ],
    )


def rms(totals: Stepping, t: float) -> dict[str, float]:
    """RMS defects of a run: ``√(Σ∫δ² / T)``."""
    s, outputs, inputs = totals, totals.state.outputs, totals.state.inputs
    return {
        "δy ω": math.sqrt(outputs[s.output("two.omega")].defect_square / t),
        "δy τ": math.sqrt(outputs[s.output("one.torque")].defect_square / t),
        "δu τ": math.sqrt(inputs[s.input("two.torque")].defect_square / t),
        "δu ω": math.sqrt(inputs[s.input("one.omega2")].defect_square / t),
    }


def exact(t):
    """States at the times `t`, shape (4, len(t)), by the eigenvectors of A."""
    values, vectors = np.linalg.eig(A)
    weights = np.linalg.solve(vectors, np.array([0.1, 0.1, 0.2, 0.1], dtype=complex))
    return (vectors @ (weights[:, None] * np.exp(np.outer(values, t)))).real


def errors(s: Stepping, seen) -> list[float]:
    """RMS over continuous time of y held back over each interval minus the exact solution."""
    times = np.array([t for t, _ in seen])
    outputs = np.array([y for _, y in seen[1:]])
    h = np.diff(times)[:, None]
    x = exact((times[:-1, None] + 0.5 * h * (NODES + 1.0)).ravel())
    found = []
    for name, true in (("two.omega", x[3]), ("one.torque", TORQUE @ x)):
        error = outputs[:, s.output(name), None] - true.reshape(len(h), -1)
        found.append(math.sqrt((0.5 * h * WEIGHTS * error**2).sum() / times[-1]))
    return found


def look(s: Stepping):
    return s.t, s.state.outputs["y"].copy()


def test_rotational_oscillator_has_the_reference_defects_and_errors():
    s = rotational(0.01)
    seen = s.run(1.0, look)
    assert len(seen) == 101
    found = rms(s, 1.0)
    reference = {"δy ω": 2.651e-4, "δy τ": 1.127e-4, "δu τ": 7.215e-4, "δu ω": 4.592e-4}
    for key, value in reference.items():
        assert found[key] == pytest.approx(value, rel=2e-4), key
    assert errors(s, seen) == pytest.approx([3.209e-4, 4.772e-4], rel=2e-4)


def test_defects_and_errors_fall_in_first_order():
    steps = [0.04, 0.02, 0.01, 0.005]
    rows = []
    for h in steps:
        s = rotational(h)
        seen = s.run(1.0, look)
        rows.append([*rms(s, 1.0).values(), *errors(s, seen)])
    slopes = np.polyfit(np.log(steps), np.log(rows), 1)[0]
    np.testing.assert_allclose(slopes, 1.0, atol=0.05)


def test_pi_controlled_rotational_oscillator():
    s = rotational(1e-4, method="pi", tolerance=0.01, initial=1e-4)
    times = np.array(s.run(1.0, lambda s: s.t))
    h = np.diff(times)
    assert len(h) == 40
    assert times[-2] < 1.0 <= times[-1]
    assert h.mean() == pytest.approx(0.0260052, abs=5e-8)
    assert h.max() == pytest.approx(0.0781321, abs=5e-8)
    assert h[0] == pytest.approx(1e-4)


def test_the_energy_correction_of_a_variable_step_is_sized_for_the_step_ahead():
    # the ledger: U = ς + e_corr f H' with the step that the correction acted in; f constant
    ramp = Recorded({"e": lambda t: 100.0 + 500.0 * t}, [Port("f", "m/s")])
    ramp.outputs = (Port("e", "N"),)
    cart = Recorded({"f": lambda t: 2.0}, [Port("e", "N")])
    cart.outputs = (Port("f", "m/s"),)
    correction = {"method": "energy", "mu": 0.5, "cap": 10.0}
    s = Stepping(
        {"ramp": ramp, "cart": cart},
        master={
            "step": 1e-3,
            "extrapolation": {"order": 0},
            "step_control": {"method": "pi", "tolerance": 2.0},
        },
        connections=[{"from": "ramp.e", "to": "cart.e"}, {"from": "cart.f", "to": "ramp.f"}],
        bonds=[{"name": "b", "effort": "ramp.e", "flow": "cart.f", "correction": correction}],
    )
    h = np.diff(s.run(0.5, lambda s: s.t))
    assert h.max() > 1.5 * h.min()
    assert abs(s.state.bonds["residual_energy"][0]) > 1.0
    assert s.state.bonds["uncorrected"][0] == pytest.approx(0.0, abs=1e-9)


# --- The parts of the step ------------------------------------------------------------------------


def sine(t: float) -> float:
    return math.sin(5.0 * t)


def source_and_sink(port=None, **more) -> Stepping:
    """`source.y` is a sine; `sink` keeps what it was sent in ``polynomials``."""
    delays = {key: more.pop(key) for key in ("physical", "hold_back") if key in more}
    source = MemoryLink("source", Recorded({"y": sine}), **more.pop("source", {}))
    sink = MemoryLink("sink", Recorded({}, [port or Port("u")]), **delays)
    tables = {"master": {"step": 0.01}, "connections": [{"from": "source.y", "to": "sink.u"}]}
    return Stepping({"source": source, "sink": sink}, **(tables | more))


def sent(s: Stepping, name: str = "sink"):
    return s.links[name].asked


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_inputs_are_the_polynomials_through_the_outputs(order):
    s = source_and_sink(master={"step": 0.01, "extrapolation": {"order": order}})
    s.run(0.2)
    for tick, t, h, c in sent(s):
        p = min(order, tick)  # fewer samples at the start
        times = t - 0.01 * np.arange(p + 1)
        expected = np.polynomial.Polynomial.fit(times - t, np.sin(5.0 * times), p).convert()
        assert c[0, 0] == pytest.approx(expected(0.0))
        value = sum(c[m, 0] * h**m / math.factorial(m) for m in range(len(c)))
        assert value == pytest.approx(expected(h), abs=1e-9)


@pytest.mark.parametrize("every", [(1, 5), (5, 1), (2, 5)])
def test_each_subsystem_communicates_on_its_own_grid(every):
    s = source_and_sink(subsystems={"source": {"every": every[0]}, "sink": {"every": every[1]}})
    s.run(0.5)
    for name, n in zip(("source", "sink"), every, strict=True):
        asked = s.links[name].asked
        assert [a.tick for a in asked] == list(range(0, 50, n))
        np.testing.assert_allclose([a.t for a in asked], [0.01 * a.tick for a in asked])
        np.testing.assert_allclose([a.h for a in asked], 0.01 * n)
    for a in sent(s)[5:]:  # the line through the source's last two communication points
        last = a.tick // every[0] * every[0] * 0.01
        h = 0.01 * every[0]
        slope = (sine(last) - sine(last - h)) / h
        assert a.coefficients[1, 0] == pytest.approx(slope, rel=1e-9)
        assert a.coefficients[0, 0] == pytest.approx(sine(last) + slope * (a.t - last))


def test_a_late_solver_gets_one_merged_step():
    s = source_and_sink(hold_back=lambda tick: 3 if tick == 10 else 0)
    s.run(0.3)
    asked = sent(s)
    ticks = [a.tick for a in asked]
    assert ticks == [*range(11), *range(14, 30)]
    ends = [a.t + a.h for a in asked]
    np.testing.assert_allclose([a.t for a in asked][1:], ends[:-1], atol=1e-12)  # without a gap
    merged = asked[11]
    assert (merged.t, merged.h) == (pytest.approx(0.11), pytest.approx(0.04))
    # about its own start, yet the line through the newest samples
    slope = (sine(0.14) - sine(0.13)) / 0.01
    np.testing.assert_allclose(
        merged.coefficients[:, 0], [sine(0.14) - 0.03 * slope, slope], rtol=1e-9
    )
    assert s.exchange.channels["late"].tolist() == [0, 4]  # at the last it is there, and behind


@pytest.mark.parametrize(("policy", "slopes"), [("extrapolate", True), ("hold", False)])
def test_a_late_source_is_extrapolated_or_held(policy, slopes):
    late = {"policy": policy}
    s = source_and_sink(
        source={"hold_back": lambda tick: 2 if tick == 10 else 0},
        subsystems={"source": {"late": late}, "sink": {}},
    )
    s.run(0.2)
    newest, before = sine(0.1), sine(0.09)
    slope = (newest - before) / 0.01
    for tick in (11, 12):
        c = sent(s)[tick].coefficients[:, 0]
        ahead = 0.01 * (tick - 10)
        expected = [newest + slope * ahead, slope] if slopes else [newest, 0.0]
        np.testing.assert_allclose(c, expected, rtol=1e-9)
    c = sent(s)[13].coefficients[:, 0]  # the answer to tick 10, valid at tick 11, has come
    ahead = (sine(0.11) - newest) / 0.01 * 0.02 if slopes else 0.0  # and is still two ticks behind
    assert c[0] == pytest.approx(sine(0.11) + ahead, rel=1e-9)


def test_what_is_no_number_does_not_act():
    source = Recorded({"y": lambda t: math.nan if 0.045 < t < 0.065 else 1.0 + t})
    s = Stepping(
        {"source": source, "sink": Recorded({}, [Port("u")])},
        master={"step": 0.01},
        connections=[{"from": "source.y", "to": "sink.u"}],
    )
    flags = s.run(0.2, lambda s: active_flags(s.numerics.checks, s.state))
    for a in sent(s):
        assert a.coefficients[0, 0] == pytest.approx(1.0 + a.t)
    assert flags[5] == [("sample_implausible", "source.y")]
    assert flag_totals(s.numerics.checks, s.state)["sample_implausible"].raised == 1


def test_an_actuation_delay_is_made_up_for():
    s = source_and_sink(physical=True, lead={"sink": 0.004})
    s.run(0.2)
    for a in sent(s)[2:]:
        slope = (sine(a.t) - sine(a.t - 0.01)) / 0.01
        expected = [sine(a.t) + 0.004 * slope, slope]
        np.testing.assert_allclose(a.coefficients[:, 0], expected, rtol=1e-9)
    # The defect compares what acted with what it stands for, both at the same time.
    line = Stepping(
        {
            "source": Recorded({"y": lambda t: 3.0 * t}),
            "sink": MemoryLink("sink", Recorded({}, [Port("u")]), physical=True),
        },
        lead={"sink": 0.004},
        master={"step": 0.01},
        connections=[{"from": "source.y", "to": "sink.u"}],
    )
    defects = line.run(0.1, lambda s: s.state.inputs["defect"][0])
    np.testing.assert_allclose(defects[3:], 0.0, atol=1e-15)


@pytest.mark.parametrize("lead", [0.0, 0.004])
def test_limits_hold_over_the_whole_interval(lead):
    port = Port("u", min=-0.5, max=0.6, max_rate=3.0)
    s = source_and_sink(port, physical=True, lead={"sink": lead})
    limited = s.run(1.5, lambda s: bool(s.state.inputs["limited"][0]))
    values, last = [], 0.0
    for a in sent(s):
        c = a.coefficients[:, 0]
        ends = (c[0], c[0] + c[1] * a.h)
        values += ends
        assert abs(c[1]) <= 3.0 + 1e-9
        assert abs(c[0] - last) <= 3.0 * 0.01 + 1e-9
        last = ends[1]
    assert min(values) == pytest.approx(-0.5)
    assert max(values) == pytest.approx(0.6)
    assert any(limited)
    assert not all(limited)


def test_the_jerk_of_what_leaves_is_limited():
    """The source is a sine: its rate, and what it starts with, come to the bench gradually."""
    s = source_and_sink(Port("u", max_jerk=100.0), physical=True)
    s.run(1.5, lambda s: None)
    starts = np.array([a.coefficients[0, 0] for a in sent(s)])
    rates = np.diff(starts, prepend=0.0) / 0.01
    assert np.abs(np.diff(rates, prepend=0.0)).max() <= 100.0 * 0.01 + 1e-9
    np.testing.assert_allclose(
        starts[80:], np.sin(5.0 * 0.01 * np.arange(80, len(starts))), atol=1e-9
    )


def test_limited_says_what_was_sent_not_what_might_have_been():
    # the sink communicates every fifth tick; in between nothing leaves and nothing is limited
    port = Port("u", max=0.5)
    s = source_and_sink(port, subsystems={"source": {}, "sink": {"every": 5}})
    seen = s.run(
        0.6,
        lambda s: (
            s.tick,
            bool(s.state.inputs["limited"][0]),
            s.state.inputs["polynomial"].T[0, 0],
        ),
    )
    for tick, limited, value in seen:
        base = seen[tick // 5 * 5]
        assert limited == base[1]
        assert value == base[2]


def test_a_bench_that_is_not_due_is_not_sent_anything():
    s = source_and_sink(physical=True, subsystems={"source": {}, "sink": {"every": 3}})
    s.run(0.3)
    assert [a.tick for a in sent(s)] == list(range(0, 30, 3))


class Swing(Recorded):
    """A sine with its first two derivatives."""

    def _with_derivatives(self, sample: Sample, t: float) -> Sample:
        sample.dy = np.array([[5.0 * math.cos(5.0 * t)], [-25.0 * math.sin(5.0 * t)]])
        return sample

    def initialize(self, t0, u0):
        return self._with_derivatives(super().initialize(t0, u0), t0)

    def advance(self, t, h, u):
        return self._with_derivatives(super().advance(t, h, u), t + h)


@pytest.mark.parametrize("order", [1, 2])
def test_taylor_source_sends_the_derivatives(order):
    s = Stepping(
        {"source": Swing({"y": sine}), "sink": Recorded({}, [Port("u")])},
        master={"step": 0.01, "extrapolation": {"order": order, "source": "taylor"}},
        connections=[{"from": "source.y", "to": "sink.u", "gain": 2.0, "offset": 1.0}],
    )
    s.run(0.1)
    for a in sent(s):
        x = 5.0 * a.t
        expected = [1.0 + 2.0 * math.sin(x), 10.0 * math.cos(x), -50.0 * math.sin(x)]
        np.testing.assert_allclose(a.coefficients[:, 0], expected[: order + 1], atol=1e-9)


def test_output_defect_belongs_to_the_subsystems_own_step():
    # y = t: at order 0 the middle is h/2 off, so δy RMS = h/2 · 2/√3 (docs/methods.md, "Defects")
    fast = Recorded({"y": lambda t: t}, middle=True)
    slow = Recorded({"y": lambda t: 7.0 * t}, middle=True)
    sink = Recorded({}, [Port("a"), Port("b")])
    s = Stepping(
        {"fast": fast, "slow": slow, "sink": sink},
        master={"step": 0.01, "extrapolation": {"order": 0}},
        subsystems={"fast": {}, "slow": {"every": 10}, "sink": {}},
        connections=[{"from": "fast.y", "to": "sink.a"}, {"from": "slow.y", "to": "sink.b"}],
    )
    s.run(1.0)
    outputs = s.state.outputs
    rms = np.sqrt(outputs["defect_square"] / outputs["defect_seconds"])  # while they are known
    np.testing.assert_allclose(rms, [0.01 / math.sqrt(3.0), 7.0 * 0.1 / math.sqrt(3.0)])
    np.testing.assert_allclose(s.state.outputs["defect_max"], rms)


def test_connection_defect_of_a_ramp_held():
    # u = t held from the step's start against L ỹ held from its end: h off all the way
    s = Stepping(
        {"source": Recorded({"y": lambda t: t}), "sink": Recorded({}, [Port("u")])},
        master={"step": 0.01, "extrapolation": {"order": 0}},
        connections=[{"from": "source.y", "to": "sink.u"}],
    )
    s.run(1.0)
    assert math.sqrt(s.state.inputs["defect_square"][0]) == pytest.approx(0.01)
    assert s.state.inputs["defect_max"][0] == pytest.approx(0.01)


def test_same_inputs_give_the_same_decisions_bit_for_bit():
    def one_run():
        s = case_1(**FIRST_ORDER, mu=0.5, nu=0.1, held=False)
        return s.run(
            0.05,
            lambda s: (s.state.inputs["polynomial"].T.tobytes(), s.state.outputs["y"].tobytes()),
        )

    assert one_run() == one_run()


class Reported(Solver):
    """A bench: realises the demanded speed late, and says so."""

    inputs = (Port("speed", "rad/s"),)
    outputs = (Port("torque", "N*m"),)

    def initialize(self, t0, u0):
        return Sample(np.array([10.0]), realised=u0.copy())

    def advance(self, t, h, u):
        return Sample(np.array([10.0]), t_valid=np.array([t + h]), realised=u(t) - 0.5)


def test_tracking_error_has_a_ledger_of_its_own():
    car = Recorded({"speed": lambda t: 100.0}, [Port("torque", "N*m")])
    car.outputs = (Port("speed", "rad/s"),)
    s = Stepping(
        {"bench": MemoryLink("bench", Reported(), physical=True), "car": car},
        master={"step": 0.01},
        connections=[
            {"from": "bench.torque", "to": "car.torque"},
            {"from": "car.speed", "to": "bench.speed"},
        ],
        bonds=[{"name": "shaft", "effort": "bench.torque", "flow": "car.speed"}],
    )
    s.run(0.5)
    assert s.state.bonds["residual_energy"][0] == 0.0  # what was sent was right
    assert s.state.bonds["tracking_energy"][0] == pytest.approx(10.0 * -0.5 * 0.5)
    assert s.state.bonds["power"][0] == pytest.approx(1000.0)


def test_several_bonds_may_act_on_one_summed_effort():
    # two equal springs pull at one mass: each bond's correction is added to the sum
    def spring():
        solver = Recorded({"e": lambda t: 100.0 + 40.0 * t}, [Port("f", "m/s")])
        solver.outputs = (Port("e", "N"),)
        return solver

    mass = Recorded({"f": lambda t: 2.0}, [Port("e", "N")])
    mass.outputs = (Port("f", "m/s"),)
    correction = {"method": "energy", "mu": 0.5, "cap": 10.0, "residual": "held"}
    s = Stepping(
        {"one": spring(), "two": spring(), "mass": mass},
        master={"step": 0.01, "extrapolation": {"order": 0}},
        connections=[
            *({"from": f"{name}.e", "to": "mass.e"} for name in ("one", "two")),
            *({"from": "mass.f", "to": f"{name}.f"} for name in ("one", "two")),
        ],
        bonds=[
            {"name": name, "effort": f"{name}.e", "flow": "mass.f", "correction": correction}
            for name in ("one", "two")
        ],
    )
    s.run(0.1)
    # each: δP = (e_k − e_{k+1}) f = −0.8 W, so e_corr = 0.5 · 0.8 W / 2 m/s
    for a in sent(s, "mass")[1:]:
        assert a.coefficients[0, 0] == pytest.approx(2.0 * (100.0 + 40.0 * a.t) + 2.0 * 0.2)
