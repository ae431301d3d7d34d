"""A worker's part of a sweep: run some cases in sequence, with a row for each.

A worker only needs hilrt and the requirements of the session's models.
"""

from __future__ import annotations

import fnmatch
import functools
import gc
import math
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from hilrt.config.parse_toml import toml_value
from hilrt.config.session_file import SessionFile, session_of_text
from hilrt.errors import ConfigError, HilrtError
from hilrt.files.formats import json_numbers
from hilrt.hosting.main_models import unpack
from hilrt.record.reader import Log
from hilrt.reliability.estimates import errors_of
from hilrt.reliability.flags import flag_totals
from hilrt.reliability.summary_figures import flag_figures
from hilrt.session.assembly import KnownSensitivities
from hilrt.session.result import Result
from hilrt.session.simulate import simulate_again
from hilrt.session.summary import bond_summary, port_summary
from hilrt.studies.axes import Settings

#: Time after which a task of several cases returns the remaining cases, s.
TASK_S: Final = 1.0
#: Parts of a summary that a row keeps, as columns ``part.name.figure``.
KEPT: Final = ("step_size_s", "order", "bonds", "estimated_error", "ports", "flags")
#: Setting of a case of recorded logs.
LOG: Final = "log"
Row = dict[str, Any]


class StudyCase(NamedTuple):
    """A case: its name, by which a sweep identifies it, and its settings."""

    name: str
    settings: Settings


class SweptSession(NamedTuple):
    """Session and settings that the cases of a sweep share.

    Attributes
    ----------
    path : str
        The session file; workers on other machines need the files that it names at the same paths.
    text : str
        Its content when the sweep began.
    overrides : tuple of str
        ``table.key=value``, common to all cases.
    signals, statistics : tuple of str
        Patterns of signals whose samples, or whose statistics, go into the rows.
    as_text : tuple of str
        Keys whose values are of different kinds; their cells contain TOML.
    of_logs : bool
        Whether the cases are repeated decisions of recorded logs; the path of its log is a setting
        of each case, `LOG`.
    models : bytes
        Classes of a notebook or script that the session names (`hilrt.hosting.main_models`).
    """

    path: str
    text: str
    overrides: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    of_logs: bool = False
    models: bytes = b""


class TaskDone(NamedTuple):
    """Rows of the cases that were run, and number of the others in the task."""

    rows: list[Row]
    left: int


def prepare_worker(compiles: bool = True) -> bool:
    """Load the compiled step, so that no case waits for it; return whether it is loaded.

    If it is not in the cache, it is compiled first or, without `compiles`, not loaded.
    """
    from hilrt.session.assembly import is_compiled, say_when_compiling
    from hilrt.step.load_step import load_step

    if not compiles and not is_compiled():
        return False
    say_when_compiling()
    load_step()
    return True


def run_cases(swept: SweptSession, cases: Sequence[StudyCase], task_s: float = TASK_S) -> TaskDone:
    """Run cases until `task_s` [s] have passed, at least one."""
    rows: list[Row] = []
    _freeze()
    began = time.monotonic()
    for case in cases:
        rows.append(run_case(swept, case))
        if time.monotonic() - began > task_s:
            break
    return TaskDone(rows, len(cases) - len(rows))


@functools.cache
def _freeze() -> None:
    """Exclude loaded objects from garbage collections, which otherwise take 5 % of a case."""
    prepare_worker()
    gc.collect()
    gc.freeze()


@functools.lru_cache(4)
def known_sensitivities(swept: SweptSession) -> KnownSensitivities:
    """Sensitivities that cases of a sweep have found in this process."""
    del swept
    return KnownSensitivities()


@functools.lru_cache(4)
def opened(swept: SweptSession) -> SessionFile:
    """Session of a sweep at the sweep's beginning, without the settings of a case."""
    unpack(swept.models)
    return session_of_text(Path(swept.path), swept.text, swept.overrides)


def run_case(swept: SweptSession, case: StudyCase) -> Row:
    """Run one case; its row contains any failure.

    Returns
    -------
    dict
        ``case``, the settings, ``command``, ``verdict`` (empty if no tick ran),
        ``evidence_lacking``, ``failure`` (the reason why it did not reach its end, or empty),
        ``reasons``, ``error`` (the largest relative
        estimated error), ``steps``, ``time_s``, ``wall_s`` (for the steps) and ``case_s`` (in
        total, s), ``cost`` (``case_s`` per second of session time), and the parts `KEPT` of the
        summary.
    """
    if swept.of_logs:
        return decide_case(swept, case)
    began, log = time.perf_counter(), None
    row = _first_cells(swept, case)
    try:
        record = bool(swept.signals or swept.statistics)
        result = simulate_again(opened(swept), case.settings, record, known_sensitivities(swept))
        failure = result.fault or ""
        if record and result.summary.get("steps"):
            log = result.log
    except ConfigError as error:
        result, failure = Result(), f"bad input: {'; '.join(error.problems)}"
    except HilrtError as error:
        result, failure = Result(), str(error)
    except (Exception, SystemExit) as error:  # a model may raise anything
        result, failure = Result(), f"{type(error).__name__}: {error}"
    summary = result.summary
    row |= {
        "verdict": result.verdict,
        "evidence_lacking": bool(summary.get("evidence_lacking")),
        "failure": failure,
        "reasons": "\n".join(summary.get("reasons", ())),
        "error": worst_error(summary),
        "steps": int(summary.get("steps", 0)),
        "time_s": float(summary.get("time_s") or 0.0),
        "wall_s": float(summary.get("wall_s") or 0.0),
    }
    row |= flat({part: summary.get(part) for part in KEPT})
    if log is not None:
        row |= signal_columns(log, swept)
    return _with_cost(row, began)


def decide_case(swept: SweptSession, case: StudyCase) -> Row:
    """Repeat the decisions of a recorded log with the settings of a case.

    The row is like that of `run_case`, without the reaction of the subsystems: their samples are
    the recorded ones.
    """
    from hilrt.studies.what_if import decide_again

    began, row = time.perf_counter(), _first_cells(swept, case)
    try:
        found = decide_again(case.settings[LOG], _changes(swept, case))
    except (HilrtError, OSError) as error:
        return row | {"verdict": "", "failure": str(error)}
    numerics = found.numerics
    errors, made = errors_of(numerics.network, numerics.plan, numerics.state)
    summary: dict[str, Any] = json_numbers(
        {
            "bonds": bond_summary(numerics, made),
            "estimated_error": {name: error.as_json() for name, error in errors.items()},
            "ports": port_summary(numerics),
            "flags": flag_figures(flag_totals(numerics.checks, numerics.state)),
        }
    )
    row |= {
        "verdict": found.verdict,
        "evidence_lacking": found.evidence_lacking,
        "failure": "",
        "error": worst_error(summary),
        "steps": found.steps,
        "time_s": found.t,
    }
    return _with_cost(row | flat(summary), began)


def _with_cost(row: Row, began: float) -> Row:
    row["case_s"] = time.perf_counter() - began
    row["cost"] = row["case_s"] / row["time_s"] if row["time_s"] > 0.0 else math.nan
    return row


def lost_row(swept: SweptSession, case: StudyCase, reason: str) -> Row:
    """Row of a case that no worker has finished."""
    return _first_cells(swept, case) | {"verdict": "", "failure": reason}


def _first_cells(swept: SweptSession, case: StudyCase) -> Row:
    cells = {k: toml_value(v) if k in swept.as_text else v for k, v in case.settings.items()}
    words = ["replay", str(case.settings[LOG])] if swept.of_logs else ["run", swept.path]
    sets = [word for text in _changes(swept, case) for word in ("--set", text)]
    command = ["hilrt", *words, *sets]
    return {"case": case.name} | cells | {"command": shlex.join(command)}


def _changes(swept: SweptSession, case: StudyCase) -> list[str]:
    settings = (f"{k}={toml_value(v)}" for k, v in case.settings.items() if k != LOG)
    return [*swept.overrides, *settings]


def mixed_keys(cases: Iterable[StudyCase]) -> tuple[str, ...]:
    """Keys whose values are of different kinds (numbers, words, or true and false)."""
    kinds: dict[str, set[type]] = {}
    for case in cases:
        for key, value in case.settings.items():
            kind = float if type(value) is int else type(value)
            kinds.setdefault(key, set()).add(kind)
    simple: list[set[type]] = [{float}, {str}, {bool}]
    return tuple(key for key, found in kinds.items() if found not in simple)


def worst_error(summary: Mapping[str, Any]) -> float:
    """Largest relative estimated error of a coupling signal; NaN if all are unknown."""
    errors = summary.get("estimated_error") or {}
    found = [error["relative"] for error in errors.values() if error and error.get("relative")]
    return max(map(float, found), default=math.nan)


def flat(tree: Mapping[str, Any], prefix: str = "") -> Row:
    """Numbers and words in nested tables, by their dotted names; null values are omitted."""
    row: Row = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            row |= flat(value, f"{prefix}{name}.")
        elif isinstance(value, (int, float, str)):
            row[f"{prefix}{name}"] = float(value) if type(value) is int else value
    return row


def signal_columns(log: Log, swept: SweptSession) -> Row:
    """Samples of the signals that a sweep keeps (with their times, s), and statistics."""
    row: Row = {}
    for name in _matching(log, swept.signals):
        row[f"signal.{name}"], row[f"time.{name}"] = np.asarray(log[name]), log.time(name)
    for name in _matching(log, swept.statistics):
        known = np.asarray(log[name])
        known = known[np.isfinite(known)]
        if len(known):
            row |= {
                f"statistic.{name}.min": float(known.min()),
                f"statistic.{name}.max": float(known.max()),
                f"statistic.{name}.mean": float(known.mean()),
                f"statistic.{name}.rms": float(np.sqrt(np.mean(known**2))),
                f"statistic.{name}.last": float(known[-1]),
            }
    return row


def _matching(log: Log, patterns: Iterable[str]) -> list[str]:
    return [n for n in log if any(fnmatch.fnmatchcase(n, pattern) for pattern in patterns)]
