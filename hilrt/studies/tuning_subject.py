"""The session or the recorded logs that a tuning is about, others to validate it, and stability."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from hilrt.analyze.stability_study import find_scheme, growth, radius_and_margin
from hilrt.config.session_file import SessionFile, open_session, override
from hilrt.errors import ConfigError, HilrtError
from hilrt.record.find_log import find_log
from hilrt.replay.recorded_steps import RecordedSteps
from hilrt.studies.axes import Settings, axes_of, cases_of, values_of_items
from hilrt.studies.run_cases import LOG, Row, StudyCase, SweptSession, run_case
from hilrt.studies.sweep import basis_of, is_log, refuse_benches, session_of_logs

#: The coupling must be stable at a step that is longer by this factor, too.
LONGER: Final = 1.25


class Subject(NamedTuple):
    """A session whose settings are tuned, or the recorded decisions that are repeated with others.

    Attributes
    ----------
    file : SessionFile
    swept : SweptSession
    logs : tuple of str
        Empty for a session, which is run.
    basis : str
        Hash of everything that the objective depends on beside the settings.
    """

    file: SessionFile
    swept: SweptSession
    logs: tuple[str, ...]
    basis: str

    def rows(self, settings: Settings) -> list[Row]:
        """Run the session, or repeat the decisions of every log."""
        given: list[Settings] = [{LOG: log} for log in self.logs] or [{}]
        return [run_case(self.swept, StudyCase("", one | settings)) for one in given]


def subject_of(
    session: str | Path | SessionFile | Sequence[str | Path],
    overrides: Mapping[str, object] | None,
) -> Subject:
    """The session, or its logs, as they are tuned; `ConfigError` for a mixture of both."""
    several = [session] if isinstance(session, (str, Path, SessionFile)) else list(session)
    if several and all(is_log(one) for one in several):
        logs = tuple(str(find_log(str(log)).resolve()) for log in several)
        file, basis = session_of_logs(logs, overrides, {})
        swept = SweptSession(str(file.path), file.text, file.overrides, of_logs=True)
        return Subject(file, swept, logs, basis)
    if len(several) != 1:
        raise ConfigError("give one session file, or one or more recorded logs, and not both")
    file = open_session(several[0], overrides)
    refuse_benches(file)
    swept = SweptSession(str(file.path), file.text, file.overrides)
    return Subject(file, swept, (), basis_of(file))


def validations_of(subject: Subject, validate: Mapping[str, Any]) -> list[Subject]:
    """Other sessions, and other logs, in which the recommendation must hold."""
    axes = axes_of(validate)
    logs = [str(log) for axis in axes if axis.key == LOG for log in axis.values]
    others = [subject_of([log], values_of_items(subject.file.overrides)) for log in logs]
    if any(other.file.tables.subsystems.keys() != subject.file.tables.subsystems.keys()
           for other in others):  # fmt: skip
        raise ConfigError("--validate log=…: is a log of another session; it has other subsystems")
    keys = [axis for axis in axes if axis.key != LOG]
    if not keys:
        return others
    file = subject.file
    if subject.logs:
        recorded = RecordedSteps(Path(subject.logs[0])).recorded
        path = Path(subject.logs[0]).with_name(recorded.name)
        file = SessionFile(file.tables, path, recorded.text, (*recorded.overrides, *file.overrides))
        refuse_benches(file)
    sessions = (override(file, settings) for settings in cases_of(keys, "grid", None, 0))
    return [*others, *(subject_of(one, None) for one in sessions)]


def grows_at_longer_step(file: SessionFile, settings: Settings) -> float:
    """Growth of a session's coupling at a step that is a quarter longer, 1/s, never below 0.

    NaN where the models are not linear, or cannot be differentiated.
    """
    changed = override(file, settings)
    try:
        with contextlib.closing(find_scheme(changed)) as scheme:
            step = LONGER * changed.tables.master.step
            radius, margin = radius_and_margin(scheme, step)
            return max(growth(radius - margin, step), 0.0)
    except HilrtError:
        return math.nan
