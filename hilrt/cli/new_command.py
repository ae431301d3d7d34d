"""`hilrt new`: a session file that runs, from a CAN database, FMUs or Python classes."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Annotated

import typer

from hilrt.cli.can_commands import bus_arguments, write_draft
from hilrt.cli.common import fail

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
    can generate` writes the session for the real bus, with choices left to make.
    """
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", session.stem).lstrip("_.-") or "session"
    folder = session.resolve().parent
    if (database is None) == (not models):
        fail("give --database FILE, or --model FILE.fmu or module:Class, which can be repeated")
    if database is not None:
        from hilrt.can.tools.session_draft import generate

        port = PORTS[zlib.crc32(name.encode()) % len(PORTS)]
        bus = bus_arguments(
            f"interface=udp_multicast,channel=239.74.163.40,port={port},hop_limit=0"
        )
        text = generate(
            database, node, bus, folder, bench=bench or (), send=send or (), emulator=emulator
        )
    else:
        from hilrt.check.draft_session import draft_session

        text = draft_session(name, models or [], folder)
    write_draft(session, text)
    typer.echo(f"{session} written; now: hilrt check {session}, then hilrt run {session}")
