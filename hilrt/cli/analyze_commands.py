"""`hilrt analyze …`, `doctor`, `report`, `compare`, `runs` and `replay`."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from hilrt.cli.common import Overrides, SessionPath, fail, load, needs
from hilrt.cli.log_commands import (
    RUNS,
    From,
    Json,
    LogPath,
    Until,
    bad_input,
    locate,
    play,
    warn_of_damage,
)
from hilrt.errors import ConfigError, ExitStatus
from hilrt.wording import columns_text

analyze_app = typer.Typer(
    help="Compute the stability or the error of a session.", no_args_is_help=True
)


@analyze_app.command()
def stability(
    session: SessionPath,
    overrides: Overrides = None,
    h_min: Annotated[float, typer.Option(help="shortest macro step, s")] = 1e-6,
    h_max: Annotated[float, typer.Option(help="longest macro step, s")] = 1e-2,
    maps: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="KEY=LOW:HIGH:POINTS: map over this key and the macro step; twice: over two keys",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="folder in which the page stability.html is written")
    ] = None,
    json_: Json = False,
) -> None:
    """Compute the stability of the coupling over the macro step.

    Prints the spectral radius, and the macro steps at which it crosses 1.
    """
    from hilrt.analyze.stability_study import parse_axis, study

    axes = [parse_axis(text) for text in maps or []]
    found = study(load(session, overrides or []), h_min, h_max, axes)
    if json_:
        typer.echo(json.dumps(found.as_json(), indent=1))
    else:
        from rich.console import Console

        from hilrt.analyze.stability_page import show

        show(found, Console())
    if out is None:
        return
    with needs("report", "the page"):
        from hilrt.analyze.stability_page import write_page

        typer.echo(f"page in {write_page(found, out)}", err=json_)


@analyze_app.command()
def repeat(
    session: SessionPath,
    overrides: Overrides = None,
    json_: Json = False,
) -> None:
    """Estimate the error of a session from runs at shorter steps.

    The session is run with its step, and with half and a quarter of it; it must not have a bench.
    """
    from hilrt.session.simulate import repeat as repeated

    found = repeated(load(session, overrides or []))
    if json_:
        typer.echo(json.dumps({name: one.as_json() for name, one in found.items()}, indent=1))
        return
    for name, one in found.items():
        if math.isnan(one.change):
            typer.echo(f"{name}: error unknown: {one.why_not}")
        elif one.why_not:
            typer.echo(f"{name}: not in the asymptotic range: {one.why_not}; use a shorter step")
        else:
            error = f"{one.error:.3g} {one.unit}".rstrip()
            typer.echo(
                f"{name}: error {error} RMS, {one.relative:.2%} of its variation; "
                f"observed order {one.order:.2f}"
            )


@analyze_app.command()
def reference(
    session: SessionPath,
    overrides: Overrides = None,
    tolerance: Annotated[
        float, typer.Option(help="relative accuracy with which the error must be known", min=1e-6)
    ] = 0.01,
    most_steps: Annotated[
        int, typer.Option(help="limit of the macro steps of all runs together", min=1)
    ] = 2_000_000,
    json_: Json = False,
) -> None:
    """Compute the true error of a session.

    Its step is shortened until the results converge; the session must not have a bench.
    Exit status: 4 if a signal has not converged within --most-steps.
    """
    from rich.console import Console

    from hilrt.session.simulate import reference as compare

    file, console = load(session, overrides or []), Console(stderr=True)
    with console.status("") as status:
        show = status.update if console.is_terminal else console.print
        found = compare(file, tolerance=tolerance, most_steps=most_steps, progress=show)
    if json_:
        typer.echo(json.dumps(found.as_json(), indent=1))
    else:
        typer.echo("\n".join(found.lines()))
    raise typer.Exit(ExitStatus.FINISHED if found.converged else ExitStatus.INCONCLUSIVE)


def doctor(
    session: Annotated[
        Path | None,
        typer.Argument(
            help="with --measure: session whose peers are measured as well",
            metavar="[SESSION.toml]",
        ),
    ] = None,
    json_: Json = False,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="measure delays for hilrt advise instead, and write them to --out"
        ),
    ] = False,
    seconds: Annotated[
        float, typer.Option(help="duration of each measurement, 0.3 to 600 s")
    ] = 5.0,
    out: Annotated[Path, typer.Option(help="file for the measured delays")] = Path("delays.json"),
) -> None:
    """Report the real-time capabilities of this host, with remedies.

    With --measure and a session, the session runs in real time with reference models in place of
    its benches. Exit status: 1 if a capability is bad.
    """
    if measure:
        _measure(session, seconds, out)
        return
    if session is not None:
        fail("a session is only run with --measure")
    from hilrt.timing.doctor import as_text, examine

    lines = examine()
    if json_:
        typer.echo(json.dumps([line._asdict() for line in lines], indent=1))
    else:
        typer.echo(as_text(lines))
    raise typer.Exit(any(line.grade == "bad" for line in lines))


def _measure(session: Path | None, seconds: float, out: Path) -> None:
    from hilrt.studies.measured_delays import measure_host, measure_session, write_delays
    from hilrt.timing.doctor import spread_text

    if not 0.3 <= seconds <= 600.0:
        fail(f"--seconds {seconds:g}: must be 0.3 to 600")
    found = measure_session(load(session, []), seconds) if session else measure_host(seconds)
    write_delays(out, found)
    label = "inputs sent after a tick" if found.session else "wake-ups"
    typer.echo(f"{label}: {spread_text(found.lateness_us)}")
    for name, times in found.answers_us.items():
        typer.echo(f"response times of {name}: {spread_text(times)}")
    typer.echo(f"{out}: for hilrt advise SESSION.toml --delays {out}")


# `hilrt report` and `hilrt compare`: pages about recorded sessions.


#: Formats of ``hilrt runs --since``.
SINCE_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"]

Png = Annotated[bool, typer.Option("--png", help="also write every figure as a picture")]


def report(
    log: LogPath,
    out: Annotated[
        Path | None, typer.Option(help="page to write; default: report.html beside the log")
    ] = None,
    png: Png = False,
    json_: Json = False,
) -> None:
    """Write the report page of a session from its log."""
    from hilrt.analyze.log_analysis import analyse_log

    with bad_input():
        analysis = analyse_log(locate(log))
        warn_of_damage(analysis.file, analysis.stream.damage)
        if json_:
            numbers = analysis.as_json(analysis.can_traffic())
            typer.echo(json.dumps(numbers, indent=1, ensure_ascii=False, default=str))
            return
        with needs("report", "the page"):
            from hilrt.analyze.report import write_page
        target = write_page(analysis, out, png=png, json_=True)
    typer.echo(f"page in {target}, numbers in {target.with_suffix('.json')}")


def compare(
    logs: Annotated[
        list[Path],
        typer.Argument(
            help="two logs, folders or numbers of runs; a pattern in quotes means the newest",
            metavar="A B",
        ),
    ],
    out: Annotated[Path, typer.Option(help="page to write")] = Path("comparison.html"),
    png: Png = False,
    json_: Json = False,
) -> None:
    """Compare two sessions on one page, with their differences highlighted."""
    from hilrt.analyze.log_comparison import compare_logs

    if len(logs) != 2:
        raise ConfigError(
            f"compare: needs two logs, not {len(logs)}; a pattern in quotes ('runs/NAME-*') is "
            "the newest match"
        )
    with bad_input():
        found = compare_logs(*(locate(path) for path in logs))
        for analysis in (found.a, found.b):
            warn_of_damage(analysis.file, analysis.stream.damage)
        if json_:
            typer.echo(json.dumps(found.as_json(), indent=1, ensure_ascii=False, default=str))
            return
        with needs("report", "the page"):
            from hilrt.analyze.comparison_page import write_comparison
        target = write_comparison(found, out, png=png)
    typer.echo(f"page in {target}")


# `hilrt runs`: the table of runs.


def runs(
    folder: Annotated[
        Path, typer.Argument(help="folder with the runs, at most three levels deep")
    ] = RUNS,
    session: Annotated[str | None, typer.Option(help="only runs of this session")] = None,
    verdict: Annotated[str | None, typer.Option(help="only runs with this verdict")] = None,
    since: Annotated[
        datetime | None,
        typer.Option(help="only runs since this date or time", formats=SINCE_FORMATS),
    ] = None,
    amiss: Annotated[
        bool,
        typer.Option(
            "--amiss", help="only runs with a fault, a failed expectation, an alarm or no summary"
        ),
    ] = False,
    last: Annotated[int | None, typer.Option(help="only the newest N runs", min=1)] = None,
    parquet: Annotated[Path | None, typer.Option(help="write the table as Parquet")] = None,
    junit: Annotated[Path | None, typer.Option(help="write the outcomes as JUnit XML")] = None,
    json_: Json = False,
) -> None:
    """List the runs of a folder, the newest last.

    Other commands take the number of a run in place of its log.
    """
    from hilrt.analyze import runs as table

    found = [
        run
        for run in table.find_runs(folder)
        if (session is None or run.session == session)
        and (verdict is None or run.verdict == verdict)
        and (since is None or run.began >= since)
        and (run.amiss or not amiss)
    ]
    found = found if last is None else found[-last:]
    if parquet is not None:
        table.write_parquet(parquet, found)
    if junit is not None:
        from hilrt.expect.outcome import write_junit

        write_junit(junit, table.junit_suites(found))
    if json_:
        typer.echo(json.dumps([run.as_json() for run in found], indent=1, ensure_ascii=False))
        return
    if not found:
        typer.echo(f"{folder}: no runs" + (" that the options select" if last is None else ""))
        return
    typer.echo(columns_text([table.COLUMNS, *(run.row() for run in found)]))


# `hilrt replay`: repeat the decisions of a recorded session.

#: Exit status if a step's result differs from the recorded one.
EXIT_DIFFERS = 1


def replay(
    log: LogPath,
    from_: From = None,
    until: Until = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="relative; default: 0 on the build that recorded the log, otherwise 1e-9", min=0.0
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="table.key=value: repeat the decisions with this setting; repeatable"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="with --set: folder for a log of the recomputed decisions")
    ] = None,
    json_: Json = False,
    to: Annotated[
        str | None,
        typer.Option(help="can: send the log's CAN frames on --bus instead, like hilrt play"),
    ] = None,
    bus: Annotated[str, typer.Option(help="for --to can: interface=…,channel=…")] = "",
    priority: Annotated[
        int, typer.Option(help="for --to can: real-time priority, 1 to 99", min=0, max=99)
    ] = 0,
) -> None:
    """Repeat every decision of a session from its log, and compare.

    With --set, show what the master would have decided with other settings, from the recorded
    samples; the reaction of benches and models is not simulated. Exit status: 0 identical, 1 not.
    """
    if to is not None:
        if to != "can":
            raise ConfigError(f"--to {to}: only 'can' is possible; `hilrt export` writes files")
        play(log, bus, start=from_, end=until, priority=priority, json_=json_)
        return
    if changes:
        with bad_input():
            file = locate(log)
        _what_if(file, changes, from_ or 0.0, until, out, json_)
        return
    if out is not None:
        raise ConfigError("--out: only works with --set; a plain replay writes nothing")
    from hilrt.replay.replay_log import as_json, describe
    from hilrt.replay.replay_log import replay as run

    with bad_input():
        outcome = run(locate(log), start=from_ or 0.0, until=until, tolerance=tolerance)
    if json_:
        typer.echo(json.dumps(as_json(outcome), indent=1))
    else:
        typer.echo("\n".join(describe(outcome)))
    raise typer.Exit(0 if outcome.identical else EXIT_DIFFERS)


def _what_if(
    log: Path, changes: list[str], start: float, until: float | None, out: Path | None, json_: bool
) -> None:
    from hilrt.studies.what_if import what_if
    from hilrt.studies.what_if_result import as_json, describe

    with bad_input():
        found = what_if(log, changes, start=start, until=until, out=out)
    if json_:
        typer.echo(json.dumps(as_json(found), indent=1))
    else:
        typer.echo("\n".join(describe(found)))
