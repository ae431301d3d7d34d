"""A log and a result in a notebook: numbers against numpy, text escaped, extras named."""

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from hilrt.errors import RecordError
from hilrt.record.messages import Signal
from hilrt.record.notebook import HEIGHT, WIDTH, main_signals, sparkline_svg
from hilrt.record.reader import LogChannel, LogEvent, make_log
from hilrt.session.result import Result, RunResult
from hilrt.wording import OF_MODEL, UNCHECKED_MODEL

TOPOLOGY = {
    "connections": [{"source": "car.speed", "target": "dyno.demand"}],
    "set_points": [{"input": "dyno.demand", "measured": "dyno.speed"}],
    "bonds": [{"name": "shaft", "effort": ["dyno.torque"], "flow": "car.speed"}],
}
N = 1000


def a_log(metadata=None, n=N):
    """Four outputs, of which the torque has a sample every tenth tick, and two more signals."""
    t = np.arange(n) * 1e-3
    outputs = np.column_stack([np.cos(t), np.sin(t), np.sin(t) + 0.5, np.full(n, 3.0)])
    outputs[np.arange(n) % 10 != 0, 0] = np.nan
    sent = np.column_stack([np.sin(t), np.full(n, np.nan)])
    names = {
        "outputs": [("dyno.torque", "N*m"), ("dyno.speed", "rad/s"), ("car.speed", "rad/s")],
        "sent": [("dyno.demand:sent", "rad/s"), ("dyno.<b>:sent", "")],
    }
    names["outputs"].append(("car.gear", ""))
    channels = [LogChannel(k, [Signal(*one) for one in v]) for k, v in names.items()]
    times = np.arange(n, dtype=np.int64) * 1_000_000
    return make_log(
        Path("runs/<i>/session.mcap"),
        channels,
        dict.fromkeys(names, times),
        {"outputs": [outputs], "sent": [sent]},
        [LogEvent(0.0, "info", "x", "y", "z")],
        {"topology": json.dumps(TOPOLOGY)} if metadata is None else metadata,
    )


def cells(html):
    """Rows of the first table, their texts."""
    rows = re.findall(r"<tr>(.*?)</tr>", html.partition("<tbody>")[2])
    return [re.findall(r"<td[^>]*>(.*?)</td>", row)[:5] for row in rows]


def test_set_points_and_bonds_are_the_main_signals():
    named = ["car.speed", "dyno.demand:sent", "dyno.speed", "dyno.torque", "car.gear"]
    assert main_signals(a_log()) == named
    for metadata in ({}, {"topology": "{"}, {"topology": '{"bonds": [3]}'}):  # of other versions
        assert main_signals(a_log(metadata)) == a_log().names[:4]


def test_what_never_changed_and_multiplexers_are_last_among_the_main_signals():
    t = np.arange(100, dtype=np.int64) * 1_000_000
    names = [f"rig.flat{i}" for i in range(8)] + ["rig.page", "rig.oil", "rig.torque", "rig.lost"]
    columns = np.zeros((100, len(names)))
    columns[:, 8:11] = np.column_stack([np.arange(100) % 4, np.arange(100.0), np.arange(100.0)])
    columns[:, 11] = np.nan
    log = make_log(
        Path("session.mcap"),
        [LogChannel("outputs", [Signal(name) for name in names])],
        {"outputs": t},
        {"outputs": [columns]},
        [],
        {
            "topology": json.dumps({"connections": [{"source": "rig.torque", "target": "car.u"}]}),
            "multiplexers": '["rig.page"]',
        },
    )
    shown = main_signals(log)
    assert shown[:2] == ["rig.torque", "rig.oil"]
    assert shown[2:] == names[:6]


def test_a_log_shows_its_main_signals():
    log = a_log()
    html = log._repr_html_()
    HTMLParser().feed(html)
    assert "5" in html
    assert "6 signals, 1,000 rows, 0 s to 0.999 s, 1 events" in html
    assert "&lt;i&gt;" in html
    assert "<i>" not in html
    torque = np.cos(np.arange(0, N, 10) * 1e-3)
    (row,) = (row for row in cells(html) if row[0] == "dyno.torque")
    assert row[1:] == [f"{torque.min():.3f}", f"{torque.max():.3f}", f"{torque[-1]:.3f}", "N*m"]
    assert html.count("<svg") == 5
    assert "0 rows" in a_log(n=0)._repr_html_()


def test_a_sparkline_goes_from_least_to_most():
    values = np.sin(np.linspace(0.0, 20.0, 5000))
    points = [
        tuple(map(float, pair.split(",")))
        for pair in re.search(r'points="(.*?)"', sparkline_svg(values))[1].split()
    ]
    x, y = np.array(points).T
    assert (np.diff(x) >= 0.0).all()
    assert 0.0 <= x.min() < x.max() <= WIDTH
    assert (y.min(), y.max()) == (2.0, HEIGHT - 2.0)
    drawn = np.interp(WIDTH * 0.25, x, (y.max() - y) / (y.max() - y.min()) * 2.0 - 1.0)
    assert drawn == pytest.approx(np.sin(5.0), abs=0.15)  # 90 intervals of 20 rad
    gap = sparkline_svg(np.concatenate([values[:100], np.full(900, np.nan), values[:100]]))
    assert gap.count("<polyline") == 2
    assert "polyline" not in sparkline_svg(np.full(3, np.nan))
    assert sparkline_svg(np.ones(3)).count("<polyline") == 1


def test_plots_have_an_axis_per_unit():
    pytest.importorskip("matplotlib")
    log = a_log()
    torque, speed = log.plot("dyno.torque", "*.speed").axes
    (line,) = torque.lines
    assert np.array_equal(line.get_ydata(), log.held("dyno.torque"))
    assert np.array_equal(line.get_xdata(), log.t)
    assert [one.get_label() for one in speed.lines] == ["dyno.speed", "car.speed"]
    assert (torque.get_ylabel(), speed.get_ylabel()) == ("N*m", "rad/s")
    lines = [line.get_label() for axes in log.plot().axes for line in axes.lines]
    assert sorted(lines) == sorted(main_signals(log))
    with pytest.raises(KeyError, match=r"did you mean 'dyno\.torque'"):
        log.plot("dyno.torqe")


def test_a_pattern_stands_for_ports_and_with_a_colon_for_what_is_derived():
    pytest.importorskip("matplotlib")
    log = a_log()
    found = [[one.get_label() for a in log.plot(p).axes for one in a.lines] for p in ("d*", "d*:*")]
    assert found == [["dyno.torque", "dyno.speed"], ["dyno.demand:sent", "dyno.<b>:sent"]]
    (demand,) = log.plot("*.dem*").axes  # nothing else has that name
    assert [one.get_label() for one in demand.lines] == ["dyno.demand:sent"]


def test_a_unit_that_nobody_has_stated_is_left_out():
    pytest.importorskip("matplotlib")
    log = a_log()
    log.units["car.gear"] = "?"
    assert log.plot("car.gear").axes[0].get_ylabel() == "–"
    assert "?" not in log._repr_html_()


def test_a_table_takes_patterns_and_a_log_is_printed_in_a_line():
    pytest.importorskip("pandas")
    assert list(a_log().to_pandas("dyno.*")) == ["dyno.torque", "dyno.speed"]
    assert list(a_log().to_pandas(["car.gear", "dyno.t*"])) == ["car.gear", "dyno.torque"]
    assert repr(a_log()).endswith(": 6 signals, 1,000 rows, 1 events>")


def test_a_result_is_printed_in_a_line():
    found = repr(Result({"session": "s", "verdict": "good", "ports": {"a": 1}, "steps": 5}))
    assert found == "Result(session='s', verdict='good', steps=5, exit_status=0)"


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(RecordError, match=r"install hilrt\[report\]"):
        a_log().plot()


def test_a_result_says_verdict_reasons_and_alarms(tmp_path):
    alarm = {"name": "<hot>", "count": 2, "first_t": 1.0, "last_t": 2.0, "cleared_t": None}
    summary = {"session": "s", "verdict": "degraded", "reasons": ["late <5 %>"], "steps": 1000}
    result = Result({**summary, "time_s": 1.0, "alarms": [alarm]}, fault="bus & gateway")
    html = result._repr_html_()
    for said in (
        "<b>s</b>: <b>degraded</b>",
        "• Late &lt;5 %&gt;",
        "alarm &lt;hot&gt;: 2 times, first at 1.000 s, still up",
        "bus &amp; gateway",
        "1,000 steps over 1.000 s",
    ):
        assert said in html
    assert "<table" not in html  # it kept no log
    result.log = a_log()
    assert len(cells(result._repr_html_())) == 5
    assert "no tick ran" in RunResult(folder=tmp_path)._repr_html_()


def test_a_result_says_that_evidence_is_lacking():
    summary = {"session": "s", "verdict": "degraded", "evidence_lacking": True}
    assert "<b>s</b>: <b>degraded for lack of evidence</b>" in Result(summary)._repr_html_()
    result = Result(summary)
    result.judge("degraded")
    why = "the verdict is degraded for lack of evidence, which fails the run, as requested"
    assert (result.verdict, result.warnings) == ("degraded", [why])


def test_a_result_says_what_failed_beside_its_verdict():
    summary = {"session": "qc", "verdict": "good", "results": [{"result": "failed"}]}
    first = Result(summary)._repr_html_().partition("<br>")[0]
    assert "good" in first
    assert "expectations and measures: 1 failed" in first


def test_a_result_says_what_its_estimates_leave_out():
    summary = {"session": "s", "verdict": "good", "steps": 1, "time_s": 1.0}
    alone = "Of the coupling alone: the models&#x27; own integration is not included."
    assert alone not in Result(summary)._repr_html_()
    told = Result({**summary, "estimated_error": {"a.b": {"how": OF_MODEL}}})._repr_html_()
    assert f"{alone} {UNCHECKED_MODEL}" in told


def test_a_large_log_is_not_read_for_a_glance(tmp_path, monkeypatch):
    monkeypatch.setattr("hilrt.session.result.GLANCE_BYTES", 3)
    (tmp_path / "session.mcap").write_bytes(b"none of ours")
    result = RunResult({"verdict": "good"}, folder=tmp_path)
    assert "good" in result._repr_html_()
    assert "log" not in result.__dict__
    result.log = a_log()
    assert "<table" in result._repr_html_()
