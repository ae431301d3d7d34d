"""`hilrt report` and `hilrt compare`: pages about recorded sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hilrt.cli.log_commands import Json, LogPath, bad_input, locate

Png = Annotated[bool, typer.Option("--png", help="every figure as a picture too")]


def report(
    log: LogPath,
    out: Annotated[Path | None, typer.Option(help="page; default: beside the log")] = None,
    png: Png = False,
    json_: Json = False,
) -> None:
    """Write the page about a session from its log alone; --json prints its numbers instead."""
    from hilrt.analyze.log_analysis import analyse_log
    from hilrt.analyze.report import write_report

    with bad_input():
        file = locate(log)
        if json_:
            analysis = analyse_log(file)
            typer.echo(json.dumps(analysis.as_json(), indent=1, ensure_ascii=False, default=str))
            return
        target = write_report(file, out, png=png, json_=True)
    typer.echo(f"page in {target}, numbers in {target.with_suffix('.json')}")


def compare(
    a: Annotated[Path, typer.Argument(help="log, or the run's folder", metavar="A")],
    b: Annotated[Path, typer.Argument(help="log, or the run's folder", metavar="B")],
    out: Annotated[Path, typer.Option(help="page")] = Path("comparison.html"),
    png: Png = False,
    json_: Json = False,
) -> None:
    """Two sessions side by side, their differences highlighted."""
    from hilrt.analyze.comparison_page import write_comparison
    from hilrt.analyze.log_comparison import compare_logs

    with bad_input():
        files = locate(a), locate(b)
        if json_:
            found = compare_logs(*files)
            typer.echo(json.dumps(found.as_json(), indent=1, ensure_ascii=False, default=str))
            return
        target = write_comparison(*files, out, png=png)
    typer.echo(f"page in {target}")
