"""The page's fields and buttons for operators: their commands and the answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bokeh.document import Document
from bokeh.layouts import column, row
from bokeh.models.css import InlineStyleSheet
from bokeh.models.widgets.buttons import Button
from bokeh.models.widgets.inputs import PasswordInput, Select, Spinner, TextInput

from hilrt.monitor.operator_commands import Action, OperatorCommand, Reply
from hilrt.monitor.stream import Head
from hilrt.web.changed_models import change
from hilrt.web.panels import text
from hilrt.web.shared_session import SharedSession

CONFIRM_S = 3.0
#: Time after which an answer is no longer awaited, s.
ANSWER_S = 5.0
#: From one end of an adjustable number to the other by the arrows.
STEPS = 100
READ_ONLY = '<p class="soft">Read-only: the session file allows no control ([monitor] control).</p>'


class OperatorControls:
    """The row of one client's page with the commands.

    Parameters
    ----------
    document : Document
        The client's.
    source : SharedSession
        Takes commands.
    sheet : InlineStyleSheet
    show : callable
        Puts an answer's HTML on the page.

    Attributes
    ----------
    buttons : dict
        By action.
    released : bool
        Whether the browser has disconnected; answers are then dropped.
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
        self._asked_for, self._asked_at = 0, 0.0
        self._build([sheet])

    def _build(self, sheets: list[Any]) -> None:
        self.who = TextInput(title="your name", name="who", stylesheets=sheets, width=120)
        self.token = PasswordInput(title="token", name="token", stylesheets=sheets, width=120)
        self.note = TextInput(title="note", name="note", stylesheets=sheets, width=190)
        self.what: Any = Select(title="adjust", stylesheets=sheets, width=210, visible=False)
        self.what.on_change("value", lambda attr, old, new: self.value.update(value=None))
        self.value = Spinner(title="to", stylesheets=sheets, width=300, visible=False)
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
        adjust = row(self.what, self.value, self.buttons["adjust"])
        actions.styles = adjust.styles = {"flex-wrap": "wrap"}
        self.area = column(actions, adjust, sizing_mode="stretch_width", name="control")

    # -- what changes -----------------------------------------------------------------------------

    def update(self) -> None:
        """Enable the commands that the session takes now; called with every update of the page."""
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
        for model in (self.what, self.value, self.buttons["adjust"]):
            change(model, visible="adjust" in allowed and bool(head.adjustable))
        self._offer_adjustable(head)
        if not allowed:
            self._show(READ_ONLY)

    def _offer_adjustable(self, head: Head) -> None:
        if self.what.options != list(head.adjustable):
            self.what.options = list(head.adjustable)
            self.what.value = next(iter(head.adjustable), "")
        if self.what.value in head.adjustable:
            low, high = head.adjustable[self.what.value]
            status = self._source.viewer.status
            now = status.adjustable.get(self.what.value) if status is not None else None
            title = f"to {low:g} … {high:g}"
            title += f"; now {now:g}" if now is not None else "; only while the session runs"
            change(self.value, title=title, low=low, high=high, step=(high - low) / STEPS or 1.0)

    # -- commands ---------------------------------------------------------------------------------

    def ask(self, action: Action, value: float = 0.0, text: str = "") -> None:
        """Send a command; its answer is shown."""
        self._send(action, value, text, self.answered)

    def _send(
        self, action: Action, value: float, text: str, answered: Callable[[Reply], None]
    ) -> None:
        who = self.who.value_input or self.who.value or "page"
        key = self.token.value_input or self.token.value
        command = OperatorCommand(action=action, who=who, value=value, text=text, key=key)
        if not self._source.send(command, partial(self._answer_later, answered)):
            answered(Reply(False, "commands are not taken from here"))

    def _answer_later(self, answered: Callable[[Reply], None], reply: Reply) -> None:
        """Show an answer in this client's turn, unless its browser has disconnected."""
        if not self.released:
            self._document.add_next_tick_callback(partial(answered, reply))

    def answered(self, reply: Reply) -> None:
        """Show an answer."""
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
        said = (self.note.value_input or self.note.value).strip()
        # Emptying the field does not empty `value_input`, whose text would be sent again.
        self.note.update(value="", value_input="")
        if said:
            self.ask("mark", text=said)
        else:
            self.answered(Reply(False, "write a note first"))

    def _adjust(self) -> None:
        if self.value.value is None:
            self.answered(Reply(False, "give a number"))
            return
        self.ask("adjust", value=float(self.value.value), text=str(self.what.value))

    # -- events -----------------------------------------------------------------------------------

    def acknowledge(self, events: list[tuple[int, str]]) -> None:
        """Acknowledge events, number and text each, one after another until one is refused.

        The session takes twenty commands per second of all operators together: one with every
        update leaves room for the Safe button meanwhile.
        """
        if not events:
            self.answered(Reply(False, "select events first"))
            return
        self._waiting, self._asked_for, self._asked_at = list(events), len(events), 0.0
        self._acknowledge_next()

    def _acknowledge_next(self) -> None:
        if not self._waiting:
            return
        if self._asked_at:  # the one before is still under way
            if time.monotonic() - self._asked_at > ANSWER_S:
                self._acknowledged(Reply(False, "no answer"))
            return
        self._asked_at = time.monotonic()
        number, said = self._waiting[0]
        self._send("acknowledge", number, said, self._acknowledged)

    def _acknowledged(self, reply: Reply) -> None:
        if not self._asked_at:  # the answer arrives after its time-out
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
    """A button that calls a function."""
    button = Button(label=label, name=name, button_type=kind, stylesheets=sheets, align="end")
    button.on_click(act)
    return button
