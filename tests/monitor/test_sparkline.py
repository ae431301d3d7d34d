"""Small plots: the shape of the newest values."""

import math

import pytest

from hilrt.monitor.panel import LENGTH, Traces, sparkline
from hilrt.monitor.telemetry import Status


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([], ""),
        ([0.0, 1.0], "▁█"),
        ([0.0, 3.5, 7.0, 3.5], "▁▅█▅"),
        ([5.0, 5.0], "▁▁"),
        ([1.0, math.nan, 2.0], "▁ █"),
        ([math.nan, math.inf], "  "),
        ([0.0, 1e-308, 2e-308], "▁▅█"),  # the inverse of the span would overflow
        ([-1e308, 0.0, 1e308], "▁▅█"),  # and here the span itself
        ([0.0, 5e-324], "▁▁"),
    ],
)
def test_bars_reach_from_the_smallest_to_the_largest(values, bars):
    assert sparkline(values) == bars


def status(t, **values):
    return Status(session="s", state="RUNNING", t=t, values=values)


def test_newest_values_of_each_signal():
    traces = Traces()
    assert traces.plot("x") == ""
    for i in range(LENGTH + 5):
        traces.add(status(0.1 * i, x=float(i)))
    assert len(traces.plot("x")) == LENGTH
    assert (traces.plot("x")[0], traces.plot("x")[-1]) == ("▁", "█")


def test_a_status_counts_once_and_announcements_do_not():
    traces = Traces()
    traces.add(status(1.0, x=1.0))
    traces.add(status(1.0, x=1.0))
    traces.add(status(1.1))
    assert len(traces.plot("x")) == 1


def test_another_session_begins_anew():
    traces = Traces()
    for t in (1.0, 2.0, 0.0):
        traces.add(status(t, x=t))
    assert len(traces.plot("x")) == 1
