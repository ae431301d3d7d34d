"""Sweeps: many cases of a session, in a folder from which an interrupted sweep continues."""

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

from hilrt.config.parse_toml import toml_value
from hilrt.config.session_file import SessionFile, open_session, override
from hilrt.errors import ConfigError
from hilrt.hosting.main_models import digest, main_classes, pack
from hilrt.record.find_log import find_log
from hilrt.record.notebook import sparkline_svg
from hilrt.replay.rebuild import rebuild, session_of
from hilrt.replay.recorded_steps import RecordedSteps
from hilrt.session.opening import called_link, elsewhere, read
from hilrt.studies.axes import Design, Settings, axes_of, cases_of, read_cases
from hilrt.studies.run_cases import LOG, Row, StudyCase, SweptSession, mixed_keys
from hilrt.studies.sweep_data import (
    DATA,
    FORMAT,
    PARTS,
    AboutSweep,
    finished_cases,
    load_sweep,
    read_about,
    write_about,
    write_data,
    write_part,
)
from hilrt.version import VERSION

if TYPE_CHECKING:
    import pandas as pd

#: Characters of a case's name: 64 bits of its hash, with which a million cases do not collide.
NAME_LENGTH: Final = 16
#: Cases that a notebook lists.
BEST: Final = 8


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """Options of a sweep: where and how its cases run.

    Attributes
    ----------
    workers : int, optional
        Number of processes on this machine; default: one per processor.
    cluster : str, optional
        Address of a Dask scheduler, or its file, to use instead of this machine.
    signals : sequence of str
        Names or patterns (``*`` and ``?``) of signals whose samples are kept.
    statistics : sequence of str
        The same for signals whose min, max, mean, rms and last value are kept.
    recycle : int
        Number of cases after which a worker is restarted; 0: never.
    timeout : float, optional
        Time limit of a case, s, after which it is abandoned on its second try.
    logs : sequence of str or Path
        Further logs, if a recorded log is swept: every case is repeated with each.
    progress : bool
        Show progress and the time that remains, where there is a terminal or a notebook.
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
        """The sweep in a notebook: its cases, and the best of them by their estimated error."""
        frame = self.frame
        said = f"{self.cases:,} cases, {self.ran:,} run now, {self.lost:,} without a result"
        counts = frame["verdict"].value_counts()
        said += "".join(f", {count:,} {verdict}" for verdict, count in counts.items() if verdict)
        head = f"<p><b>{html.escape(str(self.folder))}</b><br>{html.escape(said)}</p>"
        if "error" not in frame:
            return head
        ranked = frame.sort_values("error")
        columns = [name for name in (*frame.attrs["axes"], "verdict", "error", "cost")
                   if name in frame]  # fmt: skip
        best = str(ranked[columns].head(BEST).to_html(index=False, float_format="%.4g"))
        errors = np.asarray(ranked["error"], dtype=float)
        return (
            f"{head}{best}<p>estimated error of all cases, least first {sparkline_svg(errors)}</p>"
        )


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

    Cases that the folder has from an earlier call are not run again.

    Parameters
    ----------
    session : str, Path or SessionFile
        A session without benches and other processes, as `simulate` takes it; or a recorded log, of
        any session: its decisions are repeated with the settings of each case.
    vary : mapping, str or Path
        Mapping of ``"table.key"`` to its values, or to a range as after ``--vary``
        (``"0.5e-3:5e-3:log10"``); or the path of a CSV with a column per key and a row per case.
    overrides : mapping, optional
        Values for all cases, by ``"table.key"``.
    design, count, seed
        Choice of the cases, see `hilrt.studies.axes.cases_of`; not for a CSV.
    out : str or Path, optional
        The sweep's folder; default: ``sweeps/NAME``, with the session file's name.
    options : SweepOptions, optional

    Returns
    -------
    SweepResult

    Raises
    ------
    ConfigError
        For a session or a design with errors, a session with a bench, and a folder that has a sweep
        of another session.
    """
    options = options or SweepOptions()
    if isinstance(vary, (str, Path)):
        settings, design = read_cases(Path(vary)), "grid"
    else:
        settings = cases_of(axes_of(vary), design, count, seed)
    named_logs = [session, *options.logs] if is_log(session) else []
    if named_logs:
        logs = [str(find_log(str(log)).resolve()) for log in named_logs]
        settings = [{LOG: log, **one} for log in logs for one in settings]
        if options.signals or options.statistics:
            raise ConfigError(
                "a sweep of logs keeps no signals; hilrt replay LOG --set … --out does"
            )
        file, basis = session_of_logs(logs, overrides, settings[0])
    elif options.logs:
        raise ConfigError("further logs: only work with a recorded log instead of the session")
    else:
        file = open_session(session, overrides)
        refuse_benches(file)
        read(override(file, settings[0]), pace="asap")  # a key that does not exist fails here
        basis = basis_of(file)
    folder = Path(out) if out is not None else Path("sweeps") / file.path.stem
    designed = [named(basis, one) for one in settings]
    cases = list({case.name: case for case in designed}.values())
    about = AboutSweep(
        FORMAT,
        str(file.path),
        basis,
        VERSION,
        list(file.overrides),
        list(dict.fromkeys(key for one in settings for key in one)),
        design if not isinstance(vary, (str, Path)) else "cases",
        seed,
        [case.name for case in designed],
    )
    _claim(folder, about)
    swept = SweptSession(
        str(file.path),
        file.text,
        file.overrides,
        tuple(options.signals),
        tuple(options.statistics),
        mixed_keys(cases),
        bool(named_logs),
        b"" if named_logs else pack(main_classes(_resolved(file))),
    )
    done = finished_cases(folder)
    missing = [case for case in cases if case.name not in done]
    if missing:
        _run(folder, swept, missing, options, len(cases))
    return SweepResult(folder, len(cases), len(missing), write_data(folder, about))


def is_log(session: object) -> bool:
    """Whether a path names a recorded log, or the folder of a run, and no session file."""
    if not isinstance(session, (str, Path)):
        return False
    path = Path(session)
    return path.is_dir() or path.suffix == ".mcap"


def session_of_logs(
    logs: Sequence[str], overrides: Mapping[str, object] | None, settings: Settings
) -> tuple[SessionFile, str]:
    """Session of the first of some logs with overrides, and the hash of all.

    `ConfigError` if the overrides or the `settings` of a case cannot be answered from a log.
    """
    changes = [f"{k}={toml_value(v)}" for k, v in (overrides or {}).items()]
    own = [f"{k}={toml_value(v)}" for k, v in settings.items() if k != LOG]
    found = hashlib.sha256(VERSION.encode())
    for log in logs:
        recorded = RecordedSteps(Path(log)).recorded
        rebuild(recorded, [*changes, *own])
        with open(log, "rb") as content:
            found.update(hashlib.file_digest(content, "sha256").digest())
    found.update(msgspec.json.encode(changes))
    file = session_of(RecordedSteps(Path(logs[0])).recorded, changes)
    return SessionFile(file.tables, Path(logs[0]), "", tuple(changes)), found.hexdigest()


def _claim(folder: Path, about: AboutSweep) -> None:
    """Make the folder of a sweep; `ConfigError` if it has one of another basis."""
    before = read_about(folder)
    if before is not None and before.basis != about.basis:
        raise ConfigError(
            f"{folder}: has a sweep of another session ({before.session}, version "
            f"{before.version}), or of files or models that have changed since; name another "
            "folder (--out), or delete this one. The same sweep continues with its missing cases"
        )
    try:
        (folder / PARTS).mkdir(parents=True, exist_ok=True)
        write_about(folder, about)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be written: {error.strerror}; give --out") from None


def _run(
    folder: Path,
    swept: SweptSession,
    missing: Sequence[StudyCase],
    options: SweepOptions,
    total: int,
) -> None:
    """Run the missing cases; each is in a part before it counts."""
    from hilrt.studies.workers import CaseQueue, connected

    def take(rows: list[Row]) -> None:
        if rows:
            write_part(folder, rows)
            advance(len(rows))

    with (
        _progress(options.progress, total, total - len(missing)) as advance,
        connected(options.cluster, options.workers) as client,
    ):
        CaseQueue(client, swept, options.recycle, options.timeout).run(missing, take)


@contextmanager
def _progress(shown: bool, total: int, done: int) -> Iterator[Callable[[int], None]]:
    """Show the number of finished cases and the remaining time; yields the counter."""
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


def refuse_benches(file: SessionFile) -> None:
    """`ConfigError` for a session with something physical, or with other processes."""
    problems = [
        f"[subsystems.{name}] adapter = {options.adapter!r}: is a bench, which must not run "
        'unattended; replace it with a model (adapter = "inprocess" or "fmu"), or use its '
        "recorded log (hilrt replay LOG --set KEY=VALUE)"
        for name, options in file.tables.subsystems.items()
        if called_link(options).physical
    ]
    if problems := problems or elsewhere(file):
        raise ConfigError(problems)


def basis_of(file: SessionFile) -> str:
    """Hash of the resolved session, of the content of the files it names, and of the version."""
    resolved = _resolved(file)
    found = hashlib.sha256(msgspec.msgpack.encode([VERSION, resolved], order="sorted"))
    for path in sorted(_named_files(resolved, file.folder)):
        with path.open("rb") as content:
            found.update(hashlib.file_digest(content, "sha256").digest())
    if classes := main_classes(resolved):
        found.update(digest(classes))
    return found.hexdigest()


def _resolved(file: SessionFile) -> Any:
    """Tables of a session as plain values."""
    return msgspec.to_builtins(file.tables, enc_hook=str)


def _named_files(tree: Any, folder: Path) -> Iterator[Path]:
    """Files that a session names: modules of models, FMUs, tables of stimuli."""
    if isinstance(tree, str):
        name = tree.partition(":")[0]
        if 0 < len(name) < 256 and "\0" not in name:
            places = (folder / name, folder / f"{name.replace('.', '/')}.py")
            yield from (path for path in places if path.is_file())
    elif isinstance(tree, (dict, list, tuple)):
        for branch in tree.values() if isinstance(tree, dict) else tree:
            yield from _named_files(branch, folder)


def named(basis: str, settings: Settings) -> StudyCase:
    """Case of settings, with the hash of basis and settings as its name."""
    content = msgspec.json.encode([basis, settings], order="sorted")
    return StudyCase(hashlib.sha256(content).hexdigest()[:NAME_LENGTH], settings)
