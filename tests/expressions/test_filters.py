"""Operations with a memory against scipy.signal and closed forms."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, signal

from hilrt.expressions.evaluator import Evaluator

STEP = 0.001
T = np.arange(400) * STEP


def values_of(text: str, x: np.ndarray, t: np.ndarray = T, step: float = STEP) -> np.ndarray:
    evaluator = Evaluator([text], {"a.x": "?"}, step=step)
    return evaluator.run(t, np.asarray(x, dtype=float).reshape(-1, 1))[:, 0]


def noise(n: int = len(T), seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n) + 2.0


def uneven(n: int = 300) -> np.ndarray:
    return np.cumsum(np.random.default_rng(5).uniform(0.0005, 0.003, n))


@pytest.mark.parametrize("time", [1e-9, 0.0005, 0.01, 1.0, 1e4])
def test_low_pass_is_that_of_a_line_between_samples(time):
    x = noise()
    found = values_of(f"lowpass(a.x, {time})", x)
    system = signal.StateSpace([[-1 / time]], [[1 / time]], [[1.0]], [[0.0]])
    _, expected, _ = signal.lsim(system, x, T, X0=x[0], interp=True)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_low_pass_over_uneven_steps_is_exact_on_a_ramp():
    t = uneven()
    y = values_of("lowpass(a.x, 0.02)", 3.0 * t, t)
    s = t - t[0]
    np.testing.assert_allclose(y, 3.0 * (t - 0.02 + 0.02 * np.exp(-s / 0.02)), rtol=1e-11)


def test_derivative_and_integral():
    t = uneven()
    x = np.sin(40.0 * t)
    slope = values_of("derivative(a.x)", x, t)
    assert math.isnan(slope[0])
    np.testing.assert_allclose(slope[1:], np.diff(x) / np.diff(t), rtol=1e-12)
    area = values_of("integral(a.x, start=2)", x, t)
    expected = 2.0 + integrate.cumulative_trapezoid(x, t, initial=0)
    np.testing.assert_allclose(area, expected, rtol=1e-12)


def test_derivative_leaves_out_samples_that_are_too_close():
    t = np.array([0.0, 1.0, 1.0001, 2.0]) * STEP
    np.testing.assert_allclose(
        values_of("derivative(a.x)", [0.0, 1.0, 5.0, 3.0], t), [np.nan, 1000.0, 1000.0, 2000.0]
    )


def test_integral_begins_again_while_it_is_reset():
    x = np.ones(10)
    evaluator = Evaluator(["integral(a.x, reset=a.r, start=5)"], {"a.x": "?", "a.r": "?"})
    reset = np.array([0, 0, 0, 1, 1, 0, 0, 0, 0, 0.0])
    found = evaluator.run(np.arange(10) * 1.0, np.column_stack((x, reset)))[:, 0]
    np.testing.assert_array_equal(found, [5, 6, 7, 5, 5, 6, 7, 8, 9, 10])


@pytest.mark.parametrize("n", [1, 2, 7, 100, 350])
def test_mean_and_rms_are_those_of_the_last_samples(n):
    x = noise()
    found = values_of(f"mean(a.x, {n * STEP})", x)
    expected = signal.lfilter(np.ones(n) / n, 1.0, x)
    np.testing.assert_allclose(found[n:], expected[n:], rtol=1e-10)
    squares = signal.lfilter(np.ones(n) / n, 1.0, x * x)
    found = values_of(f"rms(a.x, {n * STEP})", x)
    np.testing.assert_allclose(found[n:], np.sqrt(squares[n:]), rtol=1e-10)
    assert found[0] == abs(x[0])


def test_a_mean_forgets_a_huge_value_with_the_window():
    x = noise()
    x[50] = 1e29
    found = values_of("mean(a.x, 0.02)", x)
    np.testing.assert_allclose(found[70:90], signal.lfilter(np.ones(20) / 20, 1, x)[70:90], rtol=9)
    calm = signal.lfilter(np.ones(20) / 20, 1.0, np.where(T[50] == T, 0.0, x))
    np.testing.assert_allclose(found[75:], calm[75:], rtol=1e-12)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0.002, 0.2))
def test_mean_over_uneven_steps(seed, time):
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.uniform(0.001, 0.01, 80))
    x = rng.normal(size=80)
    found = values_of(f"mean(a.x, {time})", x, t)
    for k in range(1, 80):  # each value counts for the time since the one before
        begin = np.maximum(t[:k], max(t[k] - time, t[0]))
        lengths = np.maximum(t[1 : k + 1] - begin, 0.0)
        assert found[k] == pytest.approx(np.sum(lengths * x[1 : k + 1]) / lengths.sum(), abs=1e-9)


def test_a_long_window_takes_several_samples_into_a_slot():
    t = np.arange(20_000) * STEP
    x = np.sin(t)
    found = values_of("mean(a.x, 5)", x, t)[6000::500]
    ends = t[6000::500]
    exact = (np.cos(ends - 5.0) - np.cos(ends)) / 5.0
    np.testing.assert_allclose(found, exact, atol=2e-4)


@pytest.mark.parametrize("n", [1, 3, 120])
def test_delay_by_whole_steps_gives_the_very_samples(n):
    x = noise()
    found = values_of(f"delay(a.x, {n * STEP})", x)
    np.testing.assert_array_equal(found, np.r_[np.full(n, np.nan), x[:-n]])


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(0.0005, 0.05))
def test_delay_over_uneven_steps_is_on_lines_between_samples(seed, time):
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.uniform(0.001, 0.01, 60))
    x = rng.normal(size=60)
    found = values_of(f"delay(a.x, {time})", x, t)
    there = t - time >= t[0]
    assert np.isnan(found[~there]).all()
    np.testing.assert_allclose(found[there], np.interp(t - time, t, x)[there], atol=1e-6)


def test_delay_carries_unknown_values():
    x = np.array([1.0, np.nan, 3.0, 4.0, 5.0])
    found = values_of(f"delay(a.x, {STEP})", x, T[:5])
    np.testing.assert_array_equal(found, [np.nan, 1.0, np.nan, 3.0, 4.0])


def test_filters_step_over_samples_that_are_unknown():
    x = np.array([1.0, np.nan, np.inf, 4.0, 5.0])
    t = np.arange(5.0)
    area = values_of("integral(a.x)", x, t, 1.0)
    np.testing.assert_array_equal(area, [0.0, np.nan, np.nan, 7.5, 12.0])
    slope = values_of("derivative(a.x)", x, t, 1.0)
    np.testing.assert_array_equal(slope, [np.nan, np.nan, np.nan, 1.0, 1.0])
    assert np.isfinite(values_of("lowpass(a.x, 2)", x, t, 1.0)[3:]).all()


def test_filters_step_with_the_samples_and_not_with_the_ticks():
    """A signal of every tenth tick gives its slope, not a spike and nine zeros."""
    evaluator = Evaluator(["derivative(a.x)", "integral(a.x)"], {"a.x": "?"}, step=STEP)
    t = np.arange(100) * STEP
    valid = np.where(np.arange(100) % 10 == 0, t, np.nan)
    found = evaluator.run(t, (5.0 * t).reshape(-1, 1), valid.reshape(-1, 1))
    np.testing.assert_allclose(found[10:, 0], 5.0)
    last = t[np.arange(100) // 10 * 10]
    np.testing.assert_allclose(found[:, 1], 2.5 * last**2, atol=1e-15)


CONDITION = np.array([1, 1, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 1.0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rising(a.x)", [0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1]),
        ("falling(a.x)", [0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0]),
        ("count(a.x)", [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3]),
        ("count(a.x, reset=time == 5)", [0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1, 2]),
        ("debounce(a.x, 2)", [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0]),
        ("duration(a.x)", [0, 1, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0]),
        ("integral(1)", range(13)),
    ],
)
def test_conditions(text, expected):
    text = text if "a.x" in text else f"{text} + 0 * a.x"
    np.testing.assert_array_equal(values_of(text, CONDITION, np.arange(13.0), 1.0), expected)


def test_hysteresis():
    x = [0.0, 1.5, 2.5, 1.5, 0.5, 1.5, np.nan, 2.5, np.nan, 1.5]
    found = values_of("hysteresis(a.x, 1, 2)", x, np.arange(10.0))
    np.testing.assert_array_equal(found, [0, 0, 1, 1, 0, 0, 0, 1, 1, 1])
