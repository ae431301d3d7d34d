"""`hilrt replay`: make the decisions of a recorded session again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hilrt.cli.log_commands import From, Json, LogPath, Until, bad_input, locate, play
from hilrt.errors import ConfigError

#: Exit status when a step comes out otherwise than recorded.
EXIT_DIFFERS = 1


def replay(
    log: LogPath,
    from_: From = None,
    until: Until = None,
    tolerance: Annotated[
        float | None,
        typer.Option(help="relative; default: 0 on the build that recorded, else 1e-9", min=0.0),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", help="table.key=value: decide with other settings, and compare"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="with --set: folder for a log of the recomputed decisions")
    ] = None,
    json_: Json = False,
    to: Annotated[str | None, typer.Option(help="can: put its frames on --bus, see play")] = None,
    bus: Annotated[str, typer.Option(help="interface=…,channel=…, for --to can")] = "",
    priority: Annotated[
        int, typer.Option(help="for --to can: real-time priority, 1 to 99", min=0, max=99)
    ] = 0,
) -> None:
    """Make every decision again from the recorded inputs; exit status 0 identical, 1 not.

    With --set, show what other settings would have decided; a bench's reaction is not simulated.
    """
    if to is not None:
        if to != "can":
            raise ConfigError(f"--to {to}: only can; `hilrt export` writes files")
        play(log, bus, start=from_, end=until, priority=priority, json_=json_)
        return
    if changes:
        with bad_input():
            file = locate(log)
        _what_if(file, changes, from_ or 0.0, until, out, json_)
        return
    if out is not None:
        raise ConfigError("--out: goes with --set; a plain replay writes nothing")
    from hilrt.replay.replay_log import replay as run
    from hilrt.replay.replay_text import as_json, describe

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
    from hilrt.replay.replay_text import describe_what_if, what_if_as_json
    from hilrt.replay.what_if import what_if

    with bad_input():
        found = what_if(log, changes, start=start, until=until, out=out)
    if json_:
        typer.echo(json.dumps(what_if_as_json(found), indent=1))
    else:
        typer.echo("\n".join(describe_what_if(found)))
