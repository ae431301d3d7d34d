"""Monitors against the definition of the logic, on random samples, in random batches."""

import itertools
import math

import numpy as np
import pytest

from hilrt.expect.formula import Atom, HoldsUntil, Junction, Window, atoms, reach_ns
from hilrt.expect.monitor import JudgedTime, Monitor
from hilrt.expect.robustness import of_samples
from tests.expect.reference_stl import robustness

A, B, C = Atom("a", "a"), Atom("b", "b"), Atom("c", "c")
MS = 1_000_000
ALWAYS = JudgedTime()

FORMULAS = {
    "limit": Window(True, A),
    "limit in a window": Window(True, A, 3 * MS, 20 * MS),
    "reached": Window(False, A),
    "reached within": Window(False, A, 0, 15 * MS),
    "stays": Window(False, Window(True, A, 0, 6 * MS), 0, 40 * MS),
    "answers": Window(True, Junction(False, (A, Window(False, B, 2 * MS, 9 * MS)))),
    "until": HoldsUntil(A, B, 4 * MS, 30 * MS),
    "until at last": HoldsUntil(Junction(True, (A, C)), Window(True, B, 0, 5 * MS)),
    "at once": Junction(True, (A, Junction(False, (B, C)))),
    "nested": Window(
        True,
        Junction(True, (Window(False, A, 0, 8 * MS), Window(True, B, 1 * MS, 3 * MS))),
        0,
        None,
    ),
}


def samples(seed, n=80):
    """Times with steps of their own [ns], and margins of the comparisons, some of them equal."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.integers(MS // 2, 2 * MS, n)).astype(np.int64)
    walk = {one: np.round(np.cumsum(rng.normal(0.1, 1.0, n)), 1) + 2.0 for one in (A, B, C)}
    return times, walk


def run(formula, times, margins, timing=ALWAYS, condition=None, cuts=(), errors=None):
    """A monitor over batches that end at `cuts`."""
    found = atoms(formula)
    numbers = {one: i for i, one in enumerate(found)}
    monitor = Monitor(formula, numbers, timing)
    bounds = [0, *cuts, len(times)]
    for first, last in itertools.pairwise(bounds):
        part = slice(first, last)
        blocks = []
        for i, one in enumerate(found):
            value, t = margins[one][part], times[part]
            error = np.zeros(len(t)) if errors is None else errors[one][part]
            blocks.append(of_samples(t, value, error, i))
        trigger = None
        if condition is not None:
            truth = np.where(condition[part], 1.0, -1.0)
            trigger = of_samples(times[part], truth, np.zeros(len(truth)), 0)
        monitor.take(blocks, trigger)
    monitor.finish()
    return monitor.judge()


@pytest.mark.parametrize("name", FORMULAS)
def test_robustness_is_that_of_the_definition(name):
    """Where the trace is long enough for the formula, on ten random traces."""
    formula = FORMULAS[name]
    for seed in range(10):
        times, margins = samples(seed)
        last = len(times) - 1
        direct = robustness(formula, 0, times, margins, last)
        judged = run(formula, times, margins)
        if isinstance(formula, Window) and formula.end_ns is None and formula.always:
            # samples whose windows the end cuts count as far as that decides them
            reach = reach_ns(formula.part)
            whole = [k for k in range(len(times)) if times[k] + reach <= times[-1]]
            surely = [robustness(formula.part, k, times, margins, last) for k in whole]
            assert judged.value <= min(surely)
            direct = judged.value if judged.value < min(surely) else min(surely)
        assert judged.value == direct, seed
        assert judged.word == ("passed" if direct >= 0 else "failed") or (
            "ends before" in judged.reason
        )


@pytest.mark.parametrize("name", FORMULAS)
def test_batches_change_no_bit(name):
    """One sample at a time, all at once, and random batches."""
    for seed in range(5):
        times, margins = samples(seed)
        condition = margins[C] > 3.0
        cuts = np.unique(np.random.default_rng(seed).integers(1, len(times), 9))
        for timing in (JudgedTime(), JudgedTime(times[9], times[60]), JudgedTime(triggered=True)):
            if timing.triggered and reach_ns(FORMULAS[name]) is None:
                continue
            said = {
                repr(run(FORMULAS[name], times, margins, timing, of, chosen))
                for of in ([condition] if timing.triggered else [None])
                for chosen in ((), cuts.tolist(), range(1, len(times)))
            }
            assert len(said) == 1


def test_triggers_are_the_rising_edges():
    """The least over them; those that the end cuts off are counted, and left out."""
    for seed in range(10):
        times, margins = samples(seed)
        condition = margins[C] > 3.0
        risen = [k for k in range(len(times)) if condition[k] and not (k and condition[k - 1])]
        for name in ("reached within", "stays", "until", "at once", "limit in a window"):
            formula = FORMULAS[name]
            whole = [k for k in risen if times[k] + reach_ns(formula) <= times[-1]]
            direct = [robustness(formula, k, times, margins, len(times) - 1) for k in whole]
            judged = run(formula, times, margins, JudgedTime(triggered=True), condition)
            if not direct:
                assert judged.word != "passed" or judged.value >= 0
                continue
            assert judged.value <= min(direct)
            if "not checked" in judged.reason or len(whole) == len(risen):
                assert judged.word == ("passed" if judged.value >= 0 else "failed")


def test_an_error_that_can_turn_it_makes_it_inconclusive():
    """At the deciding sample, at another one, and where it is unknown."""
    times = np.arange(5) * MS
    margins = {A: np.array([9.0, 2.0, 8.0, 5.0, 9.0])}

    def judged(*errors, formula=FORMULAS["limit"]):
        return run(formula, times, margins, errors={A: np.array(errors)})

    assert judged(0.0, 1.9, 0.0, 4.0, 0.0).word == "passed"
    near = judged(0.0, 2.1, 0.0, 0.0, 0.0)
    assert (near.word, near.value, near.error) == ("inconclusive", 2.0, 2.1)
    assert "at another sample" in judged(0.0, 1.0, 0.0, 5.5, 0.0).reason
    assert "unknown there" in judged(0.0, math.nan, 0.0, 0.0, 0.0).reason
    assert judged(math.nan, 1.0, 0.0, 0.0, math.nan).word == "passed"
    margins[A] -= 3.0
    assert judged(0.0, 0.9, 0.0, 0.0, 0.0).word == "failed"
    assert judged(0.0, 1.1, 0.0, 0.0, 0.0).word == "inconclusive"
    assert judged(math.nan, math.nan, 0.0, 0.0, 0.0).word == "inconclusive"


def test_what_is_not_known_is_not_taken_for_granted():
    """A sample without a value could be anything; one that violates a limit has done so."""
    times = np.arange(4) * MS

    def judged(*values):
        return run(FORMULAS["limit"], times, {A: np.array(values)}, errors={A: np.zeros(4)})

    assert judged(3.0, math.nan, 2.0, 4.0).word == "inconclusive"
    assert judged(3.0, math.nan, -2.0, 4.0).word == "failed"
    nothing = judged(*[math.nan] * 4)
    assert (nothing.word, math.isnan(nothing.value)) == ("inconclusive", True)
