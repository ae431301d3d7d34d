"""Readings of a session that runs inside a program, and delivery of its commands.

The session runs as with `hilrt run`, with its processes, its log and its folder. It has its own
thread and event loop, because the master blocks its loop between two ticks.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hilrt.config.from_toml import nearest
from hilrt.config.session_file import SessionFile, open_session
from hilrt.errors import CommandRefused, SessionFault
from hilrt.monitor.operator_commands import Action, OperatorCommand, Reply
from hilrt.monitor.session_state import SessionState
from hilrt.session.loop_thread import LoopThread
from hilrt.session.result import RunResult
from hilrt.session.run import RunOptions
from hilrt.session.session import SessionRun

if TYPE_CHECKING:
    from hilrt.exchange.master import Master
    from hilrt.step.numerics import Numerics

#: Interval of checks that the program still runs, s.
PROGRAM_S = 0.2
#: Name of the program in the log.
WHO = "program"
_NOT_RUNNING = Reply(False, "the session is not running")


class SessionReadings:
    """Readings of a session, available at any time and from any thread.

    Parameters
    ----------
    session : str, Path or SessionFile
        The session file, or one from `load_session`.
    overrides : mapping, optional
        Values that replace the file's, by ``"table.key"``.
    options : RunOptions, optional

    Attributes
    ----------
    file : SessionFile
        Session file with the overrides applied.

    Raises
    ------
    ConfigError
        For a session with errors.
    """

    def __init__(
        self,
        session: str | Path | SessionFile,
        overrides: Mapping[str, object] | None = None,
        *,
        options: RunOptions | None = None,
    ) -> None:
        self.file = open_session(session, overrides)
        self._run = SessionRun(self.file, options or RunOptions(), self._changed)
        self._ready: Future[None] = Future()
        self._ready.set_running_or_notify_cancel()
        self._thread = LoopThread(self._work, punctual=True)
        self._begun = False

    @property
    def state(self) -> SessionState:
        """State of the session, see docs/session_life.md."""
        opened = self._run.opened
        return SessionState.CONFIGURED if opened is None else opened.events.state

    @property
    def waits_for_arming(self) -> bool:
        """Whether the benches wait for `arm` (``arm = "manual"`` in the session file)."""
        opened = self._run.opened
        return opened is not None and opened.operator.waits_for_arming

    @property
    def ended(self) -> bool:
        """Whether the session has ended: benches at rest, log closed, processes gone."""
        return self._thread.ended.done()

    @property
    def folder(self) -> Path:
        """Folder of the session's files; `CommandRefused` before its start."""
        if self._run.opened is None:
            raise CommandRefused("the session has no folder before its start")
        return self._run.opened.folder

    @property
    def t(self) -> float:
        """Session time of the newest communication point, s; 0 before the first."""
        master = self._master
        return 0.0 if master is None else float(master.numerics.given.session["t"][0])

    @property
    def values(self) -> dict[str, float]:
        """Outputs (``subsystem.port``) and inputs (``subsystem.port:sent``) by their names.

        Values are those of the newest communication point, as in the log's topics ``corrected`` and
        ``sent``; empty before the first.
        """
        numerics = self._numerics
        if numerics is None:
            return {}
        outputs, inputs = numerics.network.outputs.names, numerics.network.inputs.names
        y, u = numerics.state.outputs["y"].copy(), numerics.state.inputs["polynomial"].copy()
        sent = (f"{name}:sent" for name in inputs)
        return dict(zip([*outputs, *sent], [*y.tolist(), *u[:, 0].tolist()], strict=True))

    def __getitem__(self, name: str) -> float:
        """Return one of `values`; KeyError suggests the nearest name."""
        values = self.values
        if name not in values:
            why = nearest(name, values) if values else "; there is none before the first tick"
            raise KeyError(f"no value {name!r}{why}")
        return values[name]

    @property
    def flags(self) -> list[tuple[str, str]]:
        """Raised flags, as (cause, where)."""
        numerics = self._numerics
        if numerics is None:
            return []
        from hilrt.reliability.flags import active_flags

        return active_flags(numerics.checks, numerics.state)

    @property
    def _master(self) -> Master | None:
        opened = self._run.opened
        return None if opened is None else opened.operator.master

    @property
    def _numerics(self) -> Numerics | None:
        master = self._master
        return None if master is None or master.progress.steps == 0 else master.numerics

    async def _work(self) -> RunResult:
        """Run the session in its thread, and watch the program that started it."""
        program = asyncio.ensure_future(self._end_with_program())
        try:
            return await self._run.run()
        finally:
            program.cancel()

    async def _end_with_program(self) -> None:
        while True:
            await asyncio.sleep(PROGRAM_S)
            if not threading.main_thread().is_alive():
                self._run.interrupt("the program has ended")
                return

    def _changed(self) -> None:
        """Notify, from the session's thread, that state or arming has changed."""
        running = self.state in (SessionState.RUNNING, SessionState.IMPAIRED)
        if (running or self.waits_for_arming) and not self._ready.done():
            self._ready.set_result(None)

    def _begin(self) -> None:
        """Start the thread, once; `_ready` is set at the first tick, for arming, or at the end."""
        if self._begun:
            return
        self._begun = True

        def over(_: Future[RunResult]) -> None:
            if not self._ready.done():
                self._ready.set_result(None)

        self._thread.ended.add_done_callback(over)
        self._thread.start()

    def _check_start(self) -> None:
        """Raise the error that prevented the first tick, if any."""
        if self.ended:
            result = self._thread.ended.result()
            if not result.summary:
                raise SessionFault(result.fault or "the session was ended before its first tick")

    def _abandon(self) -> None:
        """End the session, because the program no longer waits for its start."""
        self._thread.call(lambda: self._run.interrupt("the program was interrupted"), None)

    def _command(self, action: Action, text: str = "", value: float = 0.0) -> Future[Reply]:
        command = OperatorCommand(action=action, who=WHO, text=text, value=value)

        def carry_out() -> Reply:
            opened = self._run.opened
            return _NOT_RUNNING if opened is None else opened.operator.obey(command)

        return self._thread.call(carry_out, _NOT_RUNNING)

    def _must_have_begun(self) -> None:
        """Raise `CommandRefused` before the start, as a wait would never end."""
        if not self._begun:
            raise CommandRefused("the session has not been started; use `with`, or call start")

    def _held(self, condition: Callable[[Any], object]) -> bool:
        """Whether the condition holds; `SessionFault` if the session has ended before it held."""
        self._must_have_begun()
        ended = self.ended
        if condition(self):
            return True
        if ended:
            fault = self._thread.ended.result().fault
            raise SessionFault(fault or "the session has ended before the condition held")
        return False
