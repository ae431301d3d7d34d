"""Verdict on the reliability of a session's results, from its flags and errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from hilrt.reliability.causes import CAUSES, Cause
from hilrt.reliability.estimates import (
    GAIN_RANGE,
    GAIN_RANGE_CHANNELS,
    GAIN_RANGE_LAG,
    GAIN_RANGE_MANY,
    GAIN_RANGE_START,
    IRREGULAR,
    PROBED,
    PROBED_AT_START,
    REFERENCE,
    RENEWED,
    RENEWED_CHANGED,
    REPEATED,
    BondError,
    Estimate,
)
from hilrt.reliability.flags import FlagTotal
from hilrt.tables.network import MOST_TRIED
from hilrt.wording import OF_MODEL, number, width

#: Missed ticks per step above which a session is not good, and above which it is unreliable: their
#: inputs acted late, on a bench and on the display, and no estimate accounts for that.
MISSED_DEGRADED, MISSED_SHARE = 0.05, 0.2
#: Share of one second above which a cause without effect on the verdict is named with the reasons.
BAD_SECOND = 0.1
#: Energy created at a bond's interface, relative to the energy transmitted, that counts like 5 %
#: and 20 % of a signal.
BOND_DEGRADED = 0.1
BOND_UNRELIABLE = 0.5
#: If every estimate is below this share, measures do not make a session `unreliable`: they would
#: have done so in 24 of 3,000 sessions, of which 18 were within 5 %.
SMALL_ERROR = 0.04
#: If an estimate by a range of gains is below this share, the session is `unverified`.
LARGE_ERROR = 0.05
#: With renewed sensitivities, true errors were at most this many times the estimate, even if the
#: sensitivities changed. Causes that are part of an estimate up to 1 % therefore do not count.
CHANGING = 5.0
#: This does not apply if they changed, or could not be renewed, for more than this share of the
#: session.
MOST_CHANGED = 0.5
#: From the best to the worst; `unverified` if the only finding is a lack of evidence. `ASSUMED` if,
#: in addition, the error assumed for lack of evidence is large; it is worded like `DEGRADED`, which
#: rests on measurements.
GOOD, UNVERIFIED, ASSUMED, DEGRADED, UNRELIABLE = range(5)
WORDS = ("good", "unverified", "degraded", "degraded", "unreliable")
#: Remedy for missing evidence, by method of estimation.
EVIDENCE = {
    GAIN_RANGE: "the subsystems' responses are unknown: solvers that save and restore their "
    'state, a reference_model of a bench, or repeat = "half" without one would show it',
    GAIN_RANGE_LAG: "the subsystems' responses are unknown: solvers that save and restore their "
    'state, directional derivatives of states of an FMU, a reference_model, or repeat = "half" '
    "would show it",
    GAIN_RANGE_START: "the sensitivities of the start do not hold later: "
    'repeat = "half" would show the error of models that run as fast as possible',
    GAIN_RANGE_CHANNELS: "errors are not followed through calculated channels with filters, or of "
    "outputs of several rates: "
    'repeat = "half", or reference = "before" with a variable step, would show the error of models '
    "that run as fast as possible",
    GAIN_RANGE_MANY: 'repeat = "half" would show the error of models that run as fast as possible',
}
#: Reason if an estimate is only that large because no evidence shows that it is smaller.
NOT_SHOWN = (
    "evidence is lacking: the responses were probed only once, so no signal counts as more "
    "accurate than the most disturbed input, {}; fewer late samples or a less noisy source of "
    "that input would lower the estimate"
)
STILL = (
    "no coupled signal has moved, so nothing shows how the subsystems respond; drive an "
    "input, for example with a stimulus"
)
OWN_STEP = (
    "most of it is the models' own integration error; shorten the step that they integrate with, "
    "or the macro step"
)
#: Causes that measure components of the estimated errors.
MEASURED = (
    "connection_defect",
    "output_defect",
    "error_estimate",
    "power_residual",
    "energy_drift",
)
#: The one of these that shows whether the communication points, and so the estimate, resolve the
#: outputs; a session affected by it is never good.
INSIDE = "output_defect"
#: The cause of missing evidence about that.
UNSEEN_INSIDE = "inside_unknown"
#: Causes by which a correction does not act, so that the errors are those without it.
NOT_ACTING = ("correction_shadow", "model_untrusted", "model_unexcited")


class Verdict(NamedTuple):
    """Verdict with its reasons.

    Attributes
    ----------
    word : str
        ``good``, ``unverified``, ``degraded`` or ``unreliable``.
    reasons : list of str
    evidence_lacking : bool
        Whether it rests on a lack of evidence alone: no measurement found anything wrong.
    """

    word: str
    reasons: list[str]
    evidence_lacking: bool = False


class SessionCourse(NamedTuple):
    """Facts about a session on which the verdict depends in addition to the causes.

    Attributes
    ----------
    time_s : float
        Session time, s.
    fault : str or None
        Reason for an early end by a fault, if any.
    missed, steps : int
        Missed ticks in real time, including skipped ones; and steps.
    unrecorded : int
        Steps missing in the log, which can no longer be examined.
    secured : str
        Reason why benches were brought to their safe profile; empty if they were not.
    collapsed : str
        Failure of step control to find a step; empty if there was none.
    errors, bonds : mapping
        Estimated errors of the coupling signals and the bonds' energies, by name.
    """

    time_s: float
    fault: str | None = None
    missed: int = 0
    steps: int = 0
    unrecorded: int = 0
    secured: str = ""
    collapsed: str = ""
    errors: Mapping[str, Estimate] = MappingProxyType({})
    bonds: Mapping[str, BondError] = MappingProxyType({})


def verdict(totals: Mapping[str, FlagTotal], course: SessionCourse) -> Verdict:
    """Reliability of the session's results, from the steps affected by each cause.

    Parameters
    ----------
    totals : mapping of str to FlagTotal
        By cause, at the end of the session.
    course : SessionCourse
    """
    found, explanations = [*_of_the_course(course)], []
    for name, total in totals.items():
        cause, share = CAUSES[name], _share(total, course.time_s)
        grade = _grade(cause, total, share)
        if grade == GOOD:
            continue
        where = cause.text.format(_some(total.places) or cause.places)
        text = f"{name}: {where}, {_shares(share, total.worst_second)}"
        if cause.evidence:
            grade, text = UNVERIFIED, f"{text}; {cause.evidence}"
        most = _most(name, share, course)
        if not cause.explains and most != GOOD:
            found.append((min(grade, most), text))
        elif name != "deadline_missed" or not _often_missed(course):  # otherwise listed already
            explanations.append(text)
    worst = max((grade for grade, _ in found), default=GOOD)
    reasons = [text for _, text in found]
    lacking = worst in (UNVERIFIED, ASSUMED)
    return Verdict(WORDS[worst], reasons + explanations if reasons else [], lacking)


def _of_the_course(course: SessionCourse) -> Iterator[tuple[int, str]]:
    """Grades that do not depend on measures, each with its reason."""
    if course.fault:
        yield UNRELIABLE, f"fault: the session ended with a fault: {course.fault}"
    if course.secured:
        yield DEGRADED, course.secured
    if course.unrecorded:
        missing, steps = course.unrecorded, course.steps
        yield DEGRADED, f"recording: {missing:,} of {steps:,} steps are not in the log"
    if course.collapsed:
        yield DEGRADED, course.collapsed
    yield from _of_the_errors(course)
    if _often_missed(course):
        missed, steps = course.missed, course.steps
        text = f"{missed:,} ticks in {steps:,} steps were missed, including skipped ones"
        mostly = missed > MISSED_SHARE * max(steps, 1)
        yield UNRELIABLE if mostly else DEGRADED, f"deadline_missed: {text}"


def _most(name: str, share: float, course: SessionCourse) -> int:
    """Worst grade that a cause with that share of the time can give in addition to the errors.

    Measures at inputs and bonds are part of these errors, and so is a correction that does not act.
    The estimates are certain if the subsystems' responses are known and linear, or if the session
    was repeated at shorter steps; they are likely if the responses are those about the start. An
    unknown estimate, as of a session that diverged, contains nothing. With a range of gains instead
    of responses, causes decide as well, but do not turn a small error into a large one. An output
    that deviates from its polynomial within the step may be wrong in ways that the estimate does
    not include.
    """
    ways = {
        RENEWED if error.how == RENEWED_CHANGED else error.how for error in course.errors.values()
    }
    if any(math.isnan(error.value) for error in course.errors.values()):
        ways = set()
    tried = bool(ways) and ways <= {
        PROBED,
        RENEWED,
        PROBED_AT_START,
        OF_MODEL,
        REPEATED,
        IRREGULAR,
        REFERENCE,
    }
    if name == UNSEEN_INSIDE and bool(ways) and ways <= {REPEATED, IRREGULAR, REFERENCE}:
        return GOOD  # shorter steps have resolved it
    if name in NOT_ACTING and tried:
        return GOOD
    renewed = RENEWED in ways and ways <= {PROBED, RENEWED}
    if renewed and all(
        CHANGING * e.value <= LARGE_ERROR * e.spread for e in course.errors.values()
    ):
        ways = {PROBED}
        if name == "sensitivities_changed" and share <= MOST_CHANGED:
            return GOOD
    if name in MEASURED and tried:
        return GOOD if ways <= {PROBED, REPEATED, REFERENCE} and name != INSIDE else DEGRADED
    small = bool(ways) and all(e.value <= SMALL_ERROR * e.spread for e in course.errors.values())
    return DEGRADED if name in MEASURED and small else UNRELIABLE


def _of_the_errors(course: SessionCourse) -> Iterator[tuple[int, str]]:
    """Grades of the estimated errors: worst signal, and energy of every bond."""
    if any(error.how == GAIN_RANGE_MANY for error in course.errors.values()):
        many = f"{len(course.errors):,} outputs are coupled, at most {MOST_TRIED} are probed"
        text = f"sensitivities: they were left out, as {many}; the errors may be far smaller"
        yield UNVERIFIED, f"{text}; {EVIDENCE[GAIN_RANGE_MANY]}"
    unknown = [f"{name} ({e.how})" for name, e in course.errors.items() if not e.value >= 0.0]
    if unknown:
        yield UNVERIFIED, f"estimated error: unknown for {_some(unknown)}"
    known = [(name, e) for name, e in course.errors.items() if e.value >= 0.0]
    worst = max(known, key=lambda pair: pair[1].relative, default=None)
    if worst is not None:
        grade = _grade_error(worst[1])
        if grade == UNVERIFIED and worst[1].spread == 0.0:
            yield grade, f"estimated error: {STILL}"
        elif grade != GOOD:
            name, error = worst
            verb = "may be up to" if error.how in EVIDENCE else "is"
            text = f"that of {name} {verb} {width(error.high, error.unit)} (95 %)"
            yield grade, f"estimated error: {text}, {_share_of(error)}"
    for name, bond in course.bonds.items():
        grade = UNRELIABLE if bond.share > BOND_UNRELIABLE else DEGRADED
        if math.isnan(bond.share):
            yield UNVERIFIED, f"estimated error: the energy of bond {name} is unknown"
        elif bond.share > BOND_DEGRADED:
            text = f"{bond.share:.0%} of the energy that bond {name} carried"
            yield grade, f"estimated error: {text} was created at its interface"


def _grade_error(error: Estimate) -> int:
    """`DEGRADED` if the error may be large, `UNRELIABLE` if it is very likely large.

    A range of gains is wide because the responses are unknown; it measures no error. `UNVERIFIED`
    if its estimate itself is small, otherwise `ASSUMED`; the latter, too, if an estimate is only as
    large as the most disturbed input.
    """
    if error.is_large:
        return UNRELIABLE
    if error.is_small:
        return GOOD
    if error.how not in EVIDENCE:
        return ASSUMED if error.doubt else DEGRADED
    return UNVERIFIED if error.value <= LARGE_ERROR * error.spread else ASSUMED


def _share_of(error: Estimate) -> str:
    share = f"{number(100.0 * error.relative, 2)} % of its variation"
    if error.how == OF_MODEL:
        share += ", by a reference model that was not validated"
    if error.is_own:
        share += f"; {OWN_STEP}"
    if error.doubt:
        return f"{share}; {NOT_SHOWN.format(error.doubt)}"
    if error.how == OF_MODEL:
        return share
    if error.how == GAIN_RANGE_LAG:
        share += (
            "; it includes the lag of direct feedthrough as a delay of one step, which was "
            "not probed"
        )
    return f"{share}; {EVIDENCE[error.how]}" if error.how in EVIDENCE else share


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _often_missed(course: SessionCourse) -> bool:
    return course.missed > MISSED_DEGRADED * max(course.steps, 1)


def _share(total: FlagTotal, time_s: float) -> float:
    return total.affected_s / time_s if time_s > 0.0 else 0.0


def _grade(cause: Cause, total: FlagTotal, share: float) -> int:
    """Grade of a cause; a single second that would be unreliable degrades the session."""
    if share > cause.unreliable:
        return UNRELIABLE
    ever = cause.degraded == 0.0 and total.raised > 0
    return DEGRADED if ever or share > cause.degraded or _is_bad(cause, total) else GOOD


def _is_bad(cause: Cause, total: FlagTotal) -> bool:
    return total.worst_second > (cause.unreliable if not cause.explains else BAD_SECOND)


def _shares(share: float, worst_second: float) -> str:
    """``1.4% of the time, 30.0% of its worst second``."""
    text = f"{share:.1%} of the time"
    return f"{text}, {worst_second:.1%} of its worst second" if worst_second > share else text
