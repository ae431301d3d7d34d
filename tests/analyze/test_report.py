"""The report of a synthetic drive: complete, self-contained, small, honest about what is cut."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hilrt.analyze import figures, report_tables
from hilrt.analyze.log_analysis import analyse_log
from hilrt.analyze.report import save, write_report
from hilrt.errors import RecordError
from hilrt.logs.cut import cut
from hilrt.record.decimate import Curve
from hilrt.record.messages import Attachment, Begin, RecordEnd, RecordEvent, Signal, Topic
from hilrt.record.reader import LogChannel, LogEvent
from hilrt.record.recording import Recording

EPOCH_NS = 1_780_000_000_000_000_000
OUTPUTS = [
    Signal("engine.torque", "N*m", "EngineFast.ShaftTorque"),
    Signal("engine.speed", "rad/s"),
    Signal("engine.coolant", "degC"),
    Signal("vehicle.engine_speed", "rad/s"),
    Signal("vehicle.demanded_speed", "m/s"),
    Signal("vehicle.vehicle_speed", "m/s"),
    Signal("vehicle.pedal", "%"),
    Signal("vehicle.gear", ""),
]
TOPICS = [
    Topic("outputs", OUTPUTS),
    Topic("corrected", [Signal(f"{s.name}:corrected", s.unit) for s in OUTPUTS]),
    Topic(
        "sent",
        [
            Signal("vehicle.engine_torque:sent", "N*m"),
            Signal("engine.speed_demand:sent", "rad/s"),
            Signal("engine.pedal:sent", "%"),
        ],
    ),
    Topic("realised", [Signal("engine.speed_demand:realised", "rad/s")]),
    Topic(
        "bonds",
        [
            Signal("shaft:power", "W"),
            Signal("shaft:residual_power", "W"),
            Signal("shaft:tracking_power", "W"),
            Signal("shaft:correction", ""),
            Signal("shaft:residual_energy", "J"),
            Signal("shaft:tracking_energy", "J"),
            Signal("shaft:corrected_energy", "J"),
        ],
    ),
    Topic("defects", [Signal("vehicle.engine_torque:connection_defect", "N*m")]),
    Topic("flags", [Signal("flag:sample_late"), Signal("flag:correction_capped")]),
    Topic("timing", [Signal("master:step", "s"), Signal("master:lateness", "us")]),
]
METADATA = {
    "bonds": json.dumps(
        [{"name": "shaft", "effort": "engine.torque", "flow": "vehicle.engine_speed"}]
    ),
    "topology": json.dumps(
        {
            "set_points": [
                {"input": "engine.speed_demand", "measured": "engine.speed"},
                {"input": "engine.pedal"},
            ]
        }
    ),
}
SESSION_FILE = b"""
[[connections]]
from = "engine.torque"
to = "vehicle.engine_torque"

[[connections]]
from = "vehicle.engine_speed"
to = "engine.speed_demand"
"""


def drive(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Times [ns] and rows of a drive that starts, shifts and slows down, n rows at 1 kHz."""
    rng = np.random.default_rng(7)
    t = np.arange(n) * 1e-3
    end = max(n * 1e-3, 1.0)
    demand = 14.0 * np.sin(np.pi * t / end) ** 2
    speed = np.interp(t - 0.35, t, demand) + 0.1 * np.sin(1.3 * t)
    gear = 1.0 + np.floor(speed / 5.0)
    shaft = 90.0 + 260.0 * speed / gear / 5.0
    driven = np.interp(t - 0.02, t, shaft)
    torque = 60.0 * np.gradient(speed, 1e-3) + 25.0 + rng.normal(0.0, 0.8, n)
    coolant = np.where(np.arange(n) % 10 == 0, 80.0 + 0.2 * t, np.nan)
    pedal = np.clip(torque / 1.6, 0.0, 100.0)
    outputs = [torque, driven, coolant, shaft, demand, speed, pedal, gear]
    sent = [torque + rng.normal(0.0, 0.4, n), shaft, pedal]
    residual = 30.0 * rng.normal(0.0, 1.0, n) + 0.02 * torque * (shaft - driven)
    tracking = torque * (driven - shaft)
    energies = [np.cumsum(p) * 1e-3 for p in (residual, tracking, -0.9 * residual)]
    bonds = [torque * shaft, residual, tracking, -residual / shaft, *energies]
    late = ((t % 7.0) > 6.93).astype(float)
    capped = (np.abs(residual) > 90.0).astype(float)
    timing = [np.full(n, 1e-3), rng.gamma(3.0, 22.0, n) + 1500.0 * (rng.random(n) > 0.999)]
    defect = [np.abs(rng.normal(0.0, 0.5, n))]
    kept = [np.nan_to_num(column) for column in outputs]
    columns = [*outputs, *kept, *sent, driven, *bonds, *defect, late, capped, *timing]
    return np.arange(n, dtype=np.int64) * 1_000_000, np.column_stack(columns)


RESULTS = [
    {
        "name": name,
        "result": result,
        "robustness": robustness,
        "error": 0.0,
        "t": 2.5,
        "text": "always engine.torque < 100",
        "signals": ["engine.torque"],
        "unit": "N*m",
        "reason": "not engine.torque < 100" if result == "failed" else "",
    }
    for name, result, robustness in (("calm", "passed", 3.0), ("limit", "failed", -12.0))
]


def summary(n: int, lateness: np.ndarray) -> dict:
    counts, edges = np.histogram(lateness, bins=np.geomspace(5.0, 3000.0, 60))
    shares = {"p50": 50.0, "p99": 99.0, "p999": 99.9, "max": 100.0}
    spread = {name: float(np.percentile(lateness, share)) for name, share in shares.items()}
    return {
        "format": 1,
        "session": "engine-in-the-loop",
        "state": "STOPPED",
        "steps": n,
        "time_s": n * 1e-3,
        "wall_s": n * 1e-3 + 0.002,
        "step_size_s": {"first": 1e-3, "min": 1e-3, "mean": 1e-3, "max": 1e-3},
        "ports": {
            "engine.torque": {"connection_defect": None, "output_defect": None, "last": 61.2},
            "vehicle.engine_torque": {
                "connection_defect": {"rms": 0.5, "max": 2.1},
                "output_defect": None,
                "last": None,
            },
        },
        "bonds": {
            "shaft": {
                "residual_energy_j": 12.3,
                "tracking_energy_j": -2345.6,
                "corrected_energy_j": -11.1,
                "uncorrected_energy_j": 1.2,
                "cap_share": 0.004,
            }
        },
        "flags": {
            "sample_late": {"count": 4, "seconds": 0.28},
            "correction_capped": {"count": 70, "seconds": 3.5},
            "step_minimum": {"count": 0, "seconds": 0.0},
        },
        "lateness_us": spread,
        "compute_us": {key: 0.7 * value for key, value in spread.items()},
        "missed_ticks": 31,
        "peers": {"vehicle": {"lost": 0, "late": 4}, "engine": {"lost": 1, "late": 0}},
        "results": RESULTS,
        "verdict": "degraded",
        "reasons": ["sample_late: carried on by extrapolation, 0.9% of the time"],
        "versions": {"hilrt": "0.1.0", "python": "3.11"},
        "lateness_histogram": {"edges_us": edges.tolist(), "counts": counts.tolist()},
    }


def synthetic_run(folder: Path, n: int, *, gap: bool = False) -> Path:
    """A run's folder as a session leaves it behind."""
    folder.mkdir(parents=True, exist_ok=True)
    begin = Begin(
        out_dir=str(folder),
        session="engine-in-the-loop",
        epoch_ns=EPOCH_NS,
        topics=TOPICS,
        attachments=[Attachment("session.toml", "application/toml", SESSION_FILE)],
        metadata=METADATA,
    )
    times, rows = drive(n)
    recording = Recording(begin)
    for i in range(0, n, 1000):
        if gap and i == 3000:
            continue
        recording.batch(i, times[i : i + 1000], rows[i : i + 1000])
    text = "shaft & <clutch> engaged"
    recording.event(RecordEvent(500_000_000, "info", "state", "session", text))
    data = json.dumps(summary(n, rows[:, -1])).encode()
    recording.finish(RecordEnd(summary=data, rows=n, events=1))
    (folder / "summary.json").write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    run = synthetic_run(tmp_path_factory.mktemp("run"), 6000, gap=True)
    return write_report(run).read_text(encoding="utf-8")


def test_page_shows_what_an_engineer_keeps(page):
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    for heading in (
        "Speed of vehicle: demanded and driven",
        "Bond shaft: effort, as measured and as sent",
        "Set-point engine.speed_demand: demanded, sent and measured",
        "Bond shaft: power residual",
        "Bond shaft: energy ledger",
        "Flags: times at which each cause was up",
        "How late the inputs were: all ticks",
        "Energy at the power bonds, J",
        "Events",
    ):
        assert heading in headings
    assert headings.index("Events") < headings.index("Ports: coupling defects, and the last value")
    assert 'class="verdict degraded"' in page
    assert "-2,346" in page  # the tracking energy, as a person writes it
    assert "1,000 rows are missing" in page
    assert "Length of the macro step" not in headings  # it was fixed


def test_results_of_tests_come_first_with_a_figure_around_each_failure(page):
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert headings[:2] == ["Results of tests", "limit: failed"]
    failed, passed = page.index("not engine.torque &lt; 100"), page.index(">passed<")
    assert failed < passed
    assert "decided at 2.5000 s" in page


def test_physical_figures_come_before_those_of_how_it_ran(page):
    """And before the tables; verdict, alarms and results stand above them."""
    headings = re.findall(r"<h2[^>]*>(.*?)</h2>", page)
    order = [
        "Results of tests",
        "Signals",
        "Set-point engine.speed_demand: demanded, sent and measured",
        "Speed of vehicle: demanded and driven",
        "Bond shaft: effort, as measured and as sent",
        "Outputs of engine, in degC",
        "Numbers and events",
        "Energy at the power bonds, J",
        "Events",
        "Diagnostics",
        "Bond shaft: power residual",
        "How late the inputs were: all ticks",
        "Ports: coupling defects, and the last value",
    ]
    assert [heading for heading in headings if heading in order] == order
    assert headings[headings.index("Signals") + 1] == order[2]
    assert re.findall(r"<nav>.*</nav>", page) == [
        '<nav><a href="#signals">Signals</a> <a href="#numbers-and-events">Numbers and events</a> '
        '<a href="#diagnostics">Diagnostics</a></nav>'
    ]
    for label in ("demanded, vehicle.engine_speed", '"sent"', '"measured"'):
        assert label in page


def test_outputs_that_tell_something_come_first():
    """Those of connections, then others that vary; constants and multiplexers last."""
    t = np.linspace(0.0, 1.0, 50)
    flat = [f"rig.flat{i}" for i in range(9)]
    courses = {name: np.zeros(50) for name in flat}
    courses |= {"rig.page": np.arange(50) % 4.0, "rig.ripple": t, "rig.flow": t, "car.speed": t}
    units = dict.fromkeys(courses, "") | {"rig.flat0": "bar", "car.speed": "m/s"}
    material = figures.Material(
        curves={name: Curve(t, y) for name, y in courses.items()},
        units=units,
        topics={"outputs": list(courses)},
        bonds={},
        connections=[("rig.flow", "car.force")],
        set_points=[],
        gaps=[],
        multiplexers={"rig.page"},
    )
    drawn = figures.draw_all(material, figures.time_range(material), []).physical
    headings = ["Outputs of rig, in 1", "Outputs of car, in m/s", "Outputs of rig, in bar"]
    assert [drawing.heading for drawing in drawn] == headings
    labels = [item.label["value"] for item in drawn[0].plot.legend[0].items]
    assert labels == ["flow", "ripple", *(f"flat{i}" for i in range(1, 7))]


def test_an_alarm_is_an_event_and_other_flags_are_figures():
    """So that fault, alarm and acknowledgement stand one below the other."""
    causes = ("alarm", "sample_late")
    flags = LogChannel("flags", [Signal(f"flag:{cause}", "") for cause in causes])
    events = [
        LogEvent(1.0, "warning", "alarm", "", "alarm raised: oil: engine.oil above 9"),
        LogEvent(2.0, "info", "acknowledge", "operator", "Ada: acknowledged alarm oil"),
        LogEvent(3.0, "warning", "sample_late", "engine", "late raised"),
    ]
    stream: Any = SimpleNamespace(channels={"flags": flags}, events=events)
    said = report_tables.event_table(stream)
    assert said.index("alarm raised: oil") < said.index("acknowledged alarm oil")
    assert "late raised" not in said


def test_bond_shows_output_and_what_was_sent(page):
    for label in ("engine.torque (as output)", "sent to vehicle.engine_torque"):
        assert label in page


def test_every_figure_has_a_plot(page):
    figures = page.count('<section class="figure">')
    roots = re.findall(r'data-root-id="(.*?)"', page)
    assert figures == len(roots) == len(set(roots))
    documents = json.loads(re.search(r"const docs_json = '(.*?)';\n", page)[1].replace("\\'", "'"))
    (document,) = documents.values()
    assert len(document["roots"]) == figures


def test_page_asks_nobody_for_anything(page):
    scripts = re.findall(r"<script[^>]*>.*?</script>", page, flags=re.DOTALL)
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    ours = sorted(scripts, key=len)[:-1]  # the longest is the plotting library, inlined
    for text in (markup, *ours):
        assert "http" not in text
        assert "@import" not in text
    assert not any(re.match(r"<script[^>]*\bsrc\b", script) for script in scripts)
    assert not re.findall(r"<(?:link|img|iframe)\b", markup)


def test_text_from_outside_is_escaped(page):
    assert "shaft &amp; &lt;clutch&gt; engaged" in page
    assert "<clutch>" not in page


def test_dropped_messages_have_a_column_only_where_there_are_any():
    peers = {"vehicle": {"late": 4, "lost": 0, "dropped": 0}, "engine": {"late": 0, "lost": 1}}
    assert "dropped" not in report_tables.peer_table({"peers": peers})
    peers["vehicle"]["dropped"] = 1234
    page = report_tables.peer_table({"peers": peers})
    assert re.search(r"dropped.*1,234", page, re.DOTALL)


def test_page_without_summary_says_so(tmp_path):
    run = synthetic_run(tmp_path / "run", 2000)
    log = run / "session.mcap"
    (run / "summary.json").unlink()
    log.write_bytes(log.read_bytes()[:-9000])
    page = write_report(run).read_text(encoding="utf-8")
    assert "There is no summary" in page
    assert "The log is incomplete" in page
    assert "Bond shaft: effort" in page


def test_text_that_looks_like_mathematics_is_not_typeset(tmp_path):
    """Typesetting would fetch a library from the network."""
    topics = [Topic("outputs", [Signal("a.x", "$$m$$")])]
    begin = Begin(str(tmp_path), "math", EPOCH_NS, topics, [], {})
    recording = Recording(begin)
    recording.batch(0, np.arange(3), np.ones((3, 1)))
    recording.finish(RecordEnd(b"", 3, 0))
    page = write_report(tmp_path).read_text(encoding="utf-8")
    labels = re.findall(r'"axis_label":"(.*?)"', page)
    assert any("uff04" in label for label in labels)  # a dollar sign of full width
    assert not any("$$" in label for label in labels)


def test_folder_without_log_is_named(tmp_path):
    with pytest.raises(RecordError, match=r"session\.mcap"):
        write_report(tmp_path)


def test_damaged_summary_is_named(tmp_path):
    run = synthetic_run(tmp_path / "run", 1000)
    (run / "summary.json").write_text("{")
    with pytest.raises(RecordError, match=r"summary\.json: is not JSON"):
        write_report(run)


def test_log_alone_gives_the_numbers_that_the_summary_has(tmp_path):
    """Cut off before the summary was attached, in a folder of its own."""
    run = synthetic_run(tmp_path / "run", 3000)
    whole = analyse_log(run).summary
    log = tmp_path / "alone.mcap"
    cut(run / "session.mcap", log)
    analysis = analyse_log(log)
    assert not analysis.summarised
    assert analysis.summary["steps"] == 2999
    assert analysis.summary["time_s"] == pytest.approx(2.999)
    for key in ("p50", "p99", "max"):
        assert analysis.summary["lateness_us"][key] == pytest.approx(
            whole["lateness_us"][key], rel=0.02
        )
    target = write_report(log, json_=True)
    assert target == tmp_path / "alone.html"
    page = target.read_text(encoding="utf-8")
    for heading in (
        "The ten worst ticks: sent latest",
        "How late the inputs were: all ticks",
        "Energy at the power bonds, J",
    ):
        assert heading in page
    assert "A part of session.mcap" in page
    numbers = json.loads((tmp_path / "alone.json").read_text())
    assert len(numbers["worst_steps"]) == 10
    assert "bond shaft" in numbers["step_advice"]["text"]


def test_pictures_of_every_kind_of_figure(tmp_path):
    pytest.importorskip("matplotlib")
    from hilrt.analyze.figure_timing import draw_report
    from hilrt.analyze.report_page import write_pictures

    analysis = analyse_log(synthetic_run(tmp_path / "run", 500))
    figures = draw_report(analysis, None)
    drawings = {one.heading: one for one in (*figures.physical, *figures.diagnostic)}
    chosen = [
        drawings["Bond shaft: effort, as measured and as sent"],
        drawings["How late the inputs were: all ticks"],
        drawings["How late the inputs were, over time"],
        drawings["The ten worst ticks: where their time went"],
    ]
    pictures = write_pictures(chosen, tmp_path / "pictures")
    assert [p.name for p in pictures] == [
        "01_bond_shaft_effort_as_measured_and_as_sent.png",
        "02_how_late_the_inputs_were_all_ticks.png",
        "03_how_late_the_inputs_were_over_time.png",
        "04_the_ten_worst_ticks_where_their_time_went.png",
    ]
    assert all(picture.read_bytes()[:4] == b"\x89PNG" for picture in pictures)


def test_page_in_a_read_only_folder_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", refuse)
    with pytest.raises(RecordError, match=r"page\.html: cannot be written: Read-only file system"):
        save(tmp_path / "page.html", "")


def test_a_unit_that_nobody_has_stated_stands_in_no_heading():
    assert [figures.in_unit(unit) for unit in ("N*m", "", "?")] == [", in N*m", ", in 1", ""]
