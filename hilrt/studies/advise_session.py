"""Advice for a session file before its first run: its models, and the delays of this host."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from hilrt.analyze.subsystem_models import spawned_solver
from hilrt.config import registry
from hilrt.config.parse_toml import toml_value
from hilrt.config.session_file import SessionFile, open_session, override
from hilrt.config.structs import CALCULATED, Session, SubsystemOptions
from hilrt.errors import ConfigError, HilrtError
from hilrt.session.opening import called_link
from hilrt.session.repeat import ALONE
from hilrt.session.simulate import simulate
from hilrt.solver import Floats
from hilrt.studies.axes import Settings
from hilrt.studies.settings_advice import ModelTrial, SettingsAdvice, Wish, advise_settings
from hilrt.timing.doctor import wake_up
from hilrt.timing.host import available_cpus

#: Keys of a subsystem that its model keeps.
KEPT_KEYS: Final = ("late", "every", "jacobian", "inputs", "when_ended")
#: The master wakes this long before a tick and waits busily, where it has a processor, ns.
SPIN_NS: Final = 300_000
#: A session is tried for no longer, s.
LONGEST_S: Final = 20.0


def advise_session(
    session: str | Path | SessionFile,
    target: float,
    *,
    targets: Mapping[str, float] | None = None,
    budget: float = 1.0,
    missed: float = 0.01,
    search_s: float = 20.0,
) -> SettingsAdvice:
    """Recommend step, order and correction of a session before its first run.

    Parameters
    ----------
    session : str, Path or SessionFile
        Its subsystems are solvers or FMUs of this process, solvers that `spawn` starts, or have a
        `reference_model`.
    target : float
        Error of every coupling signal, root mean square, relative to its variation.
    targets : mapping of str to float, optional
        Of single signals, ``"subsystem.port"``, instead.
    budget : float
        Largest share of one processor, models included.
    missed : float
        Largest share of missed ticks, in real time.
    search_s : float
        After this time no further alternative is begun, s.

    Raises
    ------
    ConfigError
        If a subsystem has no model, or a target cannot be met by any run.
    HilrtError
        If the models cannot be run.
    """
    file = open_session(session)
    run = ModelRun(file)
    check_wish(run, target, targets or {}, budget, missed)
    real_time = file.tables.session.pace != "asap"
    wish = Wish(
        target,
        dict(targets or {}),
        budget,
        host_lateness() if real_time else None,
        file.tables.master.dispatch_deadline,
        missed,
        search_s,
    )
    found = advise_settings(run, run.tables, wish)
    found.notes.extend(run.notes)
    return found


def check_wish(
    run: ModelRun, target: float, targets: Mapping[str, float], budget: float, missed: float
) -> None:
    """`ConfigError` for a target that nothing could meet."""
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


def host_lateness() -> Floats:
    """How late this host wakes a process as the master waits, s."""
    spin = SPIN_NS if len(available_cpus()) > 1 else 0
    return np.concatenate([asyncio.run(wake_up(spin)) for _ in range(3)]) * 1e-9


class ModelRun:
    """Runs the models of a session at other settings, see `settings_advice.Run`.

    Attributes
    ----------
    tables : Session
        The session with its models.
    signals : list of str
        Coupling signals of the models.
    notes : list of str
        What stands for what, and what a run of models does not have.
    """

    def __init__(self, file: SessionFile) -> None:
        self._file = file
        self.notes: list[str] = []
        self.tables = with_models(file, self.notes).tables
        if self.tables.session.duration < file.tables.session.duration:
            self.notes.append(f"only the first {LONGEST_S:g} s were tried")
        sources = {connection.source for connection in file.tables.connections}
        self.signals = sorted(s for s in sources if not s.startswith(f"{CALCULATED}."))

    def __call__(self, settings: Settings, ideal: bool) -> ModelTrial:
        """Run the models; `ideal` changes nothing, as they answer at once."""
        del ideal
        changed = override(self._file, {**settings, **ALONE})
        try:
            result = simulate(with_models(changed, []))
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
        return ModelTrial(courses, float(result.summary["wall_s"]) / steps, result.fault or "")


def of_port(channel: str, port: str) -> bool:
    """Whether a channel of the log is that port, or an entry of it."""
    return channel == port or channel.startswith(f"{port}[")


def with_models(file: SessionFile, notes: list[str]) -> SessionFile:
    """Session whose subsystems all run in this process, and which no bench has to be ready for."""
    problems: list[str] = []
    subsystems: dict[str, SubsystemOptions] = {}
    for name, options in file.tables.subsystems.items():
        link = called_link(options)
        if not (link.physical or link.remote):
            subsystems[name] = options
            continue
        model = model_of(options)
        if model is None:
            problems.append(
                f"[subsystems.{name}]: has no model to run; name an approximate reference_model"
            )
            continue
        made: Any = registry.link_class("inprocess").Options
        kept = {key: getattr(options, key) for key in KEPT_KEYS}
        subsystems[name] = made(adapter="inprocess", model=model[0], params=model[1], **kept)
        if link.physical:
            notes.append(f"{name} is its reference model, without the latency and noise of a bench")
    if problems:
        raise ConfigError(problems)
    tables = file.tables
    head = msgspec.structs.replace(
        tables.session, pace="asap", duration=min(tables.session.duration, LONGEST_S)
    )
    none: dict[str, Any] = {key: [] for key in ("start", "match", "stop", "alarms", "expect")}
    changed: Session = msgspec.structs.replace(tables, session=head, subsystems=subsystems, **none)
    return SessionFile(changed, file.path, file.text, file.overrides)


def model_of(options: SubsystemOptions) -> tuple[str, dict[str, Any]] | None:
    """Model of a subsystem that does not run in this process, and its parameters."""
    if options.reference_model is not None:
        return options.reference_model, options.reference_params
    return spawned_solver(options.spawn or [])


def advice_patch(found: SettingsAdvice) -> str:
    """The advice as TOML: settings by their keys, as after ``--set``, and their basis."""
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
    """Notes, and every other alternative with its reason."""
    yield from found.notes
    yield from (f"rejected: {reason}" for reason in found.rejected)
