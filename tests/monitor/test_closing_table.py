"""The table at the end of a session says what the summary says."""

import io
import re
from pathlib import Path
from typing import Any

from rich.console import Console

from hilrt.analyze import report_page
from hilrt.monitor.closing_table import closing_table, closing_verdict
from hilrt.session.result import VERDICTS
from hilrt.studies import sweep_page
from hilrt.web import panels


def text_of(renderable):
    console = Console(width=100, file=io.StringIO(), color_system=None)
    console.print(renderable)
    return console.file.getvalue()


SUMMARY = {
    "session": "engine-in-the-loop",
    "steps": 30_000,
    "time_s": 30.0,
    "wall_s": 30.002,
    "step_size_s": {"first": 1e-3, "min": 1e-3, "mean": 1e-3, "max": 1e-3},
    "bonds": {
        "shaft": {
            "residual_energy_j": -12.5,
            "tracking_energy_j": 120.3,
            "corrected_energy_j": -3.2,
            "uncorrected_energy_j": 0.1,
            "cap_share": 0.034,
        }
    },
    "flags": {
        "sample_late": {"count": 12, "seconds": 0.3, "affected_s": 0.031, "worst_second": 0.012},
        "step_minimum": {"count": 0, "seconds": 0.0},
    },
    "lateness_us": {"p50": 62.0, "p99": 180.0, "p999": 400.2, "max": 1234.5},
    "compute_us": {"p50": 52.0, "p99": 80.0, "p999": 100.0, "max": 300.0},
    "missed_ticks": 123,
    "peers": {"vehicle": {"lost": 0, "late": 12}, "engine": {"lost": 0, "late": 0}},
    "verdict": "degraded",
    "reasons": ["sample_late: samples were late"],
    "files": ["runs/x/session.mcap"],
}


def test_closing_table_sums_up():
    text = text_of(closing_table(SUMMARY))
    for part in (
        "30,000 over 30.00 s",
        "123 (0.41 %)",
        "62.0 median, 180 p99, 400 p99.9",
        "3.4 %",
        "sample late      12        0.10 %                 1.2 %",
        "vehicle: 12 late, 0 lost",
        "runs/x/session.mcap",
    ):
        assert part in text
    assert "step minimum" not in text
    assert "step size" not in text


def test_every_verdict_looks_different_in_every_view():
    """Above all a lack of evidence, `unverified`, from a measured problem, `degraded`."""
    styles = [closing_verdict({"verdict": word}).spans[1].style for word in VERDICTS]
    page = dict(re.findall(r"\.verdict\.(\w+) \{([^}]*)\}", report_page._STYLE))
    looks: list[list[Any]] = [styles, [page[word] for word in VERDICTS]]
    looks += [[panels.SHAPES[word] for word in VERDICTS]]
    marks = sweep_page._OF_VERDICT, sweep_page._SHAPES
    looks += [[mark[word] for word in VERDICTS] for mark in marks]
    css = (Path(panels.__file__).parent / "page.css").read_text("utf-8")
    themes = [dict(re.findall(r"--(\w+): (#\w+)", line)) for line in css.splitlines()]
    looks += [[theme[word] for word in VERDICTS] for theme in themes if "unverified" in theme]
    assert len(looks) == 8  # the page has three blocks of colours: light, and dark by two ways
    assert [look for look in looks if len(set(look)) < len(VERDICTS)] == []


LACKING = {"session": "s", "verdict": "degraded", "evidence_lacking": True}
FOR_LACK = "degraded for lack of evidence"


def test_degraded_for_lack_of_evidence_looks_different_in_every_view():
    """From `degraded` by a measurement, and from `unverified`, in word and look."""
    told = closing_verdict(LACKING)
    assert text_of(told).startswith(f"s: {FOR_LACK}\n")
    measured = closing_verdict(LACKING | {"evidence_lacking": False})
    assert text_of(measured).startswith("s: degraded\n")
    assert {str(span.style) for span in told.spans} != {str(span.style) for span in measured.spans}
    badge = '<span class="verdict degraded lacking">'
    assert report_page.verdict_badge(LACKING) == f"{badge}{FOR_LACK}</span>"
    older = {"verdict": "degraded"}  # a summary without the key
    assert report_page.verdict_badge(older) == '<span class="verdict degraded">degraded</span>'
    assert ".verdict.degraded.lacking { background: none;" in report_page._STYLE
    assert len(set(panels.SHAPES.values())) == len(panels.SHAPES)
    marks = sweep_page._SHAPES
    assert len(set(marks.values())) == len(marks) == len(VERDICTS) + 1
    assert sweep_page._OF_VERDICT[FOR_LACK] != sweep_page._OF_VERDICT["degraded"]
    assert ".lamp.lacking {" in (Path(panels.__file__).parent / "parts.css").read_text("utf-8")


def test_verdict_with_its_reasons():
    said = "engine-in-the-loop: degraded\n  Sample late: samples were late\n"
    said += '  "Reliability: flags, causes, verdict" in the documentation explains the reasons\n'
    assert text_of(closing_verdict(SUMMARY)) == said


def test_the_last_line_names_expectations_that_did_not_pass():
    results = [{"result": word} for word in ("failed", "passed", "inconclusive", "failed")]
    said = text_of(closing_verdict(SUMMARY | {"results": results})).splitlines()[0]
    assert said.endswith("; expectations and measures: 2 failed, 1 inconclusive")


def test_closing_table_of_a_variable_step_in_virtual_time():
    sizes = {"first": 1e-3, "min": 5e-4, "mean": 2e-3, "max": 1e-2}
    summary = {**SUMMARY, "step_size_s": sizes, "lateness_us": None, "compute_us": None}
    text = text_of(closing_table(summary))
    assert "step size" in text
    assert "missed ticks" not in text


def test_closing_table_counts_repeated_steps_where_there_can_be_any():
    repeated = {"steps": 12, "refused": 14, "unsettled": 1, "corrections": 0}
    repeated["largest_scaling"] = 2.5
    said = "12 steps, 14 times because of their error; largest scaling factor 2.50"
    text = text_of(closing_table({**SUMMARY, "repeated": repeated}))
    assert said in text
    assert "corrector" not in text
    text = text_of(closing_table({**SUMMARY, "repeated": {**repeated, "corrections": 1234}}))
    assert said in text
    assert "1,234 steps, 1 times without converging" in text
    assert "repeated" not in text_of(closing_table({**SUMMARY, "repeated": None}))


def test_closing_table_tells_of_what_could_not_be_used_where_there_is_any():
    peers = {"vehicle": {"lost": 0, "late": 12}, "engine": {"lost": 0, "late": 0, "dropped": 1234}}
    text = text_of(closing_table({**SUMMARY, "peers": peers}))
    assert "vehicle: 12 late, 0 lost\n" in text
    assert "engine: 0 late, 0 lost, 1,234 dropped" in text


def test_closing_table_says_what_the_estimates_leave_out():
    estimate = {"unit": "N", "value": 1.0, "low": 0.5, "high": 2.0, "relative": 0.01}
    alone = "Of the coupling alone: the models' own integration is not included."
    summary = {**SUMMARY, "estimated_error": {"one.force": {**estimate, "how": "sensitivities"}}}
    told, nothing_estimated = (text_of(closing_table(s)).split() for s in (summary, SUMMARY))
    assert alone in " ".join(told)
    assert alone not in " ".join(nothing_estimated)
    included = " ".join(text_of(closing_table({**summary, "own_integration": ["one"]})).split())
    assert "The integration error of one is included, that of other models is not." in included
    assert alone not in included
    many = " ".join(text_of(closing_table({**summary, "own_integration": [*"abcde"]})).split())
    assert "The integration error of a, b, c and 2 more is included" in many


def test_closing_table_of_almost_nothing():
    assert "steps" in text_of(closing_table({}))
    assert "unknown" in text_of(closing_verdict({}))
