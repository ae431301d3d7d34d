"""`hilrt sweep`, `tune`, `advise`: run many settings, find the best, recommend initial ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from hilrt.cli.common import Overrides, SessionPath, fail, load
from hilrt.errors import ExitStatus

if TYPE_CHECKING:
    from hilrt.studies.axes import Design
    from hilrt.studies.sweep import SweepResult


# Options of `hilrt sweep`: its cases, the results kept of each, and its workers.

Vary = Annotated[
    list[str] | None,
    typer.Option(help="KEY=LOW:HIGH:11 (points), :log11, :int, or KEY=A,B,C; repeatable"),
]
Cases = Annotated[
    Path | None,
    typer.Option(help="CSV file instead of --vary: one column per key, one row per case"),
]
Random = Annotated[int | None, typer.Option(help="number of random cases")]
Latin = Annotated[int | None, typer.Option(help="number of cases of a Latin hypercube")]
Sobol = Annotated[int | None, typer.Option(help="number of cases of a Sobol sequence")]
Saltelli = Annotated[
    int | None, typer.Option(help="N, a power of two: N (keys + 2) cases for Sobol' indices")
]
Morris = Annotated[int | None, typer.Option(help="N: N (keys + 1) cases for Morris's indices")]
Signals = Annotated[
    list[str] | None,
    typer.Option(help="name or pattern of signals whose samples are kept; repeatable"),
]
Statistics = Annotated[
    list[str] | None,
    typer.Option(help="signals whose min, max, mean, rms and last value are kept; repeatable"),
]
Workers = Annotated[
    int | None, typer.Option(help="number of processes; default: one per processor", min=1)
]
Cluster = Annotated[str | None, typer.Option(help="Dask scheduler: its address, or its file")]
Recycle = Annotated[
    int, typer.Option(help="restart a worker after this many cases; 0: never", min=0)
]
FurtherLogs = Annotated[
    list[Path] | None,
    typer.Option(help="further log, if SESSION is a recorded one; repeatable"),
]


def sweep(
    session: SessionPath,
    vary: Vary = None,
    cases: Cases = None,
    random: Random = None,
    latin: Latin = None,
    sobol: Sobol = None,
    saltelli: Saltelli = None,
    morris: Morris = None,
    seed: Annotated[int, typer.Option(help="seed of the design")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="folder for the results; default: sweeps/NAME")
    ] = None,
    overrides: Overrides = None,
    signal: Signals = None,
    statistic: Statistics = None,
    workers: Workers = None,
    cluster: Cluster = None,
    recycle: Recycle = 1000,
    timeout: Annotated[float | None, typer.Option(help="time limit of a case, s")] = None,
    log: FurtherLogs = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="show no progress")] = False,
) -> None:
    """Run a session with many settings; a repeated call runs only the missing cases.

    SESSION may be a recorded log, or the folder of a run: its decisions are then repeated with the
    settings of each case, from the recorded samples. The bench's reaction is not simulated.

    Exit status: 0 finished, 2 wrong input, 5 some cases have no result, 130 interrupted.
    """
    from hilrt.studies.axes import axes_of_items, values_of_items
    from hilrt.studies.subject import is_log
    from hilrt.studies.sweep import SweepOptions
    from hilrt.studies.sweep import sweep as run
    from hilrt.studies.what_if_result import CAVEAT

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
    _print_result(done)


def _design(**counts: int | None) -> tuple[Design, int | None]:
    """Return the chosen design and its number of cases."""
    chosen = [(cast("Design", name), n) for name, n in counts.items() if n is not None]
    if len(chosen) > 1:
        fail(f"--{' and --'.join(name for name, _ in chosen)}: choose one design")
    return chosen[0] if chosen else ("grid", None)


def _print_result(done: SweepResult) -> None:
    """Print a sweep's outcome and the path of its page; exit with 5 if cases have no result."""
    try:
        from hilrt.studies.sweep_page import write_sweep_page

        typer.echo(f"page: {write_sweep_page(done.folder)}")
    except ImportError as error:
        typer.echo(f"no page: it needs {error.name}; install hilrt[studies]", err=True)
    before = done.cases - done.ran
    typer.echo(
        f"{done.cases:,} cases"
        + (f", {before:,} of them from earlier calls" if before else "")
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
        str, typer.Option(help="error (estimated), energy (created at the bonds) or cost (steps)")
    ] = "error",
    over: Annotated[
        str, typer.Option(help="correction, step, order, or several, separated by commas")
    ] = "correction",
    vary: Annotated[
        list[str] | None, typer.Option(help="further key to vary, as for hilrt sweep; repeatable")
    ] = None,
    validate: Annotated[
        list[str] | None,
        typer.Option(
            help="KEY=A,B,C: also test the settings with these values, such as initial values; "
            "log=LOG: also with another log; repeatable"
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(help="number of trials, including those of earlier calls", min=2)
    ] = 60,
    out: Annotated[
        Path | None, typer.Option(help="folder for the results; default: tunings/NAME")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Find the settings with the smallest error, energy or cost.

    With recorded logs instead of the session file, their decisions are repeated with other settings
    from the recorded samples. The bench's reaction is not simulated.

    Exit status: 0 with a recommendation, 1 without, 2 wrong input, 130 interrupted.
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
            help="largest error: 0.01 is 1 % of a signal's variation; NAME=0.005 for one signal"
        ),
    ] = None,
    budget: Annotated[
        float, typer.Option(help="largest share of one processor that may be used")
    ] = 1.0,
    missed: Annotated[float, typer.Option(help="largest share of missed ticks")] = 0.01,
    search: Annotated[
        float, typer.Option(help="time for the search, s: no run is started that would end later")
    ] = 25.0,
    delays: Annotated[
        Path | None,
        typer.Option(help="for real time: file with the delays of hilrt doctor --measure"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="write the advice to this file, as TOML")] = None,
    overrides: Overrides = None,
) -> None:
    """Recommend step, order and correction before the first run.

    The session's models are tested with different settings. Exit status: 0 with a
    recommendation, 1 without, 2 wrong input.
    """
    from hilrt.files.text import write_whole
    from hilrt.reliability.choose_settings import percent
    from hilrt.studies.advise_session import advice_patch, advise_session, remarks_of
    from hilrt.studies.measured_delays import read_delays

    every, single = _targets(target or [])
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


def _targets(texts: list[str]) -> tuple[float, dict[str, float]]:
    """Parse the target of all signals, and those of single ones, by name."""
    every, single = 0.01, {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        try:
            share = float(value)
        except ValueError:
            fail(f"--target {text}: write a share, such as 0.01, or SIGNAL=0.01")
        if equals:
            single[name] = share
        else:
            every = share
    return every, single
