import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from scipy.interpolate import KroghInterpolator
from scipy.special import factorial

from hilrt.coupling.extrapolate import (
    History,
    connection_polynomials,
    divided_differences,
    newton_value,
    push,
    sum_at_inputs,
    taylor_polynomials,
    usable_degrees,
)
from hilrt.coupling.polynomial import evaluate
from hilrt.tables.network import Connections

ALL = np.array([True])


def take(history: History, t, y, fresh, spacing) -> None:
    push(t, y, fresh, spacing, history.t, history.y, history.count)


def filled(times: np.ndarray, values: np.ndarray) -> History:
    """History that saw the samples, shape (depth, ny), oldest first; each output its own times."""
    history = History.start(len(times), times[0, 0], values[0])
    history.t[0] = times[0]
    for t, y in zip(times[1:], values[1:], strict=True):
        fresh = np.ones(len(t), dtype=bool)
        take(history, t, y, fresh, np.zeros(len(t)))
    return history


def carried(history: History, now: float, degree: list[int], source: list[int]) -> np.ndarray:
    differences, nodes = divided_differences(history, now)
    out = np.full((len(history.t), len(source)), np.nan)
    enough = history.count - 1
    connection_polynomials(differences, nodes, np.array(degree), enough, np.array(source), out)
    return out


@st.composite
def sampled_polynomials(draw, depth=6, channels=3):
    """Polynomials of degree < depth and samples of them at non-equidistant times, per channel."""
    number = st.floats(-3.0, 3.0, width=32)
    gaps = st.lists(st.floats(0.25, 1.0, width=32), min_size=depth - 1, max_size=depth - 1)
    times, values, polynomials, degrees = [], [], [], []
    for _ in range(channels):
        degree = draw(st.integers(0, depth - 1))
        p = Polynomial(draw(st.lists(number, min_size=degree + 1, max_size=degree + 1)))
        t = -np.concatenate(([0.0], np.cumsum(draw(gaps))))[::-1] - draw(st.floats(0.0, 0.5))
        times.append(t)
        values.append(p(t))
        polynomials.append(p)
        degrees.append(degree)
    return np.array(times).T, np.array(values).T, polynomials, degrees


@settings(max_examples=60)
@given(sampled_polynomials(), st.floats(0.0, 1.0))
def test_a_polynomial_is_continued_exactly(case, ahead):
    times, values, polynomials, degrees = case
    history = filled(times, values)
    np.testing.assert_array_equal(history.count, len(history.t))
    source = [2, 0, 1, 1]
    c = carried(history, 0.0, [degrees[s] for s in source], source)
    scale = np.abs(values).max() + 1.0
    for i, s in enumerate(source):
        p = polynomials[s]
        expected = [p.deriv(m)(0.0) if m else p(0.0) for m in range(len(c))]
        np.testing.assert_allclose(c[:, i], expected, rtol=0, atol=1e-6 * scale)
        assert evaluate(c, ahead)[i] == pytest.approx(p(ahead), abs=1e-6 * scale)


@settings(max_examples=40)
@given(sampled_polynomials(), st.integers(0, 5), st.floats(-0.5, 1.0))
def test_any_degree_agrees_with_scipys_interpolation(case, degree, now):
    times, values, _, _ = case
    differences, nodes = divided_differences(filled(times, values), now)
    mixed = np.array([degree, 0, 5])
    value = newton_value(differences, nodes, mixed)
    for i, d in enumerate(mixed):
        newest = slice(len(times) - 1 - d, None)
        expected = KroghInterpolator(times[newest, i], values[newest, i])(now)
        assert value[i] == pytest.approx(float(expected), abs=1e-6 * (1 + np.abs(values).max()))


@pytest.mark.parametrize("degree", range(6))
def test_error_falls_with_the_order_of_the_degree_plus_one(degree):
    steps = np.array([0.12, 0.08, 0.06, 0.04])
    spacing = np.array([0.0, 1.0, 2.3, 3.1, 4.5, 5.2])[degree::-1]
    errors = []
    for h in steps:
        times = 1.0 - h * spacing[:, None]
        c = carried(filled(times, np.exp(times)), 1.0, [degree], [0])
        errors.append(abs(evaluate(c, h)[0] - np.exp(1.0 + h)))
    order = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert order == pytest.approx(degree + 1, abs=0.25)


def degrees(history, wanted, holds=(False,), late=(False,)):
    degree = np.empty_like(wanted)
    owner = np.zeros(len(wanted), dtype=np.intp)
    usable_degrees(wanted, history.count, owner, np.array(holds), np.array(late), degree)
    return degree


@pytest.mark.parametrize(("holds", "late"), [(True, False), (False, True), (True, True)])
def test_only_the_outputs_of_a_late_subsystem_that_holds_stay_as_they_are(holds, late):
    history = filled(np.array([[0.0], [1.0], [2.0]]), np.zeros((3, 1)))
    expected = 0 if holds and late else 2
    assert degrees(history, np.array([2]), [holds], [late])[0] == expected


def test_fewer_samples_limit_the_degree():
    history = History.start(4, 0.0, np.array([1.0, 1.0]))
    wanted = np.array([3, 3])
    np.testing.assert_array_equal(degrees(history, wanted), [0, 0])
    for k in range(1, 6):
        fresh = np.array([True, k % 2 == 0])
        take(history, np.full(2, float(k)), np.full(2, 1.0 + k), fresh, np.zeros(2))
        expected = [min(k, 3), min(k // 2, 3)]
        np.testing.assert_array_equal(degrees(history, wanted), expected)
        differences, nodes = divided_differences(history, k + 1.0)
        value = newton_value(differences, nodes, degrees(history, wanted))
        assert value[0] == pytest.approx(k + 2.0)
    np.testing.assert_array_equal(wanted, [3, 3])


def test_samples_without_news_change_nothing():
    history = filled(np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [1.0], [2.0]]))
    for t, fresh in ((3.0, False), (1.5, True), (np.nan, False)):
        take(history, np.array([t]), np.array([9.0]), ALL & fresh, np.zeros(1))
        np.testing.assert_array_equal(history.y[:, 0], [2.0, 1.0, 0.0])
        np.testing.assert_array_equal(history.t[:, 0], [2.0, 1.0, 0.0])


def test_a_second_sample_of_the_same_time_replaces_the_first():
    history = filled(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]))
    take(history, np.array([1.0]), np.array([7.0]), ALL, np.zeros(1))
    np.testing.assert_array_equal(history.y[:, 0], [7.0, 0.0])


def test_samples_back_to_back_do_not_make_a_slope():
    history = filled(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]))
    spacing = np.array([0.5])
    for t, y in ((1.001, 5.0), (1.4, 6.0), (1.5, 1.5)):
        take(history, np.array([t]), np.array([y]), ALL, spacing)
    np.testing.assert_allclose(history.t[:, 0], [1.5, 0.0])
    np.testing.assert_allclose(history.y[:, 0], [1.5, 0.0])
    take(history, np.array([2.2]), np.array([2.2]), ALL, spacing)
    np.testing.assert_allclose(history.t[:, 0], [2.2, 1.5])


def connections(source, target, gain, order=0, taylor=False) -> Connections:
    inputs, first = np.unique(np.array(target, dtype=np.intp), return_index=True)
    return Connections(
        source=np.array(source, dtype=np.intp),
        gain=np.array(gain, dtype=np.float64),
        order=np.full(len(source), order),
        free=np.ones(len(source), dtype=bool),
        taylor=np.full(len(source), taylor),
        first=first,
        target=inputs,
    )


def test_connections_to_one_input_add_up():
    net = connections([0, 1, 1], [1, 1, 3], [2.0, -1.0, 10.0])
    polynomials = np.array([[1.0, 2.0, 2.0], [0.1, 0.2, 0.2]])
    base = np.array([7.0, 0.5, 8.0, 0.0])
    out = np.full((2, 4), np.nan)
    sum_at_inputs(net, polynomials, base, out)
    np.testing.assert_allclose(out, [[7.0, 0.5, 8.0, 20.0], [0.0, 0.0, 0.0, 2.0]], atol=1e-16)
    np.testing.assert_array_equal(polynomials[0], [1.0, 2.0, 2.0])


def test_without_connections_inputs_stay_at_their_base():
    out = np.full((2, 1), np.nan)
    sum_at_inputs(connections([], [], []), np.zeros((2, 0)), np.array([3.0]), out)
    np.testing.assert_array_equal(out, [[3.0], [0.0]])


def test_taylor_source_uses_derivatives_up_to_the_lower_order():
    dy = np.array([[1.0, np.nan, np.inf], [2.0, 5.0, 6.0]])  # two derivatives of three outputs
    y = np.array([10.0, 20.0, 30.0])
    for order, expected in (
        (1, [[10.0, 20.0, 30.0], [1.0, 0.0, 0.0], [0, 0, 0], [0, 0, 0]]),
        (3, [[10.0, 20.0, 30.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0, 0, 0]]),
    ):
        out = np.full((4, 3), np.nan)
        net = connections([0, 1, 2], [0, 1, 2], [1.0, 1.0, 1.0], order, taylor=True)
        taylor_polynomials(net, y, dy, out)
        np.testing.assert_array_equal(out, expected)


def test_taylor_polynomials_of_a_sine_have_the_order_of_their_derivatives():
    net = connections([0], [0], [1.0], order=2, taylor=True)
    errors, steps = [], np.array([0.2, 0.1, 0.05])
    for h in steps:
        out = np.zeros((3, 1))
        taylor_polynomials(net, np.sin([1.0]), np.array([[np.cos(1.0)], [-np.sin(1.0)]]), out)
        errors.append(abs(evaluate(out, h)[0] - np.sin(1.0 + h)))
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(3.0, abs=0.1)
    assert factorial(3) * errors[-1] / steps[-1] ** 3 == pytest.approx(np.cos(1.0), rel=0.05)
