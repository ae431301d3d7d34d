"""Table of runs, from the summaries in their folders; no log is opened."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hilrt.errors import ConfigError
from hilrt.expect.outcome import ResultEntry, junit_suite
from hilrt.files.text import whole_file
from hilrt.record.find_log import BEGAN
from hilrt.record.messages import FILE_NAME
from hilrt.wording import alarm_line, number, verdict_text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

SUMMARY: Final = "summary.json"
#: Maximum depth of folders below the given one.
DEPTH: Final = 3
#: Verdict of a run without a summary: it is still running, or was killed.
UNFINISHED: Final = "no summary"
COLUMNS: Final = (
    *("run", "began", "session", "lasted, s", "verdict", "alarms", "outcomes"),
    *("worst estimated error", "file", "folder", "--set"),
)
_DECODER = msgspec.json.Decoder()


@dataclass(frozen=True)
class PastRun:
    """One run of the table, from its folder and its ``summary.json``.

    Attributes
    ----------
    number : int
        Position among the runs of the given folder, by time; the oldest is 1.
    folder : Path
    began : datetime
        From the folder's name, otherwise its time of modification; local time.
    session, state, verdict : str
        Verdict `UNFINISHED` and empty state without a summary.
    evidence_lacking : bool
        Whether the verdict rests on a lack of evidence alone.
    time_s, wall_s : float or None
        Session time reached, and time on the clock, s.
    missed_ticks : int
    alarms : list of str
        Alarms that were raised, a line each.
    fault : str
        Why the session ended in a fault; else empty.
    passed, failed, inconclusive : int
        Outcomes of expectations and measures.
    worst_signal : str
        Signal with the largest estimated error relative to its variation; empty: none is known.
    worst_error : float or None
        That error, upper end of its 95 % interval.
    session_file : str
        Name of the session file; empty in summaries of older versions.
    overrides : list of str
        ``table.key=value``, given in addition to the file.
    """

    number: int
    folder: Path
    began: datetime
    session: str
    state: str
    verdict: str
    evidence_lacking: bool
    time_s: float | None
    wall_s: float | None
    missed_ticks: int
    alarms: list[str]
    fault: str
    passed: int
    failed: int
    inconclusive: int
    worst_signal: str
    worst_error: float | None
    session_file: str
    overrides: list[str]

    @property
    def amiss(self) -> bool:
        """Whether it ended in a fault, failed an expectation, had an alarm, or left no summary."""
        return bool(self.fault or self.failed or self.alarms) or self.verdict == UNFINISHED

    def row(self) -> tuple[str, ...]:
        """Texts of `COLUMNS`."""
        named = [line.partition(":")[0] for line in self.alarms]
        counts = (("passed", self.passed), ("failed", self.failed), ("open", self.inconclusive))
        worst = ""
        if self.worst_error is not None:
            worst = f"{self.worst_signal} {100 * self.worst_error:.3g} %"
        return (
            str(self.number),
            f"{self.began:%Y-%m-%d %H:%M:%S}",
            self.session,
            "" if self.time_s is None else number(self.time_s),
            f"{self.verdict}, fault"
            if self.fault
            else verdict_text(self.verdict, self.evidence_lacking),
            ", ".join(named),
            ", ".join(f"{count} {word}" for word, count in counts if count),
            worst,
            self.session_file,
            str(self.folder),
            ", ".join(self.overrides),
        )

    def as_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self) | {"folder": str(self.folder), "began": self.began.isoformat()}


def find_runs(folder: Path) -> list[PastRun]:
    """All runs in a folder and those below it, the oldest first.

    Raises
    ------
    ConfigError
        If the folder is none, or cannot be read.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"{folder}: is not a folder; give the one that `hilrt run --out` writes to"
        )
    try:
        found = sorted((_began(path), str(path), path) for path in _run_folders(folder, DEPTH))
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be read: {error.strerror}") from None
    return [_read(i, path, began) for i, (began, _, path) in enumerate(found, start=1)]


def run_of_number(number: int, folder: Path) -> Path:
    """Folder of the run with that number; `ConfigError` if there is none."""
    runs = sorted((_began(path), str(path), path) for path in _run_folders(folder, DEPTH))
    if not 1 <= number <= len(runs):
        raise ConfigError(
            f"{number}: {folder} has no run of that number; it has {len(runs)}; "
            "`hilrt runs` lists them"
        )
    return runs[number - 1][2]


def write_parquet(path: Path, runs: Sequence[PastRun]) -> None:
    """Write the table as Parquet, a row per run; `ConfigError` if that cannot be done."""
    try:
        import pyarrow as pa  # an extra
        import pyarrow.parquet as pq
    except ImportError:
        raise ConfigError("--parquet needs pyarrow; install hilrt[parquet]") from None
    rows = [asdict(run) | {"folder": str(run.folder)} for run in runs]
    kinds = {
        **dict.fromkeys(("number", "missed_ticks", "passed", "failed", "inconclusive"), pa.int64()),
        "evidence_lacking": pa.bool_(),
        **dict.fromkeys(("time_s", "wall_s", "worst_error"), pa.float64()),
        "began": pa.timestamp("us"),
        "alarms": pa.list_(pa.string()),
        "overrides": pa.list_(pa.string()),
    }
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in PastRun.__annotations__])
    try:
        with whole_file(path) as part:
            pq.write_table(pa.Table.from_pylist(rows, schema), part)
    except OSError as error:
        raise ConfigError(f"--parquet {path}: cannot be written: {error.strerror}") from None


def junit_suites(runs: Iterable[PastRun]) -> list[Element]:
    """One ``testsuite`` per run, as `hilrt run --junit` writes it; its name is the folder's."""
    suites = []
    for run in runs:
        summary = _summary(run.folder) or {}
        fault = run.fault or (UNFINISHED if run.verdict == UNFINISHED else None)
        outcomes = msgspec.convert(summary.get("results") or [], list[ResultEntry])
        suites.append(junit_suite(run.folder.name, outcomes, run.time_s or 0.0, fault, run.alarms))
    return suites


def _run_folders(folder: Path, depth: int) -> Iterator[Path]:
    """Folders with a summary or a log; folders inside a run are not searched."""
    with os.scandir(folder) as entries:
        found = list(entries)
    if {SUMMARY, FILE_NAME} & {entry.name for entry in found}:
        yield folder
    elif depth:
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(PermissionError):
                    yield from _run_folders(folder / entry.name, depth - 1)


def _began(folder: Path) -> datetime:
    """Beginning of a run, from its folder's name, otherwise its time of modification."""
    if match := BEGAN.search(folder.name):
        with contextlib.suppress(ValueError):
            return datetime.strptime(match[1][:15], "%Y%m%d-%H%M%S")
    return datetime.fromtimestamp(folder.stat().st_mtime)


def _summary(folder: Path) -> dict[str, Any] | None:
    """Content of the run's summary; None if it does not exist or cannot be read."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        found = _DECODER.decode((folder / SUMMARY).read_bytes())
        return found if isinstance(found, dict) else None
    return None


def _read(number: int, folder: Path, began: datetime) -> PastRun:
    """Read one run; keys that a summary of another version lacks are left empty."""
    summary = _summary(folder)
    fields = {} if summary is None else summary
    results = [result.get("result") for result in fields.get("results") or ()]
    reasons = fields.get("reasons") or [""]
    worst_signal, worst_error = _worst(fields.get("estimated_error") or {})
    return PastRun(
        number,
        folder,
        began,
        session=fields.get("session") or re.sub(BEGAN, "", folder.name),
        state=fields.get("state") or "",
        verdict=UNFINISHED if summary is None else fields.get("verdict") or "",
        evidence_lacking=fields.get("evidence_lacking") is True,
        time_s=fields.get("time_s"),
        wall_s=fields.get("wall_s"),
        missed_ticks=fields.get("missed_ticks") or 0,
        alarms=[alarm_line(alarm) for alarm in fields.get("alarms") or ()],
        fault=str(reasons[0]) or "unknown" if fields.get("state") == "FAULT" else "",
        passed=results.count("passed"),
        failed=results.count("failed"),
        inconclusive=results.count("inconclusive"),
        worst_signal=worst_signal,
        worst_error=worst_error,
        session_file=fields.get("session_file") or "",
        overrides=fields.get("overrides") or [],
    )


def _worst(errors: Mapping[str, Mapping[str, Any] | None]) -> tuple[str, float | None]:
    """Signal with the largest relative estimated error, and that error; None if none is known."""
    known = [
        (error["relative"], name)
        for name, error in errors.items()
        if error is not None and error.get("relative") is not None
    ]
    if not known:
        return "", None
    worst, name = max(known)
    return name, worst
