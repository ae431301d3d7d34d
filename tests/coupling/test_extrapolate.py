import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from scipy.interpolate import KroghInterpolator
from scipy.special import factorial

from hilrt.coupling.compensate import compensate, push
from hilrt.coupling.extrapolate import (
    extrapolate,
    newton_form,
    newton_value,
    through_samples,
    value_at,
)
from hilrt.coupling.inject_faults import take_samples
from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.tables import state
from hilrt.tables.record import table
from tests.stepping import make_numerics


def filled(times: np.ndarray, values: np.ndarray):
    """Records of outputs that saw the samples, shape (depth, ny), oldest first."""
    outputs = table(state.OutputState, times.shape[1])
    outputs["t_past"] = times[0, :, None] - np.arange(outputs["t_past"].shape[1])
    outputs["t_past"][:, 0], outputs["y_past"][:, 0], outputs["count"] = times[0], values[0], 1
    for t, y in zip(times[1:], values[1:], strict=True):
        for i in range(len(outputs)):
            push(outputs[i], t[i], y[i], 0.0, len(times))
    return outputs


def carried(outputs, depth: int, now: float, degree: list[int], source: list[int]) -> np.ndarray:
    """Taylor coefficients, shape (depth, connections), of what connections carry."""
    found = []
    for order, i in zip(degree, source, strict=True):
        out, connection = outputs[i], table(state.ConnectionStateRow, 1)[0]
        newton_form(out, depth, now)
        out.degree, connection.order = out.count - 1, order
        through_samples(connection, out, depth)
        found.append(connection.polynomial[:depth].copy())
    return np.array(found).T


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
    outputs = filled(times, values)
    np.testing.assert_array_equal(outputs["count"], len(times))
    source = [2, 0, 1, 1]
    c = carried(outputs, len(times), 0.0, [degrees[s] for s in source], source)
    scale = np.abs(values).max() + 1.0
    for i, s in enumerate(source):
        p = polynomials[s]
        expected = [p.deriv(m)(0.0) if m else p(0.0) for m in range(len(c))]
        np.testing.assert_allclose(c[:, i], expected, rtol=0, atol=1e-6 * scale)
        assert value_at(c[:, i].copy(), len(c), ahead) == pytest.approx(p(ahead), abs=1e-6 * scale)


@settings(max_examples=40)
@given(sampled_polynomials(), st.integers(0, 5), st.floats(-0.5, 1.0))
def test_any_degree_agrees_with_scipys_interpolation(case, degree, now):
    times, values, _, _ = case
    outputs = filled(times, values)
    for i, d in enumerate((degree, 0, 5)):
        newton_form(outputs[i], len(times), now)
        value = newton_value(outputs[i], d)
        newest = slice(len(times) - 1 - d, None)
        expected = KroghInterpolator(times[newest, i], values[newest, i])(now)
        assert value == pytest.approx(float(expected), abs=1e-6 * (1 + np.abs(values).max()))


@pytest.mark.parametrize("degree", range(6))
def test_error_falls_with_the_order_of_the_degree_plus_one(degree):
    steps = np.array([0.12, 0.08, 0.06, 0.04])
    spacing = np.array([0.0, 1.0, 2.3, 3.1, 4.5, 5.2])[degree::-1]
    errors = []
    for h in steps:
        times = 1.0 - h * spacing[:, None]
        c = carried(filled(times, np.exp(times)), degree + 1, 1.0, [degree], [0])[:, 0]
        errors.append(abs(value_at(c, degree + 1, h) - np.exp(1.0 + h)))
    order = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert order == pytest.approx(degree + 1, abs=0.25)


def session(outputs: int = 1, **tables):
    """Numerics of a subsystem with outputs ``y0`` …, whose samples arrive anew at every tick."""
    ports = {"s": Ports((), tuple(Port(f"y{i}") for i in range(outputs)))}
    numerics = make_numerics(ports, **tables)
    numerics.given.outputs["fresh"] = 1
    return numerics


def cut(numerics):
    """What has arrived becomes the outputs at the communication point."""
    take_samples(numerics.plan, numerics.state, numerics.given)
    compensate(numerics.plan, numerics.state, numerics.given)


def take(numerics, t, y, fresh=True):
    """Samples `y` that are valid at `t`, at the communication point `t`."""
    given = numerics.given
    given.session["t"], given.outputs["t_valid"] = np.nanmax(t), t
    given.outputs["y"], given.outputs["fresh"] = y, fresh
    cut(numerics)


@pytest.mark.parametrize(("holds", "late"), [(True, False), (False, True), (True, True)])
def test_only_the_outputs_of_a_late_subsystem_that_holds_stay_as_they_are(holds, late):
    numerics = session()
    numerics.plan.session["samples"] = 3
    numerics.plan.subsystems["holds_when_late"] = holds
    for t in (1.0, 2.0, 3.0):
        take(numerics, t, 0.0)
    numerics.given.subsystems["late"] = late
    cut(numerics)
    assert numerics.state.outputs["degree"] == (0 if holds and late else 2)


def test_fewer_samples_limit_the_degree():
    numerics = session(2)
    outputs = numerics.state.outputs
    numerics.plan.session["samples"], outputs["order"] = 4, 3
    outputs["y_past"], numerics.given.outputs["fresh"] = 1.0, 0
    cut(numerics)
    np.testing.assert_array_equal(outputs["degree"], [0, 0])
    for k in range(1, 6):
        take(numerics, float(k), 1.0 + k, [True, k % 2 == 0])
        np.testing.assert_array_equal(outputs["degree"], [min(k, 3), min(k // 2, 3)])
        numerics.given.outputs["fresh"], numerics.given.session["t"] = 0, k + 1.0
        cut(numerics)
        assert outputs["y"][0] == pytest.approx(k + 2.0)


def test_samples_without_news_change_nothing():
    numerics = session()
    outputs = numerics.state.outputs
    for t in (1.0, 2.0):
        take(numerics, t, t)
    before = outputs["y_past"].copy(), outputs["t_past"].copy()
    for t, fresh in ((3.0, False), (1.5, True)):
        take(numerics, t, 9.0, fresh)
        np.testing.assert_array_equal(outputs["y_past"], before[0])
        np.testing.assert_array_equal(outputs["t_past"], before[1])
    push(outputs[0], np.nan, 9.0, 0.0, 3)
    np.testing.assert_array_equal(outputs["t_past"], before[1])


def test_a_second_sample_of_the_same_time_replaces_the_first():
    numerics = session()
    for y in (1.0, 7.0):
        take(numerics, 1.0, y)
    np.testing.assert_array_equal(numerics.state.outputs["y_past"][0, :2], [7.0, 0.0])


def test_samples_back_to_back_do_not_make_a_slope():
    numerics = session()
    outputs = numerics.state.outputs
    numerics.plan.session["samples"], numerics.plan.outputs["spacing"] = 2, 0.5
    for t, y in ((1.0, 1.0), (1.001, 5.0), (1.4, 6.0), (1.5, 1.5)):
        take(numerics, t, y)
    np.testing.assert_allclose(outputs["t_past"][0, :2], [1.5, 0.0])
    np.testing.assert_allclose(outputs["y_past"][0, :2], [1.5, 0.0])
    take(numerics, 2.2, 2.2)
    np.testing.assert_allclose(outputs["t_past"][0, :2], [2.2, 1.5])


def coupled(connections, inputs=4, **tables):
    """Numerics of three outputs ``a.y0`` … that act on inputs ``b.u0`` …, of degree 1."""
    ports = {
        "a": Ports((), tuple(Port(f"y{i}") for i in range(3))),
        "b": Ports(tuple(Port(f"u{i}", start=7.0 + i) for i in range(inputs)), ()),
    }
    tables.setdefault("master", {"step": 1e-3})
    return make_numerics(ports, connections=connections, **tables)


def test_connections_to_one_input_add_up():
    numerics = coupled(
        [
            {"from": "a.y0", "to": "b.u1", "gain": 2.0, "offset": 0.5},
            {"from": "a.y1", "to": "b.u1", "gain": -1.0},
            {"from": "a.y1", "to": "b.u3", "gain": 10.0},
        ]
    )
    outputs, inputs = numerics.state.outputs, numerics.state.inputs
    outputs["differences"][:2, :2] = [[1.0, 0.1], [2.0, 0.2]]  # values, and slopes
    outputs["degree"] = 1
    extrapolate(numerics.plan, numerics.state, numerics.given)
    expected = [[7.0, 0.5, 9.0, 20.0], [0.0, 0.0, 0.0, 2.0]]
    np.testing.assert_allclose(inputs["extrapolated"][:, :2].T, expected, atol=1e-16)


def test_without_connections_inputs_stay_at_their_base():
    numerics = coupled([], inputs=1)
    extrapolate(numerics.plan, numerics.state, numerics.given)
    np.testing.assert_array_equal(numerics.state.inputs["extrapolated"], [[7.0, 0, 0, 0, 0, 0]])


def taylor(order: int, y, dy) -> np.ndarray:
    """Polynomials, shape (order + 1, outputs), from values and derivatives of up to 3 outputs."""
    names = range(len(y))
    numerics = coupled(
        [{"from": f"a.y{i}", "to": f"b.u{i}"} for i in names],
        master={"step": 1e-3, "extrapolation": {"order": order, "source": "taylor"}},
    )
    numerics.state.outputs["y"][: len(y)] = y
    numerics.given.outputs["dy"][: len(y), : len(dy)] = np.transpose(dy)
    extrapolate(numerics.plan, numerics.state, numerics.given)
    return numerics.state.inputs["extrapolated"][: len(y), : order + 1].T


def test_taylor_source_uses_derivatives_up_to_the_lower_order():
    dy = np.array([[1.0, np.nan, np.inf], [2.0, 5.0, 6.0]])  # two derivatives of three outputs
    y = np.array([10.0, 20.0, 30.0])
    for order, expected in (
        (1, [[10.0, 20.0, 30.0], [1.0, 0.0, 0.0]]),
        (3, [[10.0, 20.0, 30.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0, 0, 0]]),
    ):
        np.testing.assert_array_equal(taylor(order, y, dy), expected)


def test_taylor_polynomials_of_a_sine_have_the_order_of_their_derivatives():
    errors, steps = [], np.array([0.2, 0.1, 0.05])
    for h in steps:
        c = taylor(2, np.sin([1.0]), [[np.cos(1.0)], [-np.sin(1.0)]])[:, 0].copy()
        errors.append(abs(value_at(c, 3, h) - np.sin(1.0 + h)))
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(3.0, abs=0.1)
    assert factorial(3) * errors[-1] / steps[-1] ** 3 == pytest.approx(np.cos(1.0), rel=0.05)
