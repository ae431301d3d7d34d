"""``hilrt test``: run a file's sequences, each in its own session; ``hilrt expect``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hilrt.cli.common import Overrides, load
from hilrt.cli.log_commands import Json, bad_input, numbered

if TYPE_CHECKING:
    from hilrt.analyze.judge_log import JudgedLog
    from hilrt.session.result import RunResult


def run_tests(
    file: Annotated[Path, typer.Argument(help="file with sequences", metavar="FILE.py")],
    session: Annotated[
        Path | None, typer.Option(help="session file; default: the one that the class names")
    ] = None,
    only: Annotated[str | None, typer.Option("--class", help="run only this sequence")] = None,
    out: Annotated[
        Path, typer.Option(help="folder in which each run gets a folder of its own")
    ] = Path("runs"),
    overrides: Overrides = None,
    junit: Annotated[Path | None, typer.Option(help="write the results as JUnit XML")] = None,
) -> None:
    """Run each test sequence of a file in its own session.

    The sequence takes the place of the subsystem with adapter "sequence" in the session file.
    Exit status: 0 passed, 1 failed, 2 wrong input, 3 ended by a fault, 4 inconclusive, 5
    incomplete, 130 interrupted.
    """
    from hilrt.errors import ConfigError, ExitStatus, gravest
    from hilrt.expect.outcome import outcome_line, write_junit
    from hilrt.session.run import RunOptions, named_sequences, session_of_sequence
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


# `hilrt expect`: expectations on recorded logs.


def expect(
    logs: Annotated[
        list[Path],
        typer.Argument(
            help="logs of hilrt or of other tools, folders, numbers of runs or patterns; then a "
            "TOML file with [[expect]], by default the session file in each log",
            metavar="LOG... [SPEC.toml]",
        ),
    ],
    junit: Annotated[Path | None, typer.Option(help="write JUnit XML")] = None,
    time: Annotated[
        str | None, typer.Option(help="column with the time, in CSV and Parquet files")
    ] = None,
    json_: Json = False,
) -> None:
    """Check expectations on logs.

    Exit status: 0 passed, 1 failed, 2 wrong input, 4 inconclusive.
    """
    from hilrt.analyze.judge_log import judge_file, log_files
    from hilrt.errors import ConfigError
    from hilrt.expect.expectation import read_spec
    from hilrt.expect.outcome import exit_status, junit_suite, write_junit

    spec = logs.pop() if len(logs) > 1 and logs[-1].suffix == ".toml" else None
    expectations = None if spec is None else read_spec(spec)
    judged: dict[Path, JudgedLog] = {}
    unread: dict[Path, list[str]] = {}
    with bad_input():
        files = log_files(map(numbered, logs))
    for file in files:
        try:
            judged[file] = judge_file(file, expectations, time)
        except ConfigError as error:
            unread[file] = list(error.problems)
    if junit is not None:
        suites = [junit_suite(str(file), one.outcomes, one.time_s) for file, one in judged.items()]
        suites += [junit_suite(str(file), [], fault="; ".join(why)) for file, why in unread.items()]
        with bad_input():
            write_junit(junit, suites)
    _say(judged, json_)
    with bad_input():
        if unread:
            raise ConfigError([line for why in unread.values() for line in why])
    results = (outcome.result for one in judged.values() for outcome in one.outcomes)
    raise typer.Exit(exit_status(results))


def _say(judged: dict[Path, JudgedLog], json_: bool) -> None:
    import msgspec

    from hilrt.expect.outcome import outcome_line

    if json_:
        found = {str(file): msgspec.to_builtins(one.outcomes) for file, one in judged.items()}
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False))
        return
    for file, one in judged.items():
        typer.echo(f"{file}:")
        for outcome in one.outcomes:
            typer.echo(f"  {outcome.result:<12}  {outcome.name}: {outcome_line(outcome)}")
        for note in one.notes:
            typer.echo(f"  note: {note}", err=True)
