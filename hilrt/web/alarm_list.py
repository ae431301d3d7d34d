"""The page's list of alarms: the state of each, and a button that acknowledges it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from bokeh.layouts import column, row
from bokeh.models.css import InlineStyleSheet
from bokeh.models.widgets.markups import Div

from hilrt.monitor.telemetry import AlarmStatus, Status, alarm_order, alarm_words
from hilrt.web.operator_controls import make_button
from hilrt.web.panels import SHAPES, text
from hilrt.web.shared_session import change

#: Alarms that are listed; the most urgent.
MOST = 12
#: Room that the words of an alarm take beside its button, px; with less it goes below them.
LEAST_WIDTH = 230
NONE = '<p class="soft">No alarm has come up.</p>'


class AlarmList:
    """One client's list of the alarms that came up, the most urgent first.

    A row belongs to an alarm, not to a place in the list: its button acknowledges that alarm,
    wherever the row has moved meanwhile.

    Parameters
    ----------
    sheet : InlineStyleSheet
    acknowledge : callable
        Takes the name of the alarm to acknowledge.
    """

    def __init__(self, sheet: InlineStyleSheet, acknowledge: Callable[[str], None]) -> None:
        self._sheets: list[Any] = [sheet]
        self._acknowledge = acknowledge
        self._rows: dict[str, Any] = {}
        self._more = self._div()
        self.area = column(self._more, sizing_mode="stretch_width", name="alarms")

    def update(self, status: Status | None, allowed: bool) -> None:
        """Show the alarms of a status; `allowed`: whether operators may acknowledge them."""
        alarms = alarm_order(status) if status is not None else []
        rows = [self._row(alarm, allowed) for alarm in alarms[:MOST]]
        for name in self._rows.keys() - {alarm.name for alarm in alarms}:  # of another run
            del self._rows[name]
        more = len(alarms) - MOST
        said = NONE if not alarms else f'<p class="soft">and {more} more alarms</p>'
        change(self._more, text=said, visible=not alarms or more > 0)
        change(self.area, children=[*rows, self._more])

    def _row(self, alarm: AlarmStatus, allowed: bool) -> Any:
        if alarm.name not in self._rows:
            act = partial(self._acknowledge, alarm.name)
            button = make_button("Acknowledge", "acknowledge-alarm", act, sheets=self._sheets)
            self._rows[alarm.name] = row(
                self._div(), button, sizing_mode="stretch_width", styles={"flex-wrap": "wrap"}
            )
            self._rows[alarm.name].children[0].min_width = LEAST_WIDTH
        said, button = self._rows[alarm.name].children
        change(button, disabled=not allowed, visible=not alarm.acknowledged_by)
        change(said, text=alarm_html(alarm))
        return self._rows[alarm.name]

    def _div(self) -> Div:
        return Div(disable_math=True, stylesheets=self._sheets, sizing_mode="stretch_width")


def alarm_html(alarm: AlarmStatus) -> str:
    """State of an alarm in a shape, its name and words."""
    kind = "unreliable" if alarm.cleared_t is None else "degraded" if alarm.open else "soft"
    shape = f'<span class="{kind}" aria-hidden="true">{SHAPES.get(kind, "●")}</span>'
    role = ' role="alert"' if alarm.cleared_t is None and not alarm.acknowledged_by else ""
    said = f'<span class="soft">{text(alarm_words(alarm))}</span>'
    return f'<p class="alarm"{role}>{shape} <b>{text(alarm.name)}</b> {said}</p>'
