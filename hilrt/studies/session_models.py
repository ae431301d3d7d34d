"""Sessions without hardware: models replace benches, and solvers in other processes."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from hilrt.analyze.subsystem_models import spawned_solver
from hilrt.config import registry
from hilrt.config.session_file import SessionFile
from hilrt.config.structs import Session, SubsystemOptions
from hilrt.errors import ConfigError
from hilrt.session.opening import called_link

#: Keys of a subsystem's table that also apply to its model.
KEPT_KEYS: Final = ("late", "every", "jacobian", "inputs", "when_ended")


def with_models(
    file: SessionFile, notes: list[str], *, longest: float, benches_only: bool = False
) -> SessionFile:
    """Create a session in which models replace subsystems, run as fast as possible.

    It has no start or stop of benches, and is recorded completely.

    Parameters
    ----------
    file : SessionFile
    notes : list of str
        Extended by a line for each bench.
    longest : float
        Maximum duration of the session, s.
    benches_only : bool
        Replace only benches; otherwise also solvers in other processes, by models in this one.

    Raises
    ------
    ConfigError
        For each subsystem that needs a model and has none.
    """
    problems: list[str] = []
    subsystems: dict[str, SubsystemOptions] = {}
    for name, options in file.tables.subsystems.items():
        link = called_link(options)
        if not (link.physical or (link.remote and not benches_only)):
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
        tables.session, pace="asap", duration=min(tables.session.duration, longest)
    )
    none: dict[str, Any] = {key: [] for key in ("start", "match", "stop", "alarms", "expect")}
    record = msgspec.structs.replace(tables.record, trigger=[])
    changed: Session = msgspec.structs.replace(
        tables, session=head, subsystems=subsystems, record=record, **none
    )
    return SessionFile(changed, file.path, file.text, file.overrides)


def model_of(options: SubsystemOptions) -> tuple[str, dict[str, Any]] | None:
    """Model of a subsystem that does not run in this process, and its parameters."""
    if options.reference_model is not None:
        return options.reference_model, options.reference_params
    return spawned_solver(options.spawn or [])
