"""Keys of the terminal view, converted to commands. Reading them never blocks."""

from __future__ import annotations

import contextlib
import getpass
import os
import select
import sys
import time
from collections.abc import Callable, Iterator

from hilrt.monitor.operator_commands import MAX_TEXT, CommandClient, OperatorCommand
from hilrt.monitor.telemetry import PromptStatus, Status, alarm_order, prompt_words

HELP = "keys: Enter arm · s safe · q q stop · h shadow · m note"
ALARM_HELP = f"{HELP} · k acknowledges ▶"
#: Time limit for the second key of a stop, s, and duration for which a reply is shown, s.
CONFIRM_S, SHOWN_S = 3.0, 6.0
#: Time for which a question or an alarm must have been shown before a key acts on it, s: an earlier
#: key may have been meant for the previous one.
READ_S = 0.5
_ENTER, _ERASE, _ESCAPE = "\r\n", "\x7f\x08", "\x1b"


class OperatorKeys:
    """Converter of typed characters to commands, and of their replies to a line of text.

    Parameters
    ----------
    client : CommandClient
    key : str
        Operators' token, or the session's key.
    clock : callable
        Monotonic time, s.

    Attributes
    ----------
    line : str
        Line that the view shows below the session.
    """

    def __init__(
        self, client: CommandClient, key: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client, self._key, self._clock = client, key, clock
        self._who = operator_name()
        self._note: str | None = None
        self._stop_until = self._shown_until = 0.0
        self._answer = ""
        self._prompt: PromptStatus | None = None
        self._asked_at = 0.0
        self._alarm, self._alarm_at = "", 0.0

    @property
    def line(self) -> str:
        """Line with the help, the note being typed, a question or a reply."""
        now = self._clock()
        if self._note is not None:
            return f"note: {self._note}▏ (Enter: keep, Esc: drop)"
        if now < self._stop_until:
            return "stop the session? q again: yes"
        answer = self._answer if now < self._shown_until else ""
        if self._prompt is None:
            return answer or (ALARM_HELP if self._alarm else HELP)
        keys = " · ".join(f"{i} {a}" for i, a in enumerate(self._prompt.answers, 1))
        return " | ".join(filter(None, (f"{keys} | {prompt_words(self._prompt)}", answer)))

    @property
    def editing(self) -> bool:
        """Whether a note is being typed."""
        return self._note is not None

    def type(self, text: str, status: Status | None) -> None:
        """Process typed characters, given the status that is shown."""
        prompt = next(iter(status.prompts), None) if status is not None else None
        if prompt != self._prompt:
            self._prompt, self._asked_at = prompt, self._clock()
        alarms = alarm_order(status) if status is not None else []
        alarm = next((one.name for one in alarms if not one.acknowledged_by), "")
        if alarm != self._alarm:
            self._alarm, self._alarm_at = alarm, self._clock()
        if len(text) > 1 and text.startswith(_ESCAPE):
            return  # an arrow or function key
        for character in text:
            if self._note is not None:
                self._edit(character)
            else:
                self._press(character, status)

    def _edit(self, character: str) -> None:
        note = self._note or ""
        if character in _ENTER:
            self._note = None
            self._send(OperatorCommand(action="mark", text=note))
        elif character == _ESCAPE:
            self._note = None
        elif character in _ERASE:
            self._note = note[:-1]
        elif character.isprintable() and len(note) < MAX_TEXT:
            self._note = note + character

    def _press(self, character: str, status: Status | None) -> None:
        confirmed, self._stop_until = self._clock() < self._stop_until, 0.0
        if character in _ENTER or character == "a":
            self._send(OperatorCommand(action="arm"))
        elif character == "s":
            self._send(OperatorCommand(action="safe"))
        elif character == "h":
            off = status is not None and status.shadow
            self._send(OperatorCommand(action="shadow", value=0.0 if off else 1.0))
        elif character.isdecimal() and self._prompt is not None:
            self._answer_prompt(self._prompt, character)
        elif character == "k" and self._alarm:
            self._acknowledge()
        elif character == "m":
            self._note = ""
        elif character == "q" and confirmed:
            self._send(OperatorCommand(action="stop"))
        elif character == "q":
            self._stop_until = self._clock() + CONFIRM_S

    def _acknowledge(self) -> None:
        """Acknowledge the marked alarm."""
        if self._clock() - self._alarm_at < READ_S:
            self._show("read the alarm first, it is new")
        else:
            self._send(OperatorCommand(action="acknowledge", text=self._alarm))

    def _answer_prompt(self, prompt: PromptStatus, key: str) -> None:
        answers = dict(zip("123456789", prompt.answers, strict=False))
        if self._clock() - self._asked_at < READ_S:
            self._show("read the question first, it is new")
        elif key in answers:
            self._send(OperatorCommand(action="answer", value=prompt.number, text=answers[key]))
        else:
            self._show(f"no answer has the key {key}")

    def _send(self, command: OperatorCommand) -> None:
        command.who, command.key = self._who, self._key
        self._show("sent" if self._client.send(command) else "the session does not respond")

    def show_replies(self) -> None:
        """Show the session's replies."""
        for _, reply in self._client.replies():
            self._show(reply.text if reply.ok else f"not done: {reply.text}")

    def _show(self, text: str) -> None:
        self._answer, self._shown_until = text, self._clock() + SHOWN_S


def operator_name() -> str:
    """Name of this terminal's user, for the log."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "operator"


@contextlib.contextmanager
def typing() -> Iterator[Callable[[], str] | None]:
    """Yield a function that returns the keys typed since its last call; None without a terminal."""
    try:
        import termios
        import tty

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError, AttributeError):  # Windows; a pipe; nothing
        yield None
        return
    except Exception as error:  # termios.error is not an OSError
        if type(error).__name__ != "error":
            raise
        yield None
        return

    def typed() -> str:
        if not select.select([descriptor], [], [], 0)[0]:
            return ""
        return os.read(descriptor, 64).decode("utf-8", "replace")

    try:
        tty.setcbreak(descriptor)
        yield typed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
