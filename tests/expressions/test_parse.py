"""Reading expressions, and refusing what is none with its place and the remedy."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hilrt.errors import ConfigError
from hilrt.expressions.functions import FUNCTIONS, NAMES
from hilrt.expressions.parse import parse


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text, "[[expect]] 1")
    assert str(caught.value).startswith("[[expect]] 1: expression ")
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("engine.speed > 120", ("engine.speed",)),
        ("  a.x\n  + b.y[2] * power", ("a.x", "b.y[2]", "power")),
        ("signal('fmu.der(x)[1,2]') + a.x + a.x", ("fmu.der(x)[1,2]", "a.x")),
        ("µm . x if time > pi else True", ("µm.x",)),  # as written: Python makes μ of µ
        ("integral(a.x, start=5, reset=b.y > 3)", ("a.x", "b.y")),
        ("lookup('map', a.x, b.y) + lookup(a.x, [0, -1 + 2], [1, 2])", ("a.x", "b.y")),
        ("3", ()),
    ],
)
def test_names_are_found_as_they_are_written(text, names):
    assert set(parse(text).signals) == set(names)


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("", 1, "it is empty"),
        ("a.x >> 3", 1, "RShift is not known"),
        ("1 + (a.x // 3)", 6, "floor(a / b)"),
        ("a.x & b.x", 1, "write `and`"),
        ("a.x && b.x", 5, "write `and`"),
        ("a.x || b.x", 5, "write `or`"),
        ("a.x = 3", 5, "as =="),
        ("a.x > 3 ? 1 : 2", 9, "if condition else"),
        ("!a.x", 1, "write `not`"),
        ("a.lambda + 1", 3, "signal('a.lambda')"),
        ("a.x + # speed\n b.x", 7, "comments are not allowed"),
        ("a.x # speed", 5, "comments are not allowed"),
        ("2 * sinus(a.x)", 5, "did you mean 'sin'"),
        ("2 * abs", 5, "call it as abs(x)"),
        ("lowpass(a.x)", 1, "time is missing; write lowpass(x, time)"),
        ("lowpass(a.x, 0)", 14, "a positive time in s"),
        ("lowpass(a.x, b.x)", 14, "must be a number"),
        ("clip(a.x, 1, 2, 3)", 1, "too many arguments"),
        ("count(a.x, rest=b.x)", 1, "rest= does not fit"),
        ("min(a.x)", 1, "min(a, b, ...)"),
        ("min(*a.x)", 1, "one by one"),
        ("lookup(a.x, [0, 1, 1], [1, 2, 3])", 1, "points of x must be ascending"),
        ("lookup(a.x, [0, 1], [1, 2, 3])", 1, "2 values"),
        ("lookup(a.x, [0, b.x], [1, 2])", 17, "points must be numbers"),
        ("lookup(a.x, b.x, [0, 1], [0, 1], [[1, 2], [3]])", 1, "2 rows of 2 values"),
        ("convert(a.x, rpm)", 1, "convert(x,"),
        ("'a.x'", 1, "signal('a.x')"),
        ("1 + 1/0", 5, "no valid result"),
        ("1 + 1j", 5, "not a real number"),
        ("2 + 1" + "0" * 400, 5, "too large"),
        ("a.x[1:2]", 1, "engine.x[0]"),
        ("a.x()", 1, "only functions can be called"),
        ("__import__('os').system('x')", 1, "only functions can be called"),
        ("[1, 2]", 1, "points in brackets"),
        ("a.x, 3", 1, "decimals with a point"),
        ("(a.x := 3)", 6, "as =="),
        ("f'{a.x}'", 1, "not allowed"),
        ("a.x in b.x", 1, "joined by `or`"),
        ("a.x) + (b.x", 4, "not an expression"),
        ("a.x\0", 1, "not an expression"),
        ("a.\ud800", 1, "cannot be parsed"),
        ("a.x + " * 700 + "a.x", 1, "at most"),
        ("(" * 300 + "a.x" + ")" * 300, 201, "not an expression"),
        ("-" * 3999 + "a", 1, "cannot be parsed"),
        ("+".join(["a.x"] * 150), 1, "within one another"),
    ],
)
def test_refusals_name_the_place_and_the_remedy(text, column, said):
    found = refusal(text)
    assert f"column {column}" in found
    assert said in found


def refusal_of(text: str, otherwise: str) -> str:
    """What is said against a text; `otherwise` if it is read."""
    try:
        parse(text)
    except ConfigError as error:
        return str(error)
    return otherwise


@given(st.text(alphabet="ab.x3 +-*/%<>=!()[]{}'\",:;#\\\n&|^~@`?µ\0", max_size=40))
def test_any_text_is_read_or_refused(text):
    assert "column" in refusal_of(text, "column")


@given(st.sampled_from(sorted(FUNCTIONS)), st.lists(st.sampled_from(["a.x", "3", "0.1"])))
def test_any_arguments_are_read_or_refused(name, arguments):
    text = f"{name}({', '.join(arguments)})"
    assert name in refusal_of(text, name)


def test_every_function_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "expressions.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert re.search(rf"`{name}\(", page), name
