"""Advice for a session file before its first run, from its models and this host's delays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from hilrt.config.parse_toml import toml_value
from hilrt.config.session_file import SessionFile, open_session, override
from hilrt.config.structs import CALCULATED
from hilrt.errors import ConfigError, HilrtError
from hilrt.session.repeat import ALONE
from hilrt.session.simulate import simulate
from hilrt.studies.axes import Settings
from hilrt.studies.first_step import first_step_by_tolerance
from hilrt.studies.measured_delays import MeasuredDelays, measure_host
from hilrt.studies.model_trials import ModelTrial
from hilrt.studies.session_models import with_models
from hilrt.studies.settings_advice import (
    FEWEST_STEPS,
    SEARCH_S,
    SettingsAdvice,
    Wish,
    advise_settings,
)

#: Duration of the measurement of wake-ups if no measured delays are given, s.
WAKES_S: Final = 0.9
#: Maximum session time of a trial run, s.
LONGEST_S: Final = 20.0


def advise_session(
    session: str | Path | SessionFile,
    target: float,
    *,
    targets: Mapping[str, float] | None = None,
    budget: float = 1.0,
    missed: float = 0.01,
    search_s: float = SEARCH_S,
    delays: MeasuredDelays | None = None,
) -> SettingsAdvice:
    """Recommend step, order and correction of a session before its first run.

    Parameters
    ----------
    session : str, Path or SessionFile
        Its subsystems are solvers or FMUs in this process, solvers started by `spawn`, or have a
        `reference_model`.
    target : float
        Error of every coupling signal, root mean square, relative to its variation.
    targets : mapping of str to float, optional
        Targets of individual signals, ``"subsystem.port"``, instead.
    budget : float
        Largest share of one processor, models included.
    missed : float
        Largest share of missed ticks, in real time.
    search_s : float
        Time limit of the search after the first run, s; runs that would end later are not begun.
    delays : MeasuredDelays, optional
        Delays of this host and the session's peers, for sessions in real time; default: measure
        this host's wake-ups now.

    Raises
    ------
    ConfigError
        If a subsystem has no model, or no run can meet a target.
    HilrtError
        If the models cannot be run.
    """
    file = open_session(session)
    run = ModelRun(file)
    check_wish(run, target, targets or {}, budget, missed)
    real_time = file.tables.session.pace != "asap"
    measured = (delays or measure_host(WAKES_S)) if real_time else None
    longest = run.tables.session.duration / FEWEST_STEPS
    wish = Wish(
        target,
        dict(targets or {}),
        budget,
        1e-6 * np.array(measured.lateness_us) if measured else None,
        {k: 1e-6 * np.array(v) for k, v in measured.answers_us.items()} if measured else {},
        file.tables.master.dispatch_deadline,
        missed,
        search_s,
        first=first_step_by_tolerance(run.models, longest),
    )
    found = advise_settings(run, run.tables, wish)
    found.notes.extend(run.notes)
    if measured:
        found.notes.append(basis_of_delays(measured, file))
    return found


def basis_of_delays(measured: MeasuredDelays, file: SessionFile) -> str:
    """Describe the origin of the delays, and what they do not include."""
    count = len(measured.lateness_us)
    if not measured.session:
        return f"delays: {count} wake-ups of {measured.host}; peers were not measured"
    line = f"delays: {count} ticks of {measured.session} on {measured.host}"
    own = file.tables.session.name
    return line if measured.session == own else f"{line}, which is a different session from {own}"


def check_wish(
    run: ModelRun, target: float, targets: Mapping[str, float], budget: float, missed: float
) -> None:
    """Raise `ConfigError` for a target that nothing can meet."""
    shares = {"target": target, "budget": budget, "missed": missed}
    shares |= {f"target of {name}": value for name, value in targets.items()}
    problems = [
        f"{name} = {value:g}: must be a share above 0, such as 0.01 for 1 %"
        for name, value in shares.items()
        if not 0.0 < value < np.inf
    ]
    known = ", ".join(run.signals)
    problems += [
        f"target of {name}: is not a coupling signal; choose from {known}"
        for name in targets
        if not any(of_port(name, source) for source in run.signals)
    ]
    if problems:
        raise ConfigError(problems)


class ModelRun:
    """Run of a session's models with different settings; see `model_trials.Run`.

    Attributes
    ----------
    models : SessionFile
        The session with its models.
    tables : Session
        Its tables.
    signals : list of str
        Coupling signals of the models.
    notes : list of str
        Models used in place of subsystems, and limitations of a run of models.
    """

    def __init__(self, file: SessionFile) -> None:
        self._file = file
        self.notes: list[str] = []
        self.models = with_models(file, self.notes, longest=LONGEST_S)
        self.tables = self.models.tables
        if self.tables.session.duration < file.tables.session.duration:
            self.notes.append(f"only the first {LONGEST_S:g} s were run")
        sources = {connection.source for connection in file.tables.connections}
        self.signals = sorted(s for s in sources if not s.startswith(f"{CALCULATED}."))

    def __call__(self, settings: Settings, ideal: bool) -> ModelTrial:
        """Run the models; `ideal` has no effect, as they respond at once."""
        del ideal
        changed = override(self._file, {**settings, **ALONE})
        try:
            result = simulate(with_models(changed, [], longest=LONGEST_S))
        except ConfigError:
            raise
        except HilrtError as error:
            return ModelTrial({}, 0.0, str(error))
        steps = int(result.summary.get("steps", 0))
        if not steps:
            return ModelTrial({}, 0.0, result.fault or "no step was made")
        log = result.log
        names = [name for name in log if any(of_port(name, source) for source in self.signals)]
        courses = {name: (log.time(name), np.asarray(log[name])) for name in names}
        growth = result.summary["growth_per_s"]
        return ModelTrial(
            courses,
            float(result.summary["wall_s"]) / steps,
            result.fault or "",
            math.nan if growth is None else growth,
        )


def of_port(channel: str, port: str) -> bool:
    """Whether a channel of the log is that port, or an element of it."""
    return channel == port or channel.startswith(f"{port}[")


def advice_patch(found: SettingsAdvice) -> str:
    """Format the advice as TOML: settings by their keys, as for ``--set``, and their basis."""
    lines = [f"# {text}" for text in remarks_of(found)]
    lines += ["", "[settings]"]
    lines += [f"{toml_value(key)} = {toml_value(v)}" for key, v in found.settings.items()]
    if found.signal:
        lines += ["", "[predicted]", f"signal = {toml_value(found.signal)}"]
        lines += [f"error = [{found.error[0]:.3g}, {found.error[1]:.3g}]"]
        lines += [f"processor = {found.processor:.3g}"]
    if np.isfinite(found.missed):
        lines += [f"missed = {found.missed:.3g}"]
    if np.isfinite(found.first_step):
        lines += ["", "[variable_step]", f"initial = {found.first_step!r}"]
    return "\n".join(lines) + "\n"


def remarks_of(found: SettingsAdvice) -> Iterable[str]:
    """Notes, and the reasons why other alternatives were rejected."""
    yield from found.notes
    yield from (f"rejected: {reason}" for reason in found.rejected)
