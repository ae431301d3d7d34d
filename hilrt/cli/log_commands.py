"""`hilrt log …`, and the commands that convert or play a log."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from hilrt.cli.common import bus_arguments
from hilrt.errors import ConfigError, RecordError

log_app = typer.Typer(
    help="Show, cut, join and repair recorded logs of any size.",
    no_args_is_help=True,
)

#: Default of ``hilrt run --out``.
RUNS = Path("runs")
LogPath = Annotated[
    list[Path],
    typer.Argument(
        help="session.mcap, the run's folder, or its number in `hilrt runs`; a pattern "
        "(runs/NAME-*) means the newest",
        metavar="LOG",
    ),
]
OneLog = Annotated[
    Path,
    typer.Argument(
        help="session.mcap, the run's folder or number; a pattern (runs/NAME-*) means the newest",
        metavar="LOG",
    ),
]
AnyFile = Annotated[Path, typer.Argument(help="a log, or any file that can be imported")]
AnyFiles = Annotated[
    list[Path],
    typer.Argument(help="a log, or any file that can be imported; a pattern means the newest"),
]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]


def _log_name(path: Path | None) -> Path | None:
    """Check the name of a new log: other commands recognise its format by the suffix."""
    if path is not None and path.suffix != ".mcap":
        raise typer.BadParameter(f"{path}: a log's name ends in .mcap")
    return path


Out = Annotated[Path, typer.Option(help="new log, NAME.mcap", callback=_log_name)]
Force = Annotated[bool, typer.Option("--force", help="replace an existing file")]
From = Annotated[float | None, typer.Option("--from", help="session time to start at, s")]
Until = Annotated[float | None, typer.Option("--until", help="session time to end at, s")]
Databases = Annotated[
    list[str] | None,
    typer.Option(
        "--database",
        metavar="[BUS=]FILE",
        help="CAN database with which frames are decoded to signals; repeatable, one per bus",
    ),
]


@contextlib.contextmanager
def bad_input() -> Iterator[None]:
    """Report an invalid log as wrong input, with exit status 2."""
    try:
        yield
    except RecordError as error:
        raise ConfigError(str(error)) from None


def locate(paths: Path | Sequence[Path]) -> Path:
    """Return the file, or the log of a run given by folder or number; of several the newest."""
    from hilrt.record.find_log import find_log, newest_log

    given = [paths] if isinstance(paths, Path) else list(paths)
    if len(given) == 1:
        given = [numbered(given[0])]
    found = find_log(given[0]) if len(given) == 1 else newest_log(given)
    if len(given) > 1 or (found != given[0] and found.parent != given[0]):
        typer.echo(f"newest: {found}", err=True)
    return found


def numbered(path: Path) -> Path:
    """Return the folder of a run given by its number in `hilrt runs`; any other path unchanged."""
    if path.exists() or not re.fullmatch(r"[0-9]{1,9}", str(path)) or not RUNS.is_dir():
        return path
    from hilrt.analyze.runs import run_of_number

    found = run_of_number(int(str(path)), RUNS)
    typer.echo(f"run: {found}", err=True)
    return found


def locate_before(path: Path, others: list[str]) -> tuple[Path, list[str]]:
    """Separate the logs, to which a shell may expand a pattern, from the other arguments."""
    from hilrt.record.find_log import log_at

    paths = list(itertools.takewhile(lambda name: log_at(Path(name)).is_file(), others))
    return locate([path, *map(Path, paths)]), others[len(paths) :]


def warn_of_damage(path: Path, damage: str) -> None:
    """Report an incomplete log."""
    if damage:
        _notes([f"{path}: is incomplete: {damage}; the part before that is used"])


@log_app.command()
def info(log: LogPath, json_: Json = False) -> None:
    """Show the session, time, size, topics and attachments of a log."""
    from hilrt.logs.log_file import read_contents
    from hilrt.logs.show import as_json, info_lines

    with bad_input():
        contents = read_contents(locate(log))
    if json_:
        typer.echo(json.dumps(as_json(contents), indent=1, ensure_ascii=False))
        return
    for line in info_lines(contents):
        typer.echo(line)


@log_app.command()
def ls(
    log: OneLog,
    signals: Annotated[list[str] | None, typer.Argument(help="names; * and ? match")] = None,
    json_: Json = False,
) -> None:
    """List the signals of a log: name, unit, topic, source, comment."""
    from hilrt.logs.log_file import read_contents
    from hilrt.logs.show import as_json, list_lines

    with bad_input():
        file, names = locate_before(log, signals or [])
        contents = read_contents(file)
    warn_of_damage(file, contents.damage)
    if json_:
        typer.echo(json.dumps(as_json(contents)["topics"], indent=1, ensure_ascii=False))
        return
    with bad_input():
        for line in list_lines(contents, names):
            typer.echo(line)


@log_app.command()
def cat(
    log: AnyFile,
    signals: Annotated[list[str] | None, typer.Argument(help="names; * and ? match")] = None,
    start: From = None,
    end: Until = None,
    every: Annotated[int, typer.Option(help="only every Nth row", min=1)] = 1,
    head: Annotated[int | None, typer.Option(help="stop after N rows", min=1)] = None,
    events: Annotated[
        bool, typer.Option("--events", help="print events instead, as JSON lines")
    ] = False,
    frames: Annotated[bool, typer.Option("--frames", help="print CAN frames instead")] = False,
    database: Databases = None,
) -> None:
    """Print signals of a log as CSV on standard output."""
    from hilrt.logs import show
    from hilrt.logs.decode_frames import bus_databases
    from hilrt.logs.log_file import read_contents
    from hilrt.logs.open_source import open_source
    from hilrt.logs.source import span_ns

    span = span_ns(start, end)
    with bad_input():
        path, names = locate_before(log, signals or [])
        if events:
            contents = read_contents(path)
            show.cat_events(path, sys.stdout, contents, span)
            warn_of_damage(path, contents.damage)
            return
        source = open_source(path, databases=bus_databases(database or []))
        try:
            if frames:
                show.cat_frames(source, sys.stdout, span)
            else:
                show.cat(source, sys.stdout, names, span, step=every, limit=head)
        finally:
            source.close()
    _notes(source.notes)


@log_app.command()
def cut(
    log: LogPath,
    out: Out,
    start: From = None,
    end: Until = None,
    topic: Annotated[list[str] | None, typer.Option(help="only this topic; repeatable")] = None,
    force: Force = False,
) -> None:
    """Copy a time span of a log to a new log."""
    from hilrt.logs import cut as cutting

    with bad_input():
        path = locate(log)
        done = cutting.cut(path, out, start_s=start, end_s=end, topics=topic or [], replace=force)
    _notes(done.notes)
    typer.echo(f"{done.messages:,} messages in {done.path}")


@log_app.command()
def merge(
    logs: Annotated[list[Path], typer.Argument(help="logs, or folders of runs")],
    out: Out,
    align: Annotated[
        bool, typer.Option("--align", help="shift all logs to the same start time")
    ] = False,
    shift: Annotated[
        list[float] | None, typer.Option(help="time by which a log is shifted, s; once per log")
    ] = None,
    force: Force = False,
) -> None:
    """Join logs by the wall clock; time 0 is that of the first log."""
    from hilrt.logs import cut as cutting

    with bad_input():
        paths = [locate(path) for path in logs]
        done = cutting.merge(paths, out, align=align, shifts_s=shift or [], replace=force)
    _notes(done.notes)
    typer.echo(f"{done.messages:,} messages in {done.path}")


@log_app.command()
def repair(
    log: LogPath,
    out: Annotated[
        Path | None,
        typer.Option(
            help="new log; default: NAME.repaired.mcap beside the old one", callback=_log_name
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Copy the intact part of a truncated or damaged log to a new log."""
    from hilrt.logs.source import new_file
    from hilrt.record import repair as repairing

    with bad_input():
        path = locate(log)
        target = out or path.with_suffix(".repaired.mcap")
        with new_file(target, replace=force) as part:
            done = repairing.repair(path, part)
    if done.whole:
        typer.echo(f"{path} is complete; a copy is in {target}")
    for text in done.lost:
        typer.echo(f"left out: {text}")
    missing = f", {done.missing} missing between them" if done.missing else ""
    typer.echo(f"{done.rows} steps to {done.end:.6f} s{missing} in {target}")


def export(
    log: AnyFiles,
    to: Annotated[str, typer.Option(help="mf4, csv, parquet, blf, asc, trc or log (candump)")],
    out: Annotated[Path | None, typer.Option(help="new file; default: beside the log")] = None,
    signal: Annotated[
        list[str] | None, typer.Option(help="name or pattern (* and ?) of signals; repeatable")
    ] = None,
    start: From = None,
    end: Until = None,
    database: Databases = None,
    force: Force = False,
) -> None:
    """Convert a log to the format of another tool."""
    from hilrt.logs.decode_frames import bus_databases
    from hilrt.logs.export_file import export_file

    with bad_input():
        done = export_file(
            locate(log),
            to,
            out,
            signals=signal or [],
            start_s=start,
            end_s=end,
            databases=bus_databases(database or []),
            replace=force,
        )
    _notes(done.notes)
    parts = [f"{done.rows:,} rows of {done.signals} signals"] if done.rows else []
    parts += [f"{done.frames:,} CAN frames"] if done.frames else []
    typer.echo(f"{' and '.join(parts)} in {done.path}")


def import_(
    file: Annotated[Path, typer.Argument(help="MF4, CSV, Parquet, MCAP, or a CAN log")],
    out: Out,
    database: Databases = None,
    time: Annotated[
        str | None, typer.Option(help="column with the time, in CSV and Parquet files")
    ] = None,
    force: Force = False,
) -> None:
    """Convert a file of another tool to a log."""
    from hilrt.logs.decode_frames import bus_databases
    from hilrt.logs.import_file import import_file

    with bad_input():
        databases = bus_databases(database or [])
        done = import_file(file, out, databases=databases, time=time, replace=force)
    _notes(done.notes)
    parts = [f"{done.rows:,} rows of {done.signals} signals"] if done.rows else []
    unknown = f" ({done.unknown_frames:,} unknown to the database)" if databases else ""
    parts += [f"{done.frames:,} CAN frames{unknown}"] if done.frames else []
    typer.echo(f"{' and '.join(parts)} in {done.path}")


def play(
    log: Annotated[
        list[Path],
        typer.Argument(
            help="log of hilrt, MF4, BLF, ASC, TRC, candump log; a pattern means the newest"
        ),
    ],
    bus: Annotated[str, typer.Option(help="interface=…,channel=…: arguments of python-can")],
    start: From = None,
    end: Until = None,
    speed: Annotated[float, typer.Option(help="playback speed: recorded seconds per second")] = 1.0,
    passes: Annotated[int, typer.Option("--loop", help="number of repetitions", min=1)] = 1,
    identifier: Annotated[
        list[str] | None,
        typer.Option("--id", help="0x…: send only frames with this identifier; repeatable"),
    ] = None,
    recorded_bus: Annotated[
        str | None, typer.Option("--only", help="send only the frames of this bus of the log")
    ] = None,
    priority: Annotated[
        int, typer.Option(help="real-time priority, 1 to 99; 0: none", min=0, max=99)
    ] = 0,
    json_: Json = False,
) -> None:
    """Send a log's CAN frames on a bus, with the recorded timing."""
    from hilrt.logs import playback

    if not (speed > 0.0 and speed < float("inf")):
        raise ConfigError(f"--speed {speed:g}: must be a positive number")
    try:
        identifiers = [int(text, 0) for text in identifier or []]
    except ValueError as error:
        raise ConfigError(f"--id: {error}; write it as 0x123 or 291") from None
    arguments = bus_arguments(bus)
    with bad_input():
        path = locate(log)
        tape = playback.load_tape(
            path, start_s=start, end_s=end, identifiers=identifiers, bus=recorded_bus
        )
    if not json_:
        _notes(tape.notes)
        typer.echo(f"{len(tape.packed):,} frames, {tape.duration_s:.3f} s")
        if tape.left_out:
            why = "error frames, and frames whose data were not recorded, cannot be sent"
            typer.echo(f"left out: {tape.left_out:,} frames: {why}", err=True)
    done = playback.play_on_bus(tape, arguments, speed=speed, passes=passes, priority=priority)
    if json_:
        typer.echo(json.dumps(done.as_json(), indent=1))
        return
    for line in playback.describe(done):
        typer.echo(line)


def _notes(notes: list[str]) -> None:
    for note in itertools.islice(dict.fromkeys(notes), 20):
        typer.echo(f"note: {note}", err=True)
