"""`hilrt report` and `hilrt compare`: pages about recorded sessions."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from hilrt.cli.log_commands import Json, LogPath, bad_input, locate, say_damage
from hilrt.errors import ConfigError, RecordError


@contextlib.contextmanager
def _bokeh() -> Iterator[None]:
    """Name the extra where a page's imports fail."""
    try:
        yield
    except ImportError as error:
        raise RecordError(f"the page needs {error.name}; install hilrt[report]") from None


Png = Annotated[bool, typer.Option("--png", help="every figure as a picture too")]


def report(
    log: LogPath,
    out: Annotated[Path | None, typer.Option(help="page; default: beside the log")] = None,
    png: Png = False,
    json_: Json = False,
) -> None:
    """Write the page about a session from its log alone; --json prints its numbers instead."""
    from hilrt.analyze.log_analysis import analyse_log

    with bad_input():
        analysis = analyse_log(locate(log))
        say_damage(analysis.file, analysis.stream.damage)
        if json_:
            numbers = analysis.as_json(analysis.can_traffic())
            typer.echo(json.dumps(numbers, indent=1, ensure_ascii=False, default=str))
            return
        with _bokeh():
            from hilrt.analyze.report import write_page
        target = write_page(analysis, out, png=png, json_=True)
    typer.echo(f"page in {target}, numbers in {target.with_suffix('.json')}")


def compare(
    logs: Annotated[
        list[Path],
        typer.Argument(
            help="two logs, or runs' folders; a pattern in quotes is the newest", metavar="A B"
        ),
    ],
    out: Annotated[Path, typer.Option(help="page")] = Path("comparison.html"),
    png: Png = False,
    json_: Json = False,
) -> None:
    """Two sessions side by side, their differences highlighted."""
    from hilrt.analyze.log_comparison import compare_logs

    if len(logs) != 2:
        raise ConfigError(
            f"compare: needs two logs, not {len(logs)}; a pattern in quotes ('runs/NAME-*') is the "
            "newest that it names"
        )
    with bad_input():
        found = compare_logs(*(locate(path) for path in logs))
        for analysis in (found.a, found.b):
            say_damage(analysis.file, analysis.stream.damage)
        if json_:
            typer.echo(json.dumps(found.as_json(), indent=1, ensure_ascii=False, default=str))
            return
        with _bokeh():
            from hilrt.analyze.comparison_page import write_comparison
        target = write_comparison(found, out, png=png)
    typer.echo(f"page in {target}")
