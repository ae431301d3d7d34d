"""Fields and buttons on the page for operators' commands, and the replies."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bokeh.document import Document
from bokeh.layouts import column, row
from bokeh.models.css import InlineStyleSheet
from bokeh.models.widgets.buttons import Button
from bokeh.models.widgets.inputs import PasswordInput, Select, TextInput
from bokeh.models.widgets.markups import Div

from hilrt.monitor.operator_commands import (
    ALL_BEFORE,
    MAX_TEXT,
    MAX_WHO,
    Action,
    OperatorCommand,
    Reply,
)
from hilrt.monitor.panel import short_names
from hilrt.monitor.stream import Head
from hilrt.monitor.telemetry import (
    AlarmStatus,
    PromptStatus,
    Status,
    alarm_order,
    alarm_words,
    prompt_words,
)
from hilrt.tables.network import OPERATED
from hilrt.web.panels import SHAPES, text
from hilrt.web.shared_session import SharedSession, change

CONFIRM_S = 3.0
#: Longest wait for a reply, s.
ANSWER_S = 5.0
#: Maximum letters of a name in the list of adjustable values; width of the empty list, and per
#: letter, px. The resulting width fits on a phone.
ADJUST_LETTERS, ADJUST_PX, LETTER_PX = 34, 44, 8
#: Word typed instead of a number to release an input.
GIVE_BACK = "back"
READ_ONLY = '<p class="soft">Read-only: the session file allows no control ([monitor] control).</p>'


class OperatorControls:
    """Row of command buttons and fields on one client's page.

    Parameters
    ----------
    document : Document
        The client's Bokeh document.
    source : SharedSession
        Session that the commands are sent to.
    sheet : InlineStyleSheet
    show : callable
        Shows a reply's HTML on the page.

    Attributes
    ----------
    buttons : dict
        Buttons by action.
    released : bool
        Whether the browser has disconnected, so that replies are dropped.
    """

    def __init__(
        self,
        document: Document,
        source: SharedSession,
        sheet: InlineStyleSheet,
        show: Callable[[str], None],
    ) -> None:
        self.released = False
        self._document, self._source, self._show = document, source, show
        self._stop_until = 0.0
        self._waiting: list[tuple[int, str]] = []
        self._asked_for, self._asked_at, self._request = 0, 0.0, 0
        self._sheets: list[Any] = [sheet]
        self._asked: list[PromptStatus] = []
        self._build(self._sheets)

    def _build(self, sheets: list[Any]) -> None:
        # Titles never change: Bokeh would draw the field again, and typed text would be lost.
        self.who = TextInput(
            title="your name", name="who", max_length=MAX_WHO, stylesheets=sheets, width=120
        )
        self.token = PasswordInput(title="token", name="token", stylesheets=sheets, width=120)
        self.note = TextInput(title="note", name="note", stylesheets=sheets, width=190)
        self.what: Any = Select(title="adjust", name="what", stylesheets=sheets, width=210)
        self.value = TextInput(title="to", name="value", stylesheets=sheets, width=120)
        self.bounds = Div(name="bounds", disable_math=True, stylesheets=sheets, align="end")
        texts = (self.who, self.token, self.note, self.value)
        self._typed = {field.name: TypedText(field) for field in texts}
        self.what.on_change("value", lambda attr, old, new: self._typed["value"].put(""))
        button = partial(make_button, sheets=sheets)
        self.stop = button("■ Stop", "stop", self._stop, "danger")
        self.shadow = button("Shadow on", "shadow", self._shadow)
        self.buttons = {
            "arm": button("▶ Arm", "arm", partial(self.ask, "arm"), "primary"),
            "safe": button("▼ Safe", "safe", partial(self.ask, "safe"), "warning"),
            "stop": self.stop,
            "shadow": self.shadow,
            "mark": button("✎ Note", "mark", self._mark),
            "adjust": button("Set", "adjust", self._adjust),
        }
        first = [self.buttons[key] for key in ("arm", "safe", "stop", "shadow")]
        actions = row(self.who, self.token, *first, self.note, self.buttons["mark"])
        self._adjust_row = row(self.what, self.value, self.buttons["adjust"], self.bounds)
        actions.styles = self._adjust_row.styles = {"flex-wrap": "wrap"}
        self.prompts = column(sizing_mode="stretch_width", name="prompts")
        parts = (self.prompts, actions, self._adjust_row)
        self.area = column(*parts, sizing_mode="stretch_width", name="control")

    # -- changes ----------------------------------------------------------------------------------

    def update(self) -> None:
        """Enable the commands that the session now accepts; called at each update of the page."""
        if time.monotonic() > self._stop_until:
            change(self.stop, label="■ Stop")
        self._acknowledge_next()
        status, head = self._source.viewer.status, self._source.viewer.head
        shadow = status is not None and status.shadow
        change(self.shadow, label="Shadow off" if shadow else "Shadow on")
        if head is None:
            return
        allowed = set(head.control)
        for action, button in self.buttons.items():
            change(button, disabled=action not in allowed)
        change(self.area, visible=bool(allowed))
        change(self._adjust_row, visible="adjust" in allowed and bool(head.adjustable))
        self._offer_adjustable(head)
        self._offer_answers(status.prompts if status is not None and "answer" in allowed else [])
        if not allowed:
            self._show(READ_ONLY)

    def _offer_adjustable(self, head: Head) -> None:
        names = list(short_names(head.adjustable, ADJUST_LETTERS).items())
        if self.what.options != names:
            letters = max((len(shown) for _, shown in names), default=0)
            change(self.what, options=names, width=ADJUST_PX + LETTER_PX * letters)
            self.what.value = next(iter(head.adjustable), "")
        if self.what.value in head.adjustable:
            low, high = head.adjustable[self.what.value]
            status = self._source.viewer.status
            now = status.adjustable.get(self.what.value) if status is not None else None
            cut = dict(self.what.options)[self.what.value] != self.what.value
            content = f"{self.what.value}: " if cut else ""
            content += f"from {plain(low)} to {plain(high)}; "
            content += f"now {plain(now)}" if now is not None else "only while the session runs"
            if self.what.value.startswith(OPERATED):
                content += f"; “{GIVE_BACK}” releases it"
            change(self.bounds, text=f'<p class="soft">{text(content)}</p>')

    def _offer_answers(self, waiting: list[PromptStatus]) -> None:
        """Show a row of answer buttons for each waiting question of a test sequence."""
        if waiting == self._asked:
            return
        before = dict(zip((one.number for one in self._asked), self.prompts.children, strict=True))
        self.prompts.children = [before.get(one.number) or self._question(one) for one in waiting]
        self._asked = waiting

    def _question(self, prompt: PromptStatus) -> Any:
        content = f'<p role="alert"><b>{text(prompt_words(prompt))}</b></p>'
        parts: list[Any] = [Div(text=content, disable_math=True, stylesheets=self._sheets)]
        for i, answer in enumerate(prompt.answers, 1):
            act = partial(self.ask, "answer", float(prompt.number), answer)
            name = f"answer-{prompt.number}-{i}"
            parts.append(make_button(answer, name, act, "primary", sheets=self._sheets))
        return row(*parts, styles={"flex-wrap": "wrap"})

    # -- commands ---------------------------------------------------------------------------------

    def ask(self, action: Action, value: float = 0.0, text: str = "") -> None:
        """Send a command, and show its reply when it arrives."""
        self._send(action, value, text, self.answered)

    def _send(
        self, action: Action, value: float, text: str, answered: Callable[[Reply], None]
    ) -> None:
        who, key = self._typed["who"].text.strip() or "page", self._typed["token"].text
        command = OperatorCommand(action=action, who=who, value=value, text=text, key=key)
        if not self._source.send(command, partial(self._answer_later, answered)):
            answered(Reply(False, "commands are not accepted from here"))

    def _answer_later(self, answered: Callable[[Reply], None], reply: Reply) -> None:
        """Schedule the display of a reply, unless the browser has disconnected."""
        if not self.released:
            self._document.add_next_tick_callback(partial(answered, reply))

    def answered(self, reply: Reply) -> None:
        """Show a reply."""
        mark, kind = ("✓", "good") if reply.ok else ("✕", "unreliable")
        self._show(f'<p class="answer {kind}" role="status">{mark} {text(reply.text)}</p>')

    def _stop(self) -> None:
        if time.monotonic() < self._stop_until:
            self._stop_until = 0.0
            self.ask("stop")
            return
        self._stop_until = time.monotonic() + CONFIRM_S
        self.stop.label = "■ Stop: press again"

    def _shadow(self) -> None:
        status = self._source.viewer.status
        self.ask("shadow", value=0.0 if status is not None and status.shadow else 1.0)

    def _mark(self) -> None:
        content = self._typed["note"].text.strip()
        if not content:
            self.answered(Reply(False, "write a note first"))
        elif len(content) > MAX_TEXT:
            reason = f"the note has {len(content)} characters, and at most {MAX_TEXT} are kept"
            self.answered(Reply(False, reason))
        else:
            self._typed["note"].put("")  # a second press must not send it again
            self._send("mark", 0.0, content, partial(self._marked, content))

    def _marked(self, content: str, reply: Reply) -> None:
        if not reply.ok and not self._typed["note"].text:
            self._typed["note"].put(content)
        self.answered(reply)

    def _adjust(self) -> None:
        what, head = str(self.what.value), self._source.viewer.head
        low, high = head.adjustable.get(what, (0.0, 0.0)) if head is not None else (0.0, 0.0)
        if what.startswith(OPERATED) and self._typed["value"].text.strip() == GIVE_BACK:
            self.ask("adjust", value=math.nan, text=what)
            return
        try:
            value = typed_number(self._typed["value"].text, low, high)
        except ValueError as error:
            self.answered(Reply(False, f"{what} is not changed: {error}"))
            # A number out of bounds is also sent, so that the session logs the refusal.
            with contextlib.suppress(ValueError):
                value = typed_number(self._typed["value"].text, -math.inf, math.inf)
                self.ask("adjust", value=value, text=what)
            return
        self.ask("adjust", value=value, text=what)

    # -- events -----------------------------------------------------------------------------------

    def acknowledge(self, events: list[tuple[int, str]]) -> None:
        """Acknowledge events, given as number and text, one after another until one is refused.

        The session accepts twenty commands per second from all operators together. Sending one per
        update leaves room for the Safe button. Events acknowledged meanwhile are queued.
        """
        if not events:
            self.answered(Reply(False, "select events first"))
            return
        if not self._waiting:
            self._asked_for = 0
        added = [event for event in events if event not in self._waiting]
        self._waiting += added
        self._asked_for += len(added)
        self._acknowledge_next()

    def acknowledge_alarm(self, name: str) -> None:
        """Acknowledge an alarm with all its changes so far."""
        self._send("acknowledge", 0.0, name, self.answered)

    def acknowledge_all(self, number: int) -> None:
        """Acknowledge an event and all before it with one command."""
        self._send("acknowledge", number, ALL_BEFORE, self.answered)

    def _acknowledge_next(self) -> None:
        if not self._waiting:
            return
        if self._asked_at:  # the previous request is still in progress
            if time.monotonic() - self._asked_at > ANSWER_S:
                self._acknowledged(self._request, Reply(False, "no answer"))
            return
        self._asked_at = time.monotonic()
        self._request += 1
        number, content = self._waiting[0]
        answered = partial(self._acknowledged, self._request)
        self._send("acknowledge", number, content[:MAX_TEXT], answered)

    def _acknowledged(self, request: int, reply: Reply) -> None:
        if not self._asked_at or request != self._request:  # the reply arrives after its time-out
            return
        self._asked_at = 0.0
        if reply.ok:
            self._waiting.pop(0)
        done = self._asked_for - len(self._waiting)
        if not reply.ok:
            self._waiting = []
            reply.text = f"{done} of {self._asked_for} acknowledged, then: {reply.text}"
        elif self._asked_for > 1:
            reply.text = f"{done} of {self._asked_for} acknowledged"
        self.answered(reply)


def make_button(
    label: str, name: str, act: Callable[[], None], kind: Any = "default", *, sheets: list[Any]
) -> Button:
    """Button that calls a function."""
    button = Button(label=label, name=name, button_type=kind, stylesheets=sheets, align="end")
    button.on_click(act)
    return button


# Text typed into the page's fields is sent exactly as typed, or refused.

#: Numbers in the notation of the session file; a typographic minus is also accepted.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MINUS = "\N{MINUS SIGN}"


class TypedText:
    """Current text of a Bokeh text field.

    The browser reports the text after every key as `value_input`, and as `value` when the field
    loses focus. The newer of the two reports counts, even if it is empty.
    """

    def __init__(self, field: Any) -> None:
        self.text: str = field.value
        self._field = field
        for report in ("value_input", "value"):
            field.on_change(report, lambda attr, old, new: self._take(new))

    def _take(self, text: str) -> None:
        self.text = text

    def put(self, text: str) -> None:
        """Show a different text in the field."""
        self._field.update(value=text, value_input=text)  # setting only one would keep the old text


def typed_number(text: str, low: float, high: float) -> float:
    """Parse a number from `low` to `high`; `ValueError` with the reason otherwise."""
    content = text.strip()
    if not content:
        raise ValueError("give a number")
    if "," in content:
        raise ValueError(f"{content!r} has a comma; write decimals with a point, as in 0.25")
    if not NUMBER.fullmatch(content.replace(MINUS, "-")):
        raise ValueError(f"{content!r} is not a number; write it as 0.25 or 2.5e-1")
    value = float(content.replace(MINUS, "-"))
    if not math.isfinite(value) or not low <= value <= high:
        raise ValueError(f"{content} is outside {plain(low)} … {plain(high)}")
    return value


def plain(value: float) -> str:
    """Number as text, with all digits needed to read it back exactly."""
    return f"{value:.15g}" if float(f"{value:.15g}") == value else repr(value)


#: Number of alarms listed, the most urgent first.
MOST = 12
#: Width that an alarm's text needs beside its button, px; with less, the button goes below it.
LEAST_WIDTH = 230
NONE = '<p class="soft">No alarm has been raised.</p>'


class AlarmList:
    """List of raised alarms on one client's page, the most urgent first.

    A row belongs to an alarm, not to a position in the list, so that its button acknowledges that
    alarm even if the row has moved.

    Parameters
    ----------
    sheet : InlineStyleSheet
    acknowledge : callable
        Called with the name of the alarm to acknowledge.
    """

    def __init__(self, sheet: InlineStyleSheet, acknowledge: Callable[[str], None]) -> None:
        self._sheets: list[Any] = [sheet]
        self._acknowledge = acknowledge
        self._rows: dict[str, Any] = {}
        self._more = self._div()
        self.area = column(self._more, sizing_mode="stretch_width", name="alarms")

    def update(self, status: Status | None, allowed: bool) -> None:
        """Show the alarms of a status; `allowed`: operators may acknowledge them."""
        alarms = alarm_order(status) if status is not None else []
        rows = [self._row(alarm, allowed) for alarm in alarms[:MOST]]
        for name in self._rows.keys() - {alarm.name for alarm in alarms}:  # alarms of another run
            del self._rows[name]
        more = len(alarms) - MOST
        content = NONE if not alarms else f'<p class="soft">and {more} more alarms</p>'
        change(self._more, text=content, visible=not alarms or more > 0)
        change(self.area, children=[*rows, self._more])

    def _row(self, alarm: AlarmStatus, allowed: bool) -> Any:
        if alarm.name not in self._rows:
            act = partial(self._acknowledge, alarm.name)
            button = make_button("Acknowledge", "acknowledge-alarm", act, sheets=self._sheets)
            self._rows[alarm.name] = row(
                self._div(), button, sizing_mode="stretch_width", styles={"flex-wrap": "wrap"}
            )
            self._rows[alarm.name].children[0].min_width = LEAST_WIDTH
        content, button = self._rows[alarm.name].children
        change(button, disabled=not allowed, visible=not alarm.acknowledged_by)
        change(content, text=alarm_html(alarm))
        return self._rows[alarm.name]

    def _div(self) -> Div:
        return Div(disable_math=True, stylesheets=self._sheets, sizing_mode="stretch_width")


def alarm_html(alarm: AlarmStatus) -> str:
    """Alarm as HTML: a shape for its state, its name, and its state in words."""
    kind = "unreliable" if alarm.cleared_t is None else "degraded" if alarm.open else "soft"
    shape = f'<span class="{kind}" aria-hidden="true">{SHAPES.get(kind, "●")}</span>'
    role = ' role="alert"' if alarm.cleared_t is None and not alarm.acknowledged_by else ""
    content = f'<span class="soft">{text(alarm_words(alarm))}</span>'
    return f'<p class="alarm"{role}>{shape} <b>{text(alarm.name)}</b> {content}</p>'
