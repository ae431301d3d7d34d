"""Numbers as people read them."""

import math

import pytest

from hilrt.wording import missed_ticks, number, processors, stolen, words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (0.0, "0"),
        (123.456, "123.5"),
        (-0.01234, "-0.012"),
        (25_000.4, "25,000"),
        (1.2e-5, "1.2e-05"),
        (-3.21e9, "-3.21e+09"),
        (math.inf, "inf"),
    ],
)
def test_number(value, text):
    assert number(value) == text


def test_words():
    assert words("sample_late") == "sample late"


def test_share_of_missed_ticks_counts_those_skipped():
    summary = {"missed_ticks": 500, "steps": 600, "time_s": 1.0, "step_size_s": {"min": 0.001}}
    assert missed_ticks(summary) == "500 (50.00 %)"
    assert missed_ticks({"missed_ticks": 3}) == "3"


def test_what_the_host_took_is_said_where_it_took_anything():
    assert " 2.00 % " in stolen({"stolen_s": 0.6, "wall_s": 30.0})
    for nothing in ({"stolen_s": 0.0, "wall_s": 30.0}, {"stolen_s": None, "wall_s": 30.0}, {}):
        assert stolen(nothing) == ""


def test_processors_begin_with_who_takes_most():
    assert processors({"processor_share": {"a": 0.05, "master": 0.98}}) == "master 98 %, a 5 %"
    assert processors({}) == ""
