"""The program and its main commands. Each command imports its modules only when called."""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import json
import math
import os
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hilrt.cli import (
    analyze_commands,
    can_commands,
    log_commands,
    process_commands,
    sequence_commands,
    study_commands,
)
from hilrt.cli.common import SYMPTOMS, Overrides, SessionPath, complete_help, fail, load, page_of
from hilrt.documentation import in_documentation
from hilrt.errors import ConfigError, ExitStatus, HilrtError
from hilrt.isolation.limited_process import set_for_this_process
from hilrt.monitor.output import be_patient, open_closed_streams

if TYPE_CHECKING:
    from hilrt.session.result import FailOn, RunResult

app = typer.Typer(
    help="Soft real-time hardware-in-the-loop co-simulation for test benches.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from hilrt.version import VERSION

        typer.echo(f"hilrt {VERSION}")
        raise typer.Exit


#: Messages of the dynamic loader if there is no memory for a library, in lower case.
NO_MEMORY = ("failed to map segment", "cannot allocate memory")
MORE_MEMORY = (
    "a session takes up to 2 GB of address space: raise the limit (ulimit -v, the "
    "container's) or close other programs"
)
#: Commands that only run user code, whose matrices may be large.
HOSTS = ("solver", "sequence")


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    if context.invoked_subcommand not in HOSTS:
        single_thread()


def run(
    session: SessionPath,
    out: Annotated[
        Path, typer.Option(help="folder in which the run gets a folder of its own")
    ] = Path("runs"),
    folder: Annotated[
        Path | None,
        typer.Option(help="new or empty folder for this run, instead of a new one in --out"),
    ] = None,
    duration: Annotated[
        float | None, typer.Option(help="session time at which the run ends, s")
    ] = None,
    pace: Annotated[str | None, typer.Option(help="realtime, asap, or a factor")] = None,
    overrides: Overrides = None,
    shadow: Annotated[bool, typer.Option(help="compute corrections without applying them")] = False,
    arm: Annotated[bool, typer.Option("--arm", help="arm without waiting for Enter")] = False,
    quiet: Annotated[
        bool,
        typer.Option(help="print only one line, with verdict and folder"),
    ] = False,
    web: Annotated[bool, typer.Option("--web", help="serve the web page of the session")] = False,
    cluster: Annotated[
        str | None,
        typer.Option(help="Dask scheduler (address, its file, or local) whose workers run groups"),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            help="unverified, degraded or unreliable: exit status 5 for this verdict or a worse one"
        ),
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="write the results as JUnit XML")] = None,
) -> None:
    """Run a session.

    Exit status: 0 finished, 1 an expectation failed, 2 wrong input, 3 ended by a fault, 4
    inconclusive, 5 incomplete, 130 interrupted.
    """
    be_patient()
    if sys.stdout.isatty() and not quiet:
        typer.echo(f"{session}: starting")  # loading takes a moment
    from hilrt.session.run import RunOptions
    from hilrt.session.session import run_session

    file = load(session, [*(overrides or []), *_session_keys(duration, pace, arm)])
    options = RunOptions(
        out=out,
        folder=folder,
        shadow=shadow,
        view=not quiet,
        web=web,
        cluster=cluster,
        fail_on=_fail_on(fail_on),
    )
    result = run_session(file, options=options)
    _finish(result, file.tables.record.report, quiet, file.tables.monitor.page if web else "")
    if junit is not None:
        _write_junit(junit, result, file.tables.session.name)
    raise typer.Exit(result.exit_status)


#: Maximum number of identical warnings or notes that are listed; further ones are counted.
MOST_ALIKE: Final = 10


def check(
    session: SessionPath,
    overrides: Overrides = None,
    pace: Annotated[str | None, typer.Option(help="realtime, asap, or a factor")] = None,
    no_code: Annotated[
        bool, typer.Option("--no-code", help="run none of the code that the file names")
    ] = False,
) -> None:
    """Check a session file and report all mistakes at once.

    The models that the file names are imported, and their constructors called. Use --no-code for
    a file that you do not trust.
    """
    from hilrt.check.check import check_file, names_code

    chosen = None if pace is None else _pace(pace)
    if not no_code and (names := names_code(session, overrides or [])):
        typer.echo(
            f"{session}: this check runs the code that the file names for {', '.join(names)}; "
            "for a file that you do not trust, use --no-code"
        )
    problems = check_file(session, overrides or [], chosen, code=not no_code)
    alike = Counter[tuple[str, str, str]]()
    for problem in problems:
        kind = problem.level, problem.key, problem.message
        alike[kind] += 1
        if problem.level == "error" or alike[kind] <= MOST_ALIKE:
            place = f"{session}:{problem.at}" if problem.at else f"{session}"
            typer.echo(f"{place}: {problem.level}: {problem}", err=problem.level == "error")
    for (level, key, message), count in alike.items():
        if level != "error" and count > MOST_ALIKE:
            left = f"{count - MOST_ALIKE:,} more of the same kind"
            typer.echo(f"{session}: {level}: {left}: {key or 'tables'}: {message}")
    errors = sum(problem.level == "error" for problem in problems)
    if errors:
        fail(f"{session}: {errors} error{'s' if errors > 1 else ''}")
    unchecked = sum(problem.level == "not checked" for problem in problems)
    typer.echo(f"{session}: no errors" + (f", but {unchecked} not checked" if unchecked else ""))


def schema(
    summary: Annotated[
        bool, typer.Option("--summary", help="print the schema of summary.json instead")
    ] = False,
) -> None:
    """Print the JSON Schema of the session file, for editors."""
    if summary:
        from hilrt.session.summary_layout import summary_schema as make
    else:
        from hilrt.config.schema import session_schema as make

    typer.echo(json.dumps(make(), indent=1, ensure_ascii=False))


#: Panels of `hilrt --help`, in the order in which a newcomer needs them, with their commands.
PANELS: Final[dict[str, dict[str, Callable[..., None] | typer.Typer]]] = {
    "Prepare a session": {
        "new": can_commands.new,
        "import-ssp": process_commands.import_ssp,
        "check": check,
        "doctor": analyze_commands.doctor,
        "schema": schema,
        "analyze": analyze_commands.analyze_app,
    },
    "Run and watch": {
        "run": run,
        "test": sequence_commands.run_tests,
        "watch": process_commands.watch,
        "monitor": process_commands.monitor,
    },
    "Results of runs": {
        "runs": analyze_commands.runs,
        "report": analyze_commands.report,
        "compare": analyze_commands.compare,
        "expect": sequence_commands.expect,
        "replay": analyze_commands.replay,
    },
    "Studies": {
        "advise": study_commands.advise,
        "tune": study_commands.tune,
        "sweep": study_commands.sweep,
    },
    "Logs": {
        "export": log_commands.export,
        "import": log_commands.import_,
        "play": log_commands.play,
        "log": log_commands.log_app,
    },
    "Buses and models": {
        "emulate": process_commands.emulate,
        "can": can_commands.can_app,
        "fmu": process_commands.fmu_app,
    },
    "Processes of a session": {
        "keys": process_commands.keys,
        "solver": process_commands.solver,
        "sequence": process_commands.sequence,
        "gateway": process_commands.gateway,
    },
}
for panel, members in PANELS.items():
    for name, member in members.items():
        if isinstance(member, typer.Typer):
            app.add_typer(member, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(member)
complete_help(app)


def _fail_on(text: str | None) -> FailOn | None:
    for word in (None, "unverified", "degraded", "unreliable"):
        if text == word:
            return word
    fail(f"--fail-on {text}: is not unverified, degraded or unreliable")


def _session_keys(duration: float | None, pace: str | None, arm: bool) -> list[str]:
    """Overrides of keys in ``[session]`` that have options of their own."""
    keys = []
    if duration is not None:
        keys.append(f"session.duration={duration!r}")
    if pace is not None:
        keys.append(f"session.pace={json.dumps(_pace(pace))}")
    if arm:
        keys.append('session.arm="auto"')
    return keys


def _pace(text: str) -> str | float:
    if text in ("realtime", "asap"):
        return text
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 0.0 < factor < math.inf:
        fail(f"--pace {text}: is not realtime, asap or a number above 0")
    return factor


def _finish(result: RunResult, report: bool, quiet: bool, page: str) -> None:
    """Write the report page and the closing table after everything has stopped; verdict last.

    `page` is the address of the session's web page; empty if there was none.
    """
    for warning in result.warnings:
        typer.echo(f"warning: {warning}", err=True)
    report = report and bool(result.summary)
    if page:
        from hilrt.web.plain_server import EndedPage, how_it_ended

        with EndedPage(page, how_it_ended(result.summary, result.fault)) as ended:
            ended.report = _write_report(result, quiet) if report else None
    elif report:
        _write_report(result, quiet)
    if result.summary and not quiet:
        from rich.console import Console

        from hilrt.monitor.closing_table import closing_table, closing_verdict

        console = Console()
        console.print(closing_table(result.summary))
        console.print(f"files in {result.folder}", highlight=False)
        console.print(closing_verdict(result.summary))
        sys.stdout.flush()
    elif result.summary:
        from hilrt.wording import verdict_of

        found = f"{result.summary.get('session')}: {verdict_of(result.summary)}"
        typer.echo(f"{found}, files in {result.folder}")
    if result.fault and (quiet or not result.summary):  # otherwise shown as the verdict's reason
        typer.echo(f"session ended in a fault: {result.fault}", err=True)
    if result.fault:
        typer.echo(f"see {in_documentation(SYMPTOMS)}", err=True)


def _write_junit(path: Path, result: RunResult, session: str) -> None:
    """Write the results as JUnit XML; a failure to do so makes the run incomplete."""
    from hilrt.expect.outcome import write_junit

    try:
        write_junit(path, [result.junit_suite(session)])
    except ConfigError as error:
        result.lack(error.problems)
        typer.echo(f"warning: {result.warnings[-1]}", err=True)


def _write_report(result: RunResult, quiet: bool) -> Path | None:
    """Write the report and return its path; None if that fails."""
    if not quiet:
        typer.echo("writing the report")  # this takes seconds
    try:
        from hilrt.analyze.report import write_report

        return write_report(result.folder)
    except ImportError as error:
        typer.echo(f"no report: it needs {error.name}; install hilrt[report]", err=True)
    except HilrtError as error:
        typer.echo(f"no report: {error}", err=True)
    except OSError as error:
        typer.echo(f"no report: {error}", err=True)
        result.end_with(ExitStatus.LESS)
    except Exception as error:  # a defect in the report must not suppress the closing table
        what = f"{type(error).__name__}: {error}"
        typer.echo(f"no report: {what}; hilrt report {result.folder} says where", err=True)
        result.end_with(ExitStatus.LESS)
    return None


def lacks_memory(error: BaseException | None) -> str:
    """Text of the first memory error in an error, its group or its causes; empty if none."""
    if error is None:
        return ""
    text = " ".join(str(error).split())
    no_room = isinstance(error, OSError) and error.errno == errno.ENOMEM
    unmapped = isinstance(error, ImportError) and any(one in text.lower() for one in NO_MEMORY)
    if isinstance(error, MemoryError) or no_room or unmapped:
        return text or type(error).__name__
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    found = map(lacks_memory, (*inner, error.__cause__, error.__context__))
    return next(filter(None, found), "")


def main(command: Callable[[], Any] = app) -> None:
    """Run the command line; report every expected error in one line, by exit status."""
    open_closed_streams()
    # At exit the interpreter collects cycles, which takes 0.2 s of processor time once the
    # compiler is loaded.
    atexit.register(gc.freeze)
    atexit.register(ignore_signals)
    try:
        with signals_end_it():
            command()
    except SystemExit as ended:
        if ended.code == ExitStatus.INTERRUPTED and "hilrt.session.loop_thread" in sys.modules:
            from hilrt.session.loop_thread import leave_threads

            leave_threads(ExitStatus.INTERRUPTED)  # Ctrl-C during compilation
        raise
    except KeyboardInterrupt:  # typer handles one during the command itself
        raise SystemExit(ExitStatus.INTERRUPTED) from None
    except HilrtError as error:
        page = in_documentation(page_of(error, sys.argv[1:]))
        sys.stderr.write(f"{error}\nsee {page}\n")
        status = ExitStatus.INPUT if isinstance(error, ConfigError) else ExitStatus.FAULT
        raise SystemExit(status) from None
    except json.JSONDecodeError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        raise SystemExit(ExitStatus.INPUT) from None
    except BrokenPipeError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        raise SystemExit(ExitStatus.FAILED) from None
    except Exception as error:
        if lack := lacks_memory(error):
            sys.stderr.write(f"not enough memory: {lack}; {MORE_MEMORY}\n")
            raise SystemExit(ExitStatus.FAULT) from None
        traceback.print_exc()
        sys.stderr.write(
            f"internal error: {type(error).__name__}: {error}; please report the lines above\n"
        )
        raise SystemExit(ExitStatus.INTERNAL) from None


# Ctrl-C and SIGTERM, from the first line of a command to the end of its process.

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def signals_end_it() -> Iterator[None]:
    """Make Ctrl-C and SIGTERM end the command, with exit status 130.

    Ctrl-C does so even if its signal was ignored at the start, as in a shell's background job:
    commands such as `hilrt can sniff` have no other end. Commands that handle signals replace these
    handlers once they have loaded their modules: a second or more after the start.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, _interrupted)}
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise SystemExit(ExitStatus.INTERRUPTED)


def ignore_signals() -> None:
    """Ignore Ctrl-C and SIGTERM from now on, so that they do not change the exit status.

    The interpreter takes 0.1 s or more to exit, and first restores the default handlers: a signal
    would then end the process with the signal's own status.
    """
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


# Threads of the libraries that a command loads.

#: Environment variables with which a user sets the number of threads.
_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def single_thread() -> None:
    """Prevent OpenBLAS from starting threads, unless the user has set their number.

    Call this before numpy is imported. The matrices here are small, and OpenBLAS's threads keep a
    processor busy while they wait for work: 0.1 s when a command that reads a file starts, 0.25 s
    when a session starts. Solvers in separate processes do not inherit the setting.
    """
    if not any(name in os.environ for name in _VARIABLES):
        set_for_this_process(_VARIABLES[0], "1")
