"""`hilrt sweep`, `tune`, `advise`: try many settings, find the best, recommend initial ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from hilrt.cli.common import Overrides, SessionPath, fail, load
from hilrt.errors import ExitStatus

if TYPE_CHECKING:
    from hilrt.studies.axes import Design
    from hilrt.studies.sweep import SweepResult


def sweep(
    session: SessionPath,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="table.key=LOW:HIGH:11, =LOW:HIGH:log11, =LOW:HIGH:int or =A,B,C; repeatable"
        ),
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(help="CSV instead: a column per key, a row per case")
    ] = None,
    random: Annotated[int | None, typer.Option(help="number of random cases")] = None,
    latin: Annotated[int | None, typer.Option(help="cases of a Latin hypercube")] = None,
    sobol: Annotated[int | None, typer.Option(help="cases of a Sobol sequence")] = None,
    saltelli: Annotated[
        int | None, typer.Option(help="for Sobol' indices: N (keys + 2) cases, N a power of two")
    ] = None,
    morris: Annotated[
        int | None, typer.Option(help="for Morris's indices: N (keys + 1) cases")
    ] = None,
    seed: Annotated[int, typer.Option(help="of the design")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="folder; default: sweeps/NAME of the session file")
    ] = None,
    overrides: Overrides = None,
    signal: Annotated[
        list[str] | None, typer.Option(help="keep its samples; * and ? match; repeatable")
    ] = None,
    statistic: Annotated[
        list[str] | None, typer.Option(help="keep its min, max, mean, rms, last; repeatable")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="processes; default: one per processor", min=1)
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="address of a Dask scheduler, or its file")
    ] = None,
    recycle: Annotated[
        int, typer.Option(help="restart a worker after this many cases; 0: never", min=0)
    ] = 1000,
    timeout: Annotated[float | None, typer.Option(help="longest time of a case, s")] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option(help="further log, if SESSION is a log or a run's folder; repeatable"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
) -> None:
    """Run a session once for each of many settings; called again, continue with the missing cases.

    SESSION may be a recorded log, or the folder of a run: its decisions are then repeated with the
    settings of each case, from the recorded samples. The bench's reaction is not simulated.

    Exit status 0 finished, 2 bad input, 5 with cases that have no result, 130 stopped.
    """
    from hilrt.replay.what_if import CAVEAT
    from hilrt.studies.axes import axes_of_items, values_of_items
    from hilrt.studies.sweep import SweepOptions, is_log
    from hilrt.studies.sweep import sweep as run

    if (cases is None) == (not vary):
        fail("give --vary KEY=VALUES, or --cases FILE.csv, and not both")
    design, count = _design(
        random=random, latin=latin, sobol=sobol, saltelli=saltelli, morris=morris
    )
    options = SweepOptions(
        workers=workers,
        cluster=cluster,
        signals=signal or (),
        statistics=statistic or (),
        recycle=recycle,
        timeout=timeout,
        logs=log or (),
        progress=not quiet,
    )
    recorded = is_log(session)
    if recorded:
        typer.echo(CAVEAT)
    done = run(
        session if recorded else load(session, list(overrides or [])),
        cases if cases is not None else axes_of_items(vary or []),
        values_of_items(overrides or []) if recorded else None,
        design=design,
        count=count,
        seed=seed,
        out=out,
        options=options,
    )
    _tell(done)


def _design(**counts: int | None) -> tuple[Design, int | None]:
    """Return the chosen design and its number of cases."""
    chosen = [(cast("Design", name), n) for name, n in counts.items() if n is not None]
    if len(chosen) > 1:
        fail(f"--{' and --'.join(name for name, _ in chosen)}: choose one design")
    return chosen[0] if chosen else ("grid", None)


def _tell(done: SweepResult) -> None:
    """Print a sweep's outcome and its page; exit status 5 if cases have no result."""
    try:
        from hilrt.studies.sweep_page import write_sweep_page

        typer.echo(f"page: {write_sweep_page(done.folder)}")
    except ImportError as error:
        typer.echo(f"no page: it needs {error.name}; install hilrt[studies]", err=True)
    before = done.cases - done.ran
    typer.echo(
        f"{done.cases:,} cases"
        + (f", {before:,} of them from before" if before else "")
        + (f", {done.lost:,} without a result (the column failure says why)" if done.lost else "")
        + f": {done.data}"
    )
    if done.lost:
        raise typer.Exit(ExitStatus.LESS)


def tune(
    session: Annotated[
        list[Path],
        typer.Argument(
            help="session file (TOML), or recorded logs or folders of runs",
            metavar="SESSION.toml|LOG…",
        ),
    ],
    objective: Annotated[
        str, typer.Option(help="error (estimated), energy (made by the bonds) or cost (steps)")
    ] = "error",
    over: Annotated[
        str, typer.Option(help="correction, step, order, or several with commas between")
    ] = "correction",
    vary: Annotated[
        list[str] | None, typer.Option(help="a further key, as for hilrt sweep; repeatable")
    ] = None,
    validate: Annotated[
        list[str] | None,
        typer.Option(
            help="KEY=A,B,C, such as initial values, with which it must also hold; log=LOG for "
            "other logs; repeatable"
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="total number, including earlier calls", min=2)] = 60,
    out: Annotated[
        Path | None, typer.Option(help="folder; default: tunings/NAME of the session file")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Find the settings of a session with the smallest error, energy or cost.

    With recorded logs instead of the session file, their decisions are repeated with other settings
    from the recorded samples. The bench's reaction is not simulated.

    Exit status 0 with a recommendation, 1 without, 2 bad input, 130 stopped.
    """
    from hilrt.studies.axes import axes_of_items, values_of_items
    from hilrt.studies.tune import tune as run

    parts: Any = [part for part in over.split(",") if part]
    chosen: Any = objective
    found = run(
        session,
        chosen,
        parts,
        overrides=values_of_items(overrides or []),
        vary=axes_of_items(vary or []),
        validate=axes_of_items(validate or []),
        trials=trials,
        out=out,
    )
    for note in found.notes:
        typer.echo(note)
    if not found.settings:
        raise typer.Exit(ExitStatus.FAILED)
    typer.echo(f"{objective}: {found.after:.4g}, before {found.before:.4g}; tune.toml has it, or:")
    words = " ".join(f"--set {key}={value}" for key, value in found.settings.items())
    typer.echo(
        f"hilrt run {session[0] if session[0].suffix == '.toml' else 'SESSION.toml'} {words}"
    )


def advise(
    session: SessionPath,
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="0.01 for 1 % of a signal's variation; NAME=0.005 for one signal; repeatable"
        ),
    ] = None,
    budget: Annotated[float, typer.Option(help="largest share of one processor")] = 1.0,
    missed: Annotated[float, typer.Option(help="largest share of missed ticks")] = 0.01,
    search: Annotated[float, typer.Option(help="start no run that would end later, s")] = 25.0,
    delays: Annotated[
        Path | None, typer.Option(help="file of hilrt doctor --measure, for real time")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="write the advice to this file, as TOML")] = None,
    overrides: Overrides = None,
) -> None:
    """Recommend step, order and correction before the first run, by testing the session's models.

    Exit status 0 with a recommendation, 1 without, 2 bad input.
    """
    from hilrt.analyze.step_advice import percent
    from hilrt.files.text import write_whole
    from hilrt.studies.advise_session import advice_patch, advise_session, remarks_of
    from hilrt.studies.measured_delays import read_delays

    every, single = 0.01, {}
    for text in target or []:
        name, equals, value = text.rpartition("=")
        try:
            share = float(value)
        except ValueError:
            fail(f"--target {text}: write a share, such as 0.01, or SIGNAL=0.01")
        if equals:
            single[name] = share
        else:
            every = share
    found = advise_session(
        load(session, list(overrides or [])),
        every,
        targets=single,
        budget=budget,
        missed=missed,
        search_s=search,
        delays=None if delays is None else read_delays(delays),
    )
    for remark in remarks_of(found):
        typer.echo(remark)
    if out is not None:
        write_whole(out, advice_patch(found))
    if not found.settings:
        raise typer.Exit(ExitStatus.FAILED)
    low, high = (percent(share) for share in found.error)
    typer.echo(f"predicted: error of {found.signal} from {low} to {high} of its variation")
    typer.echo(f"predicted: {percent(found.processor)} of a processor")
    if found.missed == found.missed:
        typer.echo(f"predicted: at most {percent(found.missed)} of the ticks missed")
    words = " ".join(f"--set {key}={value}" for key, value in found.settings.items())
    typer.echo(f"hilrt run {session} {words}")
