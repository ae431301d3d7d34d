import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import Polynomial
from scipy.integrate import quad
from scipy.special import factorial

from hilrt.coupling.measure_defects import measure_defects, output_defect
from hilrt.link import Ports
from hilrt.solver import Port
from hilrt.tables.record import COEFFICIENTS
from tests.stepping import make_numerics


@pytest.fixture(scope="module")
def numerics():
    """One input and three outputs that nothing is connected to."""
    ports = Ports((Port("u"),), tuple(Port(f"y{i}") for i in range(3)))
    return make_numerics({"s": ports})


def taylor(p: Polynomial) -> np.ndarray:
    """Taylor coefficients about 0, shape (`COEFFICIENTS`,)."""
    n = COEFFICIENTS
    return np.array([p.coef[m] * factorial(m) if m < len(p.coef) else 0.0 for m in range(n)])


@given(
    st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=4),
    st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=4),
    st.sampled_from([0.01, 0.7]),
    st.sampled_from([0.0, 0.3]),
)
def test_connection_defect_is_the_rms_of_the_difference(numerics, sent, extrapolated, h, lead):
    a, b = Polynomial(sent), Polynomial(extrapolated)
    integral, error = quad(lambda s: (a(s + lead) - b(s)) ** 2, -h, 0.0)
    numerics.plan.session["coefficients"] = 4
    numerics.given.session["t"], numerics.given.session["elapsed"] = 2.0, h
    u = numerics.state.inputs[0]
    u.previous, u.previous_t0, u.extrapolated = taylor(a), 2.0 - lead, taylor(b)
    measure_defects(numerics.plan, numerics.state, numerics.given)
    assert u.defect**2 == pytest.approx(integral / h, rel=1e-8, abs=error / h + 1e-13)


@pytest.mark.parametrize("order", range(5))
@pytest.mark.parametrize("h", [0.01, 2.0])
def test_output_defect_is_the_rms_of_its_monomial(order, h):
    delta = -0.3

    def error(back: float) -> float:
        return delta * (back / (h / 2)) ** (order + 1)

    integral, _ = quad(lambda s: error(s) ** 2, 0.0, h)
    assert error(h / 2) == delta  # the middle of the interval
    assert output_defect(1.7, 2.0, order) == pytest.approx(np.sqrt(integral / h), rel=1e-12)


def test_output_defect_is_unknown_without_a_middle():
    assert np.isnan(output_defect(np.nan, 0.0, 0))
    assert output_defect(1.0, 0.0, 3) == pytest.approx(2.0**4 / 3.0)


@pytest.mark.parametrize("order", range(4))
def test_the_middle_is_expected_on_the_outputs_polynomial(numerics, order):
    # of the interval that the sample ends, through the samples up to it, on y = t^3
    plan, state, cut = numerics.plan, numerics.state, numerics.given
    nodes = np.array([0.0, -0.4, -1.0, -1.5])
    values = nodes**3
    state.outputs["order"], state.outputs["degree"] = order, 3
    for out in state.outputs:
        out.nodes[:4], out.differences[:4] = nodes, values
        for j in range(1, 4):
            for k in range(3, j - 1, -1):
                rise = out.differences[k - 1] - out.differences[k]
                out.differences[k] = rise / (nodes[k - j] - nodes[k])
    cut.session["has_middle"], cut.session["elapsed"], cut.subsystems["covered"] = 1, 0.5, 0.5
    cut.outputs["y_mid"] = [0.7, np.nan, np.nan]
    measure_defects(plan, state, cut)
    through = np.polyfit(nodes[: order + 1], values[: order + 1], order)
    missed = abs(0.7 - np.polyval(through, -0.25))
    assert state.outputs["defect"][0] == pytest.approx(
        missed * 2.0 ** (order + 1) / np.sqrt(2.0 * order + 3.0), rel=1e-9
    )
    assert np.isnan(state.outputs["defect"][1:]).all()


@pytest.mark.parametrize("order", range(4))
@pytest.mark.parametrize("known", range(4))
def test_where_derivatives_extrapolate_the_middle_is_expected_on_their_polynomial(order, known):
    ports = Ports((Port("u"),), (Port("y"),))
    master = {"step": 0.5, "extrapolation": {"order": order, "source": "taylor"}}
    connections = [{"from": "a.y", "to": "b.u"}, {"from": "b.y", "to": "a.u"}]
    numerics = make_numerics({"a": ports, "b": ports}, master=master, connections=connections)
    state, cut = numerics.state, numerics.given
    y = Polynomial([0.3, -1.0, 2.0, 4.0])
    state.outputs["y"] = state.outputs["differences"][:, 0] = y.coef[0]
    state.outputs["degree"] = 3
    state.outputs["differences"][:, 1:] = 7.0  # older samples do not matter
    cut.outputs["dy"][:, :known] = taylor(y)[1 : known + 1]
    cut.session["has_middle"], cut.session["elapsed"], cut.subsystems["covered"] = 1, 0.5, 0.5
    cut.outputs["y_mid"] = y(-0.25)
    measure_defects(numerics.plan, state, cut)
    degree = min(order, known)
    missed = abs(y(-0.25) - Polynomial(y.coef[: degree + 1])(-0.25))
    np.testing.assert_allclose(
        state.outputs["defect"], missed * 2.0 ** (degree + 1) / np.sqrt(2.0 * degree + 3.0)
    )


@pytest.mark.parametrize("order", range(4))
def test_a_mean_shows_the_defect_of_its_monomial_and_the_larger_one_counts(numerics, order):
    plan, state, cut = numerics.plan, numerics.state, numerics.given
    state.outputs["order"] = state.outputs["degree"] = order
    state.outputs["differences"] = state.outputs["y"] = 0.0
    cut.session["has_middle"], cut.session["elapsed"], cut.subsystems["covered"] = 1, 1.0, 1.0
    mean, _ = quad(lambda s: 3.0 * (2.0 * s) ** (order + 1), -1.0, 0.0)
    square, _ = quad(lambda s: (3.0 * (2.0 * s) ** (order + 1)) ** 2, -1.0, 0.0)
    cut.outputs["y_mean"] = [mean, mean, np.nan]
    cut.outputs["y_mid"] = [np.nan, 100.0, np.nan]
    measure_defects(plan, state, cut)
    assert state.outputs["defect"][0] == pytest.approx(np.sqrt(square))
    assert state.outputs["defect"][1] == output_defect(100.0, 0.0, order)
    assert np.isnan(state.outputs["defect"][2])


def test_totals_are_integrals_and_maxima_of_what_is_known():
    ports = Ports((Port("u"),), tuple(Port(f"y{i}") for i in range(3)))
    numerics = make_numerics({"s": ports}, master={"step": 1.0, "extrapolation": {"order": 0}})
    state, cut = numerics.state, numerics.given
    cut.session["has_middle"] = 1
    steps = [(0.5, 2.0, [1.0, np.nan, np.nan]), (0.25, 4.0, [np.nan, 3.0, np.nan])]
    for h, u, y in steps:
        cut.session["elapsed"] = cut.subsystems["covered"] = h
        state.inputs["previous"][:, 0] = u
        cut.outputs["y_mid"] = np.array(y) * np.sqrt(3.0) / 2.0  # the defect of order 0 is y
        measure_defects(numerics.plan, state, cut)
    np.testing.assert_allclose(state.inputs["defect_square"], [0.5 * 4.0 + 0.25 * 16.0])
    np.testing.assert_allclose(state.inputs["defect_max"], [4.0])
    np.testing.assert_allclose(state.outputs["defect_square"], [0.5, 0.25 * 9.0, 0.0])
    np.testing.assert_allclose(state.outputs["defect_max"], [1.0, 3.0, 0.0])
    np.testing.assert_allclose(state.outputs["defect_seconds"], [0.5, 0.25, 0.0])
    np.testing.assert_allclose(state.inputs["defect_seconds"], [0.75])
    cut.session["has_middle"] = 0  # what was known then is not of this interval
    measure_defects(numerics.plan, state, cut)
    assert np.isnan(state.outputs["defect"]).all()


def test_before_the_first_interval_nothing_is_measured():
    ports = Ports((Port("u"),), (Port("y"),))
    numerics = make_numerics({"s": ports})
    numerics.state.inputs["previous"][:, 0] = 5.0
    measure_defects(numerics.plan, numerics.state, numerics.given)
    assert numerics.state.inputs["defect"][0] == 0.0
    assert np.isnan(numerics.state.outputs["defect"][0])
