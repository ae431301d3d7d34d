import json
import math

import pytest

from hilrt.reliability.advice import RunAdvice
from hilrt.reliability.guard import DIVERGED
from hilrt.session.summary import RunFacts, build_summary
from hilrt.solver import Port
from hilrt.timing.grid import TickMarks
from hilrt.timing.host import HostUse
from hilrt.timing.timeline import Progress
from tests.step_log.test_signals import two_mass
from tests.stepping import Recorded, Stepping


def progress_of(s: Stepping, steps: int) -> Progress:
    progress, readings = Progress(), iter([0, 10_000, 20_000, 40_000])
    marks = TickMarks(lambda: next(readings))
    for mark in (marks.begin, marks.taken, marks.stepped, marks.dispatched):
        mark()
    for _ in range(steps):
        progress.count_step(1_000_000)
        progress.timeline.add(0, 0.0, marks, False, list)
        progress.lateness.add(90_000)
    progress.t_ns = s.t_ns
    return progress


def summarize(s: Stepping, progress: Progress, **changes) -> dict:
    values = {
        "session": "test",
        "end_state": "stopped",
        "wall_s": 1.5,
        "host_use": HostUse(0.03, {"master": 0.98}, 5),
        "strangers": {"no_key": 2},
        "real_time": True,
        "fault": None,
        "dropped_rows": 0,
    }
    summary = build_summary(s.numerics, s.exchange, progress, RunFacts(**(values | changes)))
    return json.loads(json.dumps(summary, allow_nan=False))  # it can be written and read again


@pytest.fixture(scope="module")
def ran() -> Stepping:
    s = two_mass()
    s.run(0.05)
    return s


def test_everything_the_contract_names_is_there(ran):
    summary = summarize(ran, progress_of(ran, 50))
    assert summary["format"] == "hilrt-summary-1"
    assert (summary["session"], summary["steps"]) == ("test", 50)
    assert (summary["time_s"], summary["wall_s"]) == (pytest.approx(0.05), 1.5)
    step = summary["step_size_s"]
    assert step == pytest.approx({"first": 1e-3, "min": 1e-3, "mean": 1e-3, "max": 1e-3})
    for key in ("lateness_us", "compute_us"):
        assert set(summary[key]) == {"p50", "p99", "p999", "p9999", "max"}
    assert summary["compute_us"]["max"] == pytest.approx(40.0)
    none = dict.fromkeys(("lost", "late", "dropped"), 0)
    counts = {name: {k: p[k] for k in none} for name, p in summary["peers"].items()}
    assert counts == {"one": none, "two": none}
    assert (summary["stolen_s"], summary["processor_share"]) == (0.03, {"master": 0.98})
    assert summary["real_time_priority"] == 5
    assert summary["strangers"] == {"no_key": 2}
    assert {"flags", "missed_ticks", "verdict", "versions"} <= set(summary)


def test_ports_and_bonds_are_those_of_the_state(ran):
    summary = summarize(ran, progress_of(ran, 50))
    force = ran.state.inputs[ran.input("two.force")]
    port = summary["ports"]["two.force"]
    assert port["connection_defect"] == pytest.approx(
        {"rms": math.sqrt(force.defect_square / 0.05), "max": force.defect_max}
    )
    assert port["output_defect"] is None
    assert summary["ports"]["one.x"]["output_defect"] is None  # no middle was ever known
    assert summary["ports"]["one.x"]["last"] == ran.links["one"].solver.x
    ledger, bond = ran.state.bonds[0], summary["bonds"]["spring"]
    for key in ("residual", "tracking", "corrected", "shadow"):
        assert bond[f"{key}_energy_j"] == ledger[f"{key}_energy"]
    assert bond["uncorrected_energy_j"] == ledger.uncorrected
    assert bond["cap_share"] == pytest.approx(ledger.capped_steps / 50)


def test_without_a_clock_there_is_no_lateness(ran):
    summary = summarize(ran, progress_of(ran, 50), real_time=False)
    assert summary["lateness_us"] is None
    assert summary["lateness_histogram"] is None


def test_an_input_and_an_output_may_share_a_name():
    echo = Recorded({"x": lambda t: 2.0}, [Port("x")])
    s = Stepping({"a": echo}, master={"step": 1e-3}, connections=[{"from": "a.x", "to": "a.x"}])
    s.run(0.003)
    port = summarize(s, progress_of(s, 3))["ports"]["a.x"]
    assert port["connection_defect"] == {"rms": 0.0, "max": 0.0}
    assert (port["output_defect"], port["last"]) == (None, 2.0)


def test_flags_count_and_the_verdict_gives_its_reasons():
    broken = Recorded({"y": lambda t: math.nan if t else 0.0})
    s = Stepping(
        {"broken": broken, "sink": Recorded({}, [Port("u")])},
        master={"step": 1e-3},
        connections=[{"from": "broken.y", "to": "sink.u"}],
    )
    s.run(0.02)
    summary = summarize(s, progress_of(s, 20))
    assert summary["flags"]["sample_implausible"]["count"] == 1
    assert summary["flags"]["sample_implausible"]["seconds"] == pytest.approx(0.02)
    assert summary["verdict"] == "unreliable"
    assert any(reason.startswith("sample_implausible") for reason in summary["reasons"])


def test_missed_ticks_alone_can_make_a_session_unreliable(ran):
    progress = progress_of(ran, 50)
    progress.missed = 2
    good = summarize(ran, progress)
    assert not any("deadline_missed" in reason for reason in good["reasons"])
    words = []
    for progress.missed in (10, 11):  # skipped ticks raise no flag, for nothing ran in them
        summary = summarize(ran, progress)
        words.append(summary["verdict"])
        said = f"deadline_missed: {progress.missed} "
        assert any(reason.startswith(said) for reason in summary["reasons"])
    assert words[1] == "unreliable"


def test_a_session_that_ended_before_it_began():
    s = two_mass()
    summary = summarize(s, Progress(), fault="subsystem 'two': silent", end_state="fault")
    assert summary["step_size_s"] == {"first": 0.0, "min": 0.0, "mean": 0.0, "max": 0.0}
    assert summary["verdict"] == "unreliable"
    assert summary["reasons"] == ["fault: the session ended with a fault: subsystem 'two': silent"]


def test_a_process_that_was_killed_is_no_reason_for_another_setting(ran):
    """Nor is an exception of a model; a divergence is one."""
    asked = []

    def advise(*arguments):
        asked.append(arguments)
        return RunAdvice([], [])

    progress = progress_of(ran, 50)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hilrt.session.summary.advice", advise)
        assert (
            summarize(ran, progress, fault="subsystem 'a': its process was ended")["advice"] == []
        )
        assert asked == []
        before = ran.numerics.state.session[0].alarm_level
        ran.numerics.state.session[0].alarm_level = DIVERGED
        summarize(ran, progress, fault="divergence: a.y")
        ran.numerics.state.session[0].alarm_level = before
    assert len(asked) == 1
