"""Watching a session that runs, and serving its page."""

from __future__ import annotations

from typing import Annotated

import typer

from hilrt.cli.common import fail


def watch(
    address: Annotated[str, typer.Argument(help="[monitor] listen of the session")],
    plain: Annotated[bool, typer.Option("--plain", help="lines, also on a terminal")] = False,
) -> None:
    """Watch a session of another machine; with HILRT_TOKEN set, also operate it."""
    from hilrt.monitor.watch import main as watch_main

    raise typer.Exit(watch_main(address, plain=plain))


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
            fail(f"the bridge needs {error.name}; install hilrt[foxglove]")
        raise typer.Exit(foxglove_main(["--connect", address, "--foxglove", foxglove]))
    try:
        from hilrt.web.server import main as web_main
    except ModuleNotFoundError as error:
        if str(error.name).startswith("hilrt"):
            raise
        fail(f"the page needs {error.name}; install hilrt[web]")
    raise typer.Exit(web_main(["--connect", address, "--page", page]))
