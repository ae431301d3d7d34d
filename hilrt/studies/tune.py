"""Tuning: find the settings of a session, or of its logs, that minimise an objective.

They are compared with the session's own settings in other sessions and other logs.

Optuna (Akiba et al. 2019) proposes trials by its tree-structured Parzen estimator, and stores them
in a journal file: a repeated call continues the tuning, and several processes may share it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from hilrt.config.parse_toml import toml_value
from hilrt.config.session_file import SessionFile
from hilrt.config.structs import Session
from hilrt.errors import ConfigError
from hilrt.files.text import write_whole
from hilrt.session.result import VERDICTS
from hilrt.studies.axes import Axis, Settings, axes_of, parse_axis, rounded
from hilrt.studies.objective import (
    LONGER,
    OBJECTIVES,
    Objective,
    allowed_verdicts,
    figure_of,
    grows_at_longer_step,
    motion_notes,
    score,
)
from hilrt.studies.run_cases import Row
from hilrt.studies.subject import Subject, subject_of, validations_of
from hilrt.studies.what_if_result import CAVEAT

if TYPE_CHECKING:
    import optuna

Part = Literal["correction", "step", "order"]
PARTS_OF_TUNING: Final = get_args(Part)
#: Number of best trials that are validated until one holds.
CANDIDATES: Final = 3
#: Share of the trials that cover the whole of each axis; the others are near the best one.
WIDE: Final = 0.5


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
        Number of trials in the journal.
    validations : int
        Number of other sessions in which the recommended settings were better and met the
        constraints.
    notes : list of str
        Basis, confidence, and limitations.
    """

    settings: Settings
    before: float
    after: float
    trials: int
    validations: int
    notes: list[str] = field(default_factory=list)


def tune(
    session: str | Path | SessionFile | Sequence[str | Path],
    objective: Objective = "error",
    over: Sequence[Part] = ("correction",),
    *,
    overrides: Mapping[str, object] | None = None,
    vary: Mapping[str, Any] | None = None,
    validate: Mapping[str, Any] | None = None,
    trials: int = 60,
    out: str | Path | None = None,
) -> Tuned:
    """Find settings of a session that minimise an objective.

    Parameters
    ----------
    session : str, Path, SessionFile, or sequence of str and Path
        A session without benches and other processes; or recorded logs of any session, whose
        decisions are repeated with different settings, and of which the worst counts.
    objective : str
        ``"error"``: the largest relative estimated error. ``"energy"``: energy created by a power
        bond, relative to the energy carried. ``"cost"``: macro steps per second. In all cases the
        verdict must be ``good`` (for logs: not worse than with the recorded settings), corrections
        must never be harmful, and they may be at their cap in at most 5 % of the steps. If the
        models are linear, the coupling must be stable at a step that is a quarter longer, or grow
        no faster there than with the session's own settings.
    over : sequence of str
        ``"correction"``: μ and cap of the energy corrections; ``"step"``: from a tenth to four
        times the session's; ``"order"``: 0 to 2, for all connections without their own order.
    overrides : mapping, optional
        Values that replace the session's, by ``"table.key"``.
    vary, validate : mapping, optional
        Further keys to vary, as for `sweep`; and keys, such as initial values, for all of whose
        combinations the recommendation must hold. With the key ``"log"``, other recorded logs of
        the session are used instead.
    trials : int
        Total number of trials, including those in the journal.
    out : str or Path, optional
        Folder of the journal and of ``tune.toml``; default: ``tunings/NAME``.

    Raises
    ------
    ConfigError
        If there is nothing to tune, or the session cannot be run here.
    """
    subject = subject_of(session, overrides)
    axes = _axes(subject, objective, over, vary or {})
    others = validations_of(subject, validate or {})
    name = Path(subject.logs[0]).parent.name if subject.logs else subject.file.path.stem
    folder = Path(out) if out is not None else Path("tunings") / name
    study = _study(folder, f"{subject.basis[:16]}-{objective}")
    search = TuningSearch(study, subject, axes, objective)
    while len(study.get_trials(states=_finished())) < trials:
        search.try_one(trials)
    found = search.recommend(others)
    write_whole(folder / "tune.toml", patch(subject, objective, found))
    return found


def _axes(
    subject: Subject, objective: Objective, over: Sequence[Part], vary: Mapping[str, Any]
) -> list[Axis]:
    """Axes of a tuning; `ConfigError` if they or the objective do not fit the subject."""
    tables = subject.file.tables
    if objective not in OBJECTIVES:
        raise ConfigError(f"objective = {objective!r}: choose from {', '.join(OBJECTIVES)}")
    if objective == "energy" and not tables.bonds:
        raise ConfigError("objective = 'energy': the session has no [[bonds]]")
    if subject.logs and (objective == "cost" or "step" in over):
        raise ConfigError("a log has its own step: choose another objective, and not --over step")
    axes = [*axes_of_parts(tables, over), *axes_of(vary)]
    if not axes:
        raise ConfigError("nothing to tune: the session has no energy correction; give --vary")
    return axes


def axes_of_parts(tables: Session, over: Sequence[Part]) -> list[Axis]:
    """Axes of the parts of a session to be tuned."""
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
    """The session's own values of the axes, if it states them."""
    own: Settings = {"master.step": file.tables.master.step}
    own["master.extrapolation.order"] = file.tables.master.extrapolation.order
    for bond in file.tables.bonds:
        key = f"bonds.{bond.name}.correction"
        own |= {f"{key}.mu": bond.correction.mu, f"{key}.cap": bond.correction.cap}
    return {axis.key: own[axis.key] for axis in axes if own.get(axis.key) is not None}


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

    folder.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about experimental features of Optuna
        return optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(folder / "tune.journal"))),
            study_name=name,
            sampler=optuna.samplers.TPESampler(
                seed=0, constraints_func=lambda trial: trial.user_attrs.get("constraints", [1.0])
            ),
            load_if_exists=True,
        )


class TuningSearch:
    """The trials of a tuning, and the resulting recommendation."""

    def __init__(
        self, study: optuna.Study, subject: Subject, axes: Sequence[Axis], objective: Objective
    ) -> None:
        self._study, self._subject = study, subject
        self._axes, self._objective = axes, objective
        self._own = values_of(subject.file, axes)
        self._unchanged = {} if subject.logs else self._own  # logs: as recorded, even in shadow
        self._verdicts = allowed_verdicts(subject)
        self._growth = math.nan if subject.logs else grows_at_longer_step(subject.file, {})

    def try_one(self, trials: int) -> None:
        """Run one of `trials` trials; the first uses the session's own settings."""
        import optuna

        study = self._study
        first = not any(trial.user_attrs.get("own") for trial in study.get_trials())
        made = len(study.get_trials())
        if not first and made >= WIDE * trials and (near := self._near_best(made)):
            study.enqueue_trial(near)
        trial = study.ask()
        own = self._own
        settings = own if first else {axis.key: _suggested(trial, axis) for axis in self._axes}
        rows = self._subject.rows(self._unchanged if first else settings)
        found = max(map(self._score_of, rows, self._verdicts))
        if not first and not self._is_stable(settings):
            found = math.inf
        trial.set_user_attr("own", first)
        trial.set_user_attr("settings", settings)
        trial.set_user_attr("score", found)
        trial.set_user_attr("verdicts", [row["verdict"] for row in rows])
        trial.set_user_attr("alone", [self._score_of(row, VERDICTS) for row in rows])
        trial.set_user_attr("constraints", [0.0 if math.isfinite(found) else 1.0])
        figure = max(figure_of(row, self._objective) for row in rows)
        if math.isfinite(figure) and not first:
            study.tell(trial, math.log(max(figure, 1e-12)))
        else:  # the session's own values may be outside the axes
            study.tell(trial, state=optuna.trial.TrialState.FAIL)

    def _is_stable(self, settings: Settings) -> bool:
        if not math.isfinite(self._growth):
            return True
        return grows_at_longer_step(self._subject.file, settings) <= self._growth + 1e-9

    def _near_best(self, turn: int) -> dict[str, Any]:
        """Parameters of the best trial, with one moved halfway to the farther neighbour.

        The neighbours are the tested values next to the best one. On a single axis they enclose
        the minimum, if there is only one; several axes take turns.
        """
        done = [t for t in self._study.get_trials() if t.params and "score" in t.user_attrs]
        best = min(done, key=lambda t: float(t.user_attrs["score"]), default=None)
        smooth = [axis for axis in self._axes if axis.scale != "int" and axis.low == axis.low]
        if best is None or math.isinf(best.user_attrs["score"]) or not smooth:
            return {}
        axis = smooth[turn % len(smooth)]
        at = best.params[axis.key]
        tried = [t.params[axis.key] for t in done]
        low = max([v for v in tried if v < at], default=axis.low)
        high = min([v for v in tried if v > at], default=axis.high)
        return best.params | {axis.key: 0.5 * (at + (high if high - at > at - low else low))}

    def recommend(self, others: Sequence[Subject]) -> Tuned:
        """Recommend the best trial that beats the session's own settings in all `others`."""
        done = [t for t in self._study.get_trials() if "score" in t.user_attrs]
        own = next(trial for trial in done if trial.user_attrs["own"]).user_attrs
        ranked = sorted(done, key=lambda trial: float(trial.user_attrs["score"]))
        better = [t.user_attrs for t in ranked if t.user_attrs["score"] < own["score"]][:CANDIDATES]
        notes = [f"{len(done)} trials of {', '.join(axis.key for axis in self._axes)}"]
        notes += self._basis()
        known = [
            (other, allowed, self._score(other, self._unchanged, allowed))
            for other in (others if better else ())
            for allowed in [allowed_verdicts(other)]
        ]
        for number, candidate in enumerate(better, 1):
            held = sum(
                self._score(other, candidate["settings"], allowed) < before
                for other, allowed, before in known
            )
            if held == len(others):
                notes.append(_confidence(held, number, self._subject))
                notes.append(_unknown(self._objective, self._subject))
                notes += self._motion(candidate, done)
                return Tuned(
                    candidate["settings"], own["score"], candidate["score"], len(done), held, notes
                )
        why = "better in all validations" if better else "better that meets the constraints"
        notes.append(f"nothing was {why}: keep the session's own settings, or vary other keys")
        notes += self._motion(own, done)
        return Tuned({}, own["score"], own["score"], len(done), 0, notes)

    def _score_of(self, row: Row, verdicts: Sequence[str]) -> float:
        return score(row, self._objective, verdicts)

    def _score(
        self, other: Subject, settings: Settings, verdicts: Sequence[Sequence[str]]
    ) -> float:
        return max(map(self._score_of, other.rows(settings), verdicts))

    def _motion(
        self, found: Mapping[str, Any], done: Sequence[optuna.trial.FrozenTrial]
    ) -> list[str]:
        """Notes on verdicts and motion, on which a recommendation from logs depends."""
        logs, keys = self._subject.logs, [axis.key for axis in self._axes]
        if not logs:
            return []
        notes = [f"verdict of the repeated decisions: {', '.join(found.get('verdicts', []))}"]
        tried = [trial.user_attrs for trial in done if "alone" in trial.user_attrs]
        known = [one for one in tried if not one["own"]] or tried
        best = [min(known, key=lambda one: one["alone"][i])["settings"] for i in range(len(logs))]
        for key in keys if len(logs) > 1 else ():
            values = ", ".join(f"{one[key]:.3g}" for one in best if isinstance(one.get(key), float))
            notes += [f"{key} for each log alone: {values}"] if values else []
        return notes + motion_notes(self._subject.file.tables, logs, keys)

    def _basis(self) -> list[str]:
        if self._subject.logs:
            return [f"of the decisions of {len(self._subject.logs)} recorded logs, repeated"]
        if math.isnan(self._growth):
            return ["the stability of the coupling was not examined, as the models are not linear"]
        return [f"stable at {LONGER:g} times the step, or growing no faster than before"]


def _suggested(trial: optuna.Trial, axis: Axis) -> Any:
    if axis.scale == "int" or math.isnan(axis.low):
        return axis.values[trial.suggest_int(axis.key, 0, len(axis.values) - 1)]
    value = trial.suggest_float(axis.key, axis.low, axis.high, log=axis.scale == "log")
    return rounded(axis.key, value)


def _confidence(held: int, number: int, subject: Subject) -> str:
    if not held:
        one = "the decisions of these logs" if subject.logs else "one session"
        return (
            f"confidence: low, because it was tuned on {one} and validated on no other; give "
            "--validate with other initial values" + (", or log=LOG" if subject.logs else "")
        )
    rank = "" if number == 1 else f", being number {number} of the trials"
    return f"confidence: it was also better in {held} of {held} other sessions{rank}"


def _unknown(objective: Objective, subject: Subject) -> str:
    text = "not covered: other inputs, loads and durations than those that were run"
    if subject.logs:
        text = f"not covered: other inputs and loads than those of the logs. {CAVEAT}"
    if objective == "error":
        text += "; the true error, of which the objective is an estimate"
    if objective == "energy":
        text += "; errors that create no energy, such as delays"
    return text


def patch(subject: Subject, objective: Objective, found: Tuned) -> str:
    """Format the recommendation as TOML: settings by their keys, as for ``--set``, with basis."""
    names = ", ".join(subject.logs) or subject.file.path.name
    lines = [f"# {names}: tuned for {objective}", *(f"# {note}" for note in found.notes)]
    lines += ["", "[settings]"]
    lines += [f"{toml_value(key)} = {toml_value(v)}" for key, v in found.settings.items()]
    lines += ["", "[gain]", f"objective = {toml_value(objective)}"]
    lines += [f"before = {found.before!r}", f"after = {found.after!r}"]
    lines += [f"trials = {found.trials}", f"validations = {found.validations}"]
    return "\n".join(lines) + "\n"
