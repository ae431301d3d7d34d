"""What affected steps, floors and the course of a session come to."""

import math

import pytest

from hilrt.reliability.causes import CAUSES
from hilrt.reliability.estimates import Estimate, make_estimate
from hilrt.reliability.flags import FlagTotal
from hilrt.reliability.verdict import SessionCourse, verdict

RUN = SessionCourse(time_s=100.0)


def totals(worst: dict[str, float] | None = None, **affected: float) -> dict[str, FlagTotal]:
    """Of a session of 100 s, by the affected time of each cause, s; flags are held far longer."""
    found = {cause: FlagTotal(0, 0.0) for cause in CAUSES}
    for cause, seconds in affected.items():
        found[cause] = FlagTotal(1, 50.0 * seconds, seconds, seconds / 100.0)
    for cause, share in (worst or {}).items():
        found[cause] = FlagTotal(1, 50.0, share, share)
    return found


@pytest.mark.parametrize(
    ("affected", "word"),
    [
        ({}, "good"),
        ({"connection_defect": 4.9}, "good"),
        ({"connection_defect": 5.1}, "degraded"),
        ({"connection_defect": 51.0}, "unreliable"),
        ({"sample_implausible": 0.01}, "degraded"),
        ({"subsystem_silent": 21.0, "connection_defect": 5.1}, "unreliable"),
        ({"correction_shadow": 100.0}, "degraded"),  # never more than that
    ],
)
def test_verdict_follows_from_what_each_cause_has_affected(affected, word):
    found = verdict(totals(**affected), RUN)
    assert found.word == word
    assert len(found.reasons) == (0 if word == "good" else len(affected))
    assert all(CAUSES[reason.partition(":")[0]] for reason in found.reasons)


def test_a_bad_second_is_not_diluted():
    assert verdict(totals(worst={"connection_defect": 0.45}), RUN).word == "good"
    found = verdict(totals(worst={"connection_defect": 0.55}), RUN)
    assert found.word == "degraded"  # a second is never more than that
    assert found.reasons[0].endswith(", 0.6% of the time, 55.0% of its worst second")


def test_a_reason_is_a_sentence_about_the_places_that_were_affected_longest():
    longest = ("vehicle.torque", "engine.speed", "engine.pedal", "engine.brake")
    total = FlagTotal(3, 50.0, 6.0, 0.06, longest)
    (reason,) = verdict({"connection_defect": total}, RUN).reasons
    assert reason == (
        "connection_defect: vehicle.torque, engine.speed, engine.pedal and 1 more as sent "
        "differed from the connected outputs, 6.0% of the time"
    )
    (reason,) = verdict({"connection_defect": total._replace(places=())}, RUN).reasons
    assert "an input as sent differed" in reason  # of a log that does not name any


def test_what_explains_decides_nothing_and_is_named_beside_what_does():
    explain = {"sample_late": 90.0, "deadline_missed": 90.0, "correction_capped": 90.0}
    ends = {"step_minimum": 90.0, "input_limited": 90.0}
    assert verdict(totals(**ends), RUN) == ("good", [], False)
    assert verdict(totals(**explain), RUN) == ("good", [], False)
    found = verdict(totals(**explain, connection_defect=6.0), RUN)
    assert found.word == "degraded"
    causes = [reason.partition(":")[0] for reason in found.reasons]
    assert causes == ["connection_defect", "sample_late", "correction_capped", "deadline_missed"]
    found = verdict(totals(sample_late=0.1, connection_defect=6.0), RUN)
    assert len(found.reasons) == 1  # too few to explain anything


#: Errors that are known to be small.
SMALL = {"errors": {"a.y": Estimate("N", 1e-4, 0.0, 1e-3, 1.0, "sensitivities")}}
FLOORS = (
    *("subsystem_silent", "rejoined", "sample_implausible", "alarm", "out_of_range"),
    *("correction_wrong", "correction_harmful"),
)


@pytest.mark.parametrize("cause", FLOORS)
@pytest.mark.parametrize("known", [{}, SMALL], ids=["nothing estimated", "small errors"])
def test_never_good_however_short_it_was(cause, known):
    found = {name: FlagTotal(0, 0.0) for name in CAUSES}
    found[cause] = FlagTotal(1, 0.05, 0.0, 0.0)  # at the first tick, which has no length
    assert verdict(found, RUN._replace(**known)).word == "degraded"


def test_an_error_that_is_unknown_is_never_good():
    unknown = Estimate("N", math.nan, math.nan, math.nan, 1.0, "no sample")
    found = verdict(totals(), RUN._replace(errors=SMALL["errors"] | {"b.y": unknown}))
    assert found.word == "unverified"
    assert found.reasons == ["estimated error: unknown for b.y (no sample)"]


@pytest.mark.parametrize(("value", "word"), [(0.06, "degraded"), (math.nan, "unreliable")])
def test_what_was_measured_is_part_of_an_estimate_only_if_that_is_known(value, word):
    """A loop of two masses that grew to 1e13 times its motion had no estimate: it overflowed."""
    error = make_estimate("N", value, 1.0, "sensitivities along the way, which changed")
    found = verdict(totals(connection_defect=98.0), RUN._replace(errors={"a.y": error}))
    assert found.word == word


@pytest.mark.parametrize(
    ("how", "value", "word", "lacking"),
    [
        ("gain range", 0.04, "unverified", True),  # its upper end is ten times as much
        ("gain range", 0.06, "degraded", True),
        ("gain range", 0.3, "unreliable", False),  # hardly any such session was within 5 %
        ("gain range, lag of feedthrough as a delay", 1e-6, "unverified", True),
        ("gain range, lag of feedthrough as a delay", 0.06, "degraded", True),
        ("gain range, too many outputs to probe", 1e-6, "unverified", True),
        ("sensitivities", 0.06, "degraded", False),
        ("sensitivities of the start", 0.04, "degraded", False),  # tried out: this was found
        ("repeated at shorter steps", 0.05, "degraded", False),
        ("sensitivities", 0.01, "good", False),
    ],
)
def test_what_lacks_is_evidence_where_a_range_of_gains_alone_makes_the_band_wide(
    how, value, word, lacking
):
    course = RUN._replace(errors={"a.y": make_estimate("N", value, 1.0, how)})
    found = verdict(totals(), course)
    assert (found.word, found.evidence_lacking) == (word, lacking)
    assumed = how.startswith("gain range")
    for said in (" would show ", " may be up to ± "):
        assert any(said in reason for reason in found.reasons) == assumed, said
    # A measurement beside it: no evidence is lacking for that.
    measured = verdict(totals(alarm=1.0), course)
    assert measured.word == ("unreliable" if word == "unreliable" else "degraded")
    assert not measured.evidence_lacking


@pytest.mark.parametrize("how", ["sensitivities of a model", "sensitivities of the start"])
def test_an_error_that_no_trial_shows_to_be_smaller_is_told_with_its_input_and_a_remedy(how):
    found = make_estimate("N", 0.045, 1.0, how)
    lacking = found._replace(doubt="b.u (4.5% of its variation)")
    words, reasons, lacks = zip(
        *(verdict(totals(), RUN._replace(errors={"a.y": e})) for e in (found, lacking)), strict=True
    )
    assert words == ("degraded", "degraded")  # the same, in other words
    assert lacks == (False, True)
    assert reasons[1][0].startswith(reasons[0][0] + "; evidence is lacking: ")
    assert "most disturbed input, b.u (4.5% of its variation); fewer late samples" in reasons[1][0]


def test_of_signals_that_never_moved_nothing_is_known():
    still = make_estimate("?", 0.0, 0.0, "gain range, lag of feedthrough as a delay")
    found = verdict(totals(), RUN._replace(errors={"wheel.force": still}))
    assert found.word == "unverified"
    (reason,) = found.reasons
    assert reason.startswith("estimated error: no coupled signal has moved")


def test_a_measurement_is_graver_than_a_lack_of_evidence_and_both_are_told():
    lacking = {"correction_unverified": 100.0, "steps_final": 1.0}
    found = verdict(totals(**lacking), RUN)
    assert (found.word, found.evidence_lacking) == ("unverified", True)
    assert all(" would " in reason for reason in found.reasons)
    found = verdict(totals(**lacking, connection_defect=6.0), RUN)
    assert (found.word, len(found.reasons)) == ("degraded", 3)
    assert not found.evidence_lacking


@pytest.mark.parametrize(
    ("course", "word", "reason"),
    [
        (
            {"fault": "subsystem 'engine': silent"},
            "unreliable",
            "fault: the session ended with a fault: s",
        ),
        ({"secured": "benches run their safe profile: stop"}, "degraded", "benches run their safe"),
        ({"unrecorded": 1, "steps": 9}, "degraded", "recording: 1 of 9 steps are not in the log"),
        ({"missed": 21, "steps": 100}, "unreliable", "deadline_missed: 21 ticks in 100 steps"),
        ({"missed": 20, "steps": 100}, "degraded", "deadline_missed: 20 ticks in 100 steps"),
        ({"missed": 6, "steps": 100}, "degraded", "deadline_missed: 6 ticks in 100 steps"),
        ({"missed": 5, "steps": 100}, "good", ""),
        ({"collapsed": "step control went down"}, "degraded", "step control went down"),
    ],
)
def test_floors_hold_whatever_was_measured(course, word, reason):
    for known in ({}, SMALL):
        found = verdict(totals(), RUN._replace(**course, **known))
        assert found.word == word
        assert "".join(found.reasons).startswith(reason)


def test_a_fault_comes_first_and_hides_nothing():
    found = verdict(totals(connection_defect=5.1), RUN._replace(fault="lost"))
    assert found.word == "unreliable"
    assert found.reasons[0] == "fault: the session ended with a fault: lost"
    assert found.reasons[1].startswith("connection_defect")


def test_mostly_missed_ticks_are_named_once():
    found = verdict(totals(deadline_missed=40.0), RUN._replace(missed=40, steps=100))
    assert [reason.partition(":")[0] for reason in found.reasons] == ["deadline_missed"]


def test_a_session_that_never_began_has_no_time_to_judge():
    assert verdict(totals(), SessionCourse(0.0)) == ("good", [], False)


@pytest.mark.parametrize(
    ("how", "word"),
    [
        ("sensitivities", "good"),
        ("sensitivities of the start", "good"),
        ("gain range", "degraded"),
    ],
)
def test_a_correction_that_does_not_act_matters_by_what_the_errors_are_without_it(how, word):
    small = Estimate("N", 1e-4, 0.0, 1e-3, 1.0, how)
    course = RUN._replace(errors={"a.y": small})
    assert verdict(totals(correction_shadow=100.0, model_untrusted=100.0), course).word == word
    assert verdict(totals(correction_wrong=100.0), course).word == "degraded"


@pytest.mark.parametrize(
    ("error", "seconds", "word"),
    [
        (0.009, 40.0, "good"),  # five times as much is below 5 %
        (0.011, 40.0, "degraded"),
        (0.009, 60.0, "degraded"),  # for most of the time they were not known
    ],
)
def test_a_change_of_small_errors_is_small(error, seconds, word):
    along = make_estimate("", error, 1.0, "sensitivities along the way")
    course = RUN._replace(errors={"prey.x": along})
    assert verdict(totals(sensitivities_changed=seconds), course).word == word
    both = totals(sensitivities_changed=seconds, connection_defect=60.0)
    assert verdict(both, course).word == word
    assert verdict(totals(output_defect=60.0), course).word == "degraded"
