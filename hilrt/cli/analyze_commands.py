"""`hilrt analyze …` and `hilrt doctor`: what can be known before a session runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hilrt.cli.common import Overrides, SessionPath, fail, load

analyze_app = typer.Typer(help="Look into a session before it runs.", no_args_is_help=True)


@analyze_app.command()
def stability(
    session: SessionPath,
    overrides: Overrides = None,
    h_min: Annotated[float, typer.Option(help="shortest macro step, s")] = 1e-6,
    h_max: Annotated[float, typer.Option(help="longest macro step, s")] = 1e-2,
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", help="KEY=lowest:highest:points; once: over the macro step"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder for the page stability.html")] = None,
    json_: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Spectral radius of the coupling scheme, and the macro steps where it crosses 1."""
    from hilrt.analyze.stability_study import parse_axis, study

    axes = [parse_axis(text) for text in maps or []]
    found = study(load(session, overrides or []), h_min, h_max, axes)
    if json_:
        typer.echo(json.dumps(found.as_json(), indent=1))
    else:
        from rich.console import Console

        from hilrt.analyze.stability_page import show

        show(found, Console())
    if out is None:
        return
    try:
        from hilrt.analyze.stability_page import write_page

        typer.echo(f"picture in {write_page(found, out)}", err=json_)
    except ImportError:
        fail("the page needs bokeh; install hilrt[report]")


@analyze_app.command()
def repeat(
    session: SessionPath,
    overrides: Overrides = None,
    json_: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Error of a session of models, from runs at its step, a half and a quarter of it."""
    from hilrt.session.repeat import repeat as repeated

    found = repeated(load(session, overrides or []))
    if json_:
        typer.echo(json.dumps({name: one.as_json() for name, one in found.items()}, indent=1))
        return
    for name, one in found.items():
        if one.why_not:
            typer.echo(f"{name}: not in the asymptotic range: {one.why_not}; take a shorter step")
        else:
            error = f"{one.error:.3g} {one.unit}".rstrip()
            typer.echo(
                f"{name}: error {error} RMS, {one.relative:.2%} of what it varies by; "
                f"observed order {one.order:.2f}"
            )


def doctor(
    json_: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Report what this host can do in real time, with remedies; exit status 1 if a line is bad."""
    from hilrt.timing.doctor import as_text, examine

    lines = examine()
    if json_:
        typer.echo(json.dumps([line._asdict() for line in lines], indent=1))
    else:
        typer.echo(as_text(lines))
    raise typer.Exit(any(line.grade == "bad" for line in lines))
