"""The session's benches: up before the first tick, and down after the last one, whatever it was."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hilrt.config.structs import Session as Tables
from hilrt.errors import HilrtError
from hilrt.expressions.session_program import StartValues
from hilrt.link import Link
from hilrt.monitor.arming import operator_arms
from hilrt.monitor.session_state import SessionState
from hilrt.monitor.status import StatusPublisher
from hilrt.reliability.ranges import Ranges
from hilrt.session.bench_procedure import CutShort, Procedure
from hilrt.session.event_log import EventLog
from hilrt.session.operation import Operator

if TYPE_CHECKING:
    from hilrt.exchange.exchange import Exchange
    from hilrt.session.assembly import Assembled, InitializedSession

#: How often views are told that a waiting session is still there, s.
HOLD_PERIOD = 0.5


class Benches:
    """Enables benches, brings them to where the virtual side starts, and to rest.

    Parameters
    ----------
    links : sequence of Link
        All of the session's.
    tables : Session
        The session file.
    events, publisher
        Where states, notes and announcements go.
    operator : Operator
        May arm, hold the session in its safe state, and end it.

    Attributes
    ----------
    armed : list of Link
        Benches that have been enabled, or are being enabled.
    brought_down : bool
        Whether they have been brought to rest after the last tick.
    secured : str
        That an operator or a signal brought them to their safe profile, and why; else empty.
    """

    def __init__(
        self,
        links: Sequence[Link],
        tables: Tables,
        events: EventLog,
        publisher: StatusPublisher,
        operator: Operator,
    ) -> None:
        self._links, self._tables, self._events = links, tables, events
        self._publisher, self._operator = publisher, operator
        self.armed: list[Link] = []
        self.brought_down, self.secured = False, ""
        self._calculated: StartValues | None = None

    async def bring_up(
        self, initialized: InitializedSession, assembled: Assembled, enter_arms: bool
    ) -> None:
        """Enable the benches and bring them to where the virtual side starts.

        With `enter_arms` an operator who is waited for may press Enter on this terminal.
        """
        tables, links = self._tables, self._links
        if tables.session.arm == "manual" and any(link.physical for link in links):
            self._events.go(
                SessionState.INITIALIZED, "waiting for the operator: press Enter to arm"
            )
            await self._operator_arms(enter_arms)
        procedure = self._procedure(assembled)
        self.armed = [link for link in links if link.physical]
        if tables.start:
            procedure.tell("enabling the benches")
            await procedure.move(initialized.network.u_start)
            await procedure.run(tables.start, initialized.network.u_start, "start")
        for s, link in enumerate(links):
            if link.physical:
                procedure.tell(f"arming {link.name}")
                await procedure.move(initialized.u0, [s])
        await procedure.match(tables.match)
        self.note_reports(assembled.exchange)
        self._events.go(
            SessionState.ARMED, "benches are enabled" if self.armed else "nothing to arm"
        )

    async def hold_safe(self, reason: str, ended: Callable[[], object]) -> None:
        """An operator asked for the safe state: stay in it until one ends the session."""
        await asyncio.gather(*(link.safe(reason) for link in self._links))
        self._publisher.announce(str(SessionState.SAFE), f"{reason}; stop ends the session")
        while not ended() and not self._operator.end.is_set():
            self._publisher.repeat()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._operator.end.wait(), HOLD_PERIOD)

    async def run_stop_sequence(
        self, assembled: Assembled, unwanted: Callable[[], bool]
    ) -> list[str]:
        """The session file's ``[[stop]]``; what failed: the safe profile follows anyway.

        It is cut short when an end is requested, which `unwanted` returns. Alarms act as in the
        start sequence, but for those that are active already: they have had their effect.
        """
        if not self._tables.stop or not self.armed:
            return []
        self._operator.in_stop_sequence = True
        try:
            state = assembled.numerics.state
            procedure = self._procedure(assembled)
            procedure.alarms = procedure.alarms.without(state.alarms["active"] != 0)
            u = state.inputs["polynomial"][:, 0].copy()
            procedure.unwanted = unwanted
            await procedure.hold(u)
            await procedure.run(self._tables.stop, u, "stop")
        except CutShort:
            self._tell("the stop sequence is cut short")
        except HilrtError as error:
            self._events.note("error", "session", f"stop sequence: {error}", "stop_sequence")
            return [f"stop sequence: {error}"]
        finally:
            self._operator.in_stop_sequence = False
        return []

    async def secure(self, reason: str) -> None:
        """Run the safe profile of every bench that was armed, and let every subsystem end."""
        await asyncio.gather(*(link.stop(reason) for link in self._links))

    def not_at_rest(self) -> list[str]:
        """What the links tell, after `secure`, of benches that are not known to be at rest."""
        told = [(link.name, link.not_at_rest) for link in self.armed]
        return [f"bench {name} was NOT brought to rest: {why}" for name, why in told if why]

    def note_reports(self, exchange: Exchange) -> None:
        """Log what the subsystems told while the master's loop did not run."""
        while reports := exchange.reports.take():
            for name, event in reports:
                self._events.note(event.level, name, event.text, event.cause)

    def _procedure(self, assembled: Assembled) -> Procedure:
        numerics, timeout = assembled.numerics, self._tables.master.arm_timeout
        ranges = Ranges(numerics.network, numerics.plan)
        y = numerics.state.outputs["y"]
        procedure = Procedure(self._links, ranges, numerics.alarms, y, timeout, self._tell)
        if self._tables.calculated:
            if self._calculated is None:  # kept for the stop sequence, which must not wait for it
                self._calculated = StartValues(numerics.network, self._tables)
            procedure.calculate = self._calculated.fill
        return procedure

    def _tell(self, text: str) -> None:
        self._publisher.announce(str(self._events.state), text)
        self._events.note("info", "session", text)

    async def _operator_arms(self, enter_arms: bool) -> None:
        """Wait for a command, or for Enter on the terminal."""
        self._operator.waits_for_arming = True
        self._events.changed()
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._operator.arm.wait())]
        if enter_arms:
            waits.append(asyncio.ensure_future(operator_arms()))
        try:
            while True:
                done, _ = await asyncio.wait(
                    waits, timeout=HOLD_PERIOD, return_when=asyncio.FIRST_COMPLETED
                )
                failed = [wait for wait in done if wait.exception() is not None]
                if done and not failed:
                    return
                if failed and "arm" not in self._tables.monitor.control:
                    raise failed[0].exception() or AssertionError
                waits = [wait for wait in waits if wait not in failed]  # a command may still come
                self._publisher.repeat()
        finally:
            self._operator.waits_for_arming = False
            for wait in waits:
                wait.cancel()
