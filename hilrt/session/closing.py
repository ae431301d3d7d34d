"""The end of a session, whatever led to it: benches at rest, whole files, no process left.

What is to be done is on one stack, on which each stage puts its own: the last one is done first.
Each is done, whatever the ones before it came to; an error is raised after the last.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from hilrt.isolation.temporary_folder import remove_abandoned_folders
from hilrt.monitor.session_state import SessionState
from hilrt.session.benches import Benches
from hilrt.session.opened import Opened
from hilrt.session.opening import Described
from hilrt.session.run_summary import RunSummary


def close_opened(
    undo: AsyncExitStack, opened: Opened, summary: RunSummary, alive: asyncio.Future[None]
) -> None:
    """Put the end of the log, of the processes and of all parts on the stack.

    `alive` repeats announcements until it is cancelled.
    """
    undo.callback(opened.timing.release)
    undo.callback(opened.monitoring.close)
    undo.callback(alive.cancel)
    undo.callback(summary.write)
    undo.push_async_callback(_end_processes, opened, summary)
    undo.callback(summary.write)
    undo.push_async_callback(_end_log, opened, summary)
    undo.callback(opened.hub.close)


def close_described(
    undo: AsyncExitStack, opened: Opened, described: Described, benches: Benches
) -> None:
    """Put the end of the subsystems on the stack: first benches to their safe profile."""
    for link in described.links:
        undo.push_async_callback(link.close)
    undo.push_async_callback(_secure, opened, benches)


async def _secure(opened: Opened, benches: Benches) -> None:
    result = opened.result
    if not benches.brought_down:
        reason = result.fault or opened.operator.interrupted or "session could not start"
        await benches.secure(reason)
        result.warnings += benches.not_at_rest()


async def _end_log(opened: Opened, summary: RunSummary) -> None:
    """Hand the end of the log over, or keep what no log has taken."""
    result = opened.result
    await opened.processes.report_ends()
    summary.make()
    if opened.recording is not None:
        await opened.recording.end(opened.processes, result.summary)
    known = result.warnings
    known += [text for text in opened.events.untold() if text not in known]
    known += opened.events.keep(opened.folder / "events.txt")
    opened.publisher.repeat()  # the last state with its cause: it stays in view


async def _end_processes(opened: Opened, summary: RunSummary) -> None:
    result, recording = opened.result, opened.recording
    has_log = recording is not None and recording.log is not None
    # A view ends by itself at one of these states; before them it would be waited for in vain.
    final = opened.events.state in (SessionState.STOPPED, SessionState.FAULT)
    result.warnings += await opened.processes.end(["view"] * final + ["recorder"] * has_log)
    if recording is not None and has_log:
        failure = opened.processes.recorder_failure()
        lost = await recording.close(failed=bool(failure))
        result.lack([*lost, *failure])
        summary.make(failure)  # with the rows that are lost
    result.judge(opened.options.fail_on)
    remove_abandoned_folders()  # of processes that crashed or were killed
