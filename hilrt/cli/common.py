"""Helpers shared by groups of commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from hilrt.cli.explained import page_of
from hilrt.errors import ConfigError
from hilrt.exit_status import ExitStatus

if TYPE_CHECKING:
    from hilrt.config.session_file import SessionFile

SessionPath = Annotated[Path, typer.Argument(help="session file (TOML)", metavar="SESSION.toml")]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", help="table.key=value, overrides the session file")
]


def load(session: Path, overrides: list[str]) -> SessionFile:
    """The session file with the overrides."""
    from hilrt.config.session_file import load_session

    return load_session(session, overrides)


def fail(text: str) -> NoReturn:
    """End the command: its input is wrong."""
    typer.echo(f"{text}\nsee {page_of(ConfigError(text), sys.argv[1:])}", err=True)
    raise typer.Exit(ExitStatus.INPUT)
