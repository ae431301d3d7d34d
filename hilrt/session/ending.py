"""How a session ends, by how its loop ended: benches to rest, the last state, the exit status."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hilrt.errors import HilrtError, PeerLost
from hilrt.exchange.exchange import Exchange
from hilrt.exit_status import ExitStatus
from hilrt.master import End, Master
from hilrt.monitor.session_state import SessionState
from hilrt.reliability.alarms import STOP
from hilrt.reliability.divergence import describe_divergence
from hilrt.reliability.guard import DIVERGED
from hilrt.reliability.ranges import Ranges
from hilrt.session.assembly import Assembled
from hilrt.session.benches import Benches
from hilrt.session.event_log import EventLog
from hilrt.session.operation import Operator
from hilrt.session.processes import Processes
from hilrt.session.result import Result
from hilrt.step.numerics import Numerics


class LoopEnd(NamedTuple):
    """In which way the master's loop ended; or by which fault, and which subsystem was lost."""

    end: End | None
    fault: str | None = None
    lost: str = ""


async def run_loop(
    master: Master, exchange: Exchange, events: EventLog, duration: float, epoch_ns: int
) -> LoopEnd:
    """Tick from session time 0, which is `epoch_ns` on the clock, to `duration` [s] or beyond."""
    try:
        end = await master.run(round(duration * 1e9), epoch_ns)
        ended = LoopEnd(end, value_fault(master.numerics) if end is End.ALARMED else None)
        if end is End.FAULTY:
            ended = LoopEnd(end, master.fault)
    except HilrtError as error:
        ended = _lost(master, exchange, error)
    finally:
        exchange.close()
    if ended.fault is not None:
        events.go(SessionState.SAFE, ended.fault, level="error")
    return ended


def _lost(master: Master, exchange: Exchange, error: HilrtError) -> LoopEnd:
    """A subsystem was lost; of a test sequence, which the stop sequence follows, at which line."""
    if not isinstance(error, PeerLost):
        return LoopEnd(None, str(error))
    exchange.receive_reports()
    master.report_events()
    link = next((link for link in exchange.links if link.name == error.name), None)
    end = End.FAULTY if link is not None and link.stops_in_order else None
    step = exchange.reports.step_of(error.name)
    return LoopEnd(end, f"{error}; its last step: {step}" if step else str(error), error.name)


def own_ends(exchange: Exchange) -> list[str]:
    """Which subsystems have ended the session by the end of their own simulation, and why."""
    return [f"subsystem {name!r}: {reason}" for name, reason in exchange.ended.items()]


def value_fault(numerics: Numerics) -> str:
    """Which alarms, which values that cannot be, or which divergence have ended the loop."""
    state, given = numerics.state, numerics.given
    if state.session[0].alarm_level == DIVERGED:
        return describe_divergence(numerics.network, given)
    alarms = numerics.alarms.ending(state)
    told = [f"alarm: {', '.join(alarms)}"] if alarms else []
    return "; ".join(told + Ranges(numerics.network, numerics.plan).ending(state, given))


class Ending:
    """What follows the last tick.

    Parameters
    ----------
    benches, operator, events, processes
        Of the session.
    result : Result
        Gets fault, exit status and warnings.
    interrupted : callable
        Why a signal or an operator wants the session to end, or "".
    """

    def __init__(
        self,
        benches: Benches,
        operator: Operator,
        events: EventLog,
        processes: Processes,
        result: Result,
        interrupted: Callable[[], str],
    ) -> None:
        self._benches, self._operator, self._events = benches, operator, events
        self._processes, self._result, self._interrupted = processes, result, interrupted

    async def bring_down(self, assembled: Assembled, master: Master, ended: LoopEnd) -> str | None:
        """Benches to rest, in the way that fits how the loop ended; returns the fault, if any."""
        numerics, exchange = assembled
        end, fault, result = ended.end, ended.fault, self._result
        stops = numerics.state.session[0].alarm_level == STOP
        if end is End.FINISHED and self._benches.armed:
            names = ", ".join(link.name for link in self._benches.armed)
            self._events.go(SessionState.STOPPING, f"bringing {names} to rest")
        if end in (End.FINISHED, End.FAULTY) or (end is End.ALARMED and stops):
            unwanted = master.stopping
            result.warnings += await self._benches.run_stop_sequence(assembled, unwanted)
        if end is not None and master.stopping():  # in the loop, or in the stop sequence
            await self._interrupt(master)
        await self._benches.secure(fault or self._interrupted() or "session finished")
        self._benches.note_reports(exchange)
        not_at_rest = self._benches.not_at_rest()
        if fault is None:  # it must not be taken for an end in order
            fault = "; ".join(not_at_rest) or None
        else:
            result.warnings += not_at_rest
        if fault is not None:
            fault = await self._processes.with_end_of(ended.lost, fault)
            result.fail(fault)
            self._events.go(SessionState.FAULT, fault, level="error")
            return fault
        rest = "benches are at rest" if self._benches.armed else "finished"
        self._events.go(SessionState.STOPPED, "; ".join([*own_ends(exchange), rest]))
        return None

    async def _interrupt(self, master: Master) -> None:
        reason = self._interrupted() or master.stop_requested
        self._events.go(SessionState.SAFE, reason, level="warning")
        if self._benches.armed:
            self._benches.secured = f"benches run their safe profile: {reason}"
            self._events.note("warning", "session", self._benches.secured, cause="safe_profile")
        self._result.end_with(ExitStatus.INTERRUPTED)
        self._result.stopped = reason
        if self._operator.held:
            await self._benches.hold_safe(master.stop_requested, self._interrupted)
