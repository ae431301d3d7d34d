"""Operators' commands to a running session, and their effects.

Commands arrive between two ticks (hilrt/monitor/operator_commands.py). Each becomes an event in the
log with the operator and the result, even if it is refused.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from hilrt.config.structs import Session as SessionTables
from hilrt.monitor.operator_commands import ALL_BEFORE, OperatorCommand, Reply
from hilrt.monitor.session_state import SessionState
from hilrt.session.event_log import EventLog
from hilrt.step.changes import FAULTS
from hilrt.tables.network import OPERATED

if TYPE_CHECKING:
    from hilrt.exchange.master import Master

#: States in which the master's loop runs.
LOOPING = (SessionState.RUNNING, SessionState.IMPAIRED)


class Operator:
    """Execution of operators' commands.

    Parameters
    ----------
    events : EventLog
        Contains the session's state, and records the commands.
    tables : Session
        The session file, which lists the adjustable numbers.

    Attributes
    ----------
    arm, end : asyncio.Event
        Set when an operator arms the benches, and when one ends a session held in its safe state.
    held : bool
        Whether an operator requested the safe state, in which the session waits for `end`.
    in_stop_sequence : bool
        Whether ``[[stop]]`` is running, which `safe` and `stop` cut short.
    master : Master or None
        Set from the first tick on.
    interrupted : str
        Reason why a signal, an operator or a program requested the end; empty if none did.
    strangers : Counter of str
        Commands refused because of their sender: ``wrong_token`` as reported by the relay, and
        ``wrong_key`` if sent past the relay.
    """

    def __init__(self, events: EventLog, tables: SessionTables) -> None:
        self.events = events
        self.adjustable = tables.monitor.adjust
        self.arm, self.end = asyncio.Event(), asyncio.Event()
        self.waits_for_arming = False
        self.held = self.in_stop_sequence = False
        self.master: Master | None = None
        self.interrupted = ""
        self.strangers: Counter[str] = Counter()
        #: Ends a session before its first tick.
        self.interrupt: Callable[[str], None] = lambda reason: None

    def obey(self, command: OperatorCommand) -> Reply:
        """Execute a command and record it."""
        if command.action == "refused":  # reported by the relay
            self.strangers["wrong_token"] += round(command.value)
            cause = "wrong_token" if command.value else "relay"
            self.events.note("warning", "operator", command.text, cause)
            return Reply(True, "noted")
        reply = self._carry_out(command)
        done = reply.text if reply.ok else f"not done: {reply.text}"
        if command.action in ("mark", "acknowledge", "answer"):
            text = f"{command.who}: {done}"
        else:
            text = f"{command.who} asked for {command.action}: {done}"
        cause = command.action if command.action in ("mark", "acknowledge") else "operator"
        self.events.note("info" if reply.ok else "warning", "operator", text, cause)
        return reply

    def refused(self, command: OperatorCommand) -> None:
        """Record a command without the session's key, which does not come from its processes."""
        self.strangers["wrong_key"] += 1
        text = f"a command {command.action} without the session's key was refused"
        self.events.note("warning", "operator", text, "operator")

    def _carry_out(self, command: OperatorCommand) -> Reply:
        if command.action == "mark":
            return Reply(True, command.text or "mark")
        if command.action == "acknowledge":
            return self._acknowledge(command)
        if command.action == "arm":
            return self._arm()
        if command.action == "shadow":
            return self._shadow(command.value != 0.0)
        if command.action == "adjust":
            return self._adjust(command.text, command.value)
        if command.action == "answer":
            return self._answer(command)
        return self._end_loop(command)

    def _acknowledge(self, command: OperatorCommand) -> Reply:
        """Acknowledge an event by its number or, with the number 0, an alarm by its name."""
        if command.value == 0.0:
            if not self.events.acknowledge(command.text, command.who):
                return Reply(False, f"no alarm {command.text!r} was raised")
            return Reply(True, f"acknowledged alarm {command.text}")
        if command.text == ALL_BEFORE:
            for name in self.events.alarms.records:
                self.events.acknowledge(name, command.who)
        return Reply(True, f"acknowledged event {command.value:.0f}: {command.text}")

    def _arm(self) -> Reply:
        if not self.waits_for_arming:
            return Reply(
                False, f"nothing is waiting to be armed; the session is {self.events.state}"
            )
        self.arm.set()
        return Reply(True, "arming the benches")

    def _end_loop(self, command: OperatorCommand) -> Reply:
        """Execute ``safe`` or ``stop``."""
        reason = f"{command.action} by {command.who}"
        hold = command.action == "safe"
        looping = self.events.state in LOOPING or self.in_stop_sequence
        if self.master is not None and looping:
            self.held = hold
            self.master.request_stop(reason)
            return Reply(True, "benches run their safe profile")
        if self.held and not hold:
            self.end.set()
            return Reply(True, "ending the session")
        if self.held:
            return Reply(False, "the session is already safe; stop ends it")
        if self.master is not None:
            return Reply(False, f"the session is already ending; it is {self.events.state}")
        self.interrupt(reason)
        return Reply(True, f"ending the session before its first tick ({self.events.state})")

    def _shadow(self, on: bool) -> Reply:
        if self.master is None:
            return Reply(False, f"corrections only act while it runs; it is {self.events.state}")
        if self.master.numerics.plan.session["shadow"][0]:
            return Reply(False, "this run computes corrections and applies none (--shadow)")
        self.master.numerics.given.session["apply"] = not on
        return Reply(True, "corrections off" if on else "corrections act again")

    def _answer(self, command: OperatorCommand) -> Reply:
        """Answer a prompt of a test sequence, which reports the answer that it accepted."""
        if self.master is None:
            return Reply(False, f"only while it runs; it is {self.events.state}")
        prompts, t = self.events.publisher.prompts, self.master.progress.t_ns / 1e9
        prompt = prompts.find(command.value, t)
        if prompt is None:
            return Reply(False, "that prompt is no longer open")
        if command.text not in prompt.answers:
            known = ", ".join(prompt.answers)
            return Reply(
                False, f"{command.text!r} is not an answer to {prompt.text!r}; one of {known}"
            )
        links = self.master.exchange.links
        link = next(link for link in links if link.name == prompt.sequence)
        asks = link.asks
        if asks is None or not asks.answer(prompts.own_number(prompt), command.text, command.who):
            return Reply(False, f"{prompt.sequence} could not be delivered")
        prompts.close(prompt)
        return Reply(True, f"answers {prompt.text!r} of {prompt.sequence}: {command.text}")

    def _adjust(self, what: str, value: float) -> Reply:
        bounds = self.adjustable.get(what)
        if bounds is None:
            known = ", ".join(self.adjustable) or "nothing"
            return Reply(False, f"{what}: may not be adjusted; [monitor.adjust] lists {known}")
        is_fault = what.startswith(f"{FAULTS}.")
        gives_back = (is_fault or what.startswith(OPERATED)) and math.isnan(value)
        if not gives_back and not bounds.min <= value <= bounds.max:
            return Reply(False, f"{what} = {value:g} is outside {bounds.min:g} … {bounds.max:g}")
        if is_fault and value not in (0.0, 1.0) and not gives_back:
            return Reply(False, f"{what} = {value}: 1 begins a fault, 0 ends it")
        if self.master is None:
            return Reply(False, f"only while it runs; it is {self.events.state}")
        changes = self.master.numerics.changes
        unit = changes.unit_of(what)
        before = _quantity(changes.present_number(self.master.numerics.state, what), unit)
        changes.add(what, value)
        if is_fault:
            does = {1.0: "begins", 0.0: "ends"}.get(
                value, "is returned to its times and conditions"
            )
            return Reply(True, f"fault {what.removeprefix(f'{FAULTS}.')} {does}")
        if gives_back:
            return Reply(True, f"{what} is released, was {before}")
        return Reply(True, f"{what} = {_quantity(value, unit)}, was {before}")


def _quantity(value: float, unit: str) -> str:
    """Format a number with at most six digits; the log has all of them."""
    return f"{value:g} {unit}" if unit else f"{value:g}"
