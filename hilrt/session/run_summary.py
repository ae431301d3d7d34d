"""The summary of a run, even if it ends before its first tick."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hilrt.errors import ExitStatus
from hilrt.files.formats import json_bytes
from hilrt.session.opened import Opened
from hilrt.session.result import FORMAT
from hilrt.timing.host import NO_USE, ProcessorTime, available_cpus, host_report
from hilrt.timing.monotonic import monotonic_ns

if TYPE_CHECKING:
    from hilrt.session.benches import Benches
    from hilrt.session.ending import Prepared


class RunSummary:
    """Summary of a session: puts it into the result, and writes it.

    Parameters
    ----------
    opened : Opened
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._steps: StepSummary | None = None

    def begin(self, prepared: Prepared, benches: Benches) -> StepSummary:
        """Start collecting facts, at the first tick."""
        self._steps = StepSummary(self._opened, prepared, benches)
        return self._steps

    def make(self, losses: Sequence[str] = ()) -> None:
        """Put the facts about the steps, and `losses` of the log, into the result.

        An exception here must not prevent the rest of the session's end.
        """
        result = self._opened.result
        if self._steps is not None:
            try:
                self._steps.make()
            except Exception as error:
                text = f"summary.json lacks its figures: {type(error).__name__}: {error}"
                result.lack([text])
                result.end_with(ExitStatus.INTERNAL)
        if result.summary and losses:
            summary, word = result.summary, result.verdict
            summary["verdict"] = "degraded" if word in ("good", "unverified") else word
            summary["reasons"] = [*summary["reasons"], *losses]
            summary["evidence_lacking"] = False

    def write(self) -> None:
        """Write the known facts, unless unchanged since the last time."""
        file, result = self._opened.summary_file, self._opened.result
        try:
            file.write(json_bytes(result.summary or self._without_steps()))
        except OSError as error:
            text = f"{file.path}: cannot be written: {error.strerror}"
            if text not in result.warnings:
                result.lack([text])

    def _without_steps(self) -> dict[str, Any]:
        """Summary of a session that ended before its first tick."""
        opened, host = self._opened, host_report()
        reason = opened.result.fault or opened.operator.interrupted or "the session could not start"
        return {
            "format": FORMAT,
            "session": opened.tables.session.name,
            **opened.file.origin,
            "state": str(opened.events.state),
            "steps": 0,
            "time_s": 0.0,
            "verdict": "unreliable",
            "reasons": [f"no step was made: {reason}"],
            "evidence_lacking": False,
            "versions": host.pop("versions"),
            "host": host,
        }


class StepSummary:
    """Facts about a run, collected from its first tick on; see `RunSummary.begin`."""

    def __init__(self, opened: Opened, prepared: Prepared, benches: Benches) -> None:
        self._opened, self._prepared, self._benches = opened, prepared, benches
        host_report()  # caches its result, as no descriptor may be free at the end
        pids = {"master": os.getpid(), **opened.processes.pids()}
        self._had = ProcessorTime(available_cpus(), pids)
        self._wall_s: float | None = None
        self._host_use = NO_USE

    def loop_ended(self) -> None:
        """Stop counting time and processor use, after the last tick."""
        opened = self._opened
        began_ns = opened.hub.epoch_ns - self._prepared.master.progress.stretched_ns
        self._wall_s = (monotonic_ns() - began_ns) * 1e-9
        self._host_use = self._had.use(opened.real_time)

    def make(self) -> None:
        """Put the current summary into the result."""
        from hilrt.session.ending import summarise  # with the numerics, as the steps

        if self._wall_s is None:
            self.loop_ended()
        opened = self._opened
        summarise(
            self._prepared,
            opened.result,
            self._wall_s or 0.0,
            real_time=opened.real_time,
            secured=self._benches.secured,
            host_use=self._host_use,
            strangers={**opened.hub.protocol.unused.strangers(), **opened.operator.strangers},
        )
