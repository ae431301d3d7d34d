"""``hilrt test``: sequences of a file, each in a session of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hilrt.cli.common import Overrides, load

if TYPE_CHECKING:
    from hilrt.session.result import RunResult


def run_tests(
    file: Annotated[Path, typer.Argument(help="file with sequences", metavar="FILE.py")],
    session: Annotated[
        Path | None, typer.Option(help="session file; default: what the class names")
    ] = None,
    only: Annotated[str | None, typer.Option("--class", help="only this one")] = None,
    out: Annotated[Path, typer.Option(help="folder for the runs")] = Path("runs"),
    overrides: Overrides = None,
    junit: Annotated[Path | None, typer.Option(help="write the results as JUnit XML")] = None,
) -> None:
    """Run the test sequences of a file, one session each.

    In the session file the subsystem with adapter "sequence" is the place for the test. Exit status
    0 passed, 1 failed, 2 bad input, 3 fault, 4 inconclusive, 5 incomplete, 130 stopped.
    """
    from hilrt.errors import ConfigError
    from hilrt.exit_status import ExitStatus, gravest
    from hilrt.expect.outcome import outcome_line, write_junit
    from hilrt.session.run import RunOptions
    from hilrt.session.sequence_sessions import named_sequences, session_of_sequence
    from hilrt.session.session import run_session

    statuses = [int(ExitStatus.FINISHED)]
    done: list[tuple[str, RunResult]] = []
    for name, own in named_sequences(file, only).items():
        path, changes = session_of_sequence(file, name, session or own)
        typer.echo(f"{file}:{name} in {path}")
        chosen = load(path, [*changes, *(overrides or [])])
        result = run_session(chosen, options=RunOptions(out=out))
        for outcome in result.outcomes:
            typer.echo(f"  {outcome.result}: {outcome.name}: {outcome_line(outcome)}")
        for warning in result.warnings:
            typer.echo(f"  warning: {warning}", err=True)
        if result.fault:
            typer.echo(f"  fault: {result.fault}", err=True)
        if result.stopped:
            typer.echo(f"  stopped: {result.stopped}", err=True)
        typer.echo(f"  files in {result.folder}")
        statuses.append(result.exit_status)
        done.append((name, result))
        if result.exit_status == ExitStatus.INTERRUPTED:
            break
    if junit is not None:
        try:
            write_junit(junit, [result.junit_suite(name) for name, result in done])
        except ConfigError as error:
            typer.echo(f"warning: {'; '.join(error.problems)}", err=True)
            statuses.append(ExitStatus.LESS)
    raise typer.Exit(gravest(*statuses))
