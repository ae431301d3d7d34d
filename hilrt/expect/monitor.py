"""Evaluation of one expectation over the samples of a session or log, from batches of margins.

The result does not depend on the division into batches: checking during a session and checking its
log agree bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hilrt.expect.formula import Atom, Formula, HoldsUntil, walk
from hilrt.expect.obligation import Obligation, Stream, cut_off
from hilrt.expect.outcome import Word
from hilrt.expect.robustness import Accumulator, Ints, Robustness


class Judgement(NamedTuple):
    """Result for an expectation, with the sample that decides it.

    Attributes
    ----------
    word : {"passed", "failed", "inconclusive"}
    value, error : float
        Robustness, and the estimated error of the deciding margin; NaN: unknown.
    at_ns, atom : int
        Time of the deciding sample, and number of the deciding comparison; -1: unknown.
    reason : str
        Why it has not passed, or which parts were left out.
    """

    word: Word
    value: float
    error: float
    at_ns: int
    atom: int
    reason: str


class JudgedTime(NamedTuple):
    """Times at which an expectation is judged.

    Attributes
    ----------
    since_ns : int
        Judging begins at the first sample at or after this time.
    until_ns : int or None
        Judging ends at the last sample at or before this time; None: at the end.
    triggered : bool
        Whether it is judged at every sample at which its condition becomes true, instead of only at
        the first sample.
    """

    since_ns: int = 0
    until_ns: int | None = None
    triggered: bool = False


class Monitor:
    """Evaluation of a formula.

    Parameters
    ----------
    formula : Formula
        Everything below its outermost operator has bounded reach; with a trigger, all of it.
    numbers : dict of Atom to int
        Index of each comparison's margins in the argument of `take`.
    timing : JudgedTime
    """

    def __init__(self, formula: Formula, numbers: dict[Atom, int], timing: JudgedTime) -> None:
        self._formula, self._numbers, self._timing = formula, numbers, timing
        self._bounded = not any(isinstance(one, HoldsUntil) for one in walk(formula))
        self._stream = Stream(formula, numbers) if timing.triggered and self._bounded else None
        self._obligations: list[Obligation] = []
        self._single: Obligation | None = None
        self._all = Accumulator(least=True)  # over all triggers
        self._triggers: list[int] = []  # triggers that are not decided yet, ns
        self._held = False
        self.triggers = self.unfinished = self.unknown = 0
        self.first_ns = self.last_ns = -1
        self.ended = False

    def take(self, margins: Sequence[Robustness], condition: Robustness | None = None) -> None:
        """Add samples: margins of every comparison, and the robustness of the condition."""
        times = margins[0].t_ns
        begin = int(np.searchsorted(times, self._timing.since_ns))
        if begin:
            margins = [one.part(slice(begin, None)) for one in margins]
            condition = None if condition is None else condition.part(slice(begin, None))
            times = times[begin:]
        if not len(times):
            return
        if self.first_ns < 0:
            self.first_ns = int(times[0])
        self.last_ns = int(times[-1])
        if condition is None:
            if self._single is None:
                self._single = self._oblige(self.first_ns)
            self._single.take(margins)
            return
        risen = self._risen(times, condition)
        if self._stream is not None:
            self._add_decided(self._stream.take(margins))
            return
        for at_ns in risen:
            self._obligations.append(self._oblige(at_ns))
        for one in self._obligations:
            one.take(margins)
        for one in [one for one in self._obligations if one.complete]:
            self._obligations.remove(one)
            self._all.add(_as_sample(one, one.bounds))

    def finish(self) -> None:
        """Finish after the last sample."""
        self.ended = True
        if self._single is not None:
            self._single.finish()
        if self._stream is not None:
            last = self._stream.finish()
            chosen = last.part(np.isin(last.t_ns, self._triggers))
            cut = cut_off(chosen)
            self.unfinished += int(cut.sum())
            self._all.add(chosen.part(~cut))
        for one in self._obligations:
            one.finish()
            sample = _as_sample(one, one.end())
            if cut_off(sample)[0]:
                self.unfinished += 1
            else:
                self._all.add(sample)

    def judge(self) -> Judgement | None:
        """Judgement; None while undecided."""
        if self._timing.triggered:
            found = self._all
            sure = self.ended and not self.unknown  # otherwise there may be further triggers
            low, high = (found.low if sure else -math.inf), found.high
            if found.count == 0:
                return self._unjudged() if self.ended else None
        else:
            if self._single is None:
                return self._unjudged() if self.ended else None
            found = self._single.found
            low, high = self._single.end() if self.ended else self._single.bounds
        complete = self.ended or (self._single is not None and self._single.complete)
        return decide(found, low, high, complete, self._notes())

    # ----------------------------------------------------------------------------------------------

    def _oblige(self, at_ns: int) -> Obligation:
        return Obligation(self._formula, self._numbers, at_ns, self._timing.until_ns)

    def _risen(self, times: Ints, condition: Robustness) -> list[int]:
        """Times at which the condition becomes true; also at the first sample, if it is true there.

        Where it is unknown, it counts as not becoming true; such samples are counted.
        """
        unknown = cut_off(condition)
        with np.errstate(invalid="ignore"):
            holds = (condition.value >= 0.0) & ~unknown
        before = np.concatenate([[self._held], holds[:-1]])
        self._held = bool(holds[-1])
        within = np.ones(len(times), np.bool_)
        if self._timing.until_ns is not None:
            within = times <= self._timing.until_ns
        self.unknown += int(np.count_nonzero(unknown & within))
        risen = times[holds & ~before & within]
        self.triggers += len(risen)
        self._triggers.extend(risen.tolist())
        return list(risen.tolist())

    def _add_decided(self, decided: Robustness) -> None:
        if not len(decided.t_ns):
            return
        self._all.add(decided.part(np.isin(decided.t_ns, self._triggers)))
        last = int(decided.t_ns[-1])
        self._triggers = [t_ns for t_ns in self._triggers if t_ns > last]

    def _unjudged(self) -> Judgement:
        if not self._timing.triggered:
            reason = "there is no sample in its time span"
        elif self.triggers:
            reason = "the log ends before the window of any trigger has passed"
        else:
            reason = "its condition never became true, so nothing was checked"
        reason = "; ".join(filter(None, [reason, self._unknown_condition()]))
        return Judgement("inconclusive", math.nan, math.nan, -1, -1, reason)

    def _notes(self) -> str:
        notes = [self._unknown_condition()]
        if self.unfinished:
            notes.append(
                f"{self.unfinished} of {self.triggers} triggers are not checked: the log ends "
                "too early"
            )
        return "; ".join(filter(None, notes))

    def _unknown_condition(self) -> str:
        if not self.unknown:
            return ""
        return f"its condition (when) is unknown at {self.unknown} samples"


def decide(
    found: Accumulator, low: float, high: float, complete: bool, notes: str = ""
) -> Judgement | None:
    """Decide passed or failed, if the error cannot change this; None while undecided.

    Parameters
    ----------
    found : Accumulator
    low, high : float
        Bounds of the robustness.
    complete : bool
        Whether further samples cannot change the result.
    notes : str
        Notes on parts left out.
    """
    unknown = math.isnan(found.error)
    word: Word
    if found.least:
        failed, passed = found.sure < 0.0, low >= 0.0 and not unknown
    else:
        failed, passed = high < 0.0 and not unknown, found.sure >= 0.0
    if failed or passed:
        word = "failed" if failed else "passed"
        return Judgement(word, found.value, found.error, found.at_ns, found.atom, notes)
    if not complete:
        return None
    reason = _why(found, low, high)
    reason = f"{reason}; {notes}" if notes else reason
    return Judgement("inconclusive", found.value, found.error, found.at_ns, found.atom, reason)


def _why(found: Accumulator, low: float, high: float) -> str:
    if math.isnan(found.value):
        return "its signals have no known value"
    if math.isinf(low) or math.isinf(high):
        return "signals have no known value for a time, or the log ends before it is decided"
    if math.isnan(found.error):
        return "the estimated error of its signals is unknown there"
    if abs(found.value) < found.error:
        return "the estimated error of its signals is larger than the distance to the limit"
    return "at another sample the estimated error is larger than the distance to the limit"


def _as_sample(one: Obligation, bounds: tuple[float, float]) -> Robustness:
    """Robustness of an obligation, as that of a sample at its time."""
    found = one.found
    numbers = np.array([found.at_ns]), np.array([found.atom])
    value, low, high = (np.array([number]) for number in (found.value, *bounds))
    error = np.array([found.error])
    return Robustness(np.array([one.at_ns]), value, low, high, *numbers, error)
