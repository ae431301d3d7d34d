"""Result of a session."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from hilrt.errors import ExitStatus, RecordError, gravest
from hilrt.wording import about_errors, alarm_line, number, reason_text, unmet, verdict_of

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from hilrt.expect.outcome import ResultEntry
    from hilrt.record.reader import Log


#: Version of ``summary.json``.
FORMAT: Final = "hilrt-summary-1"
#: Verdicts, from the best to the worst.
VERDICTS: Final = ("good", "unverified", "degraded", "unreliable")
#: Largest log that is read to show a result in a notebook, bytes.
GLANCE_BYTES: Final = 64 << 20
FailOn = Literal["unverified", "degraded", "unreliable"]


@dataclass(repr=False)
class Result:
    """Result of a session.

    Attributes
    ----------
    summary : dict
        Contents of ``summary.json`` (docs/summary.md).
    exit_status : int
        Exit status of the session (docs/session_life.md#exit-paths).
    fault : str or None
        The fault that ended the session, if any.
    warnings : list of str
        Other problems, such as processes that ended unexpectedly or had to be killed.
    stopped : str
        Reason why the session was stopped early (a signal, an operator, a program), or empty.
    """

    summary: dict[str, Any] = field(default_factory=dict)
    exit_status: int = 0
    fault: str | None = None
    warnings: list[str] = field(default_factory=list)
    stopped: str = ""

    def __repr__(self) -> str:
        """Show the most important figures; `summary` contains all."""
        figures: dict[str, Any] = {
            name: self.summary.get(name) for name in ("session", "verdict", "steps", "time_s")
        }
        figures |= {"exit_status": self.exit_status, "fault": self.fault}
        shown = ", ".join(f"{name}={v!r}" for name, v in figures.items() if v is not None)
        return f"{type(self).__name__}({shown})"

    def fail(self, fault: str) -> None:
        """Record that the session ends in a fault."""
        self.fault = fault
        self.end_with(ExitStatus.FAULT)

    def end_with(self, status: ExitStatus) -> None:
        """Set the exit status, unless a more severe one is already set."""
        self.exit_status = int(gravest(self.exit_status, status))

    def lack(self, problems: Iterable[str]) -> None:
        """Record requests that cannot be fulfilled."""
        for problem in problems:
            self.warnings.append(problem)
            self.end_with(ExitStatus.LESS)

    def judge(self, fail_on: FailOn | None) -> None:
        """Count a verdict of `fail_on` or worse as an unfulfilled request."""
        worse = VERDICTS[VERDICTS.index(fail_on) :] if fail_on else ()
        if self.verdict in worse:
            found = verdict_of(self.summary)
            self.lack([f"the verdict is {found}, which fails the run, as requested"])

    @property
    def verdict(self) -> str:
        """One of "good", "unverified", "degraded", "unreliable"; empty if no tick ran."""
        return str(self.summary.get("verdict", ""))

    @property
    def outcomes(self) -> list[ResultEntry]:
        """Outcomes of the expectations of the session file and of sequences."""
        import msgspec

        from hilrt.expect.outcome import ResultEntry

        return msgspec.convert(self.summary.get("results", []), list[ResultEntry])

    def junit_suite(self, name: str) -> Element:
        """Return the results as a ``testsuite`` of JUnit XML."""
        from hilrt.expect.outcome import junit_suite

        time_s = self.summary.get("time_s") or 0.0
        alarms = [alarm_line(alarm) for alarm in self.summary.get("alarms") or ()]
        return junit_suite(name, self.outcomes, time_s, self.fault, alarms)

    def _repr_html_(self) -> str:
        """Show the result in a notebook: verdict with its reasons, alarms, and the main signals."""
        from hilrt.record.notebook import main_signals, signal_table

        lines = [f"<b>{html.escape(str(self.summary.get('session', '')))}</b>: "]
        lines[0] += f"<b>{html.escape(verdict_of(self.summary) or 'no tick ran')}</b>"
        lines[0] += f"; <b>{html.escape(failed)}</b>" if (failed := unmet(self.summary)) else ""
        lines += [html.escape(one) for one in (self.fault, self.stopped, *self.warnings) if one]
        reasons = self.summary.get("reasons") or ()
        lines += [f"• {html.escape(reason_text(reason))}" for reason in reasons]
        if self.summary.get("estimated_error"):
            lines.append(html.escape(about_errors(self.summary)))
        alarms = self.summary.get("alarms") or ()
        lines += [f"alarm {html.escape(alarm_line(alarm))}" for alarm in alarms]
        steps, time_s = self.summary.get("steps"), self.summary.get("time_s")
        if steps:
            lines.append(f"{steps:,} steps over {number(time_s)} s")
        table = ""
        if self._may_show_log():
            with contextlib.suppress(RecordError):
                table = signal_table(self.log, main_signals(self.log))
        return f"<p>{'<br>'.join(lines)}</p>{table}"

    def _may_show_log(self) -> bool:
        """Whether the log is in memory, or small enough to be read for display."""
        return True

    @cached_property
    def log(self) -> Log:
        """Signals and events of the session; `RecordError` if nothing was recorded."""
        raise RecordError(f"this session kept no log{f': {self.fault}' if self.fault else ''}")


@dataclass(repr=False)
class RunResult(Result):
    """Result of `hilrt.run_session`.

    Attributes
    ----------
    folder : Path
        The run's folder with ``session.mcap``, ``summary.json`` and logs of the processes.
    """

    folder: Path = Path()

    @cached_property
    def log(self) -> Log:
        """Content of ``session.mcap``; `RecordError` if there is none."""
        from hilrt.record.reader import load_log

        return load_log(self.folder)

    def _may_show_log(self) -> bool:
        from hilrt.record.messages import FILE_NAME

        file = self.folder / FILE_NAME
        return "log" in self.__dict__ or (file.is_file() and file.stat().st_size < GLANCE_BYTES)
