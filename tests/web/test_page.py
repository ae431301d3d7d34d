"""A client's page without a browser: what its models hold, and what its buttons send."""

import math
import re

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("bokeh", reason="the page needs hilrt[web]")

from bokeh.document import Document
from bokeh.embed import file_html
from bokeh.events import ButtonClick
from bokeh.models import HoverTool, Line

from hilrt.monitor.operator_commands import ALL_BEFORE, MAX_TEXT, Reply
from hilrt.monitor.stream import Full, Head, SessionGraph, SetPointPort, Signals, binary
from hilrt.monitor.telemetry import AlarmStatus, PromptStatus
from hilrt.record.messages import Signal
from hilrt.session.result import VERDICTS
from hilrt.web.operator_controls import plain, typed_number
from hilrt.web.page import FOLDER, Page, first_signals
from hilrt.web.plots import (
    COLOURS,
    INKS,
    KEPT_WINDOWS,
    MAX_SIGNALS,
    MIN_MESSAGES,
    TIMING_END_US,
    TIMING_SIGNAL,
    histogram,
)
from hilrt.web.shared_session import SharedSession, SignalHistory
from tests.web.views import HEAD, LATE_RAISED, RUNNING, TOPOLOGY, StillViewer


@pytest.fixture
def page():
    viewer = StillViewer(RUNNING)
    source = SharedSession(viewer)
    source.poll()
    page = Page(Document(), source)
    page.draw_figures()
    yield page
    viewer.close()


def turn(page, times=1):
    for _ in range(3 * times):
        page.update()


def feed(page, n, start=0, apart=0.1):
    for i in range(start, start + n):
        values = np.array([float(i), np.sin(i), 50.0])
        data = binary(values)
        page.history.add(
            Signals(
                number=i + 1,
                t_from=apart * i,
                t_until=apart * (i + 0.9),
                rows=100,
                lost=0,
                minimum=binary(values - 5.0),
                maximum=binary(values + 7.0),
                last=data,
            )
        )


def test_only_the_scripts_that_it_uses_are_loaded(page):
    """From this server, and without the largest, which sets formulas."""
    document = page.document
    html = file_html(
        document, template=document.template, template_variables=document.template_variables
    )
    loaded = re.findall(r'<script[^>]* src="(\S+)\?v=\w+"', html)
    names = ("bokeh", "bokeh-gl", "bokeh-widgets", "bokeh-tables")
    assert loaded == [f"/static/js/{name}.min.js" for name in names]


def test_figures_come_when_the_browser_shows_the_rest():
    """As the browser tells it; what they hold in the document until then would hold it up."""
    viewer = StillViewer(RUNNING)
    source = SharedSession(viewer)
    source.poll()
    document = Document()
    Page(document, source)
    areas = [document.get_model_by_name(name) for name in ("figures", "timing")]
    assert [len(area.children) for area in areas] == [0, 0]
    assert "RUNNING" in document.get_model_by_name("state").text
    values = {"type": "map", "entries": []}
    document.apply_json_patch(
        {
            "events": [
                {
                    "kind": "MessageSent",
                    "msg_type": "bokeh_event",
                    "msg_data": {"type": "event", "name": "document_ready", "values": values},
                }
            ]
        }
    )
    assert [len(area.children) for area in areas] == [2, 1]
    viewer.close()


def test_the_first_bond_is_plotted_at_once(page):
    feed(page, 20)
    turn(page)
    assert page.choice.value == ["engine.torque", "vehicle.engine_speed"]
    assert [plot.yaxis[0].axis_label for plot in page.figures.children] == ["N*m", "rad/s"]
    data = page.plots.lines[0].source.data
    np.testing.assert_array_equal(data["last"], np.arange(20.0))
    np.testing.assert_array_equal(data["high"], np.arange(20.0) + 7.0)
    feed(page, 5, start=20)
    turn(page)
    np.testing.assert_array_equal(page.plots.lines[0].source.data["last"], np.arange(25.0))


def test_a_line_keeps_what_its_window_needs(page):
    page.plots.window = 120.0
    feed(page, 1)
    turn(page)
    source = page.plots.lines[0].source
    for start in range(1, 3001, 100):
        feed(page, 100, start)
        page.plots.update()
    t = source.data["t"]
    assert len(t) == pytest.approx(KEPT_WINDOWS * 120.0 / 0.1, abs=101)
    assert t[-1] == page.history.t.newest(1)[0, 0]


def test_pause_keeps_the_picture_and_loses_nothing(page):
    feed(page, 5)
    turn(page)
    page.pause.active = True
    feed(page, 5, start=5)
    turn(page)
    assert len(page.plots.lines[0].source.data["t"]) == 5
    page.pause.active = False
    assert len(page.plots.lines[0].source.data["t"]) == 10


def test_what_is_chosen_in_a_pause_is_shown_up_to_it(page):
    feed(page, 5)
    turn(page)
    page.pause.active = True
    feed(page, 5, start=5)
    page.choice.value = ["vehicle.engine_speed"]
    turn(page)
    (line,) = page.plots.lines
    np.testing.assert_array_equal(line.source.data["last"], np.sin(np.arange(5.0)))
    page.plots.show_window(120.0)
    assert len(line.source.data["t"]) == 5
    page.pause.active = False
    np.testing.assert_array_equal(line.source.data["last"], np.sin(np.arange(10.0)))


@pytest.mark.parametrize("told", ["time", "head"])
def test_another_session_begins_anew(page, told):
    """Of the same name and signals: its time goes back, or its head names another beginning."""
    page.viewer.head = msgspec.structs.replace(HEAD, epoch_ns=1)
    page.source.poll()
    page.full.active = True
    t = np.arange(100.0)
    for name in (TIMING_SIGNAL, "engine.torque"):
        page.history.add_full(Full(number=1, name=name, t=binary(t), value=binary(t)))
    page.full.active = False
    feed(page, 50, start=100)
    turn(page)
    page.choice.value = ["vehicle.engine_speed"]
    page.pause.active = True
    another = msgspec.structs.replace(HEAD, session="another", epoch_ns=2 if told == "head" else 1)
    page.viewer.head = another
    page.source.poll()
    feed(page, 3, start=0 if told == "time" else 200)
    turn(page)
    assert page.document.title == "another – hilrt"
    assert page.choice.value == ["vehicle.engine_speed"]
    assert len(page.plots.lines[0].source.data["t"]) == 3
    assert not page.plots.paused
    assert not len(page.history.full["engine.torque"].newest(1))


def test_ten_minutes_are_kept_at_any_rate():
    for rate in (10.0, 20.0):
        history = SignalHistory()
        history.restart(["a"], rate)
        history.t.add(np.zeros((20_000, 1)))
        assert len(history.t.newest(20_000)) == 600 * rate


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def test_lines_and_text_stand_out_from_both_pages():
    """WCAG 2.2 AA: text 4.5, what is drawn 3."""
    cards = {"light": "#ffffff", "dark": "#191d21"}
    for look, card in cards.items():
        assert contrast(INKS[look], card) >= 4.5
        assert min(contrast(colour, card) for colour in COLOURS) >= 3.0
    css = (FOLDER / "page.css").read_text()
    light, dark = css.split("@media", 1)[0], css.split('[data-theme="dark"]')[1].split("}")[0]
    for sheet in (light, dark):
        colours = dict(re.findall(r"--([\w-]+): (#\w{6})", sheet))
        for ink in ("ink", "soft", *VERDICTS):
            for ground in ("card", "page"):
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
        for ground in (*VERDICTS, "accent"):
            assert contrast(colours["lamp-ink"], colours[ground]) >= 4.5, ground


def test_canvas_is_drawn_in_the_ink_of_the_page(page):
    plots = [*page.figures.children, page.timing.plot]
    for look in ("dark", "light"):
        page.figures.tags = [look]
        page.choice.value = list(reversed(page.choice.value))  # new figures, too
        for plot in [*page.figures.children, *plots[-1:]]:
            assert plot.xaxis[0].major_label_text_color == INKS[look]


def test_legends_have_one_column_on_a_narrow_page(page):
    for width, columns in (("narrow", 1), ("wide", 2)):
        page.figures.tags = ["light", width]
        page.choice.value = list(reversed(page.choice.value))  # new figures, too
        assert {plot.legend[0].ncols for plot in page.figures.children} == {columns}


def test_lines_are_drawn_however_far_apart_messages_are(page):
    """As fast as possible, a message may cover more time than the axis has."""
    feed(page, 100, apart=400.0)
    turn(page)
    (plot, *_), (line, *_) = page.figures.children, page.plots.lines
    t = line.source.data["t"]
    assert np.count_nonzero(t >= plot.x_range.start) == MIN_MESSAGES
    page.plots.show_window(10.0)
    assert np.count_nonzero(line.source.data["t"] >= plot.x_range.start) == MIN_MESSAGES


def test_looking_closely_pauses(page):
    assert len(page.figures.children) == 2
    for plot in page.figures.children:
        (stay,) = plot.js_event_callbacks["panstart"]
        assert plot.js_event_callbacks == {"panstart": [stay], "wheel": [stay]}
        assert stay.args == {"pause": page.pause}


def test_lines_are_named_under_the_pointer_and_their_bands_are_not(page):
    for plot in page.figures.children:
        (hover,) = plot.select(HoverTool)
        assert [shown.name for shown in hover.renderers] == [
            line.name for line in plot.renderers if isinstance(line.glyph, Line)
        ]


def test_histogram_reaches_as_far_as_the_latest_tick(page):
    late = np.full(100, 50.0)
    for slowest, end in ((60.0, TIMING_END_US), (3e5, 10.0**5.5)):
        late[-1] = slowest
        t = np.arange(100) * 1e-3
        message = Full(number=1, name=TIMING_SIGNAL, t=binary(t), value=binary(late))
        page.history.add_full(message)
        page.timing.update()
        assert page.timing.plot.x_range.end == pytest.approx(end)


def test_axes_of_flat_signals_do_not_show_the_last_digits(page):
    page.choice.value = ["master:lateness"]
    for value, span in ((50.0, 1.28), (0.0, 1.0), (1e-9, 0.02 * 2.0**-29)):
        page.history.restart(page.history.names)
        data = binary(np.full(3, value))
        message = Signals(
            number=1, t_from=0, t_until=0, rows=1, lost=0, minimum=data, maximum=data, last=data
        )
        page.history.add(message)
        page.plots.choose(["master:lateness"])
        (plot,) = page.plots.figures
        assert plot.y_range.min_interval == pytest.approx(span)


def test_full_rate_is_asked_for_and_given_up(page):
    page.full.active = True
    assert page.viewer.wanted["engine.torque"] == 1
    t, values = np.arange(1000) * 1e-3, np.random.default_rng(1).normal(size=1000)
    message = Full(number=1, name="engine.torque", t=binary(t), value=binary(values))
    page.history.add_full(message)
    turn(page)
    np.testing.assert_array_equal(page.plots.lines[0].source.data["last"], values)
    for released in page.document.session_destroyed_callbacks:
        released(None)
    assert list(page.viewer.wanted) == [TIMING_SIGNAL]


def test_the_band_of_the_estimated_error_is_drawn_and_leaves_the_axis_to_the_signal():
    signals = [*HEAD.signals[:2], Signal("engine.torque:estimated_error", "N*m")]
    viewer = StillViewer(RUNNING, head=Head(session="s", signals=signals, topology=HEAD.topology))
    source = SharedSession(viewer)
    source.poll()
    page = Page(Document(), source)
    page.draw_figures()
    for i, error in enumerate((np.nan, 2.0, 3.0)):
        last = binary(np.array([10.0 * i, 0.0, 0.0]))
        highest = binary(np.array([10.0 * i, 0.0, error]))
        of = {"t_from": 0.1 * i, "t_until": 0.1 * i + 0.09, "rows": 1, "lost": 0}
        page.history.add(Signals(number=i + 1, minimum=last, maximum=highest, last=last, **of))
    turn(page)
    torque, speed = page.plots.lines
    np.testing.assert_array_equal(torque.source.data["least"], [np.nan, 8.0, 17.0])
    np.testing.assert_array_equal(torque.source.data["most"], [np.nan, 12.0, 23.0])
    assert "most" not in speed.source.data  # nothing is estimated of it
    plot = page.plots.figures[0]
    edges = [r for r in plot.renderers if getattr(r.glyph, "y", None) in ("least", "most")]
    assert len(edges) == 2
    assert not set(edges) & set(plot.y_range.renderers)
    assert len(plot.y_range.renderers) == 2  # the line and what lies between its extremes
    viewer.close()


def test_nonsense_is_not_plotted(page):
    page.choice.value = ["engine.torque", "nonsense"]
    assert [line.name for line in page.plots.lines] == ["engine.torque"]


def test_more_signals_than_are_plotted_are_told():
    names = [f"s.y{i}" for i in range(15)]
    viewer = StillViewer(RUNNING, head=Head(session="s", signals=[Signal(n, n) for n in names]))
    source = SharedSession(viewer)
    source.poll()
    page = Page(Document(), source)
    page.draw_figures()
    assert page.choice.max_items == MAX_SIGNALS  # the browser takes no more
    page.choice.value = names
    assert len(page.plots.lines) == len(page.plots.figures) == MAX_SIGNALS  # a unit each
    assert page.choice.title == "signals: the first 12 are plotted, 3 are not"
    page.choice.value = names[:3]
    assert page.choice.title == "signals (type to search, at most 12)"
    viewer.close()


def test_a_flag_is_on_the_lamp_with_the_next_update(page):
    assert "GOOD" in page.parts["lamp"].text
    page.viewer.receive(LATE_RAISED)
    page.update()
    assert "sample late (vehicle)" in page.parts["lamp"].text
    turn(page)
    assert "▲ sample late" in page.parts["graph"].text


def test_what_has_not_changed_does_not_travel(page):
    turn(page)
    changes = []
    page.document.on_change(changes.append)
    turn(page, times=3)
    assert changes == []


# -- commands ------------------------------------------------------------------------------------


def click(page, name):
    button = page.document.get_model_by_name(name)
    page.document.callbacks.trigger_event(ButtonClick(button))


def test_buttons_send_who_and_token(page):
    page.control.who.value, page.control.token.value = "Ada", "secret"
    click(page, "safe")
    (command,) = page.viewer.sent
    assert (command.action, command.who, command.key) == ("safe", "Ada", "secret")
    page.control.answered(Reply(False, "refused: wrong token"))
    assert "✕ refused: wrong token" in page.parts["answer"].text


def test_stop_needs_a_second_press(page):
    click(page, "stop")
    assert page.viewer.sent == []
    click(page, "stop")
    assert [command.action for command in page.viewer.sent] == ["stop"]


def test_note_shadow_and_adjust(page):
    page.control.note.value = "knock heard"
    click(page, "mark")
    click(page, "shadow")
    page.control.value.value = "0.05"
    click(page, "adjust")
    mark, shadow, adjust = page.viewer.sent
    assert (mark.action, mark.text) == ("mark", "knock heard")
    assert (shadow.action, shadow.value) == ("shadow", 1.0)
    assert (adjust.text, adjust.value) == ("bonds.shaft.cap", 0.05)


def test_a_question_of_a_sequence_has_a_button_for_each_answer_as_long_as_it_waits(page):
    first = PromptStatus(3, "test", "oil <warm>?", ["yes", "no"], "no", 72.0)
    second = PromptStatus(4, "test", "again?", ["yes"], None, 80.0)
    page.viewer.status = msgspec.structs.replace(RUNNING, prompts=[first])
    turn(page)
    assert page.control.prompts.children == []  # the session file does not allow it
    page.viewer.head = msgspec.structs.replace(page.viewer.head, control=["answer"])
    turn(page)
    (asked,) = page.control.prompts.children
    assert (
        "test asks: oil &lt;warm&gt;? (until 72.0 s, then the answer “no” counts)"
        in asked.children[0].text
    )
    assert [button.label for button in asked.children[1:]] == ["yes", "no"]
    page.viewer.status = msgspec.structs.replace(RUNNING, prompts=[first, second])
    turn(page)
    assert page.control.prompts.children[0] is asked  # not drawn anew under the pointer
    click(page, "answer-3-2")
    (command,) = page.viewer.sent
    assert (command.action, command.value, command.text) == ("answer", 3.0, "no")
    page.viewer.status = RUNNING
    turn(page)
    assert page.control.prompts.children == []


def test_adjust_shows_bounds_and_the_present_value(page):
    """Beside the field, which would be drawn anew, without what was typed, for another title."""
    turn(page)
    title = page.control.value.title
    assert "from 0 to 0.2; only while the session runs" in page.control.bounds.text
    page.viewer.status = msgspec.structs.replace(RUNNING, adjustable={"bonds.shaft.cap": 0.05})
    turn(page)
    assert "from 0 to 0.2; now 0.05" in page.control.bounds.text
    assert page.control.value.title == title


def test_names_in_the_adjust_list_differ_however_long_they_are(page):
    long = [
        f"parameters.powertrain_of_the_left_{n}_axle.viscous_damping_of_the_shaft" for n in "ab"
    ]
    head = msgspec.structs.replace(page.viewer.head, adjustable=dict.fromkeys(long, (0.0, 1.0)))
    page.viewer.head = head
    turn(page)
    (first, shown), (second, other) = page.control.what.options
    assert [first, second] == long
    assert shown != other
    assert max(len(shown), len(other)) * 8 + 40 <= page.control.what.width <= 330  # on a phone
    assert f"{first}: from 0 to 1" in page.control.bounds.text  # the whole name beside it


@pytest.mark.parametrize("text", ["0.9", "0,25", "-0.1", "1_0", "nan", "inf", "1e999", "", "0.1 m"])
def test_a_number_that_is_not_allowed_is_refused_and_not_changed(page, text):
    """The session gets one that is out of bounds, and refuses it: its log has an event then."""
    page.control.value.value_input = text
    click(page, "adjust")
    out_of_bounds = [float(text)] if text in ("0.9", "-0.1") else []
    assert [command.value for command in page.viewer.sent] == out_of_bounds
    assert "✕ bonds.shaft.cap is not changed: " in page.parts["answer"].text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_is_sent_as_it_is_typed(value):
    assert typed_number(repr(value), -math.inf, math.inf) == value
    assert typed_number(plain(value), value, value) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [(" 0.25 ", 0.25), ("+.5", 0.5), ("3.", 3.0), ("2.5e-1", 0.25), ("\u22120.1", -0.1)],
)
def test_numbers_may_be_written_in_several_ways(text, value):
    assert typed_number(text, -1.0, 5.0) == value


def test_another_number_to_adjust_begins_with_an_empty_field(page):
    page.control.value.value_input = page.control.value.value = "0.1"
    page.control.what.value = "reliability.tracking"
    click(page, "adjust")
    assert page.viewer.sent == []


def test_an_emptied_field_is_empty(page):
    """The browser tells it key by key; the whole text is that of the last time it was left."""
    for field in (page.control.who, page.control.token):
        field.value_input = field.value = "Ada"
        field.value_input = ""
    click(page, "safe")
    (command,) = page.viewer.sent
    assert (command.who, command.key) == ("page", "")


def test_a_note_is_kept_whole_or_not_at_all(page):
    page.control.note.value_input = "x" * (MAX_TEXT + 1)
    click(page, "mark")
    assert page.viewer.sent == []
    assert f"✕ the note has {MAX_TEXT + 1} characters" in page.parts["answer"].text


def test_a_note_that_is_refused_may_be_sent_again(page):
    page.document.add_next_tick_callback = lambda act: act()
    page.source.send = lambda command, answered: not answered(Reply(False, "refused: wrong token"))
    page.control.note.value_input = "knock heard"
    click(page, "mark")
    assert page.control.note.value == "knock heard"


def test_new_events_need_no_new_models(page):
    """A browser keeps every model that it was ever sent."""
    page.viewer.event(1)
    turn(page)
    before, shown = {model.id for model in page.document.models}, page.table.view.filter
    for number in range(2, 6):
        page.viewer.event(number)
        turn(page)
        assert page.table.view.filter is not shown  # else the table shows the old rows
        shown = page.table.view.filter
    assert {model.id for model in page.document.models} == before


def test_alarms_are_acknowledged_by_number(page):
    page.viewer.event(7)
    page.viewer.event(8)
    turn(page)
    page.event_source.selected.indices = [1]
    click(page, "acknowledge")
    (command,) = page.viewer.sent
    assert (command.action, command.value) == ("acknowledge", 7.0)


def alarms(page):
    """State of each alarm as listed, and its button."""
    rows = page.alarms.area.children[:-1]
    return [(row.children[0].text, row.children[1]) for row in rows]


def test_alarms_have_a_list_of_their_own(page):
    assert "No alarm has been raised." in page.alarms.area.children[-1].text
    hot, fast = AlarmStatus("hot <oil>", 1, 2.0, 2.0), AlarmStatus("fast", 3, 1.0, 9.0, 9.5)
    page.viewer.status = msgspec.structs.replace(RUNNING, alarms=[fast, hot])
    turn(page)
    (first, _), (second, button) = alarms(page)
    assert "hot &lt;oil&gt;" in first
    assert "active since 2.0 s; not acknowledged" in first
    assert "cleared at 9.5 s, raised at 9.0 s, 3 times since 1.0 s; not acknowledged" in second
    assert not page.alarms.area.children[-1].visible
    seen = msgspec.structs.replace(hot, acknowledged_by="Ada", acknowledged_t=10.0)
    page.viewer.status = msgspec.structs.replace(RUNNING, alarms=[fast, seen])
    turn(page)
    (first, same), (second, other) = alarms(page)
    assert same is button  # its row has moved to the top
    assert "fast" in first
    assert "acknowledged by Ada at 10.0 s" in second
    assert (same.visible, other.visible) == (True, False)
    page.document.callbacks.trigger_event(ButtonClick(same))
    (command,) = page.viewer.sent
    assert (command.action, command.value, command.text) == ("acknowledge", 0.0, "fast")


def test_alarms_of_another_run_are_gone(page):
    page.viewer.status = msgspec.structs.replace(RUNNING, alarms=[AlarmStatus("hot", 1, 2.0, 2.0)])
    turn(page)
    page.viewer.status = RUNNING
    turn(page)
    assert alarms(page) == []
    assert page.alarms.area.children[-1].visible


def test_a_note_is_sent_once(page):
    """The browser tells what is typed key by key, and the whole when the field is left."""
    page.control.note.value_input = page.control.note.value = "knock heard"
    click(page, "mark")
    click(page, "mark")
    assert [command.text for command in page.viewer.sent] == ["knock heard"]
    assert "✕ write a note first" in page.parts["answer"].text
    page.control.note.value_input = "again"
    click(page, "mark")
    assert page.viewer.sent[-1].text == "again"


def test_all_are_acknowledged_by_one_command(page):
    """Also those that have no row any more; not those that came after the selection."""
    for number in range(1, 301):
        page.viewer.event(number)
    turn(page)
    page.event_source.selected.indices = list(range(200))
    page.viewer.event(301)
    turn(page)
    click(page, "acknowledge")
    (command,) = page.viewer.sent
    assert (command.action, command.value, command.text) == ("acknowledge", 300.0, ALL_BEFORE)


def test_a_selected_flag_stays_selected_when_it_changes(page):
    page.viewer.event(1, "info", cause="mark", text="Ada: knock")
    page.viewer.event(2, text="sample_late raised: vehicle")
    turn(page)
    page.event_source.selected.indices = [0]
    page.viewer.event(3, "info", cause="mark", text="Ada: again")
    page.viewer.event(4, text="sample_late cleared: vehicle")
    turn(page)
    assert page.event_source.selected.indices == [0]
    assert page.event_source.data["number"] == [4, 3, 1]
    page.viewer.event(5, "info", cause="mark", text="Ada: and again")
    turn(page)
    assert page.event_source.selected.indices == [1]


class Answers:
    """A session that answers at once, as long as it does not get too many commands."""

    def __init__(self, page, good):
        self.page, self.good, self.numbers = page, good, []
        page.source.send = self.send
        page.document.add_next_tick_callback = lambda act: act()

    def send(self, command, answered):
        self.numbers.append(command.value)
        ok = len(self.numbers) <= self.good
        answered(Reply(ok, "yes" if ok else "refused: too many commands"))
        return True


@pytest.mark.parametrize(
    ("good", "said"),
    [
        (40, "✓ 40 of 40 acknowledged"),
        (20, "✕ 20 of 40 acknowledged, then: refused: too many commands"),
    ],
)
def test_all_that_is_selected_is_acknowledged_or_it_is_said(page, good, said):
    for number in range(42):  # the oldest stays as it is
        page.viewer.event(number)
    turn(page)
    session = Answers(page, good)
    page.event_source.selected.indices = list(range(1, 41))
    click(page, "acknowledge")
    assert len(session.numbers) == 1  # others have commands, too
    turn(page, times=20)
    assert sorted(session.numbers) == list(range(41 - len(session.numbers), 41))
    assert len(session.numbers) == min(40, good + 1)
    assert said in page.parts["answer"].text


def test_silence_is_not_taken_for_consent(page, monkeypatch):
    page.viewer.event(1)
    turn(page)
    page.event_source.selected.indices = [0]
    click(page, "acknowledge")
    monkeypatch.setattr("hilrt.web.operator_controls.ANSWER_S", -1.0)
    page.update()
    assert "✕ 0 of 1 acknowledged, then: no answer" in page.parts["answer"].text


class LateAnswers:
    """A session whose answers are given when the test says so."""

    def __init__(self, page):
        self.numbers, self.replies = [], []
        page.source.send = self.send
        page.document.add_next_tick_callback = lambda act: act()

    def send(self, command, answered):
        self.numbers.append(command.value)
        self.replies.append(answered)
        return True


def test_events_acknowledged_before_the_reply_wait_behind_the_others(page):
    session = LateAnswers(page)
    page.control.acknowledge([(1, "a"), (2, "b")])
    page.control.acknowledge([(2, "b"), (3, "c")])
    for _ in range(3):
        session.replies[-1](Reply(True))
        page.update()
    assert session.numbers == [1.0, 2.0, 3.0]
    assert "✓ 3 of 3 acknowledged" in page.parts["answer"].text


def test_a_reply_after_its_time_out_counts_for_no_other_event(page, monkeypatch):
    session = LateAnswers(page)
    page.control.acknowledge([(1, "a"), (2, "b")])
    with monkeypatch.context() as patch:
        patch.setattr("hilrt.web.operator_controls.ANSWER_S", -1.0)
        page.update()
    assert "0 of 2 acknowledged, then: no answer" in page.parts["answer"].text
    page.control.acknowledge([(3, "c"), (4, "d")])
    session.replies[0](Reply(False, "no event 1"))
    session.replies[1](Reply(True))
    page.update()
    assert session.numbers == [1.0, 3.0, 4.0]
    assert "✓ 1 of 2 acknowledged" in page.parts["answer"].text


def test_read_only_session_offers_no_buttons():
    viewer = StillViewer(RUNNING, head=Head(session="s", signals=HEAD.signals))
    source = SharedSession(viewer)
    source.poll()
    page = Page(Document(), source)
    assert all(button.disabled for button in page.control.buttons.values())
    assert "Read-only" in page.parts["answer"].text
    viewer.close()


# -- small parts ---------------------------------------------------------------------------------


def test_histogram_counts_every_value_once():
    values = np.array([0.1, 5.0, 50.0, 55.0, 1e7, np.nan])
    shares = histogram(values)["top"]
    assert shares.sum() == pytest.approx(100.0)
    assert len(histogram(np.array([]))["top"]) == 0


def test_first_signals_that_stay_at_zero_are_left_out_once(page):
    """The torque moves and the speed stays at zero, which nobody may adjust."""
    names = ["engine.torque", "vehicle.engine_speed"]
    page.history.restart(names)
    turn(page)
    assert page.choice.value == names
    for k in range(40):
        data = binary(np.array([float(k), 0.0]))
        values = {"minimum": data, "maximum": data, "last": data}
        until = 0.1 * (k + 1)
        page.history.add(
            Signals(number=k + 1, t_from=until - 0.1, t_until=until, rows=1, lost=0, **values)
        )
        turn(page)
        assert page.choice.value == (names if k < 29 else names[:1])
    page.choice.value = names[1:]  # by hand
    turn(page)
    assert page.choice.value == names[1:]


def test_the_library_shows_no_box_of_its_own_about_a_lost_connection(page):
    """It covered the banner that says how the session ended."""
    assert page.document.config.notifications is None


def test_first_signals_without_bonds():
    assert first_signals(SessionGraph(), ["a", "b", "c", "d", "e"]) == ["a", "b", "c", "d"]


def test_first_signals_are_demand_value_sent_and_measurement():
    point = SetPointPort("engine.speed_demand", "engine.speed")
    topology = msgspec.structs.replace(TOPOLOGY, set_points=[point])
    demanded, sent, measured = "vehicle.engine_speed", "engine.speed_demand:sent", "engine.speed"
    names = ["engine.torque", measured, demanded, sent, "engine.oil"]
    assert first_signals(topology, names) == [demanded, sent, measured, "engine.torque"]


def test_first_signals_are_the_benches_where_no_set_point_is_measured():
    topology = SessionGraph(set_points=[SetPointPort("motor.drive")])
    names = ["calculated.x", "motor.drive", "motor.drive:sent", "motor.speed", "motor.speed:age"]
    assert first_signals(topology, names) == ["motor.drive:sent", "motor.speed"]


def test_slow_browser_gets_fewer_updates_not_older_ones(page):
    for _ in range(10):
        page.update_if_seen()
    (sent,) = page.parts["state"].tags
    assert sent <= 3
    page.viewer.receive(LATE_RAISED)
    page.parts["answer"].tags = [sent]  # the browser's echo
    page.update_if_seen()
    assert "sample late (vehicle)" in page.parts["lamp"].text
