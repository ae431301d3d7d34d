"""A session's life: from the session file to a closed log, whatever happens on the way.

The states, and what leads from one to the next, are drawn in docs/session.md. Every exit path (end,
Ctrl-C, SIGTERM, exception, dead peer) goes through `_close`: benches run their safe profile, every
process that was started ends, every file is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from hilrt.bench.arming import owns_terminal
from hilrt.bench.benches import Benches
from hilrt.check.check import check
from hilrt.check.check_listen import unguarded
from hilrt.config import registry
from hilrt.config.session_file import SessionFile
from hilrt.errors import ConfigError, HilrtError, PeerLost
from hilrt.fmu.unpacked import remove_abandoned_folders
from hilrt.link import Link
from hilrt.master import End, Master
from hilrt.monitor.monitoring import Monitoring
from hilrt.monitor.operator_commands import CommandPort
from hilrt.monitor.session_state import SessionState
from hilrt.monitor.status import StatusPublisher
from hilrt.monitor.telemetry import Telemetry
from hilrt.peers.hub import Hub
from hilrt.peers.keys import VARIABLE, Authenticator, is_local
from hilrt.peers.remote_link import RemoteLink
from hilrt.record import frame_batch
from hilrt.reliability.alarms import STOP, refuse_alarms
from hilrt.session.assembly import (
    Numerics,
    as_fast_as_possible,
    build_numerics,
    initialize,
    real_time,
)
from hilrt.session.event_log import EventLog
from hilrt.session.operation import Operator
from hilrt.session.run import Result, RunOptions, make_folder, route_signals
from hilrt.session.session_log import SessionLog
from hilrt.session.spawn import Children
from hilrt.session.summary import build_summary
from hilrt.session.timing_setup import TimingSetup
from hilrt.timing.clock import monotonic_ns
from hilrt.timing.host import available_cpus, freeze_gc
from hilrt.timing.processor_time import ProcessorTime
from hilrt.timing.realtime import awake
from hilrt.warm_up import warm_up

#: How long children may take to end, s.
STOP_TIMEOUT = 5.0
#: How long after its connection the end of a process may show, s.
PROCESS_END = 0.3
#: Processes that must not delay a tick.
IN_LEFTOVER_TIME = frozenset({"recorder", "view", "relay", "page", "foxglove"})


class Session:
    """One run of a session file. `run` may be called once."""

    def __init__(self, file: SessionFile, options: RunOptions) -> None:
        problems = [p for p in check(file, pace=options.pace) if p.level == "error"]
        if problems:
            raise ConfigError([str(problem) for problem in problems])
        self.file, self.tables, self.options = file, file.tables, options
        self.duration = options.duration or self.tables.session.duration
        self.pace = self.tables.session.pace if options.pace is None else options.pace
        self.name = self.tables.session.name
        self.folder = make_folder(Path(options.out), self.name)
        self.result = Result(self.folder)
        self.master: Master | None = None
        self.links: list[Link] = []
        self.log = SessionLog(file, self.folder, self.links)
        self.interrupted = ""
        self._epoch_ns = 0
        self._closing = False
        self._view_has_keys = False
        self._ends: dict[str, str] = {}  # how subsystems' processes ended by themselves

    @property
    def real_time(self) -> bool:
        """Whether ticks follow the wall clock."""
        return self.pace != "asap"

    async def run(self) -> Result:
        """Run the session to its end and return what is left of it.

        Faults end in the result (exit status 3), an interruption too (130); `ConfigError` and
        programming errors are raised, after everything was closed.
        """
        master = self.tables.master  # its address may be refused: before anything else is opened
        keys = None if master.keys is None else self.file.folder / master.keys
        authenticator = None if keys is None else Authenticator(keys)
        self.keys_for_children = {} if keys is None else {VARIABLE: str(keys)}
        self.hub = Hub(
            self.name,
            master.listen,
            connect_timeout=master.connect_timeout,
            authenticator=authenticator,
        )
        self.monitoring = Monitoring(self.tables.monitor, self.options.web)
        self.frames = self.monitoring.local.get("frames") if self.options.record else ""
        watched = self.options.view or self.real_time or self.monitoring.wanted
        telemetry = Telemetry() if watched else None
        self.publisher = StatusPublisher(
            telemetry,
            self.name,
            self.duration,
            self.monitoring.run,
            self.tables.monitor.adjust,
        )
        self.events = EventLog(self.publisher)
        self.operator = Operator(self.events, self.tables)
        self.benches = Benches(self.links, self.tables, self.events, self.publisher, self.operator)
        task = asyncio.ensure_future(self._run(telemetry))
        self.operator.interrupt = lambda reason: self._interrupt(reason, task)
        with (
            route_signals(lambda reason: self._interrupt(reason, task)),
            self.events.take_log_records(),
            awake(self.real_time and master.pacing.awake) as problem,
        ):
            self._note_host([problem] if problem else [])
            try:
                await task
            except asyncio.CancelledError:
                if not self.interrupted:
                    raise
                self.result.exit_status = 130
        return self.result

    def _interrupt(self, reason: str, task: asyncio.Future[None]) -> None:
        if self.interrupted or self._closing:
            return
        self.interrupted = reason
        if self.master is not None:
            self.master.request_stop(reason)
        else:
            task.cancel()

    async def _run(self, telemetry: Telemetry | None) -> None:
        master = self.tables.master
        self.timing = TimingSetup(master.pacing, master.step, self.real_time)
        self.children = Children(self.folder / "logs", self._child_ended)
        commands: CommandPort | None = None
        alive = asyncio.ensure_future(self.publisher.keep_alive())
        try:
            if telemetry is not None:
                commands = self._start_monitoring(telemetry.address)
            self.timing.shorten_turns()
            self.publisher.announce(self.events.state, "preparing the numerics")
            await asyncio.to_thread(warm_up)
            await self._connect()
            initialized = await initialize(self.links, self.tables)
            self.events.go(SessionState.INITIALIZED, "all subsystems have initialized")
            shadow = self.options.shadow
            numerics = await build_numerics(self.links, self.tables, initialized, shadow)
            refuse_alarms(numerics.plan.alarms, numerics.state.y)
            if self.options.record:
                await self.log.open(
                    numerics,
                    initialized,
                    self.children,
                    cpus=self.timing.cpus_for_children,
                    real_time=self.real_time,
                    tap=self.monitoring.rows,
                    frames=self.frames,
                )
            else:
                self.log.leave_out(numerics)
            self._note_host(await self.timing.take_place())
            await self.benches.bring_up(initialized, numerics, not self._view_has_keys)
            waiting = [child.pid for child in self.children if child.name in IN_LEFTOVER_TIME]
            self.timing.run_in_leftover_time(waiting)
            self._note_host(self.timing.enter_real_time())
            await self._loop(numerics)
        except (HilrtError, OSError) as error:
            if isinstance(error, ConfigError):
                raise
            fault = str(error)
            if isinstance(error, PeerLost):
                await self.benches.secure(fault)  # first: how a process ended can wait
                fault = await self._with_end_of(error.name, fault)
            self.result.fault, self.result.exit_status = fault, 3
            self.events.go(SessionState.FAULT, fault, level="error")
        finally:
            await self._close()
            alive.cancel()
            if commands is not None:
                commands.close()
            self.monitoring.close()
            self.timing.release()
            if telemetry is not None:
                telemetry.close()

    # -- start ------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        self.events.go(SessionState.CONNECTING, "starting subsystems")
        master = self.tables.master
        if master.keys is None and not is_local(master.listen):
            sys.stderr.write(f"warning: {unguarded(master.listen)}\n")
            self.events.note("warning", "session", unguarded(master.listen), "insecure")
        for name, options in self.tables.subsystems.items():
            link: Link = registry.link_class(options.adapter)(name, options, self.file.folder)
            if isinstance(link, RemoteLink):
                self.hub.add(link)
            self.links.append(link)
        environment = {**self.keys_for_children, frame_batch.VARIABLE: self.frames}
        for link in self.links:
            for command in link.commands(self.file):
                self.children.start(
                    command.name,
                    command.argv,
                    cwd=self.file.folder,
                    affinity=self.timing.cpus_for_children,
                    env=environment,
                )
        limit = self.tables.master.connect_timeout
        async with asyncio.timeout(limit + 1.0):
            await _all(link.open() for link in self.links)
        self.duration = min([self.duration, *(link.ends for link in self.links)])

    def _note_host(self, problems: list[str]) -> None:
        for problem in problems:
            self.events.note("warning", "host", problem, "host")
            self.result.warnings.append(problem)

    # -- run --------------------------------------------------------------------------------------

    def _make_master(self, numerics: Numerics) -> Master:
        """The master, and what is told of what it meets."""
        assert self.log.feed is not None
        clock = self.timing.clock
        if clock is None:
            pace = as_fast_as_possible(numerics, self.tables, self.links)
        else:
            factor = self.pace if isinstance(self.pace, (int, float)) else 1.0
            pace = real_time(numerics, self.tables, clock, factor, self._stretched)
        master = Master(*numerics, pace, self.log.feed, self.publisher)
        master.degradation.on_change = self._degraded
        if self.interrupted:
            master.request_stop(self.interrupted)
        return master

    async def _loop(self, numerics: Numerics) -> None:
        """Ticks from the first to the last, benches to rest, and the sum of it all."""
        plan, state, exchange = numerics
        self.master = self.operator.master = master = self._make_master(numerics)
        ahead = 2 * master.pace.step_ns if self.timing.clock is not None else 0
        with freeze_gc() as collect:
            master.collect_garbage = collect
            self._epoch_ns = monotonic_ns() + ahead
            self.hub.epoch_ns = self._epoch_ns
            self.log.begin(
                time.time_ns() + ahead,
                self._epoch_ns,
                duration=self.duration,
                pace=str(self.pace),
                shadow=self.options.shadow,
            )
            self.events.open(master.feed, self._now_ns)
            self.events.go(SessionState.RUNNING, "first tick")
            fault: str | None = None
            lost = ""
            processes = {child.name: child.pid for child in self.children}
            had = ProcessorTime(available_cpus(), {"master": os.getpid(), **processes})
            try:
                end = await master.run(round(self.duration * 1e9), self._epoch_ns)
            except HilrtError as error:
                end, fault = None, str(error)
                lost = error.name if isinstance(error, PeerLost) else ""
                self.events.go(SessionState.SAFE, fault, level="error")
            finally:
                exchange.close()
        began_ns = self._epoch_ns - master.progress.stretched_ns
        wall_s = (monotonic_ns() - began_ns) * 1e-9
        stolen_s = had.stolen() if self.real_time else None
        shares = had.shares()
        fault = await self._bring_down(numerics, master, end, fault, lost)
        self.result.summary = build_summary(
            plan,
            state,
            exchange,
            master.progress,
            session=self.name,
            end_state=str(self.events.state),
            wall_s=wall_s,
            stolen_s=stolen_s,
            processor_share=shares,
            real_time=self.real_time,
            fault=fault,
            dropped_rows=master.feed.dropped,
        )

    # -- end --------------------------------------------------------------------------------------

    async def _bring_down(
        self, numerics: Numerics, master: Master, end: End | None, fault: str | None, lost: str
    ) -> str | None:
        """Benches to rest, in the way that fits how the loop ended; returns the fault, if any."""
        plan, state, exchange = numerics
        if end is End.ALARMED:
            fault = "alarm: " + ", ".join(plan.alarms.ending(state.alarms))
            self.events.go(SessionState.SAFE, fault, level="error")
        if end is End.FINISHED or (end is End.ALARMED and state.alarms.level == STOP):
            unwanted = master.stopping
            self.result.warnings += await self.benches.run_stop_sequence(numerics, unwanted)
        if end is not None and master.stopping():  # in the loop, or in the stop sequence
            self.events.go(
                SessionState.SAFE, self.interrupted or master.stop_requested, level="warning"
            )
            self.result.exit_status = 130
            if self.operator.held:
                await self.benches.hold_safe(master.stop_requested, lambda: self.interrupted)
        await self.benches.secure(fault or self.interrupted or "session finished")
        self.benches.note_reports(exchange)
        unrest = self.benches.unrest()
        if fault is None:  # nobody may take it for an end in order
            fault = "; ".join(unrest) or None
        else:
            self.result.warnings += unrest
        if fault is not None:
            fault = await self._with_end_of(lost, fault)
            self.result.fault, self.result.exit_status = fault, 3
            self.events.go(SessionState.FAULT, fault, level="error")
        else:
            self.events.go(
                SessionState.STOPPED, "benches are at rest" if self.benches.armed else "finished"
            )
        return fault

    async def _close(self) -> None:
        """Whatever happened: benches secured, processes ended, files closed."""
        self._closing = True  # from here on, processes end because they are told to
        try:
            if self.master is None or not self.result.summary:
                reason = self.result.fault or self.interrupted or "session could not start"
                await self.benches.secure(reason)
                self.result.warnings += self.benches.unrest()
            for link in self.links:
                await link.close()
            self.hub.close()
            self._write_summary()
            self.result.warnings += await self.log.end(self.result.summary)
            told = self.result.warnings
            told += [text for text in self.events.untold() if text not in told]
            told += self.events.keep(self.folder / "events.txt")
            self.publisher.repeat()  # the last state with its cause: it stays in view
            await self.children.wait(STOP_TIMEOUT, ["recorder", "view"])
        finally:
            self.result.warnings += await self.children.stop_all(STOP_TIMEOUT)
            remove_abandoned_folders()  # by FMUs whose process crashed or was killed

    def _write_summary(self) -> None:
        if not self.result.summary:
            return
        path, text = self.folder / "summary.json", json.dumps(self.result.summary, indent=1)
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            self.result.warnings.append(f"{path}: cannot be written: {error.strerror}")

    # -- bookkeeping ------------------------------------------------------------------------------

    def _stretched(self, shift_ns: int) -> None:
        """The grid has moved, and so has what benches' clock readings are compared with."""
        self._epoch_ns += shift_ns
        self.hub.epoch_ns += shift_ns
        if self.log.feed is not None:
            self.log.feed.stretched(monotonic_ns(), shift_ns)

    def _degraded(self, degraded: bool, cause: str) -> None:
        if degraded:
            self.events.go(SessionState.DEGRADED, cause, "warning")
        else:
            self.events.go(SessionState.RUNNING, cause)

    def _now_ns(self) -> int:
        """Session time, ns."""
        if self.real_time:
            return max(0, monotonic_ns() - self._epoch_ns)  # the first tick is a little ahead
        return self.master.progress.t_ns if self.master is not None else 0

    def _child_ended(self, name: str, returncode: int) -> None:
        """A process that the session started has ended by itself."""
        child = self.children[name]
        if self._closing or (name in ("view", "page", "relay", "foxglove") and returncode == 0):
            return
        last = "".join(child.tail(1)).strip()
        text = child.describe_exit() + (f": {last}" if last else "")
        for link in self.links:
            if link.name == name and isinstance(link, RemoteLink):
                self._ends[name] = text
                link.gone(f"its process {text}")
                return
        self.events.note("error", name, f"the process {text}", "process_ended")
        self.result.warnings.append(f"{name}: the process {text}")
        if self.events.state not in (
            SessionState.SAFE,
            SessionState.FAULT,
        ):  # their cause stays in view
            self.publisher.announce(str(self.events.state), f"{name} {text}")

    async def _with_end_of(self, name: str, fault: str) -> str:
        """The fault; where only a closed connection was seen, also how the process ended."""
        if "connection closed" not in fault:
            return fault
        await self.children.wait(PROCESS_END, [name])  # the kernel may have to write it down first
        return f"{fault}; its process {self._ends[name]}" if name in self._ends else fault

    def _start_monitoring(self, status: str) -> CommandPort:
        """Terminal view, relay and page, and the socket on which they pass on commands."""
        monitoring, operator = self.monitoring, self.operator
        for line in monitoring.hints():
            sys.stderr.write(f"{line}\n")
        port = CommandPort(monitoring.commands, monitoring.key, operator.obey, operator.refused)
        port.start()
        if self.options.view:
            self._view_has_keys = owns_terminal()
            monitoring.start_view(self.children, status, has_keys=self._view_has_keys)
        monitoring.start(self.children, status, self.tables)
        return port


async def _all(awaitables: Any) -> None:
    """Await all; the first error cancels the rest and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for awaitable in awaitables:
                group.create_task(awaitable)
    except* HilrtError as errors:
        raise errors.exceptions[0] from None


def run_session(file: SessionFile, options: RunOptions | None = None) -> Result:
    """Run a session to its end (blocking).

    Parameters
    ----------
    file : SessionFile
        From `load_session`.
    options : RunOptions, optional

    Returns
    -------
    Result
        With the run's folder and summary. `ConfigError` is raised for a bad session.
    """
    return asyncio.run(Session(file, options or RunOptions()).run())
