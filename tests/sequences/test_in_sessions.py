"""A sequence in a session: in the caller's process, in its own, and in each way to fail there."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

import hilrt
from hilrt import RunOptions
from hilrt.check.check import check, check_file
from hilrt.cli import main as cli
from hilrt.config.session_file import override
from hilrt.config.structs import Connection
from hilrt.errors import ConfigError
from hilrt.replay.replay_log import replay
from hilrt.session.run import named_sequences, session_of_sequence
from tests.session.test_simulate import assert_equal

SESSION = Path(__file__).with_name("tip_in.toml")


@pytest.fixture(scope="module")
def called():
    """What the sequence leaves when it is called directly."""
    return hilrt.simulate(SESSION)


def test_it_ends_the_session_in_order(called):
    log = called.log
    assert (called.fault, called.exit_status, called.verdict) == (None, 0, "good")
    (rise,) = called.summary["results"]
    assert (rise["name"], rise["result"], rise["of"]) == ("rise time", "passed", "test")
    assert rise["robustness"] == pytest.approx(0.4 - rise["value"])
    assert called.summary["time_s"] == pytest.approx(0.268 + 0.1)
    steps = [(e.t, e.text) for e in log.events if e.cause == "sequence_step"]
    assert [text.partition(": ")[2] for _, text in steps] == [
        "ramps pedal to 20, 200 per s",
        "steps pedal to 60",
        "waits for plant.speed > 50, at most 2 s, until 2.1 s",
        "waits 0.1 s",
    ]
    assert all(text.startswith("tip_in_sequence.py:") for _, text in steps)
    assert log["test.pedal"][100] == 20.0
    assert np.unique(log["test.pedal.driven"]).tolist() == [0.0, 1.0]


def test_it_reads_raw_samples_and_what_it_drives_is_held_without_a_defect(called):
    log = called.log
    assert np.array_equal(log["test.plant.speed:sent"], log["plant.speed"])
    assert log.units["test.plant.speed:sent"] == "rad/s"
    assert np.array_equal(log["plant.pedal:sent"], log["test.pedal"])
    assert not log["plant.pedal:connection_defect"].any()
    assert not log["test.plant.speed:connection_defect"].any()


def test_in_its_own_process_it_leaves_the_same_log_which_replays(tmp_path):
    """Also with a condition over a window, which is made for the session's step."""
    until = "mean(plant.speed, 0.02) > 50"
    changes = {"master.step": 0.005, "subsystems.test.params.until": until}
    called = hilrt.simulate(SESSION, changes)
    recorded = hilrt.run_session(SESSION, changes, options=RunOptions(out=tmp_path))
    assert (recorded.fault, recorded.warnings) == (None, [])
    assert_equal(called.log, recorded.log)
    assert [one["value"] for one in called.summary["results"]] == [
        one["value"] for one in recorded.summary["results"]
    ]
    assert replay(recorded.folder).identical


def test_questions_and_answers_reach_its_process_with_any_characters(tmp_path):
    question = 'Is "U" = 400 V?'
    changes = {
        "subsystems.test.params.question": question,
        "subsystems.test.answers": {question: "U = 400 V", "x = 1": "no"},
    }
    result = hilrt.run_session(SESSION, changes, options=RunOptions(out=tmp_path))
    assert (result.fault, result.warnings) == (None, [])
    (told,) = [event.text for event in result.log.events if event.cause == "prompt"]
    assert told == f"{question}: U = 400 V"


@pytest.mark.parametrize("item", ["warm?=yes", '"warm?"', '"warm?" = 1', ""])
def test_an_answer_on_the_command_line_is_a_question_and_a_text(item):
    arguments = ["sequence", "a.py:A", "--connect", "tcp://127.0.0.1:1", "--answer", item]
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exit_code == 2
    assert f'--answer {item}: write it as \'"QUESTION" = "ANSWER"\'' in done.output


def test_results_make_the_exit_status_and_so_does_a_session_that_is_over_too_early():
    failed = hilrt.simulate(SESSION, {"subsystems.test.params.most": 0.1})
    assert (failed.fault, failed.exit_status) == (None, 1)
    assert [entry["result"] for entry in failed.summary["results"]] == ["failed"]
    cut = hilrt.simulate(SESSION, {"session.duration": 0.2})
    assert (cut.fault, cut.exit_status) == (None, 4)
    (entry,) = cut.summary["results"]
    assert entry["result"] == "inconclusive"
    assert "waits for plant.speed > 50" in entry["reason"]


def test_what_it_expects_is_judged_with_the_sessions_rows():
    limits = {True: "plant.speed < 100", False: "plant.speed < 55"}
    for holds, text in limits.items():
        result = hilrt.simulate(SESSION, {"subsystems.test.params.always": text})
        found = {entry["name"]: entry["result"] for entry in result.summary["results"]}
        assert found["no overspeed"] == ("passed" if holds else "failed")
    wrong = hilrt.simulate(SESSION, {"subsystems.test.params.always": "plant.sped < 1"})
    assert wrong.exit_status == 3
    assert "plant.sped" in wrong.fault


@pytest.mark.parametrize(
    ("fault", "line", "said"),
    [
        ("raise", "raise ValueError", "ValueError: gear"),
        ("time-out", "lambda: False", "StepTimeout: a condition did not hold within 0.1 s"),
    ],
)
def test_what_it_raises_is_a_fault_with_the_line(fault, line, said):
    result = hilrt.simulate(SESSION, {"subsystems.test.params.fault": fault})
    lines = SESSION.with_name("tip_in_sequence.py").read_text().splitlines()
    number = next(n for n, text in enumerate(lines, 1) if line in text)
    assert result.exit_status == 3
    assert said in result.fault
    assert f"(tip_in_sequence.py:{number})" in result.fault


def test_a_hang_ends_with_the_line_at_which_it_hangs(tmp_path):
    changes = {"subsystems.test.params.fault": "hang", "master.step_timeout": 0.5}
    result = hilrt.run_session(SESSION, changes, options=RunOptions(out=tmp_path))
    assert result.exit_status == 3
    assert "its last step: tip_in_sequence.py:" in result.fault
    assert "has not waited for a communication point for 0.25 s" in result.fault


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"subsystems.test.sequence": "tip_in_sequence.py:TipOut"},
            "no sequence 'TipOut'; there is",
        ),
        ({"subsystems.test.sequence": "tip.py:TipIn"}, "there is no file"),
        ({"subsystems.test.params.falt": 1}, "unknown parameter 'falt'; did you mean 'fault'"),
        ({"subsystems.test.params.reads": "plant.sped"}, "no output 'sped'; did you mean 'speed'"),
        ({"connections.0.order": 1}, "whose outputs are held"),
        ({"subsystems.test.late.rejoin": True}, "cannot resume in the middle"),
    ],
)
def test_what_is_wrong_with_its_table_is_told_by_the_check(changes, text):
    file = override(hilrt.load_session(SESSION), changes)
    found = [str(p) for p in check_file(SESSION, file.overrides) if p.level == "error"]
    assert any(text in problem for problem in found), found


def test_two_ports_of_sequences_on_one_input_are_refused_and_other_sources_are_not():
    file = hilrt.load_session(SESSION)
    for source, refused in (("test.pedal", True), ("plant.speed", False)):
        more = Connection(source=source, target="plant.pedal", gain=0.5)
        connections = [*file.tables.connections, more]
        tables = msgspec.structs.replace(file.tables, connections=connections)
        problems = check(msgspec.structs.replace(file, tables=tables))
        found = [str(problem) for problem in problems if "one port of a sequence" in str(problem)]
        place = "[connections 2: test.pedal -> plant.pedal] to = 'plant.pedal': is driven by"
        assert [line.startswith(place) for line in found] == [True] * refused


def test_nothing_of_it_runs_in_a_check_without_code():
    found = check_file(SESSION, code=False)
    assert [p.level for p in found].count("not checked") == 2
    assert not [p for p in found if p.level == "error"]


def test_the_command_runs_each_sequence_of_a_file_in_the_place_of_the_sessions_own(
    tmp_path, monkeypatch
):
    from hilrt.session import session

    ran = []

    def run(file, options):
        ran.append(file.tables.subsystems["test"].sequence)
        entry = {"name": "rise time", "result": "failed", "text": "0.5 s", "of": "test"}
        return hilrt.RunResult({"results": [entry]}, 1, folder=tmp_path)

    monkeypatch.setattr(session, "run_session", run)
    junit = tmp_path / "found.xml"
    file = SESSION.with_name("tip_in_sequence.py")
    arguments = ["test", str(file), "--session", str(SESSION), "--junit", str(junit)]
    done = CliRunner().invoke(cli.app, arguments)
    assert (done.exit_code, ran) == (1, ["tip_in_sequence.py:TipIn"]), done.output
    assert "failed: rise time: 0.5 s" in done.output
    assert '<failure message="0.5 s"' in junit.read_text()
    with pytest.raises(ConfigError, match="no session"):
        session_of_sequence(file, "TipIn", None)
    with pytest.raises(ConfigError, match="has no sequence 'Other'"):
        named_sequences(file, "Other")


def test_results_that_cannot_be_written_leave_less_than_was_asked_for(tmp_path, monkeypatch):
    from hilrt.session import session

    passed = hilrt.RunResult({"results": []}, 0, folder=tmp_path)
    monkeypatch.setattr(session, "run_session", lambda *_, **__: passed)
    (tmp_path / "a file").touch()
    file = SESSION.with_name("tip_in_sequence.py")
    junit = ["--junit", str(tmp_path / "a file" / "found.xml")]
    done = CliRunner().invoke(cli.app, ["test", str(file), "--session", str(SESSION), *junit])
    assert (done.exit_code, "cannot be written" in done.stderr) == (5, True), done.output


def test_the_command_says_what_stopped_a_session(tmp_path, monkeypatch):
    from hilrt.session import session

    left = hilrt.RunResult(exit_status=130, stopped="interrupted (Ctrl-C)", folder=tmp_path)
    monkeypatch.setattr(session, "run_session", lambda file, options: left)
    file = SESSION.with_name("tip_in_sequence.py")
    done = CliRunner().invoke(cli.app, ["test", str(file), "--session", str(SESSION)])
    assert done.exit_code == 130
    assert "  stopped: interrupted (Ctrl-C)" in done.output.splitlines()
