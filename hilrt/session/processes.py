"""Processes of a session: their start, and the handling of their end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from hilrt.errors import ConfigError
from hilrt.link import Link
from hilrt.monitor.session_state import SessionState
from hilrt.session.child import Child
from hilrt.session.event_log import EventLog
from hilrt.session.monitoring import VIEWS
from hilrt.session.opening import Described
from hilrt.session.placer import GroupHost, Order
from hilrt.session.spawn import (
    KILL_TIMEOUT_S,
    SINGLE_THREAD,
    Children,
    Inherited,
    SolverStart,
)

#: Time limit for children to end, s.
STOP_TIMEOUT: Final = 5.0
#: Waiting time after which the awaited processes are reported, s.
NOTICE: Final = 2.0
#: Longest time between the loss of a connection and the detected end of its process, s.
PROCESS_END: Final = 0.3
#: Time limit for reading the last line of a process's output, s: a disk may not respond.
LAST_LINE: Final = 0.5
#: Processes that can wait and must not delay a tick.
IDLE_PRIORITY: Final = VIEWS | {"recorder"}

#: Consequences of a process's end for users, as text.
AFTERWARDS: Final = {
    "relay": "; from now on viewers show no new data and operators' commands are not received: "
    "Ctrl-C in the session's terminal ends it, with benches at rest"
}


class RecorderSockets(NamedTuple):
    """Addresses of the recorder's sockets.

    Attributes
    ----------
    feed : str
        The master's feed, to which it connects.
    tap : str
        Address at which it forwards the rows to views; empty: it does not.
    frames : str
        Address at which it receives gateways' CAN frames.
    progress : str
        The master's address for reports on the log's progress.
    """

    feed: str
    tap: str
    frames: str
    progress: str


class Processes:
    """Child processes of a session, from their start to their end.

    Parameters
    ----------
    folder : Path
        The run's folder, for their output.
    events : EventLog
        Receives an event for each process that ends by itself.
    warnings : list of str
        Warnings of the result; a text is added for such a process.
    tell_peer : callable
        `Hub.process_ended`: called first when a process has ended; returns False if the process
        belongs to no subsystem.

    Attributes
    ----------
    children : Children
    ending : bool
        Set before the processes are stopped; from then on their ends are not reported.
    """

    def __init__(
        self,
        folder: Path,
        events: EventLog,
        warnings: list[str],
        tell_peer: Callable[[str, int, str], bool],
    ) -> None:
        self._links: Sequence[Link] = ()
        self._placed: list[str] = []
        self._tell_peer = tell_peer
        self._events, self._warnings = events, warnings
        self._ends: dict[str, str] = {}  # how processes ended by themselves, by their names
        self._reports: set[asyncio.Task[None]] = set()
        self.ending = False
        self.children = Children(folder / "logs", self._ended)

    async def start_subsystems(
        self,
        described: Described,
        cpus: Sequence[int],
        keys: Mapping[str, str],
        frames: Mapping[str, str],
        cluster: str | None = None,
    ) -> None:
        """Start the links' processes on the processors `cpus`, groups on a given `cluster`.

        Processes that connect to the master get the environment variables `keys`; those with a bus
        to record also get `frames`, the recorder's address for CAN frames.
        """
        file, self._links, commands = described
        solvers, placed = [], []
        for link, needed in zip(self._links, commands, strict=True):
            for command in needed:
                env = dict(keys) if command.connects else {}
                if command.connects and link.buses:
                    env |= frames
                if cluster is not None and "--group" in command.argv:
                    placed.append(GroupHost(command.name, command.argv, env))
                    continue
                if command.argv[:2] == ["hilrt", "solver"] and not command.takes_lines:
                    solvers.append(SolverStart(command.name, command.argv, env))
                    continue
                child = self.children.start(
                    command.name,
                    command.argv,
                    cwd=file.folder,
                    affinity=cpus,
                    env=env,
                    inherits=Inherited(lines=command.takes_lines),
                )
                if command.takes_lines:
                    link.send_line = child.send_line
                    if link.on_line is not None:
                        child.on_line = link.on_line
        if cluster is not None:
            self._place(cluster, placed, file.folder.absolute(), cpus)
        await self.children.start_solvers(solvers, cwd=file.folder, affinity=cpus)

    def _place(
        self, cluster: str, hosts: Sequence[GroupHost], folder: Path, cpus: Sequence[int]
    ) -> None:
        """Start the groups' processes on a cluster; `ConfigError` if there are none."""
        if not hosts:
            raise ConfigError(
                f"--cluster {cluster}: no group has a process of its own; give one "
                'adapter = "zeromq" and spawn = ["hilrt", "solver", "--group", "SESSION.toml"]'
            )
        self._placed = [host.name for host in hosts]
        logs = str(self.children.log_dir.absolute())
        lines = [Order(cluster, len(hosts), str(folder), logs), *hosts]
        with tempfile.TemporaryFile("w+", encoding="utf-8") as file:  # a pipe's size is limited
            file.writelines(f"{json.dumps(line)}\n" for line in lines)
            file.seek(0)
            argv = [sys.executable, "-P", "-m", "hilrt.session.placer", "--order"]
            child = self.children.start(
                "placer",
                [*argv, str(file.fileno())],
                cwd=folder,
                affinity=cpus,
                nice=5,
                inherits=Inherited(lines=True, descriptors=(file.fileno(),)),
            )
        child.on_line = self._placed_ended

    def _placed_ended(self, line: str) -> None:
        """Handle the placer's line about the end of a process on the cluster."""
        if not self.ending:
            ended = json.loads(line)
            self._notify_end(ended["name"], ended["pid"], ended["text"])

    def start_recorder(
        self, sockets: RecorderSockets, cpus: Sequence[int], environment: Mapping[str, str]
    ) -> None:
        """Start the recorder, which then waits until the session's log is opened."""
        argv = [sys.executable, "-P", "-m", "hilrt.cli.recorder_process"]
        argv += ["--connect", sockets.feed, "--progress", sockets.progress]
        argv += ["--logs", str(self.children.log_dir.absolute())]
        argv += ["--tap", sockets.tap] if sockets.tap else []
        argv += ["--frames", sockets.frames] if any(link.buses for link in self._links) else []
        env = {**SINGLE_THREAD, **environment}
        self.children.start("recorder", argv, affinity=cpus, nice=5, env=env)

    def with_idle_priority(self) -> list[int]:
        """Process numbers of the processes that can wait."""
        return [child.pid for child in self.children if child.name in IDLE_PRIORITY]

    def pids(self) -> dict[str, int]:
        """Process number of each child."""
        return {child.name: child.pid for child in self.children}

    async def with_end_of(self, name: str, fault: str) -> str:
        """Add to a subsystem's fault how its emulator or its process ended, if known."""
        if emulator := self._ends.get(f"{name}.emulator"):
            return fault if emulator in fault else f"{fault}; its emulator {emulator}"
        if "connection closed" not in fault:
            return fault
        await self.children.wait(PROCESS_END, [name])  # the kernel may write a core dump first
        await self.report_ends()
        return f"{fault}; its process {self._ends[name]}" if name in self._ends else fault

    async def report_ends(self) -> None:
        """Wait until every process that has ended by itself is reported."""
        await asyncio.gather(*self._reports)

    def resume_recorder(self) -> None:
        """Resume a suspended recorder (SIGSTOP), which otherwise cannot close the log.

        Gateways are not resumed: one may have been suspended because a person is at the bench.
        """
        self._resume(["recorder"])

    async def end(self, notified: Sequence[str]) -> list[str]:
        """End all processes; return texts about any that remain.

        Those in `notified`, which have been requested to end, get time to do so first.
        """
        try:
            if left := await self.children.wait(NOTICE, notified):
                longest = 2.0 * STOP_TIMEOUT + KILL_TIMEOUT_S - NOTICE
                sys.stderr.write(f"waiting for {', '.join(left)}, at most {longest:g} s more\n")
                await self.children.wait(STOP_TIMEOUT - NOTICE, notified)
        finally:
            # A suspended solver (SIGSTOP) would not react to SIGTERM.
            self._resume([link.name for link in self._links if not link.physical])
            problems = await self.children.stop(STOP_TIMEOUT)
        return problems

    def _resume(self, names: Sequence[str]) -> None:
        """Resume processes that were suspended (SIGSTOP); Windows has none."""
        if hasattr(signal, "SIGCONT"):
            for child in self.children:
                if child.name in names:
                    child.signal(signal.SIGCONT)

    def recorder_failure(self) -> list[str]:
        """Texts about the failure of a recorder that has ended; empty if the log is complete."""
        child = self.children["recorder"]
        if child.returncode == 0:
            return []
        how = f"the process {child.describe_exit()}"
        last = child.tail(1).strip().removeprefix("recorder: ")
        if last and (child.returncode or 0) > 0:
            how = last
        return [f"recorder: the log is incomplete: {how}"]

    def _ended(self, name: str, returncode: int) -> None:
        """Handle the end of a process."""
        if not self.ending and not (name in VIEWS and returncode == 0):
            report = asyncio.ensure_future(self._report(self.children[name]))
            self._reports.add(report)
            report.add_done_callback(self._reports.discard)

    async def _report(self, child: Child) -> None:
        """Report how a process ended, while a thread reads its output."""
        name, last = child.name, ""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_LINE):
                last = await asyncio.to_thread(child.last_words)
        output = f": {last} (all of its output: {child.log})" if last else ""
        text = child.describe_exit() + output + AFTERWARDS.get(name, "")
        warn = name != "recorder" or not child.returncode  # otherwise see `recorder_failure`
        self._notify_end(name, child.pid, text, warn)

    def _notify_end(self, name: str, pid: int, text: str, warn: bool = True) -> None:
        """Notify a process's subsystem of its end, or the session if it has none."""
        self._ends[name] = text
        for placed in self._placed if name == "placer" else ():
            self._tell_peer(f"{placed}.placer", pid, text)  # it may not have been started yet
        if self._tell_peer(name, pid, text):
            return
        self._events.note("error", name, f"the process {text}", "process_ended")
        if warn:
            self._warnings.append(f"{name}: the process {text}")
        if self._events.state not in (SessionState.SAFE, SessionState.FAULT):  # keep their cause
            self._events.publisher.announce(str(self._events.state), f"{name} {text}")
