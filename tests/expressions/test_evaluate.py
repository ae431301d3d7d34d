"""Programs against the same arithmetic in Python and numpy."""

import ast
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import RegularGridInterpolator

from hilrt.errors import ConfigError
from hilrt.expressions.evaluator import Evaluator

UNITS = dict.fromkeys(("a.x", "a.y", "b.z"), "?")
#: What Python's own evaluation of the same texts finds.
NUMPY = {
    **{name: getattr(np, name) for name in ("abs", "sqrt", "exp", "log", "sin", "cos", "tan")},
    **{name: getattr(np, name) for name in ("floor", "ceil", "sign", "log10", "clip", "round")},
    **{"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2},
    **{"min": min, "max": max},
}


def of_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: function(*map(np.float64, operands))


PYTHON = {"pi": math.pi, **{name: of_floats(function) for name, function in NUMPY.items()}}


class Values:
    """KnownSignals of a subsystem in Python's evaluation."""

    def __init__(self, **values: float) -> None:
        self.__dict__.update((key, np.float64(value)) for key, value in values.items())


class AsFloats(ast.NodeTransformer):
    """Truth values as the numbers 1 and 0, with which numpy calculates on."""

    def as_float(self, node: ast.expr) -> ast.expr:
        self.generic_visit(node)
        truth = ast.IfExp(node, ast.Constant(1.0), ast.Constant(0.0))
        return ast.Call(ast.Name("number", ast.Load()), [truth], [])

    visit_Compare = visit_BoolOp = as_float  # noqa: N815 - names that ast looks for

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return self.as_float(node)
        self.generic_visit(node)
        return node


def in_python(text: str, names: dict[str, Any]) -> float:
    """What Python and numpy make of a text."""
    tree = ast.fix_missing_locations(AsFloats().visit(ast.parse(text, mode="eval")))
    names = {**names, "number": np.float64, "__builtins__": {}}
    return float(eval(compile(tree, text, "eval"), names))


def value_of(text: str, *values: float) -> float:
    """What a text gives for values of a.x, a.y, b.z."""
    evaluator = Evaluator([text], UNITS)
    row = dict(zip(UNITS, values, strict=True))
    return float(evaluator.step(0.0, np.array([row[name] for name in evaluator.signals]))[0])


numbers = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
leaves = st.one_of(st.sampled_from([*UNITS, "pi"]), numbers.map(str))


def larger(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!="])
    functions = st.sampled_from(["abs", "sqrt", "exp", "sin", "cos", "floor", "ceil", "sign"])
    return st.one_of(
        st.tuples(part, operators, part).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        st.tuples(part, part, part).map(lambda p: f"({p[0]} if {p[1]} > 0 else {p[2]})"),
        st.tuples(part, part, part).map(lambda p: f"({p[0]} < {p[1]} <= {p[2]})"),
        st.tuples(part, part).map(lambda p: f"(({p[0]} > 1) and not ({p[1]} < 2))"),
        st.tuples(part, part).map(lambda p: f"(({p[0]} > 1) or ({p[1]} < 2))"),
        st.tuples(st.sampled_from(["min", "max", "atan2"]), part, part).map(
            lambda p: f"{p[0]}({p[1]}, {p[2]})"
        ),
        st.tuples(functions, part).map(lambda p: f"{p[0]}({p[1]})"),
    )


@given(st.recursive(leaves, larger, max_leaves=8), numbers, numbers, numbers)
def test_as_in_python(text, x, y, z):
    try:
        mine = value_of(text, x, y, z)
    except ConfigError:  # numbers in the text without a result, such as 1 / 0
        return
    with np.errstate(all="ignore"):
        names = {**PYTHON, "a": Values(x=x, y=y), "b": Values(z=z)}
        try:
            theirs = in_python(text, names)
        except (ZeroDivisionError, OverflowError):  # numbers of Python's own among themselves
            return
    if math.isnan(theirs) or math.isinf(theirs):
        return  # NaN: comparisons and conditions are others than Python's; tested below
    assert mine == pytest.approx(theirs, rel=1e-12, abs=1e-300) or "nan" in repr(mine)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(a.x < 1) - (a.y < 1)", 0.0),
        ("(a.x < 1) - (a.y > 1)", 1.0),
        ("(a.x < 1 < a.y) + (a.x < 1) * 3", 3.0),
        ("-(a.x > 1 or a.y < 1)", -1.0),
        ("(not (a.x > 1)) - (not (a.y > 1)) * 0.5", 0.5),
        ("sqrt((a.x < 1) and (a.y < 1)) / 4", 0.25),
        ("max(a.x < 1, a.y > 1) % 2", 1.0),
    ],
)
def test_truth_values_are_numbers_in_both(text, value):
    names = {**PYTHON, "a": Values(x=0.0, y=0.5)}
    assert value_of(text, 0.0, 0.5, 0.0) == value == in_python(text, names)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.x + 1", math.nan),
        ("min(a.x, 1)", math.nan),
        ("max(1, a.x)", math.nan),
        ("clip(2, a.x, 3)", math.nan),
        ("sign(a.x)", math.nan),
        ("lookup(a.x, [0, 1], [2, 3])", math.nan),
        ("1 if a.x else 2", 2.0),
        ("a.x > 3", 0.0),
        ("a.x <= 3", 0.0),
        ("a.x == a.x", 0.0),
        ("a.x != 3", 0.0),
        ("not (a.x > 3)", 1.0),
        ("not a.x", 1.0),
        ("a.x or a.y", 1.0),
        ("a.x and a.y", 0.0),
        ("known(a.x)", 0.0),
        ("known(a.y)", 1.0),
        ("default(a.x, 7)", 7.0),
        ("default(a.y, 7)", 5.0),
        ("hysteresis(a.x, 1, 2)", 0.0),
        ("rising(a.x > 3)", 0.0),
        ("sqrt(-1 * a.y)", math.nan),
        ("log(0 * a.y)", -math.inf),
        ("exp(1000 * a.y)", math.inf),
        ("a.y / (a.y - 5)", math.inf),
        ("a.y % (a.y - 5)", math.nan),
        ("(a.y - 5) / (a.y - 5)", math.nan),
        ("asin(a.y)", math.nan),
        ("sin(inf * a.y)", math.nan),
        ("round(a.y / 2)", 2.0),  # 2.5: of two that are as near the even one
        ("round(-a.y / 2)", -2.0),
        ("round(a.y / 2 - 1)", 2.0),
        ("floor(-a.y / 2)", -3.0),
        ("ceil(a.y / 2)", 3.0),
        ("floor(1e300 * a.y)", 5e300),
    ],
)
def test_unknown_values_and_what_is_outside_of_a_domain(text, value):
    found = value_of(text, math.nan, 5.0, 0.0)
    assert found == value or (math.isnan(found) and math.isnan(value))


def test_units_are_converted_where_they_differ():
    signals = {"tank.p": "kPa", "line.p": "bar", "arm.angle": "deg", "oil.t": "degC"}
    texts = ["tank.p - line.p", "sin(arm.angle)", "convert(oil.t, 'K')", "tank.p > line.p"]
    evaluator = Evaluator(texts, signals)
    row = {"tank.p": 250.0, "line.p": 2.0, "arm.angle": 30.0, "oil.t": 20.0}
    found = evaluator.step(0.0, np.array([row[name] for name in evaluator.signals]))
    np.testing.assert_allclose(found, [50.0, 0.5, 293.15, 1.0], rtol=1e-14)


axis = st.lists(numbers, min_size=1, max_size=6, unique=True).map(sorted)


@settings(max_examples=50)
@given(axis, axis, st.data(), numbers, numbers)
def test_lookup_tables_as_in_scipy(xs, ys, data, x, y):
    values = st.lists(numbers, min_size=len(ys), max_size=len(ys))
    rows = data.draw(st.lists(values, min_size=len(xs), max_size=len(xs)))
    column = [row[0] for row in rows]
    texts = [f"lookup(a.x, {xs}, {column})", f"lookup(a.x, a.y, {xs}, {ys}, {rows})"]
    one, two = Evaluator(texts, UNITS).step(0.0, np.array([x, y]))
    scale = np.abs(rows).max() + 1e-300
    rows = np.array(rows)
    assert one == pytest.approx(np.interp(x, xs, column), rel=1e-9, abs=1e-9 * scale)
    if len(xs) > 1 and len(ys) > 1:
        clipped = np.clip(x, xs[0], xs[-1]), np.clip(y, ys[0], ys[-1])
        theirs = float(RegularGridInterpolator((xs, ys), rows)(clipped))
        assert two == pytest.approx(theirs, rel=1e-9, abs=1e-9 * scale)
    else:
        theirs = np.interp(y, ys, rows[0]) if len(xs) == 1 else np.interp(x, xs, column)
        assert two == pytest.approx(theirs, rel=1e-9, abs=1e-9 * scale)


def test_a_signal_without_a_new_sample_is_held():
    evaluator = Evaluator(["a.x + a.y", "known(a.y)"], UNITS)
    now = np.array([0.0, np.nan])
    np.testing.assert_array_equal(evaluator.step(0.0, np.array([1.0, 9.0]), now), [np.nan, 0.0])
    np.testing.assert_array_equal(evaluator.step(1.0, np.array([2.0, 3.0])), [5.0, 1.0])
    np.testing.assert_array_equal(evaluator.step(2.0, np.array([7.0, 9.0]), now + 2.0), [10.0, 1.0])


def test_the_state_comes_back():
    evaluator = Evaluator(["lowpass(a.x, 0.1)", "count(a.x > 0)"], UNITS)
    rows = np.random.default_rng(1).normal(size=(40, 1))
    t = np.arange(40) * 0.001
    evaluator.run(t[:20], rows[:20])
    saved = evaluator.save()
    first = evaluator.run(t[20:], rows[20:])
    evaluator.restore(saved)
    np.testing.assert_array_equal(evaluator.run(t[20:], rows[20:]), first)
