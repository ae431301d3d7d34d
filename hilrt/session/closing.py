"""The end of a session, whatever led to it: benches at rest, whole files, no process left."""

from __future__ import annotations

import contextlib
from typing import Any

from hilrt.exit_status import ExitStatus
from hilrt.expect.outcome import exit_status
from hilrt.files.json import json_bytes
from hilrt.isolation.temporary_folder import remove_abandoned_folders
from hilrt.monitor.session_state import SessionState
from hilrt.record.recorder_feed import close_feed_socket
from hilrt.session.losses import add_losses, summary_without_steps
from hilrt.session.parts import SessionParts


async def close_session(parts: SessionParts) -> None:
    """Secure the benches, close the log, write the summary, end the processes.

    Each of these is done, whatever the ones before it came to; an error is raised after the last.
    """
    parts.processes.ending = True
    async with contextlib.AsyncExitStack() as last:  # the last one first
        last.callback(_write_summary, parts)
        last.push_async_callback(_end_processes, parts)
        last.callback(_write_summary, parts)
        last.push_async_callback(_end_log, parts)
        await _end_subsystems(parts)


async def _end_subsystems(parts: SessionParts) -> None:
    result = parts.result
    async with contextlib.AsyncExitStack() as last:
        last.callback(parts.hub.close)
        for link in parts.links:
            last.push_async_callback(link.close)
        if not parts.brought_down:
            reason = result.fault or parts.interrupted or "session could not start"
            await parts.benches.secure(reason)
            result.warnings += parts.benches.not_at_rest()


async def _end_log(parts: SessionParts) -> None:
    """Hand the end of the log over, or keep what no log has taken."""
    result = parts.result
    await parts.processes.report_ends()
    _sum_up(parts)
    if parts.log is not None:
        parts.processes.resume_recorder()
        await parts.log.end(result.summary)
    elif parts.recorder is not None:
        close_feed_socket(parts.recorder)
    known = result.warnings
    known += [text for text in parts.events.untold() if text not in known]
    known += parts.events.keep(parts.folder / "events.txt")
    parts.publisher.repeat()  # the last state with its cause: it stays in view


async def _end_processes(parts: SessionParts) -> None:
    result = parts.result
    # A view ends by itself at one of these states; before them it would be waited for in vain.
    final = parts.events.state in (SessionState.STOPPED, SessionState.FAULT)
    told = ["view"] * final + ["recorder"] * (parts.log is not None)
    result.warnings += await parts.processes.end(told)
    if parts.log is not None:
        failure = parts.processes.recorder_failure()
        lost = await parts.log.close(failed=bool(failure))
        result.lack([*lost, *failure])
        _sum_up(parts)  # with the rows that are lost
        if result.summary:
            add_losses(result.summary, failure)
    result.judge(parts.options.fail_on)
    remove_abandoned_folders()  # of processes that crashed or were killed


def _sum_up(parts: SessionParts) -> None:
    """Make the summary of the steps; a defect there must not cost the rest of it."""
    if parts.summarize is None:
        return
    try:
        parts.result.summary = parts.summarize(parts.result.fault)
        results = parts.result.summary["results"]
        parts.result.end_with(exit_status(one["result"] for one in results))
    except Exception as error:
        parts.result.lack([f"summary.json lacks its figures: {type(error).__name__}: {error}"])
        parts.result.end_with(ExitStatus.INTERNAL)


def _write_summary(parts: SessionParts) -> None:
    """Write what is known; again where that has changed since the last time."""
    summary = parts.result.summary or _without_steps(parts)
    try:
        parts.summary_file.write(json_bytes(summary))
    except OSError as error:
        text = f"{parts.summary_file.path}: cannot be written: {error.strerror}"
        if text not in parts.result.warnings:
            parts.result.lack([text])


def _without_steps(parts: SessionParts) -> dict[str, Any]:
    reason = parts.result.fault or parts.interrupted or "the session could not start"
    return summary_without_steps(parts.name, str(parts.events.state), reason)
