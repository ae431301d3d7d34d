"""Advice before the first run: step, order and correction that reach a target error.

The session's models are run with different settings and compared with a run at so short a step that
halving it changes nothing: the error is measured, not estimated. The choice is that of the advice
after a run (`hilrt.reliability.choose_settings`), with these errors. The computing time of a step
comes from the same runs, the lateness of this host and of the peers from `measured_delays`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from hilrt.config.structs import Session
from hilrt.errors import HilrtError
from hilrt.reliability.choose_settings import (
    ORDER,
    STEP,
    Bound,
    Candidate,
    Prediction,
    Tested,
    choose,
    grows,
    in_ms,
    longest_of,
    percent,
    time_bounds,
)
from hilrt.solver import Floats
from hilrt.studies.axes import Settings
from hilrt.studies.first_step import FirstStep
from hilrt.studies.measured_delays import missed_share
from hilrt.studies.model_trials import (
    IdealRun,
    ModelTrial,
    Run,
    errors_of,
    first_step_of,
    ladder,
    reference_of,
    whole_ns,
)
from hilrt.wording import number

CONTROL: Final = "master.step_control.method"
#: Share of the target used in the search; the rest is a margin for other initial values and noise.
MARGIN: Final = 0.8
#: Largest difference of the ideal run from one at twice its step, as a share of the target.
AGREES: Final = 0.1
#: Largest assumed factor by which halving the step reduces the error of the ideal run.
MOST_FALL: Final = 4.0
#: Maximum macro steps of a run.
MOST_STEPS: Final = 40_000
#: Minimum number of steps in a session, which bounds the step.
FEWEST_STEPS: Final = 40
#: Time limit of the search, s; runs that would end later are not begun.
SEARCH_S: Final = 25.0
#: The interval of the predicted error extends by this factor beyond the measured values.
SPREAD: Final = 1.3


@dataclass(frozen=True)
class SettingsAdvice:
    """Recommendation before the first run.

    Attributes
    ----------
    settings : dict
        ``"table.key"`` to value; empty if nothing reaches the target in time.
    error : (float, float)
        Interval of the predicted error of the worst signal, relative to its variation.
    signal : str
        The worst signal.
    processor : float
        Predicted share of one processor.
    missed : float
        Predicted share of missed ticks, the upper end of its 95 % interval; NaN if the session does
        not run in real time.
    first_step : float
        First step if the step is variable, s, see `hilrt.studies.first_step`; NaN if it is fixed.
    rejected : list of str
        Every other alternative with the reason.
    notes : list of str
        Basis of the advice.
    """

    settings: Settings
    error: tuple[float, float] = (math.nan, math.nan)
    signal: str = ""
    processor: float = math.nan
    missed: float = math.nan
    first_step: float = math.nan
    rejected: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Wish:
    """Requested targets and limits.

    Attributes
    ----------
    target : float
        Error of every coupling signal, root mean square, relative to its variation.
    targets : dict of str to float
        Targets of individual signals, instead.
    budget : float
        Largest share of one processor, models included.
    lateness : ndarray or None
        Measured times from ticks until their inputs are sent, s; None if the session does not run
        in real time.
    answers : dict of str to ndarray
        Measured response times of subsystems in other processes, s.
    deadline : float
        Share of a step within which inputs must be sent.
    missed : float
        Largest share of missed ticks.
    search_s : float
        Time limit of the search after the first run, s; runs that would end later are not begun.
    clock : function
        Clock for that limit, s.
    first : FirstStep, optional
        First step of a variable step by its tolerances, if known.
    """

    target: float
    targets: Mapping[str, float] = field(default_factory=dict)
    budget: float = 1.0
    lateness: Floats | None = None
    answers: Mapping[str, Floats] = field(default_factory=dict)
    deadline: float = 0.2
    missed: float = 0.01
    search_s: float = SEARCH_S
    clock: Callable[[], float] = time.monotonic
    first: FirstStep | None = None

    def of(self, signal: str) -> float:
        """Target of a signal."""
        return self.targets.get(signal, self.target)


def advise_settings(run: Run, tables: Session, wish: Wish) -> SettingsAdvice:
    """Find the cheapest settings with which the models reach the target.

    Parameters
    ----------
    run : function
        Runs the models.
    tables : Session
        The present session; its duration is that of the runs.
    wish : Wish

    Raises
    ------
    HilrtError
        If the models cannot be run, or do not converge at any step.
    """
    return SettingsSearch(run, tables, wish).advise(alternatives(tables))


def alternatives(tables: Session) -> list[Candidate]:
    """Coupling methods for a session, simplest first, including its own correction."""
    orders = {f"order {p}": {ORDER: p} for p in (1, 0, 2)}
    plain = {f"bonds.{bond.name}.correction.method": "none" for bond in tables.bonds}
    found = [Candidate(name, order | plain) for name, order in orders.items()]
    own = {bond.correction.method for bond in tables.bonds} - {"none"}
    benches = any(options.measured for options in tables.subsystems.values())
    if own:
        found += [
            Candidate(f"{name} with the session's correction ({', '.join(sorted(own))})", order)
            for name, order in orders.items()
        ]
    if tables.bonds and "energy" not in own and not benches:
        keys = {"method": "energy", "mu": 0.5, "cap": 1.0}
        energy = {
            f"bonds.{bond.name}.correction.{key}": value
            for bond in tables.bonds
            for key, value in keys.items()
        }
        found += [
            Candidate(f"{name} with an energy correction (mu = 0.5)", orders[name] | energy)
            for name in ("order 0", "order 1")
        ]
    return found


class SettingsSearch:
    """The search for one session."""

    def __init__(self, run: Run, tables: Session, wish: Wish) -> None:
        self.wish, self._tables, self._run = wish, tables, run
        control = tables.master.step_control.method
        self._fixed: Settings = {} if control == "fixed" else {CONTROL: "fixed"}
        duration = tables.session.duration
        self.ladder = ladder(duration / MOST_STEPS, duration / FEWEST_STEPS)
        self._first = min(max(tables.master.step, self.ladder[0]), self.ladder[-1])
        self._began = math.nan  # until the end of the first run, which may compile
        self._step_s = 0.0
        self.reference = self._reference(duration)

    def advise(self, options: Sequence[Candidate]) -> SettingsAdvice:
        """Test all alternatives, each of which must be cheaper than the best so far."""
        aim = MARGIN - min(self.reference.share, 0.5 * MARGIN)
        found = choose(options, self.ladder, self._predict, aim=aim, first=self._first)
        notes = [
            f"errors are relative to the models at a step of {in_ms(self.reference.step_s)}, "
            f"which are known to {percent(self.reference.share)} of the target"
        ]
        if found.best is None:
            notes.append("nothing tested reaches the target; allow a larger error")
            return SettingsAdvice({}, rejected=found.rejected, notes=notes)
        advised = self._advice(found.best, found.rejected, notes)
        if self._fixed:
            step, signal = self.wish.first or first_step_of(
                self.reference, self.wish.of, self.ladder[-1]
            )
            most = "what the control tolerates" if self.wish.first else "its target"
            bound = f": held for so long, {signal} is wrong by {most}" if signal else ""
            notes.append(f"with a variable step begin with one of {in_ms(step)}{bound}")
            advised = replace(advised, first_step=step)
        return advised

    def _advice(self, best: Tested, rejected: list[str], notes: list[str]) -> SettingsAdvice:
        step, measured = best.step_s, best.predicted
        shortest = longest_of(self._from_below(measured.step_s))
        settings = {STEP: step, **best.candidate.settings, **self._fixed}
        if shortest is not None:
            notes.append(f"at least {in_ms(shortest.step_s)}: {shortest.basis}")
            if shortest.step_s > step:
                name = best.candidate.name
                notes.append(f"{name} needs a step of {in_ms(step)}, which is too short")
                settings = {}
        spread = self.reference.share * self.wish.of(measured.signal)
        return SettingsAdvice(
            settings,
            (max(measured.error - spread, 0.0) / SPREAD, (measured.error + spread) * SPREAD),
            measured.signal,
            measured.step_s / step,
            missed_share(self.wish.lateness, self.wish.deadline * step),
            rejected=rejected,
            notes=notes,
        )

    def _from_below(self, step_s: float) -> Iterator[Bound]:
        wish = self.wish
        yield Bound(
            step_s / wish.budget,
            f"a macro step takes {number(1e6 * step_s, 3)} µs with the models, and "
            f"{percent(wish.budget)} of a processor are allowed",
        )
        if wish.lateness is not None:
            most = 1.0 - wish.missed
            late = 1e6 * float(np.quantile(wish.lateness, most))
            slow = {name: 1e6 * float(np.quantile(s, most)) for name, s in wish.answers.items()}
            yield from time_bounds(late, wish.deadline, slow, most)

    def _left(self) -> float:
        """Remaining time for runs, s."""
        return self.wish.search_s - (self.wish.clock() - self._began)

    def _in_time(self, step: float) -> bool:
        """Whether a run at that step would end in time, according to the slowest steps so far."""
        steps = self._tables.session.duration / step
        return math.isnan(self._began) or steps * self._step_s <= self._left()

    def _try(self, settings: Settings, ideal: bool) -> ModelTrial:
        began = self.wish.clock()
        trial = self._run(settings, ideal)
        ended = self.wish.clock()
        if math.isnan(self._began):
            self._began = ended
        elif not trial.fault:
            steps = self._tables.session.duration / settings[STEP]
            self._step_s = max(self._step_s, (ended - began) / steps)
        return trial

    def _reference(self, duration: float) -> IdealRun:
        """Halve the step until that no longer changes the results."""
        plain: Settings = {f"bonds.{b.name}.correction.method": "none" for b in self._tables.bonds}
        named = self._tables.subsystems.items()
        plain |= {f"subsystems.{name}.every": 1 for name, options in named if options.every > 1}
        best: IdealRun | None = None
        fault = ""
        for order in (2, 1, 0):
            step, before, earlier = whole_ns(self._first), None, math.nan
            while duration / step <= 2 * MOST_STEPS and self._in_time(step):
                trial = self._try({ORDER: order, STEP: step} | plain | self._fixed, True)
                fault = trial.fault or fault
                if before is not None and not before.fault and not trial.fault:
                    found = reference_of(trial, step)
                    apart = self._measure(before, found).share
                    # A geometric series whose ratio is at least that of the last two differences.
                    falls = min(earlier / apart if apart else MOST_FALL, MOST_FALL)
                    share = apart / max(falls - 1.0, 1.0) if falls > 1.0 else apart
                    earlier = apart
                    if best is None or share < best.share:
                        best = replace(found, share=share)
                    if share <= AGREES:
                        return best
                before, step = trial, whole_ns(0.5 * step)
            if best is not None and best.share < 1.0:
                return best
        raise HilrtError(
            f"the models did not converge at any step tested in {self.wish.search_s:g} s: set a "
            f"larger target, or a shorter session{f' ({fault})' if fault else ''}"
        )

    def _measure(self, trial: ModelTrial, reference: IdealRun) -> Prediction:
        if trial.fault or not trial.signals:
            return Prediction(math.inf, math.inf, "", trial.step_s)
        errors = errors_of(trial, reference)
        worst = max(errors, key=lambda name: errors[name] / self.wish.of(name))
        return Prediction(errors[worst] / self.wish.of(worst), errors[worst], worst, trial.step_s)

    def _predict(self, option: Candidate, step: float) -> Prediction | None:
        """Run the models, if there is time."""
        if not self._in_time(step):
            return None
        trial = self._try({STEP: step, **option.settings, **self._fixed}, False)
        unstable = grows(trial.growth, self._tables.session.duration)
        return self._measure(trial, self.reference)._replace(unstable=unstable)
