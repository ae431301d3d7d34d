"""Tuning: the settings of a session that make an objective smallest, held against other sessions.

Optuna (Akiba et al. 2019) proposes trials by its tree-structured Parzen estimator, and keeps them
in a file journal: a tuning that is called again continues, and several may work at one at a time.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from hilrt.config.parse_toml import toml_value
from hilrt.config.session_file import SessionFile, open_session
from hilrt.config.structs import Session
from hilrt.errors import ConfigError
from hilrt.files.text import write_whole
from hilrt.studies.axes import Axis, Settings, axes_of, cases_of, parse_axis, rounded
from hilrt.studies.run_cases import Row, StudyCase, SweptSession, run_case
from hilrt.studies.sweep import basis_of, refuse_benches

if TYPE_CHECKING:
    import optuna

Objective = Literal["error", "energy", "cost"]
OBJECTIVES: Final = get_args(Objective)
Part = Literal["correction", "step", "order"]
PARTS_OF_TUNING: Final = get_args(Part)
#: A correction that is at its cap for more of the steps does not follow its method.
MOST_CAPPED: Final = 0.05
#: Best trials that are validated, until one holds.
CANDIDATES: Final = 3


@dataclass(frozen=True, slots=True)
class Tuned:
    """Result of a tuning.

    Attributes
    ----------
    settings : dict
        ``"table.key"`` to the recommended value; empty if nothing was better.
    before, after : float
        Objective with the session's own settings and with the recommended ones; infinite for
        settings that a constraint forbids.
    trials : int
        All that the journal has.
    validations : int
        Other sessions in which the recommended settings were better and met the constraints.
    notes : list of str
        Basis, confidence, and what is not known.
    """

    settings: Settings
    before: float
    after: float
    trials: int
    validations: int
    notes: list[str] = field(default_factory=list)


def tune(
    session: str | Path | SessionFile,
    objective: Objective = "error",
    over: Sequence[Part] = ("correction",),
    *,
    vary: Mapping[str, Any] | None = None,
    validate: Mapping[str, Any] | None = None,
    trials: int = 60,
    out: str | Path | None = None,
) -> Tuned:
    """Find settings of a session that make an objective smallest.

    Parameters
    ----------
    session : str, Path or SessionFile
        A session without benches and other processes.
    objective : str
        ``"error"``: the largest relative estimated error. ``"energy"``: energy that a power bond
        makes, as a share of what it carries. ``"cost"``: macro steps per second. In all of them
        the verdict must be ``good``, and corrections be at their cap in at most 5 % of the steps.
    over : sequence of str
        ``"correction"``: μ and cap of the energy corrections; ``"step"``: from a tenth to four
        times the session's; ``"order"``: 0 to 2, of all connections without one of their own.
    vary, validate : mapping, optional
        Further keys to vary, as those of `sweep`; and keys, such as initial values, whose every
        combination is a session that the recommendation must hold in.
    trials : int
        In all; those in the journal count.
    out : str or Path, optional
        Folder of the journal and of ``tune.toml``; default: ``tunings/NAME``.

    Raises
    ------
    ConfigError
        If there is nothing to tune, or the session cannot be run here.
    """
    file = open_session(session)
    refuse_benches(file)
    if objective not in OBJECTIVES:
        raise ConfigError(f"objective = {objective!r}: choose from {', '.join(OBJECTIVES)}")
    if objective == "energy" and not file.tables.bonds:
        raise ConfigError("objective = 'energy': the session has no [[bonds]]")
    axes = [*axes_of_parts(file.tables, over), *axes_of(vary or {})]
    if not axes:
        raise ConfigError("nothing to tune: the session has no energy correction; give --vary")
    folder = Path(out) if out is not None else Path("tunings") / file.path.stem
    folder.mkdir(parents=True, exist_ok=True)
    swept = SweptSession(str(file.path), file.text, file.overrides)
    study = _study(folder, f"{basis_of(file)[:16]}-{objective}")
    own = values_of(file, axes)
    while len(study.get_trials(states=_finished())) < trials:
        _try(study, swept, axes, objective, own)
    found = _recommend(study, swept, axes, objective, cases_of_validation(validate))
    write_whole(folder / "tune.toml", patch(file, objective, found))
    return found


def axes_of_parts(tables: Session, over: Sequence[Part]) -> list[Axis]:
    """Axes of the parts of a session that are to be tuned."""
    if unknown := [part for part in over if part not in PARTS_OF_TUNING]:
        raise ConfigError(f"--over {','.join(unknown)}: choose from {', '.join(PARTS_OF_TUNING)}")
    axes: list[Axis] = []
    for bond in tables.bonds if "correction" in over else ():
        if bond.correction.method == "energy":
            key = f"bonds.{bond.name}.correction"
            axes += [parse_axis(f"{key}.mu", "0:1"), parse_axis(f"{key}.cap", "0.05:1:log")]
    if "step" in over:
        step = tables.master.step
        axes.append(parse_axis("master.step", f"{0.1 * step!r}:{4.0 * step!r}:log"))
    if "order" in over:
        axes.append(parse_axis("master.extrapolation.order", "0:2:int"))
    return axes


def values_of(file: SessionFile, axes: Sequence[Axis]) -> Settings:
    """The session's own values of the axes; those that it does not give are left out."""
    own: Settings = {"master.step": file.tables.master.step}
    own["master.extrapolation.order"] = file.tables.master.extrapolation.order
    for bond in file.tables.bonds:
        key = f"bonds.{bond.name}.correction"
        own |= {f"{key}.mu": bond.correction.mu, f"{key}.cap": bond.correction.cap}
    return {axis.key: own[axis.key] for axis in axes if own.get(axis.key) is not None}


def cases_of_validation(validate: Mapping[str, Any] | None) -> list[Settings]:
    """Sessions in which the recommendation must hold."""
    return cases_of(axes_of(validate), "grid", None, 0) if validate else []


def score(row: Row, objective: Objective) -> float:
    """Objective of a case, which is to be small; infinite if it is not known or forbidden."""
    capped = [v for k, v in row.items() if k.startswith("bonds.") and k.endswith(".cap_share")]
    if row["verdict"] != "good" or row["failure"] or max(capped, default=0.0) > MOST_CAPPED:
        return math.inf
    return figure_of(row, objective)


def figure_of(row: Row, objective: Objective) -> float:
    """Objective of a case, whatever its verdict."""
    if row["failure"] or not row["steps"]:
        return math.inf
    if objective == "energy":
        bonds = {k.removesuffix(".carried_energy_j") for k in row if k.endswith("carried_energy_j")}
        shares = [
            abs(row[f"{bond}.interface_energy_j"]) / row[f"{bond}.carried_energy_j"]
            for bond in bonds
            if row[f"{bond}.carried_energy_j"] > 0.0 and f"{bond}.interface_energy_j" in row
        ]
        return max(shares, default=math.inf)
    value = row["error"] if objective == "error" else row["steps"] / row["time_s"]
    return float(value) if math.isfinite(value) else math.inf


def _finished() -> tuple[Any, ...]:
    from optuna.trial import TrialState

    return (TrialState.COMPLETE, TrialState.FAIL)


def _study(folder: Path, name: str) -> optuna.Study:
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError as error:
        raise ConfigError(f"tuning needs {error.name}; install hilrt[studies]") from None

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Optuna calls experimental
        return optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(folder / "tune.journal"))),
            study_name=name,
            sampler=optuna.samplers.TPESampler(
                seed=0, constraints_func=lambda trial: trial.user_attrs.get("constraints", [1.0])
            ),
            load_if_exists=True,
        )


def _try(
    study: optuna.Study,
    swept: SweptSession,
    axes: Sequence[Axis],
    objective: Objective,
    own: Settings,
) -> None:
    """Run one trial; the first is that of the session's own settings."""
    import optuna

    first = not any(trial.user_attrs.get("own") for trial in study.get_trials())
    trial = study.ask()
    settings = own if first else {axis.key: _suggested(trial, axis) for axis in axes}
    row = run_case(swept, StudyCase(str(trial.number), settings))
    trial.set_user_attr("own", first)
    trial.set_user_attr("settings", settings)
    trial.set_user_attr("score", score(row, objective))
    trial.set_user_attr("constraints", [0.0 if math.isfinite(score(row, objective)) else 1.0])
    figure = figure_of(row, objective)
    if math.isfinite(figure) and not first:
        study.tell(trial, math.log(max(figure, 1e-12)))
    else:  # the session's own values may lie outside of the axes
        study.tell(trial, state=optuna.trial.TrialState.FAIL)


def _suggested(trial: optuna.Trial, axis: Axis) -> Any:
    if axis.scale == "int" or math.isnan(axis.low):
        return axis.values[trial.suggest_int(axis.key, 0, len(axis.values) - 1)]
    value = trial.suggest_float(axis.key, axis.low, axis.high, log=axis.scale == "log")
    return rounded(axis.key, value)


def _recommend(
    study: optuna.Study,
    swept: SweptSession,
    axes: Sequence[Axis],
    objective: Objective,
    others: Sequence[Settings],
) -> Tuned:
    """The best trial that is better than the session's own settings in all other sessions."""
    done = [t for t in study.get_trials() if "score" in t.user_attrs]
    own = next(trial for trial in done if trial.user_attrs["own"]).user_attrs
    ranked = sorted(done, key=lambda trial: float(trial.user_attrs["score"]))
    better = [t.user_attrs for t in ranked if t.user_attrs["score"] < own["score"]][:CANDIDATES]
    notes = [f"{len(done)} trials of {', '.join(axis.key for axis in axes)}"]
    for number, candidate in enumerate(better, 1):
        held = sum(
            score(run_case(swept, StudyCase("", other | candidate["settings"])), objective)
            < score(run_case(swept, StudyCase("", other | own["settings"])), objective)
            for other in others
        )
        if held == len(others):
            notes.append(_confidence(held, number))
            notes.append(_unknown(objective))
            return Tuned(
                candidate["settings"], own["score"], candidate["score"], len(done), held, notes
            )
    why = "better in all validations" if better else "better that meets the constraints"
    notes.append(f"nothing was {why}: keep the session's own settings, or vary other keys")
    return Tuned({}, own["score"], own["score"], len(done), 0, notes)


def _confidence(held: int, number: int) -> str:
    if not held:
        return (
            "confidence: low, because it was tuned on one session and validated on no other; give "
            "--validate with other initial values"
        )
    rank = "" if number == 1 else f", being number {number} of the trials"
    return f"confidence: it was better in {held} of {held} other sessions, too{rank}"


def _unknown(objective: Objective) -> str:
    text = "not known: other inputs, loads and durations than those that were run"
    if objective == "error":
        text += "; the true error, of which the objective is an estimate"
    if objective == "energy":
        text += "; errors that create no energy, such as delays"
    return text


def patch(file: SessionFile, objective: Objective, found: Tuned) -> str:
    """The recommendation as TOML: settings by their keys, as after ``--set``, and their basis."""
    lines = [f"# {file.path.name}: tuned for {objective}", *(f"# {note}" for note in found.notes)]
    lines += ["", "[settings]"]
    lines += [f"{toml_value(key)} = {toml_value(v)}" for key, v in found.settings.items()]
    lines += ["", "[gain]", f"objective = {toml_value(objective)}"]
    lines += [f"before = {found.before!r}", f"after = {found.after!r}"]
    lines += [f"trials = {found.trials}", f"validations = {found.validations}"]
    return "\n".join(lines) + "\n"
