"""The choice of step, order and correction: one search for advice before a run and after it.

A candidate is a coupling method. A function predicts its error and stability with a step: from runs
of the models before the first run (`hilrt.studies.settings_advice`), from the estimated errors and
the probed responses of a finished run (`hilrt.reliability.advice`), or from the defects in a log
(`hilrt.analyze.step_advice`). The candidate with the longest step that reaches the target is
chosen; all others are rejected with a reason.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hilrt.wording import number

STEP: Final = "master.step"
ORDER: Final = "master.extrapolation.order"
#: Factor by which a candidate must be cheaper than a simpler one to be preferred.
CHEAPER: Final = 1.15
#: Maximum predictions for one candidate.
MOST_TRIED: Final = 9
#: Share of the step that a subsystem's computation may take in real time.
SOLVER_SHARE: Final = 0.8
#: Quantile of the times for which a step must be long enough.
LATE: Final = 0.99


class Candidate(NamedTuple):
    """A coupling method: its name, and its settings (``table.key``) except for the step.

    `steps` are the only permitted ones, if there are any.
    """

    name: str
    settings: dict[str, Any]
    steps: tuple[float, ...] = ()


class Prediction(NamedTuple):
    """Error of a candidate with a step, as measured or expected.

    Attributes
    ----------
    share : float
        Relative to the target; infinite if the run diverges or may not be used.
    error : float
        Relative to the variation of the worst signal; infinite if there is none.
    signal : str
        The worst signal.
    step_s : float
        Computing time of a macro step, s; 0 if unknown.
    unstable : bool
        Whether errors grow with the stiffest responses seen (`grows`).
    why : str
        Reason against the step, if it is not the error or the stability.
    """

    share: float
    error: float
    signal: str
    step_s: float = 0.0
    unstable: bool = False
    why: str = ""


#: Predicts a candidate with a step [s]; None: there is no time left to find out.
Predict = Callable[[Candidate, float], Prediction | None]


class Bound(NamedTuple):
    """A bound on the step, s, and its origin."""

    step_s: float
    basis: str


class Tested(NamedTuple):
    """A tested candidate.

    Attributes
    ----------
    candidate : Candidate
    step_s : float
        Longest step that reaches the target; if none does, the shortest one tested, s.
    predicted : Prediction
        With that step; the worse of it and the next shorter step, if it reaches the target.
    against : str
        Reason why it does not reach the target; empty if it does.
    """

    candidate: Candidate
    step_s: float
    predicted: Prediction
    against: str = ""


@dataclass(frozen=True)
class Choice:
    """Result of the search.

    Attributes
    ----------
    best : Tested or None
        None if no candidate reaches the target.
    tested : list of Tested
        All candidates of which an error is known, in the order of the candidates.
    rejected : list of str
        Every other candidate with the reason.
    """

    best: Tested | None
    tested: list[Tested]
    rejected: list[str]


def choose(
    candidates: Iterable[Candidate],
    steps: Sequence[float],
    predict: Predict,
    *,
    aim: float = 1.0,
    first: float | None = None,
    tries: int = MOST_TRIED,
) -> Choice:
    """Find the candidate that reaches the target with the longest step.

    Parameters
    ----------
    candidates : iterable of Candidate
        The simplest first. A later one must allow steps that are longer by `CHEAPER`.
    steps : sequence of float
        Permitted steps, in ascending order, s.
    predict : function
    aim : float
        Largest share of the target.
    first : float, optional
        Step with which the search for the first candidate begins, s; default: the shortest.
    tries : int
        Maximum predictions for one candidate.
    """
    best: Tested | None = None
    tested: list[Tested] = []
    rejected: list[str] = []
    for candidate in candidates:
        permitted = candidate.steps or steps
        floor = 0 if best is None else _at_least(permitted, CHEAPER * best.step_s)
        if floor >= len(permitted):
            rejected.append(f"{candidate.name}: not tested, because no step is longer")
            continue
        begin = floor if best is not None or first is None else _at_least(permitted, first)
        found = Search(candidate, permitted, predict, aim, tries).longest(floor, begin)
        if isinstance(found, str):
            rejected.append(f"{candidate.name}: {found}")
            continue
        tested.append(found)
        if found.against:
            rejected.append(f"{candidate.name}: {found.against}")
            continue
        if best is not None:
            rejected.append(f"{best.candidate.name}: needs a step of {in_ms(best.step_s)}")
        best = found
    return Choice(best, tested, rejected)


class Search:
    """The search for the longest step of one candidate."""

    def __init__(
        self,
        candidate: Candidate,
        steps: Sequence[float],
        predict: Predict,
        aim: float,
        tries: int,
    ) -> None:
        self._candidate, self._steps, self._predict = candidate, steps, predict
        self._aim, self._tries = aim, tries
        self._order = int(candidate.settings.get(ORDER, 1))
        self._known: dict[int, Prediction] = {}

    def longest(self, floor: int, place: int) -> Tested | str:
        """Longest step that reaches the target, as does the next shorter one.

        Steps below position `floor` are not useful; the search begins at `place`. The result is a
        reason if nothing is known.
        """
        known = self._known
        low, high = floor - 1, len(self._steps)  # longest that reaches it, shortest that does not
        place = min(place, high - 1)
        while high - low > 1 and len(known) < self._tries:
            place = place if low < place < high else (low + high) // 2
            reached = self._reaches(place)
            if reached is None:
                return self._time_up()
            low, high = (place, high) if reached else (low, place)
            if stays(known):
                break
            place = min(max(self._next(place), low + 1), high - 1)
        while low > floor and low in known:
            reached = self._reaches(low - 1)
            if reached is None:
                return self._time_up()
            if reached:
                break
            low -= 2
        if low < floor or low not in known:
            at = min(known)
            return Tested(self._candidate, self._steps[at], known[at], self._against(at))
        worst = max((known[p] for p in (low, low - 1) if p in known), key=lambda m: m.share)
        return Tested(self._candidate, self._steps[low], worst)

    def _reaches(self, at: int) -> bool | None:
        """Whether the step at a position reaches the target; None if the time is up."""
        if at not in self._known:
            found = self._predict(self._candidate, self._steps[at])
            if found is None:
                return None
            self._known[at] = found._replace(share=math.inf) if found.unstable else found
        return self._known[at].share <= self._aim

    def _next(self, place: int) -> int:
        """Position of the step at which the target is expected to be just reached."""
        share = max(self._known[place].share / self._aim, 1e-6)
        if math.isinf(share):
            return place - 8
        wanted = self._steps[place] * share ** (-1.0 / (self._order + 1))
        return _at_least(self._steps, wanted * 0.9)

    def _time_up(self) -> str:
        tested = "not tested to its end" if self._known else "not tested"
        return f"{tested}, because the time was up"

    def _against(self, at: int) -> str:
        found, step = self._known[at], in_ms(self._steps[at])
        if found.unstable:
            return f"is unstable at {step} where the responses are stiffest"
        if found.why:
            return found.why
        if not math.isfinite(found.error):
            return f"does not reach its end, or diverges, at {step}"
        return f"its error is {percent(found.error)} ({found.signal}) at {step}"


def grows(rate: float, time_s: float, tolerated: float = 0.0) -> bool:
    """Whether errors that grow by `rate` [1/s] matter in a session of `time_s` [s].

    Growth less than e-fold, or not above the `tolerated` rate, does not; an unknown rate (NaN)
    neither.
    """
    return rate > max(tolerated, 1.0 / time_s)


def stays(known: Mapping[int, Prediction]) -> bool:
    """Whether an error hardly decreases with the step, and so is not due to the step."""
    found = [known[place].share for place in sorted(known)]
    return len(found) > 2 and min(found) > 1.0 and found[0] > 0.9 * found[2]


def time_bounds(
    late_us: float, deadline: float, computes_us: Mapping[str, float], quantile: float = LATE
) -> Iterable[Bound]:
    """Shortest steps in real time, by the times required.

    Parameters
    ----------
    late_us : float
        Time from a tick until the inputs are sent, µs.
    deadline : float
        Limit of that time, as a share of a step.
    computes_us : mapping of str to float
        Time of each subsystem for a step: computing, and transmission if known, µs.
    quantile : float
        Quantile of these times, for the text.
    """
    p = f"p{number(100.0 * quantile, 4)}"
    yield Bound(
        late_us * 1e-6 / deadline,
        f"inputs are sent {number(late_us, 3)} µs after the tick ({p}), the deadline is "
        f"{percent(deadline)} of the step",
    )
    for peer, slow in computes_us.items():
        yield Bound(slow * 1e-6 / SOLVER_SHARE, f"{peer} needs {number(slow, 3)} µs a step ({p})")


def sending_bounds(sends_s: Mapping[str, float]) -> Iterable[Bound]:
    """Shortest useful steps, by the sending intervals of benches [s]."""
    for name, every in sends_s.items():
        yield Bound(every, f"{name} sends new values every {in_ms(every)}")


def longest_of(bounds: Iterable[Bound]) -> Bound | None:
    """The bound that shortens a step least far, None if there is none."""
    return max(bounds, key=lambda bound: bound.step_s, default=None)


def in_ms(step: float) -> str:
    """A step, s, in ms."""
    return f"{number(step * 1e3, 3)} ms"


def percent(share: float) -> str:
    """A share in %."""
    return f"{number(100.0 * share, 2)} %"


def _at_least(steps: Sequence[float], step: float) -> int:
    """Position of the first step that is not shorter."""
    return bisect.bisect_left(steps, step * (1.0 - 1e-9))
