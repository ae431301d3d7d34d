"""`hilrt can`: watch a CAN bus, measure it, send to it; `hilrt new`: write a session file."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hilrt.cli.common import bus_arguments, fail
from hilrt.errors import ConfigError

if TYPE_CHECKING:
    from hilrt.can.bus import CanBus
    from hilrt.can.frame import Frame
    from hilrt.can.tools.bus_watcher import BusWatcher

can_app = typer.Typer(help="Watch, measure and use a CAN bus.", no_args_is_help=True)

#: Longest wait for frames before the duration and Ctrl-C are checked, s.
_WAIT_S = 0.1

BusText = Annotated[
    str, typer.Option("--bus", help="interface=…,channel=…: arguments of python-can")
]
Database = Annotated[Path | None, typer.Option("--database", help="CAN database")]
Duration = Annotated[float | None, typer.Option(help="duration, s; default: until Ctrl-C", min=0.0)]


@contextmanager
def _opened(bus: str) -> Iterator[CanBus]:
    from hilrt.can.bus import open_bus

    opened = open_bus(bus_arguments(bus), [], f"--bus {bus}")
    try:
        yield opened
    finally:
        opened.close()


def _watcher(database: Path | None) -> BusWatcher:
    from hilrt.can.database import load_database
    from hilrt.can.tools.bus_watcher import BusWatcher

    if database is None:
        return BusWatcher()
    watcher = BusWatcher(load_database(database, "--database").messages)
    for problem in watcher.problems:
        typer.echo(f"{database.name}: {problem}", err=True)
    return watcher


def _frames(bus: CanBus, duration: float | None) -> Iterator[list[Frame]]:
    """Yield received frames in batches until the time is over, or until Ctrl-C."""
    import select

    end = None if duration is None else time.monotonic() + duration
    try:
        while end is None or time.monotonic() < end:
            wait = _WAIT_S if end is None else min(_WAIT_S, max(0.0, end - time.monotonic()))
            select.select([bus.fileno()], [], [], wait)
            yield bus.drain()
    except KeyboardInterrupt:
        return


@can_app.command()
def sniff(
    bus: BusText,
    database: Database = None,
    duration: Duration = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="print a line per frame instead of a table")
    ] = False,
) -> None:
    """Show the frames on the bus, decoded."""
    from rich.console import Console
    from rich.live import Live

    from hilrt.can.frame import error_text
    from hilrt.can.tools.bus_watcher import live_table, signals_text

    watcher = _watcher(database)
    console = Console()
    with _opened(bus) as opened:
        if lines or not console.is_terminal:
            for frames in _frames(opened, duration):
                for frame in (f for one in frames for f in watcher.receive([one], time.time_ns())):
                    row = watcher.rows.get(frame.can_id)
                    values = signals_text(row) if row else error_text(frame)
                    name = row.name if row else ""
                    stamp = f"{1e-9 * (frame.t_ns or time.time_ns()):.6f}"
                    typer.echo(f"{stamp} {frame.text} [{frame.data.hex()}] {name} {values}")
            return
        with Live(console=console, auto_refresh=False) as live:
            shown = 0.0
            for frames in _frames(opened, duration):
                watcher.receive(frames, time.time_ns())
                if time.monotonic() - shown > 2 * _WAIT_S:
                    shown = time.monotonic()
                    live.update(live_table(watcher), refresh=True)


@can_app.command()
def stats(
    bus: BusText,
    database: Database = None,
    duration: Annotated[float, typer.Option(help="time to measure, s", min=0.0)] = 5.0,
    bit_rate: Annotated[float, typer.Option(help="bit rate of the bus, bit/s", min=1.0)] = 1e6,
) -> None:
    """Count frames and measure cycle times, losses and the bus load."""
    from rich.console import Console

    from hilrt.can.tools.bus_watcher import stats_table

    watcher = _watcher(database)
    begun = time.monotonic()
    with _opened(bus) as opened:
        for frames in _frames(opened, duration):
            watcher.receive(frames, time.time_ns())
        errors = opened.errors
    seconds = time.monotonic() - begun
    total = watcher.frames
    console = Console()
    console.width = max(console.width, 110)  # for a pipe, rich assumes 80 columns: too few
    console.print(stats_table(watcher))
    typer.echo(
        f"{total} frames in {seconds:.1f} s ({total / seconds:.0f}/s), about "
        f"{watcher.load(seconds, bit_rate):.1%} of {bit_rate:g} bit/s; "
        f"{watcher.error_frames} error frames, {errors} read errors"
    )


@can_app.command()
def send(
    bus: BusText,
    what: Annotated[list[str], typer.Argument(help="123#11223344, or MESSAGE SIGNAL=VALUE …")],
    database: Database = None,
    count: Annotated[int, typer.Option(help="number of frames", min=1)] = 1,
    cycle: Annotated[float, typer.Option(help="time between two frames, s", min=0.0)] = 0.1,
) -> None:
    """Send a frame, raw or by message name; omitted signals have their start values."""
    from hilrt.can.tools.typed_frame import frame_of

    frame = frame_of(what, database)
    with _opened(bus) as opened:
        for k in range(count):
            try:
                opened.send(frame)
            except Exception as error:  # adapters' drivers raise any kind
                raise ConfigError(
                    f"--bus {bus}: {frame.text} was not sent: {error}; "
                    "check that the bus is up and supports this kind of frame"
                ) from None
            if k + 1 < count:
                time.sleep(cycle)
    typer.echo(f"{count} × {frame.text} [{frame.data.hex()}]")


@can_app.command()
def generate(
    session: Annotated[Path, typer.Argument(help="session file to write", metavar="SESSION.toml")],
    database: Annotated[Path, typer.Option(help="CAN database")],
    bus: BusText = "interface=socketcan,channel=can0",
    node: Annotated[str | None, typer.Option(help="sender that hilrt replaces")] = None,
    bench: Annotated[
        list[str] | None, typer.Option(help="sender that is measured; repeatable")
    ] = None,
    send: Annotated[
        list[str] | None,
        typer.Option(help="message with set-points; default: all of --node; repeatable"),
    ] = None,
) -> None:
    """Draft a session file for a bench from its database; the remaining choices are marked."""
    from hilrt.can.tools.session_draft import CHOOSE, choices
    from hilrt.can.tools.session_draft import generate as text_of

    folder = session.resolve().parent
    text = text_of(database, node, bus_arguments(bus), folder, bench=bench or (), send=send or ())
    write_draft(session, text)
    typer.echo(
        f"{session}: {choices(text)} choices to make, marked {CHOOSE}; then: hilrt check {session}"
    )


def write_draft(session: Path, text: str) -> None:
    """Write a new session file; `ConfigError` if it exists or cannot be written."""
    from hilrt.files.text import write_whole

    if session.exists():
        raise ConfigError(f"{session}: already exists; give another name")
    try:
        write_whole(session, text)
    except OSError as error:
        raise ConfigError(
            f"{session}: cannot be written: {error.strerror}; "
            "create its folder first, or give another one"
        ) from None


# `hilrt new`: a session file that runs, from a CAN database, FMUs or Python classes.

#: Range of loopback ports for emulated buses; a session's name determines its port.
PORTS = range(43200, 44200)


def new(
    session: Annotated[Path, typer.Argument(help="session file to write", metavar="SESSION.toml")],
    database: Annotated[Path | None, typer.Option(help="CAN database of a bench")] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--model", help="FILE.fmu or module:Class; repeatable"),
    ] = None,
    node: Annotated[str | None, typer.Option(help="sender that hilrt replaces")] = None,
    bench: Annotated[
        list[str] | None, typer.Option(help="sender that is emulated; repeatable")
    ] = None,
    send: Annotated[
        list[str] | None,
        typer.Option(help="message with set-points; default: all of --node; repeatable"),
    ] = None,
    emulator: Annotated[
        str, typer.Option(help="database (constant values), or module:Class, your own model")
    ] = "database",
) -> None:
    """Write a session that runs: from a CAN database, with an emulated bench, or from models.

    For a database, the bench is emulated on a bus inside this machine. It sends the database's
    messages with counters and checksums; its values are constant or follow the set-points. `hilrt
    can generate` drafts the session for the real bus.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", session.stem).lstrip("_.-") or "session"
    folder = session.resolve().parent
    if (database is None) == (not models):
        fail("give --database FILE, or --model FILE.fmu or module:Class, which can be repeated")
    if database is not None:
        from hilrt.can.tools.session_draft import generate as text_of

        port = PORTS[zlib.crc32(name.encode()) % len(PORTS)]
        bus = bus_arguments(
            f"interface=udp_multicast,channel=239.74.163.40,port={port},hop_limit=0"
        )
        text = text_of(
            database, node, bus, folder, bench=bench or (), send=send or (), emulator=emulator
        )
    else:
        from hilrt.check.draft_session import draft_session

        text = draft_session(name, models or [], folder)
    write_draft(session, text)
    typer.echo(f"{session} written; now: hilrt check {session}, then hilrt run {session}")
