"""Numbers as people read them."""

import math

import pytest

from hilrt.wording import Told, gather_repeated, missed_ticks, number, processors, stolen, words


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


def test_events_of_one_kind_are_one_line_with_the_worst():
    """By each event's own value: the numbers of a text may be anything."""
    absent = "of 500 ms at most, the gateway was away for"
    told = [Told(1.0, "warning", "absent", "gateway", f"{absent} 9.5 ms", 9.5)]
    told += [
        Told(2.0, "info", "mark", "operator", "Ada: 3 bar"),
        Told(2.5, "info", "mark", "operator", "Ada: 4 bar"),
    ]
    told += [
        Told(3.0, "warning", "absent", "gateway", f"{absent} 1,062 ms", 1062.0),
        Told(4.0, "warning", "absent", "gateway", f"{absent.replace('500', '800')} 62 ms", 62.0),
        Told(5.0, "warning", "lost", "b1", "engine.y1 is gone"),
        Told(6.0, "warning", "lost", "b1", "engine.y2 is gone"),
        Told(7.0, "warning", "lost", "b1", "engine.y2 is gone"),
        Told(8.0, "warning", "limited", "b1", "limited to 300 rpm"),
        Told(9.0, "warning", "limited", "b1", "limited to 20 rpm"),
    ]
    gathered = gather_repeated(told)
    assert [(one.times, one.first_t, one.last_t) for one in gathered] == [
        (1, 2.0, 2.0),
        (1, 2.5, 2.5),
        (3, 1.0, 4.0),
        (1, 5.0, 5.0),
        (2, 6.0, 7.0),
        (2, 8.0, 9.0),
    ]
    away, gone = gathered[2].line, gathered[4].line
    assert away == f"{absent} 1,062 ms (3 times since 1.0 s; the worst)"
    assert gathered[5].line == "limited to 20 rpm (2 times since 8.0 s; the newest)"
    assert gone == "engine.y2 is gone (2 times since 6.0 s)"
    assert gathered[0].line == "Ada: 3 bar"
