"""Subject of a sweep or a tuning: a session, or recorded logs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import msgspec

from hilrt.config.parse_toml import toml_value
from hilrt.config.session_file import SessionFile, open_session, override
from hilrt.errors import ConfigError
from hilrt.hosting.main_models import digest, main_classes
from hilrt.record.find_log import find_log
from hilrt.replay.rebuild import rebuild, session_of
from hilrt.replay.recorded_steps import RecordedSteps
from hilrt.session.opening import called_link, elsewhere, read
from hilrt.studies.axes import Settings, axes_of, cases_of, values_of_items
from hilrt.studies.run_cases import LOG, Row, StudyCase, SweptSession, run_case
from hilrt.version import VERSION


class Subject(NamedTuple):
    """A session whose settings vary, or recorded decisions to repeat with different settings.

    Attributes
    ----------
    file : SessionFile
    swept : SweptSession
    logs : tuple of str
        Recorded logs; empty for a session, which is run.
    basis : str
        Hash of everything on which the results depend, except the settings.
    """

    file: SessionFile
    swept: SweptSession
    logs: tuple[str, ...]
    basis: str

    def with_logs(self, settings: Sequence[Settings]) -> list[Settings]:
        """Settings of the cases: all `settings` for each log."""
        logs: list[Settings] = [{LOG: log} for log in self.logs] or [{}]
        return [log | one for log in logs for one in settings]

    def rows(self, settings: Settings) -> list[Row]:
        """Run the session, or repeat the decisions of every log."""
        cases = self.with_logs([settings])
        return [run_case(self.swept, StudyCase("", one)) for one in cases]


def subject_of(
    session: str | Path | SessionFile | Sequence[str | Path],
    overrides: Mapping[str, object] | None,
    settings: Settings | None = None,
) -> Subject:
    """Open the session of a study, or its logs.

    Parameters
    ----------
    session : str, Path, SessionFile, or sequence of str and Path
        A session without benches or other processes, or recorded logs.
    overrides : mapping, optional
        Values that replace the session's, by ``"table.key"``.
    settings : dict, optional
        Settings of a case, to be checked.

    Raises
    ------
    ConfigError
        For a session together with logs, for a session that cannot run in this process, and for
        settings with errors, or whose effect cannot be computed from a log.
    """
    several = [session] if isinstance(session, (str, Path, SessionFile)) else list(session)
    if several and all(is_log(one) for one in several):
        logs = tuple(str(find_log(str(log)).resolve()) for log in several)
        file, basis = _session_of_logs(logs, overrides, settings or {})
        swept = SweptSession(str(file.path), file.text, file.overrides, of_logs=True)
        return Subject(file, swept, logs, basis)
    if len(several) != 1:
        raise ConfigError("give one session file, or one or more recorded logs, and not both")
    file = open_session(several[0], overrides)
    refuse_benches(file)
    if settings:
        read(override(file, settings), pace="asap")
    swept = SweptSession(str(file.path), file.text, file.overrides)
    return Subject(file, swept, (), basis_of(file))


def validations_of(subject: Subject, validate: Mapping[str, Any]) -> list[Subject]:
    """Other logs and sessions for which a recommendation must hold."""
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


def is_log(session: object) -> TypeGuard[str | Path]:
    """Whether a path names a recorded log or the folder of a run, not a session file."""
    if not isinstance(session, (str, Path)):
        return False
    path = Path(session)
    return path.is_dir() or path.suffix == ".mcap"


def _session_of_logs(
    logs: Sequence[str], overrides: Mapping[str, object] | None, settings: Settings
) -> tuple[SessionFile, str]:
    """Session of the first log, with overrides, and a hash of the overrides and all logs.

    Raises `ConfigError` if the effect of overrides or `settings` cannot be computed from a log.
    """
    changes = [f"{k}={toml_value(v)}" for k, v in (overrides or {}).items()]
    own = [f"{k}={toml_value(v)}" for k, v in settings.items()]
    found = hashlib.sha256(VERSION.encode())
    for log in logs:
        recorded = RecordedSteps(Path(log)).recorded
        rebuild(recorded, [*changes, *own])
        with open(log, "rb") as content:
            found.update(hashlib.file_digest(content, "sha256").digest())
    found.update(msgspec.json.encode(changes))
    file = session_of(RecordedSteps(Path(logs[0])).recorded, changes)
    return SessionFile(file.tables, Path(logs[0]), "", tuple(changes)), found.hexdigest()


def refuse_benches(file: SessionFile) -> None:
    """Raise `ConfigError` for a session with benches or other processes."""
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
    """Hash of the resolved session, the content of the files it names, and the version."""
    tables = resolved(file)
    found = hashlib.sha256(msgspec.msgpack.encode([VERSION, tables], order="sorted"))
    for path in sorted(_named_files(tables, file.folder)):
        with path.open("rb") as content:
            found.update(hashlib.file_digest(content, "sha256").digest())
    if classes := main_classes(tables):
        found.update(digest(classes))
    return found.hexdigest()


def resolved(file: SessionFile) -> Any:
    """Tables of a session as plain values."""
    return msgspec.to_builtins(file.tables, enc_hook=str)


def _named_files(tree: Any, folder: Path) -> Iterator[Path]:
    """Files that a session names: modules of models, FMUs, tables of stimuli."""
    if isinstance(tree, str):
        name = tree.partition(":")[0]
        if name:
            places = (folder / name, folder / f"{name.replace('.', '/')}.py")
            # `isfile` is false for texts that cannot be paths, for which `is_file` raises
            yield from (path for path in places if os.path.isfile(path))
    elif isinstance(tree, (dict, list, tuple)):
        for branch in tree.values() if isinstance(tree, dict) else tree:
            yield from _named_files(branch, folder)
