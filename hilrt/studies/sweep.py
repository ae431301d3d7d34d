"""Sweeps: many cases of a session, with a folder from which an interrupted sweep continues."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from hilrt.config.session_file import SessionFile
from hilrt.errors import ConfigError
from hilrt.hosting.main_models import main_classes, pack
from hilrt.record.notebook import sparkline_svg
from hilrt.studies.axes import Design, Settings, axes_of, cases_of, read_cases
from hilrt.studies.run_cases import Row, StudyCase, SweptSession, mixed_keys
from hilrt.studies.subject import Subject, is_log, resolved, subject_of
from hilrt.studies.sweep_data import (
    DATA,
    FORMAT,
    PARTS,
    AboutSweep,
    finished_cases,
    load_sweep,
    read_about,
    with_told_verdicts,
    write_about,
    write_data,
    write_part,
)
from hilrt.version import VERSION

if TYPE_CHECKING:
    import pandas as pd

#: Characters of a case's name: 64 bits of its hash, enough for a million cases without collisions.
NAME_LENGTH: Final = 16
#: Number of cases listed in a notebook.
BEST: Final = 8


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """Options for running the cases of a sweep.

    Attributes
    ----------
    workers : int, optional
        Number of processes on this machine; default: one per processor.
    cluster : str, optional
        Address of a Dask scheduler, or its file, to use instead of this machine.
    signals : sequence of str
        Names or patterns (``*`` and ``?``) of signals whose samples are kept.
    statistics : sequence of str
        Likewise for signals whose min, max, mean, rms and last value are kept.
    recycle : int
        Number of cases after which a worker is restarted; 0: never.
    timeout : float, optional
        Time limit of a case, s; a case that exceeds it twice, running alone, has no result.
    logs : sequence of str or Path
        Further logs, for a sweep of a recorded log: every case is repeated with each log.
    progress : bool
        Show progress and the remaining time in a terminal or a notebook.
    """

    workers: int | None = None
    cluster: str | None = None
    signals: Sequence[str] = ()
    statistics: Sequence[str] = ()
    recycle: int = 1000
    timeout: float | None = None
    logs: Sequence[str | Path] = ()
    progress: bool = True


@dataclass(frozen=True, slots=True)
class SweepResult:
    """Result of a sweep.

    Attributes
    ----------
    folder : Path
        Folder of the sweep, with ``sweep.parquet``.
    cases : int
        Number of cases of the design.
    ran : int
        Number of cases run by this call; the others were run earlier.
    lost : int
        Number of cases without a result; ``failure`` in their rows gives the reason.
    """

    folder: Path
    cases: int
    ran: int
    lost: int

    @property
    def data(self) -> Path:
        """Path of the data set of all cases."""
        return self.folder / DATA

    @property
    def frame(self) -> pd.DataFrame:
        """Rows of all cases, as `hilrt.load_sweep` returns them."""
        return load_sweep(self.folder)

    def _repr_html_(self) -> str:
        """Show the sweep in a notebook: its cases, and those with the smallest estimated errors."""
        frame = with_told_verdicts(self.frame)
        text = f"{self.cases:,} cases, {self.ran:,} run now, {self.lost:,} without a result"
        counts = frame["verdict"].value_counts()
        text += "".join(f", {count:,} {verdict}" for verdict, count in counts.items() if verdict)
        head = f"<p><b>{html.escape(str(self.folder))}</b><br>{html.escape(text)}</p>"
        if "error" not in frame:
            return head
        ranked = frame.sort_values("error")
        columns = [name for name in (*frame.attrs["axes"], "verdict", "error", "cost")
                   if name in frame]  # fmt: skip
        best = str(ranked[columns].head(BEST).to_html(index=False, float_format="%.4g"))
        errors = np.asarray(ranked["error"], dtype=float)
        return f"{head}{best}<p>estimated error of each case, ascending {sparkline_svg(errors)}</p>"


def sweep(
    session: str | Path | SessionFile,
    vary: Mapping[str, Any] | str | Path,
    overrides: Mapping[str, object] | None = None,
    *,
    design: Design = "grid",
    count: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    options: SweepOptions | None = None,
) -> SweepResult:
    """Run a session once for each case of a design, on all processors or on a cluster.

    Cases that the folder already contains are not run again.

    Parameters
    ----------
    session : str, Path or SessionFile
        A session without benches and other processes, as for `simulate`; or a recorded log of any
        session, whose decisions are repeated with the settings of each case.
    vary : mapping, str or Path
        Mapping of ``"table.key"`` to its values, or to a range as for ``--vary``
        (``"0.5e-3:5e-3:log10"``); or the path of a CSV with a column per key and a row per case.
    overrides : mapping, optional
        Values for all cases, by ``"table.key"``.
    design, count, seed
        Choice of the cases (docs/studies.md#ranges-and-designs); not for a CSV.
    out : str or Path, optional
        The sweep's folder; default: ``sweeps/NAME``, with the session file's name.
    options : SweepOptions, optional

    Returns
    -------
    SweepResult

    Raises
    ------
    ConfigError
        For a session or a design with errors, a session with a bench, and a folder with a sweep of
        another session.
    """
    options = options or SweepOptions()
    if by_file := isinstance(vary, (str, Path)):
        settings = read_cases(Path(vary))
    else:
        settings = cases_of(axes_of(vary), design, count, seed)
    subject = _subject(session, overrides, options, settings[0])
    designed = [named(subject.basis, one) for one in subject.with_logs(settings)]
    cases = list({case.name: case for case in designed}.values())
    folder = Path(out) if out is not None else Path("sweeps") / subject.file.path.stem
    about = _about(subject, designed, "cases" if by_file else design, seed)
    _refuse_another(folder, about)
    done = finished_cases(folder)
    if missing := [case for case in cases if case.name not in done]:
        _run(folder, about, _swept(subject, cases, options), missing, options)
    else:
        _claim(folder, about)
    return SweepResult(folder, len(cases), len(missing), write_data(folder, about))


def _about(subject: Subject, designed: Sequence[StudyCase], design: str, seed: int) -> AboutSweep:
    keys = dict.fromkeys(key for case in designed for key in case.settings)
    return AboutSweep(
        FORMAT,
        str(subject.file.path),
        subject.basis,
        VERSION,
        list(subject.file.overrides),
        list(keys),
        design,
        seed,
        [case.name for case in designed],
    )


def _subject(
    session: str | Path | SessionFile,
    overrides: Mapping[str, object] | None,
    options: SweepOptions,
    first: Settings,
) -> Subject:
    """The session of a sweep, or its logs; `ConfigError` for unsuitable options."""
    if not is_log(session):
        if options.logs:
            raise ConfigError("further logs: only work with a recorded log instead of the session")
        return subject_of(session, overrides, first)
    if options.signals or options.statistics:
        raise ConfigError("a sweep of logs keeps no signals; hilrt replay LOG --set … --out does")
    return subject_of([session, *options.logs], overrides, first)


def _swept(subject: Subject, cases: Sequence[StudyCase], options: SweepOptions) -> SweptSession:
    """Session and options that the workers need."""
    return subject.swept._replace(
        signals=tuple(options.signals),
        statistics=tuple(options.statistics),
        as_text=mixed_keys(cases),
        models=b"" if subject.logs else pack(main_classes(resolved(subject.file))),
    )


def _refuse_another(folder: Path, about: AboutSweep) -> None:
    """Raise `ConfigError` if a folder contains a sweep with another basis."""
    before = read_about(folder)
    if before is not None and before.basis != about.basis:
        raise ConfigError(
            f"{folder}: has a sweep of another session ({before.session}, version "
            f"{before.version}), or of files or models that have changed since; name another "
            "folder (--out), or delete this one. The same sweep continues with its missing cases"
        )


def _claim(folder: Path, about: AboutSweep) -> None:
    """Create the folder of a sweep."""
    try:
        (folder / PARTS).mkdir(parents=True, exist_ok=True)
        write_about(folder, about)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror}; give --out") from None


def _run(
    folder: Path,
    about: AboutSweep,
    swept: SweptSession,
    missing: Sequence[StudyCase],
    options: SweepOptions,
) -> None:
    """Run the missing cases; each is written to a part before it counts."""
    from hilrt.studies.workers import CaseQueue, connected

    def take(rows: list[Row]) -> None:
        if rows:
            write_part(folder, rows)
            advance(len(rows))

    total = len(set(about.cases))
    with connected(options.cluster, options.workers) as client:
        _claim(folder, about)  # late, so that a refused sweep leaves nothing behind
        with _progress(options.progress, total, total - len(missing)) as advance:
            CaseQueue(client, swept, options.recycle, options.timeout).run(missing, take)


@contextmanager
def _progress(shown: bool, total: int, done: int) -> Iterator[Callable[[int], None]]:
    """Show the number of finished cases and the remaining time; yield the counter."""
    if not shown:
        yield lambda count: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("cases"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("remaining"),
        progress.TimeRemainingColumn(elapsed_when_finished=False),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("cases", total=total, completed=done)
        yield lambda count: bar.advance(task, count)
        bar.refresh()  # a notebook does not redraw at the end


def named(basis: str, settings: Settings) -> StudyCase:
    """Create a case, named by the hash of basis and settings."""
    content = msgspec.json.encode([basis, settings], order="sorted")
    return StudyCase(hashlib.sha256(content).hexdigest()[:NAME_LENGTH], settings)
