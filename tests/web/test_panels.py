"""What the page says: in words and shapes, escaped, and never reassuring without data."""

import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from hilrt.monitor.stream import BondEdge, Happening, SessionGraph, SubsystemNode
from hilrt.monitor.telemetry import RaisedFlag, ResultStatus, Status
from hilrt.monitor.viewer import MAX_EVENTS
from hilrt.record.messages import Signal
from hilrt.web import panels
from hilrt.web.graph import BOX_WIDTH, MAX_LETTERS, WIDTH, graph_svg, named
from tests.web.views import HEAD, LATE, RUNNING, TOPOLOGY, StillViewer

FOLDER = Path(panels.__file__).parent


@pytest.fixture
def look():
    made = []

    def make(*args, **kwargs):
        made.append(StillViewer(*args, **kwargs))
        return made[-1]

    yield make
    for viewer in made:
        viewer.close()


def changed(**values):
    return msgspec.structs.replace(RUNNING, **values)


@pytest.mark.parametrize(
    ("status", "flags", "kind", "word"),
    [
        (None, [], "nothing", "NO DATA"),
        (RUNNING, [], "good", "GOOD"),
        (RUNNING, [LATE], "good", "GOOD"),
        (changed(verdict="unreliable"), [], "unreliable", "UNRELIABLE"),
        (changed(verdict="degraded"), [], "degraded", "DEGRADED"),
        (changed(verdict="unverified"), [], "unverified", "UNVERIFIED"),
        (changed(state="IMPAIRED", message="samples are late"), [], "good", "GOOD"),
        (changed(verdict=""), [], "nothing", "NO VERDICT YET"),
        (changed(state="SAFE", message="safe by Ada"), [], "unreliable", "SAFE"),
        (changed(state="FAULT", message="engine is gone"), [LATE], "unreliable", "FAULT"),
        (Status(session="s", state="INITIALIZED"), [], "nothing", "NO VERDICT YET"),
    ],
)
def test_lamp_is_the_verdict_so_far(look, status, flags, kind, word):
    lamp = panels.lamp(look(status, flags))
    assert (lamp.kind, lamp.word) == (kind, word)


@pytest.mark.parametrize(
    ("status", "flags", "expected"),
    [
        (None, [LATE], None),
        (RUNNING, [], ("good", "now", ["no flags"])),
        (RUNNING, [LATE], ("degraded", "now", ["sample late (vehicle)"])),
        (changed(verdict="unreliable"), [], ("good", "now", ["no flags"])),
        (
            changed(state="IMPAIRED", message="engine is late"),
            [LATE],
            ("degraded", "now", ["engine is late", "sample late (vehicle)"]),
        ),
        (changed(state="STOPPED"), [LATE], ("", "at its end", ["sample late (vehicle)"])),
        (changed(state="FAULT"), [LATE], None),
        (Status(session="s", state="INITIALIZED"), [], None),
    ],
)
def test_flags_that_are_up_now_are_no_part_of_the_verdict(look, status, flags, expected):
    assert panels.present(look(status, flags)) == expected


def test_no_flag_is_given_as_the_reason_of_a_verdict(look):
    """An alarm that is up now cannot make a session unreliable; what did is said."""
    late = "sample_late: samples of vehicle were late, 45.3% of the time"
    status = changed(verdict="unreliable", reasons=[late])
    viewer = look(status, [RaisedFlag("alarm", "engine.torque over 300")])
    said = "Sample late: samples of vehicle were late, 45.3% of the time"
    assert panels.lamp(viewer).reasons == [said]
    html = panels.lamp_html(viewer)
    assert "UNRELIABLE<small> so far</small>" in html
    assert html.index("45.3%") < html.index("now:") < html.index("alarm (engine.torque over 300)")
    viewer.status = msgspec.structs.replace(status, state="STOPPED")
    assert "so far" not in panels.lamp_html(viewer)


def test_a_lack_of_evidence_has_a_lamp_of_its_own(look):
    lacking = changed(verdict="degraded", evidence_lacking=True, reasons=["a: b"])
    lamp = panels.lamp(look(lacking))
    assert (lamp.kind, lamp.word, lamp.reasons) == ("lacking", "DEGRADED", ["A: b"])
    html = panels.lamp_html(look(lacking))
    assert '<div class="lamp lacking"><span class="shape" aria-hidden="true">△</span>' in html
    assert "DEGRADED<small> for lack of evidence, so far</small>" in html
    ended = look(msgspec.structs.replace(lacking, state="STOPPED"))
    assert "DEGRADED<small> for lack of evidence</small>" in panels.lamp_html(ended)
    assert panels.end_in_words(ended) == "ended: stopped, degraded for lack of evidence"
    measured = panels.lamp_html(look(msgspec.structs.replace(lacking, evidence_lacking=False)))
    assert "▲" in measured
    assert "evidence" not in measured
    unverified = changed(verdict="unverified", evidence_lacking=True)
    assert panels.lamp(look(unverified)).kind == "unverified"  # which says it


def test_what_estimates_leave_out_stands_beside_the_verdict(look):
    alone = "The models&#x27; own integration is included only where trials show its error."
    assert alone not in panels.lamp_html(look(RUNNING))  # nothing is coupled
    signals = [*HEAD.signals, Signal("engine.torque:estimated_error", "N*m")]
    head = msgspec.structs.replace(HEAD, signals=signals)
    assert alone in panels.lamp_html(look(RUNNING, head=head))
    assert alone not in panels.lamp_html(look(changed(verdict=""), head=head))


def test_lamp_says_the_cause(look):
    assert panels.present(look(RUNNING, [LATE])).reasons == ["sample late (vehicle)"]
    many = [RaisedFlag(cause, "x") for cause in ("a", "b", "c", "d", "e")]
    assert panels.present(look(RUNNING, many)).reasons[0].endswith("and 2 more")
    places = [RaisedFlag("output_defect", f"a.y{i}") for i in range(5)]
    assert panels.present(look(RUNNING, places)).reasons == ["output defect (a.y0, a.y1, +3)"]
    fault = changed(state="FAULT", message="engine is gone")
    assert panels.lamp(look(fault)).reasons == ["engine is gone"]
    several = changed(verdict="degraded", reasons=[f"c_{i}: it is {i}" for i in range(5)])
    told = ["C 0: it is 0", "C 1: it is 1", "and 3 more reasons"]
    assert panels.lamp(look(several)).reasons == told


def test_silence_is_never_good(look):
    viewer = look(RUNNING)
    viewer.now_s += 10.0
    reason = "the session has been silent for 10 s"
    assert panels.lamp(viewer) == ("nothing", "NO DATA", [reason])
    assert panels.present(viewer) is None
    ended = look(changed(state="STOPPED"))
    ended.now_s += 10.0
    assert panels.lamp(ended).word == "GOOD"


def test_an_alarm_is_said_once(look):
    """In the line of what is up now; neither again as a flag nor beside the state."""
    name = "hot: engine.oil above 120"
    status = changed(state="IMPAIRED", message=f"alarm {name}")
    viewer = look(status, [RaisedFlag("alarm", name), LATE])
    assert panels.present(viewer).reasons == [f"alarm {name}", "sample late (vehicle)"]
    assert name not in panels.state_html(viewer)


def test_a_unit_that_nobody_has_stated_is_not_shown(look):
    status = changed(values={"a.x": 1.0, "a.y": 2.0}, units={"a.x": "?", "a.y": "m"})
    html = panels.values_html(look(status))
    assert "?" not in html
    assert '<span class="soft">m</span>' in html


def test_every_lamp_has_a_shape_of_its_own():
    assert len(set(panels.SHAPES.values())) == len(panels.SHAPES)


def test_names_are_escaped(look):
    viewer = look(RUNNING, [RaisedFlag("<i>", "<script>")])
    viewer.event(1, text="<b>")
    pages = panels.state_html(viewer) + panels.lamp_html(viewer) + panels.peers_html(viewer)
    assert "engine &lt;b&gt;" in pages
    assert "<script>" not in pages
    evil = SessionGraph([SubsystemNode("<b>", "<i>")], [], [])
    assert "<b>" not in graph_svg(evil, [])


def test_state_tells_time_and_timing(look):
    html = panels.state_html(look(changed(shadow=True)))
    for part in ("RUNNING", "12.0", "/ 30 s", "999.4 Hz", "missed 3 of 12,000 ticks", "SHADOW"):
        assert part in html


def test_sequences_sources_and_results_are_on_the_page(look):
    step = "t.py:3: waits for engine.speed > 9, at most 2 s, until 3.0 s (since 1.0 s)"
    result = ResultStatus("rise <time>", "failed", "failed: 0.5 s, max 0.4")
    status = changed(
        sequences={"test": step},
        sources={"engine.pedal": "stimulus <sweep>"},
        results=[result],
        result_counts={"failed": 1},
    )
    html = panels.state_html(look(status))
    assert (
        "test: t.py:3: waits for engine.speed &gt; 9, at most 2 s, until 3.0 s (since 1.0 s)"
        in html
    )
    assert "driven: engine.pedal by stimulus &lt;sweep&gt;" in html
    assert "results: 1 failed" in html
    assert "rise &lt;time&gt;: failed: 0.5 s, max 0.4" in html


def test_values_are_those_that_the_session_names(look):
    many = {f"engine.y{i}": float(i) for i in range(12)}
    status = changed(values=many)
    assert panels.values_html(look(status)).count('class="value"') == 8
    chosen = msgspec.structs.replace(HEAD, values=["engine.y1*"])
    html = panels.values_html(look(status, head=chosen))
    assert re.findall(r"engine\.y\d+", html) == ["engine.y1", "engine.y10", "engine.y11"]


def test_a_wait_is_shown_with_the_seconds(look):
    waiting = Status(session="s", state="CONNECTING", message="waiting for engine", waited_s=7.4)
    assert panels.lamp(look(waiting)).reasons == ["waiting for engine (7 s)"]
    state = panels.state_html(look(waiting))
    assert "CONNECTING" in state
    assert "waiting for engine" not in state  # it is said once


def test_ledger_bars_are_to_scale():
    html = panels.bonds_html(RUNNING)
    widths = [float(w) for w in re.findall(r"width:([\d.]+)%", html)]
    assert widths == pytest.approx([50 * 12.5 / 120, 50.0, 50 * 3 / 120], abs=0.06)
    assert 'class="minus"' in html
    assert "-12.50" in html
    assert panels.bonds_html(changed(bonds={})) == ""
    drawn = panels.bonds_html(changed(bonds={}), HEAD)  # which stand in the graph
    assert "figures come with the first steps" in drawn


def test_waiting_session_says_what_to_press_here(look):
    """At its terminal that is Enter, which does nothing on the page."""
    waiting = changed(state="INITIALIZED", message="waiting for the operator: press Enter to arm")
    for control, said in ((["arm"], "press Arm"), ([], "press Enter at its terminal")):
        viewer = look(waiting, head=msgspec.structs.replace(HEAD, control=control))
        viewer.event(1, "info", text=waiting.message)
        for words in (panels.lamp(viewer).reasons[0], panels.event_rows(viewer, False)[0].text):
            assert said in words
            assert "Enter to arm" not in words
        assert said not in panels.state_html(viewer)  # it is said once


def test_peer_without_a_late_tick_is_not_late(look):
    """The master skipped ticks: what it has is of an earlier point, though it came in time."""
    html = panels.peers_html(look(RUNNING, [RaisedFlag("sample_late", "engine")]))
    assert "▲ late" not in html
    assert "▲ behind" in html


def test_late_peer_shows_the_policy_in_force(look):
    html = panels.peers_html(look(RUNNING, [LATE]))
    assert "▲ late" in html
    assert "hold now" in html
    assert "● in time" in html


def test_alarms_are_open_until_acknowledged(look):
    viewer = look(RUNNING)
    viewer.event(1, "info")
    viewer.event(2, "warning")
    viewer.event(3, "error", acknowledged="Ada")
    assert [row.number for row in panels.event_rows(viewer, alarms_only=False)] == [3, 2, 1]
    assert [row.number for row in panels.event_rows(viewer, alarms_only=True)] == [2]
    assert panels.columns(panels.event_rows(viewer, False))["acknowledged"] == [
        "Ada",
        "",
        "",
    ]


def test_a_flag_that_comes_and_goes_is_one_row(look):
    viewer = look(RUNNING)
    for number in range(1, 7):
        change, level = ("raised", "warning") if number % 2 else ("cleared", "info")
        viewer.event(number, level, text=f"sample_late {change}: vehicle")
    viewer.event(7, "info", cause="mark", text="Ada: knock")
    mark, flag = panels.event_rows(viewer, alarms_only=False)
    assert (mark.number, flag.number, flag.level) == (7, 6, "▲ warning")
    assert flag.text == "sample late: vehicle, 3 times since 1.000 s, 3.000 s in all"
    viewer.event(8, text="sample_late raised: vehicle")
    (flag,) = panels.event_rows(viewer, alarms_only=True)
    assert flag.number == 8
    assert flag.text.endswith("4 times since 1.000 s, 3.000 s in all, up since 8.000 s")
    for number in range(1, 9):
        change, level = ("raised", "warning") if number % 2 else ("cleared", "info")
        viewer.event(number, level, text=f"sample_late {change}: vehicle", acknowledged="Ada")
    assert panels.event_rows(viewer, alarms_only=True) == []
    assert viewer.flag_spans.of(RaisedFlag("sample_late", "vehicle")).count == 4


def test_a_flag_that_was_up_before_the_viewer_came_counts_from_its_next_rise(look):
    viewer = look(RUNNING)
    viewer.event(1, "info", text="sample_late cleared: vehicle")
    assert viewer.flag_spans.of(RaisedFlag("sample_late", "vehicle")) is None
    (flag,) = panels.event_rows(viewer, alarms_only=False)
    assert flag.text == "sample late: vehicle"
    viewer.event(2, text="sample_late raised: vehicle")
    viewer.event(3, "info", text="sample_late cleared: vehicle")
    viewer.event(4, text="sample_late raised: vehicle")
    (flag,) = panels.event_rows(viewer, alarms_only=False)
    assert flag.text.startswith("sample late: vehicle, 2 times since 2.000 s, 1.000 s in all")


def test_events_that_repeat_are_one_row(look):
    viewer = look(RUNNING)
    for number, late in ((1, 3), (2, 62), (3, 9)):
        viewer.event(number, cause="held_up", text=f"starved for {late} ms", value=late)
    (row,) = panels.event_rows(viewer, alarms_only=False)
    assert row.text == "vehicle: starved for 62 ms (3 times since 1.0 s; the worst)"
    assert (row.number, row.key, row.acknowledged) == (3, "1", "")


def test_counts_of_a_flag_outlive_the_events_that_are_kept(look):
    viewer = look(RUNNING)
    for number in range(1, 2 * MAX_EVENTS + 1):
        change = "raised" if number % 2 else "cleared"
        viewer.event(number, text=f"sample_late {change}: vehicle")
    (row,) = panels.event_rows(viewer, alarms_only=False)
    assert f", {MAX_EVENTS} times since 1.000 s, {MAX_EVENTS}.0 s in all" in row.text


@pytest.mark.parametrize(
    ("cause", "source", "text", "said"),
    [
        ("sample_late", "engine", "sample_late raised: engine", "sample late raised: engine"),
        ("process_ended", "engine", "the process has ended", "engine: the process has ended"),
        ("operator", "operator", "Ada asked for stop", "Ada asked for stop"),
    ],
)
def test_event_says_what_and_where_in_one_line(cause, source, text, said):
    event = Happening(number=1, t=0.0, level="info", cause=cause, source=source, text=text)
    assert panels.in_words(event) == said


def test_graph_can_be_read_on_a_small_screen():
    """On one of 1200 pixels the drawing has 430: 12 for the smallest text, and no overlap."""
    css = (FOLDER / "parts.css").read_text()
    sizes = [int(size) for size in re.findall(r"svg [^{]*{[^}]*font(?:-size)?: (\d+)px", css)]
    assert len(sizes) == 3
    assert min(sizes) * 430 / WIDTH >= 12.0
    assert named(["torque", "speed", "x"]) == "torque, speed +1"
    assert named(["crankshaft_torque_at_the_flange", "speed"]) == "crankshaft_torque_at_the_… +1"
    assert MAX_LETTERS * 0.5 * sizes[0] < WIDTH - 2 * BOX_WIDTH


# -- the graph -----------------------------------------------------------------------------------


def test_graph_is_drawn_with_flags_where_they_are_raised():
    flags = [
        LATE,
        RaisedFlag("connection_defect", "vehicle.engine_torque"),
        RaisedFlag("power_residual", "shaft"),
    ]
    svg = ElementTree.fromstring(graph_svg(TOPOLOGY, flags))
    flagged = {
        group.get("class").split()[0]: "".join(group.itertext())
        for group in svg.iter("g")
        if "flagged" in group.get("class")
    }
    assert set(flagged) == {"box", "edge", "bond"}
    assert "▲ sample late" in flagged["box"]
    assert "▲ connection defect" in flagged["edge"]
    assert "torque" in flagged["edge"]
    assert "▲ power residual" in flagged["bond"]
    calm = ElementTree.fromstring(graph_svg(TOPOLOGY, []))
    assert not [g for g in calm.iter("g") if "flagged" in g.get("class")]


@pytest.mark.parametrize(
    ("flag", "shape", "name"),
    [
        (RaisedFlag("alarm", "too much: engine.torque above 300"), "edge", "torque"),
        (RaisedFlag("alarm", "engine.oil_pressure below 2"), "box", "engine"),
        (RaisedFlag("input_limited", "engine.pedal"), "box", "engine"),
        (RaisedFlag("error_estimate", "vehicle.engine_torque (indicator)"), "edge", "torque"),
        (RaisedFlag("output_defect", "vehicle.engine_speed[2]"), "edge", "engine_speed"),
        (RaisedFlag("energy_drift", "shaft"), "bond", "shaft"),
        (RaisedFlag("energy_drift", "inner"), "box", "engine"),
    ],
)
def test_what_the_lamp_names_is_marked_in_the_drawing(look, flag, shape, name):
    """Also where no line is drawn: an unconnected port, a bond within one subsystem."""
    inner = BondEdge("inner", ["engine.a"], "engine.b")
    topology = msgspec.structs.replace(TOPOLOGY, bonds=[*TOPOLOGY.bonds, inner])
    svg = ElementTree.fromstring(graph_svg(topology, [flag]))
    (marked,) = [group for group in svg.iter("g") if "flagged" in group.get("class")]
    assert marked.get("class") == f"{shape} flagged"
    said = "".join(marked.itertext())
    assert name in said
    cause = panels.present(look(RUNNING, [flag])).reasons[0].partition(" (")[0]
    assert f"▲ {cause}" in said


@pytest.mark.parametrize("n", range(6))
def test_graph_of_any_size(n):
    parts = [SubsystemNode(f"s{i}", "inprocess") for i in range(n)]
    svg = graph_svg(SessionGraph(parts, [], []), [])
    assert len(ElementTree.fromstring(svg).findall("g")) == n if n else svg == ""
