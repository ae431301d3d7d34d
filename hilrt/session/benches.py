"""The session's benches: enable them before the first tick, bring them to rest after the last."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hilrt.config.structs import Match, Step
from hilrt.config.structs import Session as Tables
from hilrt.config.units import conversion
from hilrt.errors import HilrtError, PeerLost, SessionFault
from hilrt.expressions.session_program import ChannelValues
from hilrt.link import Link
from hilrt.monitor.session_state import SessionState, operator_arms
from hilrt.monitor.status import StatusPublisher
from hilrt.reliability.alarms import Ranges
from hilrt.session.event_log import EventLog
from hilrt.session.operation import Operator
from hilrt.solver import Floats
from hilrt.timing.monotonic import monotonic_ns

if TYPE_CHECKING:
    from hilrt.exchange.exchange import Exchange
    from hilrt.reliability.alarms import AlarmNames
    from hilrt.session.assembly import Assembled
    from hilrt.session.initialization import InitializedSession

#: Interval of status messages to views while a session waits, s.
HOLD_PERIOD = 0.5


class Benches:
    """The benches of a session, from enabling to rest.

    Parameters
    ----------
    links : sequence of Link
        All links of the session.
    tables : Session
        The session file.
    events, publisher
        Receive states, notes and announcements.
    operator : Operator
        Can arm the benches, hold the session in its safe state, and end it.

    Attributes
    ----------
    armed : list of Link
        Benches that are enabled or being enabled.
    brought_down : bool
        Whether they were brought to rest after the last tick.
    secured : str
        Reason why an operator or a signal requested their safe profile; empty if none did.
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
        self._calculated: ChannelValues | None = None

    async def bring_up(
        self, initialized: InitializedSession, assembled: Assembled, enter_arms: bool
    ) -> None:
        """Enable the benches and move them to the virtual side's start values.

        With `enter_arms` an operator may also arm by pressing Enter on this terminal.
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
            procedure.report("enabling the benches")
            await procedure.move(initialized.network.u_start)
            await procedure.run(tables.start, initialized.network.u_start, "start")
        for s, link in enumerate(links):
            if link.physical:
                procedure.report(f"arming {link.name}")
                await procedure.move(initialized.u0, [s])
        await procedure.match(tables.match)
        self.note_reports(assembled.exchange)
        self._events.go(
            SessionState.ARMED, "benches are enabled" if self.armed else "nothing to arm"
        )

    async def hold_safe(self, reason: str, ended: Callable[[], object]) -> None:
        """Stay in the safe state, as requested by an operator, until the session is ended."""
        await asyncio.gather(*(link.safe(reason) for link in self._links))
        self._publisher.announce(str(SessionState.SAFE), f"{reason}; stop ends the session")
        while not ended() and not self._operator.end.is_set():
            self._publisher.repeat()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._operator.end.wait(), HOLD_PERIOD)

    async def run_stop_sequence(
        self, assembled: Assembled, unwanted: Callable[[], bool]
    ) -> list[str]:
        """Run the session file's ``[[stop]]``; return failures, as the safe profile follows anyway.

        It is cut short when `unwanted` returns that an end is requested. Alarms act as in the start
        sequence, except for those already active, which have had their effect.
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
            self._report("the stop sequence was cut short")
        except HilrtError as error:
            self._events.note("error", "session", f"stop sequence: {error}", "stop_sequence")
            return [f"stop sequence: {error}"]
        finally:
            self._operator.in_stop_sequence = False
        return []

    async def secure(self, reason: str) -> None:
        """Run the safe profile of every armed bench, and stop every subsystem."""
        await asyncio.gather(*(link.stop(reason) for link in self._links))

    def not_at_rest(self) -> list[str]:
        """Messages about benches that may not be at rest after `secure`."""
        moving = [(link.name, link.not_at_rest) for link in self.armed]
        return [f"bench {name} was NOT brought to rest: {why}" for name, why in moving if why]

    def note_reports(self, exchange: Exchange) -> None:
        """Log reports that subsystems sent before the master's loop started."""
        while reports := exchange.reports.take():
            for name, event in reports:
                self._events.note(event.level, name, event.text, event.cause)

    def _procedure(self, assembled: Assembled) -> Procedure:
        numerics, timeout = assembled.numerics, self._tables.master.arm_timeout
        ranges = Ranges(numerics.network, numerics.plan)
        y = numerics.state.outputs["y"]
        procedure = Procedure(self._links, ranges, numerics.alarms, y, timeout, self._report)
        if self._tables.calculated:
            if self._calculated is None:  # cached, so that the stop sequence does not wait for it
                self._calculated = ChannelValues(numerics.network, self._tables)
            procedure.calculate = self._calculated.fill
        return procedure

    def _report(self, text: str) -> None:
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
                waits = [wait for wait in waits if wait not in failed]  # a command can still arrive
                self._publisher.repeat()
        finally:
            self._operator.waits_for_arming = False
            for wait in waits:
                wait.cancel()


# Work with benches before and after the ticks: sequences, and matching the two sides.
#
# Each step moves set-points through the gateway's own ramps and limits (`Link.arm`) and waits for a
# condition on a measured value. Alarms that end sessions also act here, and the gateway's guard
# stays active; any failure leads to the safe profile, as everywhere.

#: Interval of checks of measured values, s.
POLL_S = 0.01


class CutShort(HilrtError):
    """The safe profile is requested during a sequence, and the rest of the sequence is dropped."""


class Procedure:
    """Moves of benches, and waiting for them, while no ticks run.

    Parameters
    ----------
    links : sequence of Link
        All links of the session.
    ranges : Ranges
        Declared ranges of the outputs.
    alarms : AlarmNames
    y : ndarray, shape (ny,)
        Last known outputs; those of the benches are kept up to date.
    timeout : float
        Time limit for one move of one bench, s.
    report : callable
        Called with progress messages.

    Attributes
    ----------
    unwanted : callable
        Returns whether an end has been requested; `CutShort` is raised at the next check.
    calculate : callable
        Writes the calculated channels into outputs, shape (ny,).
    """

    def __init__(
        self,
        links: Sequence[Link],
        ranges: Ranges,
        alarms: AlarmNames,
        y: Floats,
        timeout: float,
        report: Callable[[str], None],
    ) -> None:
        self.links, self.ranges, self.alarms = links, ranges, alarms
        self.network = ranges.network
        self.y, self.timeout, self.report = y.copy(), timeout, report
        self.benches = [s for s, link in enumerate(links) if link.physical]
        self.unwanted: Callable[[], bool] = lambda: False
        self.calculate: Callable[[Floats], None] = lambda y: None

    def measure(self) -> Floats:
        """Newest outputs, shape (ny,); `SessionFault` if an output or a bench ends the session.

        Alarms are evaluated on the measured value, even outside its declared range.
        """
        if self.unwanted():
            raise CutShort("cut short")
        for s in self.benches:
            link = self.links[s]
            link.receive()  # raises if the bench was lost, or secured by its gateway
            if link.latest is not None:
                self.y[self.network.outputs.slices[s]] = link.latest
        self.calculate(self.y)
        if reasons := self.alarms.outside(dict(enumerate(self.y.tolist()))):
            raise SessionFault(f"alarm: {', '.join(reasons)}")
        if reasons := self.ranges.brings_down(self.y):
            raise SessionFault("; ".join(reasons))
        return self.y

    async def move(self, u: Floats, only: Sequence[int] | None = None) -> None:
        """Move the inputs of all benches, or `only` some, to `u`, shape (nu,), one by one."""
        for s in self.benches if only is None else only:
            await self._arm([s], u)

    async def hold(self, u: Floats) -> None:
        """Hold all benches at `u`, shape (nu,), after the last tick.

        All receive the command at once, because a gateway that no longer receives ticks assumes
        the loss of the master.
        """
        await self._arm(self.benches, u)

    async def _arm(self, benches: Sequence[int], u: Floats) -> None:
        """Move the inputs of benches to `u` at once, while checking alarms and all benches."""
        arming = {
            asyncio.ensure_future(self.links[s].arm(u[self.network.inputs.slices[s]])): s
            for s in benches
        }
        try:
            async with asyncio.timeout(self.timeout):
                pending = set(arming)
                while pending:
                    self.measure()
                    done, pending = await asyncio.wait(pending, timeout=POLL_S)
                    for task in done:
                        task.result()  # raises its failure, if any
        except TimeoutError:
            late = [s for task, s in arming.items() if not task.done()] or benches
            raise PeerLost(
                self.links[late[0]].name,
                f"could not be armed within {self.timeout:g} s (master.arm_timeout)",
            ) from None
        finally:
            for task in arming:
                task.cancel()
            await asyncio.gather(*arming, return_exceptions=True)
        self.measure()

    async def run(self, steps: Sequence[Step], u: Floats, kind: str) -> None:
        """Run a sequence from the set-points `u`, shape (nu,); `kind` is "start" or "stop"."""
        u = u.copy()
        for i, step in enumerate(steps):
            self.report(f"{kind} step {i}" + (f": {step.name}" if step.name else ""))
            moved = set()
            for name, value in step.ramp.items():
                part, _ = self.network.inputs.ports[name]
                u[part] = value
                moved.add(int(self.network.inputs.owner[part.start]))
            await self.move(u, sorted(moved))
            if step.wait is not None:
                low = float("-inf") if step.min is None else step.min
                high = float("inf") if step.max is None else step.max
                where = f"{kind} step {i} {step.name}".strip()
                await self._until(where, step.wait, low, high, step.hold, step.timeout)

    async def match(self, matches: Sequence[Match]) -> None:
        """Wait until each measured value matches the virtual side."""
        for match in matches:
            target = match.to
            if isinstance(target, str):
                part, port = self.network.outputs.ports[target]
                _, measured = self.network.outputs.ports[match.signal]
                factor, offset = conversion(port.unit, measured.unit)
                target = factor * float(self.y[part.start]) + offset
            self.report(f"bringing {match.signal} to {target:g}")
            low, high = target - match.tolerance, target + match.tolerance
            await self._until("match", match.signal, low, high, match.hold, match.timeout)

    async def _until(
        self, where: str, signal: str, low: float, high: float, hold: float, timeout: float
    ) -> None:
        """Wait until `signal` has been within `low` and `high` for `hold` [s].

        A value outside its declared range that is not used counts as outside.
        """
        part, _ = self.network.outputs.ports[signal]
        begun = inside_since = monotonic_ns()
        while True:
            value, now = float(self.measure()[part.start]), monotonic_ns()
            withheld = self.ranges.withheld(self.y)[part.start]
            if withheld or not low <= value <= high:
                inside_since = now
            elif now - inside_since >= hold * 1e9:
                return
            if now - begun > timeout * 1e9:
                raise SessionFault(
                    f"{where}: {signal} is {value:g}, and was not from {low:g} to {high:g} for "
                    f"{hold:g} s within {timeout:g} s"
                )
            await asyncio.sleep(POLL_S)
