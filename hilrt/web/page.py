"""Bokeh models of one client's page, and their updates."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from bokeh.core.validation import silence
from bokeh.core.validation.warnings import EMPTY_LAYOUT
from bokeh.document import Document
from bokeh.events import ConnectionLost, DocumentReady, MouseWheel, PanStart
from bokeh.layouts import column, row
from bokeh.models.callbacks import CustomJS
from bokeh.models.css import InlineStyleSheet
from bokeh.models.filters import AllIndices
from bokeh.models.sources import ColumnDataSource
from bokeh.models.widgets.buttons import Toggle
from bokeh.models.widgets.groups import RadioButtonGroup
from bokeh.models.widgets.inputs import MultiChoice
from bokeh.models.widgets.markups import Div
from bokeh.models.widgets.tables import (
    DataTable,
    HTMLTemplateFormatter,
    NumberFormatter,
    StringFormatter,
    TableColumn,
)
from bokeh.resources import Resources
from bokeh.server.views.static_handler import StaticHandler
from jinja2 import Template

from hilrt.monitor.stream import Head, SessionGraph, SetPointPort
from hilrt.tables.network import OPERATED
from hilrt.web import panels
from hilrt.web.graph import graph_svg
from hilrt.web.operator_controls import AlarmList, OperatorControls, make_button
from hilrt.web.page_access import new_nonce
from hilrt.web.plots import INKS, MAX_SIGNALS, Plots, Timing, ink
from hilrt.web.shared_session import SharedSession, change

FOLDER = Path(__file__).parent
#: Parts of Bokeh's JavaScript that the page uses. By default a server sends all parts; nearly half
#: is for typesetting formulas.
SCRIPTS = Resources(
    mode="server",
    root_url="/",
    path_versioner=StaticHandler.append_version,
    components=["bokeh", "bokeh-gl", "bokeh-widgets", "bokeh-tables"],
).js_files
UPDATE_MS = 100
#: Delay before the figures are created, so that the rest of the page is sent first.
PREPARE_MS = 50
#: Largest number of updates that the browser has not yet confirmed.
AHEAD = 1
#: Time without an echo after which an update is sent anyway, as the browser may be new.
ECHO_S = 1.0
#: Number of updates per update of the page's slower parts.
SLOW = 3
WINDOWS = {"10 s": 10.0, "30 s": 30.0, "2 min": 120.0, "10 min": 600.0}
FIRST_SIGNALS = 4
#: Session time after which first signals that were always zero are no longer plotted, s.
ZEROS_S = 3.0
CHOICES_SHOWN = 40
SIGNALS_TITLE = f"signals (type to search, at most {MAX_SIGNALS})"

#: Two lines per row of the events' table; hovering shows the whole text.
ROW_HEIGHT = 42
WHOLE_TEXT = '<span title="<%- value %>"><%- value %></span>'


class Page:
    """Page of one browser.

    Parameters
    ----------
    document : Document
        Bokeh document of the client.
    source : SharedSession
        The session, shared by all clients.
    """

    def __init__(self, document: Document, source: SharedSession) -> None:
        self.document, self.source = document, source
        self.viewer, self.history = source.viewer, source.history
        self.sheet: Any = InlineStyleSheet(css=(FOLDER / "parts.css").read_text(encoding="utf-8"))
        self.plots = Plots(self.viewer, self.history)
        self.timing: Timing | None = None
        self._beginning = 0
        self._first: list[str] | None = None  # signals chosen by the page, without a choice by hand
        self._turn = 0
        self._ready = False
        self._shown: dict[str, object] = {}
        roots = self._build()
        self.update()
        with document.models.freeze():  # otherwise every addition searches the whole document
            for root in roots:
                document.add_root(root)
        self._sent = self._echoed = 0
        self._sent_at = 0.0
        self._follow_client()
        document.add_periodic_callback(self.update_if_seen, UPDATE_MS)
        document.on_session_destroyed(lambda context: self._release())
        lost = CustomJS(code="connectionLost()")
        document.js_on_event(ConnectionLost, lost)
        # The page has its own banner for a lost connection, which Bokeh's would cover.
        document.config.notifications = None
        document.add_timeout_callback(self._prepare_figures, PREPARE_MS)
        document.on_event(DocumentReady, lambda event: self.draw_figures())
        follow = (FOLDER / "content.js").read_text(encoding="utf-8")
        parts = CustomJS(args={"parts": list(self.parts.values())}, code=follow)
        document.js_on_event(DocumentReady, parts)

    # -- pace ------------------------------------------------------------------------------------

    def _follow_client(self) -> None:
        """Have the browser echo every update; a slow browser gets fewer updates, not older ones."""
        code = "echo.tags = cb_obj.tags"
        sent, echo = self.parts["state"], self.parts["answer"]
        sent.js_on_change("tags", CustomJS(args={"echo": echo}, code=code))
        echo.on_change("tags", lambda attr, old, new: self._receive_echo(new))

    def _receive_echo(self, tags: list[Any]) -> None:
        self._echoed = int(tags[0]) if tags else 0

    def update_if_seen(self) -> None:
        """Call `update` if the browser has shown the last updates."""
        now = time.monotonic()
        waits = self._sent - self._echoed > AHEAD
        if waits and now - self._sent_at < ECHO_S:
            return
        self.update()
        self._sent, self._sent_at = self._sent + 1, now
        self.parts["state"].tags = [self._sent]

    # -- models -----------------------------------------------------------------------------------

    def _build(self) -> list[Any]:
        self.parts = {name: self._div(name) for name in ("lamp", "state", "values", "bonds",
                                                         "peers", "graph", "answer")}  # fmt: skip
        self.timing_area = column(sizing_mode="stretch_width", name="timing")
        show = partial(self._show, "answer")
        self.control = OperatorControls(self.document, self.source, self.sheet, show)
        self.alarms = AlarmList(self.sheet, self.control.acknowledge_alarm)
        areas = [self._plot_area(), self.timing_area, self._events(), self.control.area]
        areas.append(self.alarms.area)
        self.document.title = "hilrt"
        self.document.template = Template((FOLDER / "page.html").read_text(encoding="utf-8"))
        code = "".join((FOLDER / name).read_text("utf-8") for name in ("keys.js", "connection.js"))
        style = (FOLDER / "page.css").read_text("utf-8")
        variables = {"style": style, "scripts": SCRIPTS, "code": code, "nonce": new_nonce()}
        self.document.template_variables.update(variables)
        return [*self.parts.values(), *areas]

    def _div(self, name: str) -> Div:
        return Div(
            name=name, disable_math=True, stylesheets=[self.sheet], sizing_mode="stretch_width"
        )

    def _plot_area(self) -> Any:
        self.choice = MultiChoice(
            name="signals",
            title=SIGNALS_TITLE,
            max_items=MAX_SIGNALS,
            search_option_limit=CHOICES_SHOWN,
            option_limit=CHOICES_SHOWN,
            stylesheets=[self.sheet],
            sizing_mode="stretch_width",
        )
        self.choice.on_change("value", lambda attr, old, new: self._choose())
        self.pause = Toggle(label="Pause", name="pause", stylesheets=[self.sheet], width=90)
        self.pause.on_change("active", lambda attr, old, new: self._pause(new))
        self._stay = CustomJS(args={"pause": self.pause}, code="pause.active = true")
        self.full = Toggle(label="full rate", name="full", stylesheets=[self.sheet], width=90)
        self.full.on_change("active", lambda attr, old, new: self._choose())
        windows = RadioButtonGroup(labels=list(WINDOWS), active=1, stylesheets=[self.sheet])
        windows.on_change(
            "active", lambda attr, old, new: self.plots.show_window(list(WINDOWS.values())[new])
        )
        silence(EMPTY_LAYOUT, True)  # until the signals are known
        self.figures = column(sizing_mode="stretch_width", name="figures")
        self.figures.on_change("tags", lambda attr, old, new: self._paint(new))
        tools = row(self.pause, self.full, windows, sizing_mode="stretch_width")
        tools.styles = {"flex-wrap": "wrap"}
        return column(self.choice, tools, self.figures, sizing_mode="stretch_width", name="plots")

    def _prepare_figures(self) -> None:
        """Create the figures, the slowest part, while the browser loads the page's scripts."""
        if self.timing is None:
            self.timing = Timing(self.viewer, self.history)
            self._paint(self.figures.tags)
            self._choose()

    def draw_figures(self) -> None:
        """Show the figures after the browser has shown everything else."""
        self._prepare_figures()
        assert self.timing is not None
        self._ready = True
        self._echoed = self._sent
        self.timing_area.children = [self.timing.plot]
        self.figures.children = self.plots.figures

    def _events(self) -> Any:
        self.event_source = ColumnDataSource(panels.columns([]))
        self._views = [AllIndices(), AllIndices()]
        self.event_source.tags = list(self._views)  # keeps both in the document
        titles = {"number": "#", "t": "t, s", "level": "level", "text": "what",
                  "acknowledged": "acknowledged by"}  # fmt: skip
        widths = {"number": 44, "t": 64, "level": 90, "text": 340}
        formatters: dict[str, Any] = {
            "number": NumberFormatter(format="0"),
            "text": HTMLTemplateFormatter(template=WHOLE_TEXT),
        }
        self.table = DataTable(
            source=self.event_source,
            columns=[
                TableColumn(
                    field=key,
                    title=title,
                    width=widths.get(key, 110),
                    sortable=False,
                    formatter=formatters.get(key, StringFormatter()),
                )
                for key, title in titles.items()
            ],
            name="table",
            index_position=None,
            height=300,
            row_height=ROW_HEIGHT,
            sizing_mode="stretch_width",
            selectable="checkbox",
            stylesheets=[self.sheet],
        )
        self.alarms_only = Toggle(label="open warnings only", stylesheets=[self.sheet], width=180)
        self.alarms_only.on_change("active", lambda attr, old, new: self._show_events())
        acknowledge = make_button(
            "Acknowledge selected", "acknowledge", self._acknowledge, sheets=[self.sheet]
        )
        tools = row(self.alarms_only, acknowledge, sizing_mode="stretch_width")
        tools.styles = {"flex-wrap": "wrap"}
        return column(tools, self.table, sizing_mode="stretch_width", name="events")

    # -- changes ----------------------------------------------------------------------------------

    def update(self) -> None:
        """Show the current status; update the slower parts once in `SLOW` calls."""
        self._turn += 1
        self._follow_head()
        self._show("lamp", panels.lamp_html(self.viewer))
        change(self.parts["lamp"], tags=[panels.end_in_words(self.viewer)])
        self._show("state", panels.state_html(self.viewer))
        self.plots.update()
        self.control.update()
        if self._turn % SLOW != 1:
            return
        status, head = self.viewer.status, self.viewer.head
        self._show("values", panels.values_html(self.viewer))
        self._show("bonds", panels.bonds_html(status, head))
        self._show("peers", panels.peers_html(self.viewer))
        if head is not None:
            self._show("graph", graph_svg(head.topology, self.viewer.flags))
        self.alarms.update(status, head is not None and "acknowledge" in head.control)
        self._show_events()
        if self.timing is not None:
            self.timing.update()

    def _show(self, name: str, html: str) -> None:
        change(self.parts[name], text=html)

    def _follow_head(self) -> None:
        head = self.viewer.head
        if head is None:
            return
        title = f"{head.session} – hilrt"
        if self.document.title != title:
            self.document.title = title
        if self._beginning != self.history.beginnings and self.history.names:
            self._beginning = self.history.beginnings
            self.pause.active = False  # the paused plots show another session
            names: list[Any] = list(self.history.names)
            same = self.choice.options == names
            chosen = self.choice.value if same else first_signals(head.topology, names)
            self.choice.options = names
            if self.choice.value == chosen:
                self._choose()  # with the same names, nothing else calls it
            self.choice.value = chosen
            self._first = None if same else chosen
        self._leave_zeros(head)

    def _leave_zeros(self, head: Head) -> None:
        """Remove first signals that stay at zero, once, and only if nothing was chosen by hand.

        Signals that an operator may adjust are kept.
        """
        newest = self.history.t.newest(1)
        if self._first is None or not len(newest) or newest[0, 0] < ZEROS_S:
            return
        first, self._first = self._first, None
        if self.choice.value == first:
            named = {name.removeprefix(OPERATED) for name in head.adjustable}
            zeros = self.history.at_zero()
            kept = [name for name in first if name not in zeros or name.partition(":")[0] in named]
            own = [name for name in self.history.names if ":" not in name and name not in zeros]
            self.choice.value = kept or own[:FIRST_SIGNALS] or first

    def _choose(self) -> None:
        if self.timing is None:
            return
        more = len(self.choice.value) - MAX_SIGNALS
        change(self.choice, title=SIGNALS_TITLE if more <= 0 else
               f"signals: the first {MAX_SIGNALS} are plotted, {more} are not")  # fmt: skip
        self.plots.full = self.full.active
        figures = self.plots.choose(list(self.choice.value))
        for plot in figures:  # a zoomed range stays as it is
            plot.js_on_event(PanStart, self._stay)
            plot.js_on_event(MouseWheel, self._stay)
        if self._ready:
            self.figures.children = figures

    def _paint(self, styles: list[Any]) -> None:
        """Apply the page's colours and width, reported by the browser, to drawings on a canvas."""
        colour = INKS.get(str(styles[0]) if styles else "", INKS["light"])
        self.plots.columns = 1 if "narrow" in styles else 2
        self.plots.paint(colour)
        if self.timing is not None:
            ink(self.timing.plot, colour)

    def _pause(self, paused: bool) -> None:
        self.pause.label = "Resume" if paused else "Pause"
        if paused:
            self.plots.pause()
        else:
            self.plots.resume()

    def _show_events(self) -> None:
        rows = panels.event_rows(self.viewer, self.alarms_only.active)
        if self._shown.get("events") != rows:
            self._shown["events"] = rows
            chosen = {self.event_source.data["key"][i] for i in self._selected()}
            self.event_source.data = panels.columns(rows)
            # The table rereads its rows only when its view changes, not when values change. Two
            # views alternate, because browsers never release a view.
            self._views.reverse()
            self.table.view.filter = self._views[0]
            self.event_source.selected.indices = [
                i for i, entry in enumerate(rows) if entry.key in chosen
            ]

    def _selected(self) -> list[int]:
        size = len(self.event_source.data["number"])
        return [i for i in self.event_source.selected.indices if i < size]

    def _acknowledge(self) -> None:
        data = self.event_source.data
        chosen = {int(data["number"][i]): str(data["text"][i]) for i in self._selected()}
        self.event_source.selected.indices = []
        newest = max(chosen, default=0)
        if len(chosen) > 1 and all(n in chosen for n in data["number"] if n <= newest):
            self.control.acknowledge_all(newest)  # including events that no longer have a row
        else:
            self.control.acknowledge(list(chosen.items()))

    def _release(self) -> None:
        self.control.released = True
        self.plots.release()


def first_signals(topology: SessionGraph, names: list[str]) -> list[str]:
    """Initially plotted signals: set-points as demanded, sent and measured, then the first bond.

    Without measured set-points and bonds, the outputs of the benches; without these, the first
    outputs.
    """
    ends = [name for point in topology.set_points for name in _of_set_point(topology, point)]
    ends += [port for bond in topology.bonds[:1] for port in (*bond.effort, bond.flow)]
    if not topology.bonds and not any(point.measured for point in topology.set_points):
        benches = {point.input.partition(".")[0] for point in topology.set_points}
        inputs = {point.input for point in topology.set_points}
        own = [name for name in names if ":" not in name and name.partition(".")[0] in benches]
        ends += [name for name in own if name not in inputs]
    found = [name for name in dict.fromkeys(ends) if name in names]
    return found[:MAX_SIGNALS] or names[:FIRST_SIGNALS]


def _of_set_point(topology: SessionGraph, point: SetPointPort) -> list[str]:
    sources = [wire.source for wire in topology.connections if wire.target == point.input]
    return [*sources, f"{point.input}:sent", point.measured]
