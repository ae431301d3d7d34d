"""The commands about FMUs: ``hilrt fmu info`` and ``hilrt import-ssp``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hilrt.errors import ConfigError

_MISSING = "FMUs need FMPy; install hilrt[fmu]"

fmu_app = typer.Typer(help="Look into an FMU.", no_args_is_help=True)


@fmu_app.callback()
def _about() -> None:
    """Look into an FMU."""


@fmu_app.command()
def info(model: Annotated[Path, typer.Argument(help="FMU", metavar="MODEL.fmu")]) -> None:
    """Ports and capabilities of an FMU, and what each capability enables."""
    try:
        from hilrt.fmu.description import read_fmu
        from hilrt.fmu.info import page
    except ImportError:
        raise ConfigError(_MISSING) from None
    typer.echo(page(read_fmu(model)), nl=False)


def import_ssp(
    system: Annotated[Path, typer.Argument(help="SSP archive", metavar="SYSTEM.ssp")],
    out: Annotated[Path | None, typer.Option(help="session file; default: SYSTEM.toml")] = None,
    hosted: Annotated[bool, typer.Option(help="each FMU in a process of its own")] = False,
) -> None:
    """Write a session file for a system of FMUs."""
    try:
        from hilrt.fmu import ssp_session
    except ImportError:
        raise ConfigError(_MISSING) from None
    target = out or Path(system.stem).with_suffix(".toml")
    for note in ssp_session.import_ssp(system, target, hosted):
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{target} written; hilrt check {target} says what is left to do")
