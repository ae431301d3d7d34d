"""The commands. Each imports what it needs when called: a solver process needs no report."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from hilrt.cli import can_commands as cli_can
from hilrt.cli import fmu_commands as cli_fmu
from hilrt.cli import log_commands as cli_log
from hilrt.cli import replay_commands as cli_replay
from hilrt.cli import report_commands as cli_report
from hilrt.cli.threads import single_thread
from hilrt.errors import ConfigError, HilrtError

if TYPE_CHECKING:
    from hilrt.config.session_file import SessionFile
    from hilrt.session.result import RunResult

EXIT_CONFIG = 2
EXIT_FAULT = 3

app = typer.Typer(
    help="Soft real-time hardware-in-the-loop co-simulation for test benches.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

analyze_app = typer.Typer(help="Look into a session before it runs.", no_args_is_help=True)
app.add_typer(analyze_app, name="analyze")
app.add_typer(cli_log.log_app, name="log")
app.add_typer(cli_can.can_app, name="can")
app.add_typer(cli_fmu.fmu_app, name="fmu")
app.command("import-ssp")(cli_fmu.import_ssp)
app.command("export")(cli_log.export)
app.command("import")(cli_log.import_)
app.command("play")(cli_log.play)
app.command()(cli_report.report)
app.command()(cli_report.compare)
app.command()(cli_replay.replay)

SessionPath = Annotated[Path, typer.Argument(help="session file (TOML)", metavar="SESSION.toml")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="table.key=value, instead of the session file's")
]


def _version(wanted: bool) -> None:
    if wanted:
        from hilrt.version import VERSION

        typer.echo(f"hilrt {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    pass


@app.command()
def run(
    session: SessionPath,
    out: Annotated[Path, typer.Option(help="folder for the runs")] = Path("runs"),
    duration: Annotated[float | None, typer.Option(help="session time, s")] = None,
    pace: Annotated[str | None, typer.Option(help="realtime, asap, or a factor")] = None,
    overrides: Overrides = None,
    shadow: Annotated[bool, typer.Option(help="compute corrections, apply none")] = False,
    arm: Annotated[bool, typer.Option("--arm", help="arm without waiting for Enter")] = False,
    quiet: Annotated[bool, typer.Option(help="no live view and no closing table")] = False,
    web: Annotated[bool, typer.Option("--web", help="serve the web page of the session")] = False,
) -> None:
    """Run a session; exit status 0 finished, 2 bad input, 3 fault, 130 interrupted."""
    if sys.stdout.isatty() and not quiet:
        typer.echo(f"{session}: starting")  # what follows takes a moment to load
    from hilrt.session.run import RunOptions
    from hilrt.session.session import run_session

    extra = list(overrides or [])
    if duration is not None:
        extra.append(f"session.duration={duration!r}")
    if pace is not None:
        extra.append(f"session.pace={_pace(pace)}")
    if arm:
        extra.append('session.arm="auto"')
    file = _load(session, extra)
    options = RunOptions(out=out, shadow=shadow, view=not quiet, web=web)
    result = run_session(file, options)
    _finish(result, file.tables.record.report, quiet)
    raise typer.Exit(result.exit_status)


@app.command()
def check(session: SessionPath, overrides: Overrides = None) -> None:
    """Report everything that is wrong with a session file, at once."""
    single_thread()
    from hilrt.check.check import check_file

    problems = check_file(session, overrides or [])
    for problem in problems:
        typer.echo(str(problem), err=problem.level == "error")
    errors = sum(problem.level == "error" for problem in problems)
    if errors:
        _fail(f"{session}: {errors} error{'s' if errors > 1 else ''}")
    typer.echo(f"{session}: no errors")


@app.command()
def schema() -> None:
    """Print the JSON Schema of the session file, for editors."""
    single_thread()
    from hilrt.config.schema import session_schema

    typer.echo(json.dumps(session_schema(), indent=1, ensure_ascii=False))


@app.command()
def doctor(
    json_: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Report what this host can do in real time, with remedies; exit status 1 if a line is bad."""
    from hilrt.timing.doctor import as_text, examine

    lines = examine()
    if json_:
        typer.echo(json.dumps([line._asdict() for line in lines], indent=1))
    else:
        typer.echo(as_text(lines))
    raise typer.Exit(any(line.grade == "bad" for line in lines))


@app.command()
def keys(
    folder: Annotated[Path, typer.Argument(help="where the keys are kept")],
    names: Annotated[list[str], typer.Argument(help="subsystems that may connect")],
) -> None:
    """Make the keys that let subsystems connect: a pair for the master and for each NAME."""
    from hilrt.peers.keys import make_keys

    for path in make_keys(folder, names):
        typer.echo(str(path))


@app.command()
def watch(
    address: Annotated[str, typer.Argument(help="[monitor] listen of the session")],
    plain: Annotated[bool, typer.Option("--plain", help="lines, also on a terminal")] = False,
) -> None:
    """Watch a session of another machine; with HILRT_TOKEN set, also operate it."""
    from hilrt.monitor.watch import main as watch_main

    raise typer.Exit(watch_main(address, plain=plain))


@app.command()
def monitor(
    address: Annotated[str, typer.Argument(help="[monitor] listen of the session")],
    page: Annotated[str, typer.Option(help="[ADDRESS:]PORT of the page")] = "127.0.0.1:5006",
    foxglove: Annotated[
        str | None,
        typer.Option(help="serve Foxglove and Lichtblick instead, at this [ADDRESS:]PORT"),
    ] = None,
) -> None:
    """Serve the web page of a running session, on this machine unless --page says otherwise."""
    if foxglove is not None:
        try:
            from hilrt.monitor.foxglove import main as foxglove_main
        except ModuleNotFoundError as error:
            if str(error.name).startswith("hilrt"):
                raise
            _fail(f"the bridge needs {error.name}; install hilrt[foxglove]")
        raise typer.Exit(foxglove_main(["--connect", address, "--foxglove", foxglove]))
    try:
        from hilrt.web.server import main as web_main
    except ModuleNotFoundError as error:
        if str(error.name).startswith("hilrt"):
            raise
        _fail(f"the page needs {error.name}; install hilrt[web]")
    raise typer.Exit(web_main(["--connect", address, "--page", page]))


@app.command()
def solver(
    target: Annotated[str, typer.Argument(help="module:Class of a hilrt.Solver, or MODEL.fmu")],
    connect: Annotated[str, typer.Option(help="address of the master")],
    name: Annotated[str, typer.Option(help="subsystem in the session file")] = "solver",
    param: Annotated[list[str] | None, typer.Option(help="k=v, for the class or FMU")] = None,
    option: Annotated[list[str] | None, typer.Option(help="k=v, key of an FMU's table")] = None,
    keys: Annotated[Path | None, typer.Option(help="folder of the keys")] = None,
) -> None:
    """Host a solver or an FMU in this process."""
    _use_keys(keys)
    from hilrt.hosting.solver_process import main as solver_main

    params, options = _pairs("--param", param), _pairs("--option", option)
    raise typer.Exit(solver_main(target, connect, name, params, options))


@app.command()
def gateway(
    session: Annotated[Path, typer.Option(help="session file")],
    subsystem: Annotated[str, typer.Option(help="its table")],
    connect: Annotated[str, typer.Option(help="address of the master")],
    name: Annotated[str | None, typer.Option(help="name to connect under")] = None,
    overrides: Overrides = None,
    keys: Annotated[Path | None, typer.Option(help="folder of the keys")] = None,
) -> None:
    """Own a bench's CAN bus: code, limit, guard."""
    _use_keys(keys)
    from hilrt.bench.gateway_process import main as gateway_main

    status = gateway_main(session, subsystem, connect, name or subsystem, overrides or [])
    raise typer.Exit(status)


@app.command()
def emulate(
    bench: Annotated[str | None, typer.Argument(help="which bench")] = None,
    session: Annotated[Path | None, typer.Option(help="session file")] = None,
    subsystem: Annotated[str | None, typer.Option(help="its table")] = None,
    bus: Annotated[str | None, typer.Option(help="interface=…,channel=…")] = None,
    database: Annotated[Path | None, typer.Option(help="CAN database")] = None,
    duration: Annotated[float | None, typer.Option(help="s; default: for ever")] = None,
    seed: Annotated[int, typer.Option(help="of the sensor noise")] = 0,
    fault: Annotated[str | None, typer.Option(help="silent@T or die@T")] = None,
    scenario: Annotated[Path | None, typer.Option(help="TOML file of what goes wrong")] = None,
    overrides: Overrides = None,
    list_: Annotated[bool, typer.Option("--list", help="the benches there are")] = False,
) -> None:
    """Emulate a test bench on a CAN bus, on the wall clock."""
    from hilrt.bench import emulate as emulator
    from hilrt.bench.emulated_benches import list_benches

    if list_:
        for name, text in list_benches():
            typer.echo(f"{name:15} {text}")
        return
    if bench is None:
        _fail("which bench? `hilrt emulate --list` shows what there is")
    if session is not None and subsystem is not None:
        status = emulator.from_session(
            session,
            subsystem,
            overrides=overrides or [],
            name=bench,
            duration=duration,
            seed=seed,
            fault=fault,
            scenario=scenario,
        )
    elif bus is not None and database is not None:
        emulation = emulator.Emulation(
            bench,
            bus=_bus(bus),
            database=database,
            duration=duration,
            seed=seed,
            fault=fault,
            scenario=scenario,
        )
        status = emulator.main(emulation)
    else:
        _fail("give --session and --subsystem, or --bus and --database")
    raise typer.Exit(status)


@analyze_app.command()
def stability(
    session: SessionPath,
    overrides: Overrides = None,
    h_min: Annotated[float, typer.Option(help="shortest macro step, s")] = 1e-6,
    h_max: Annotated[float, typer.Option(help="longest macro step, s")] = 1e-2,
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", help="KEY=lowest:highest:points; once: over the macro step"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder for the page stability.html")] = None,
    json_: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Spectral radius of the coupling scheme, and the macro steps where it crosses 1."""
    from hilrt.analyze.stability_study import parse_axis, study

    axes = [parse_axis(text) for text in maps or []]
    found = study(_load(session, overrides or []), h_min, h_max, axes)
    if json_:
        typer.echo(json.dumps(found.as_json(), indent=1))
    else:
        from rich.console import Console

        from hilrt.analyze.stability_table import show

        show(found, Console())
    if out is None:
        return
    try:
        from hilrt.analyze.stability_page import write_page

        typer.echo(f"picture in {write_page(found, out)}", err=json_)
    except ImportError:
        _fail("the page needs bokeh; install hilrt[report]")


def _pairs(option: str, items: list[str] | None) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for item in items or []:
        key, equals, value = item.partition("=")
        if not equals or not key:
            _fail(f"{option} {item}: write it as key=value")
        pairs[key] = value
    return pairs


def _use_keys(folder: Path | None) -> None:
    """Keys for the connection to the master; a session tells its own processes by itself."""
    if folder is not None:
        from hilrt.peers.keys import VARIABLE

        os.environ[VARIABLE] = str(folder.resolve())


def _pace(text: str) -> str:
    if text in ("realtime", "asap"):
        return f'"{text}"'
    try:
        return repr(float(text))
    except ValueError:
        _fail(f"--pace {text}: is not realtime, asap or a number")


def _bus(text: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for item in text.split(","):
        key, equals, value = item.partition("=")
        if not equals:
            _fail(f"--bus {text}: write it as interface=…,channel=…")
        arguments[key] = int(value) if value.isdecimal() else value
    return arguments


def _load(session: Path, overrides: list[str]) -> SessionFile:
    from hilrt.config.session_file import load_session

    return load_session(session, overrides)


def _finish(result: RunResult, report: bool, quiet: bool) -> None:
    """Report page and closing table, after everything has stopped."""
    for warning in result.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if result.fault:
        typer.echo(f"session ended in a fault: {result.fault}", err=True)
    if not result.summary:
        return
    if report:
        try:
            from hilrt.analyze.report import write_report

            write_report(result.folder)
        except (ImportError, HilrtError) as error:
            typer.echo(f"no report: {error}", err=True)
    if quiet:
        return
    from rich.console import Console

    from hilrt.monitor.closing_table import closing_table

    console = Console()
    console.print(closing_table(result.summary))
    console.print(f"files in {result.folder}", highlight=False)


def _fail(text: str) -> NoReturn:
    typer.echo(text, err=True)
    raise typer.Exit(EXIT_CONFIG)


def main(command: Callable[[], Any] = app) -> None:
    """Run the command line; every expected error is a clear line and an exit status."""
    try:
        command()
    except ConfigError as error:
        for problem in error.problems:
            sys.stderr.write(f"{problem}\n")
        raise SystemExit(EXIT_CONFIG) from None
    except HilrtError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(EXIT_FAULT) from None
    except (json.JSONDecodeError, BrokenPipeError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        raise SystemExit(1) from None
