"""What `hilrt check` says of stimuli."""

from pathlib import Path

import pytest

from hilrt.check.check_stimuli import check_stimuli
from hilrt.check.check_topology import Topology
from hilrt.config.problems import Findings
from hilrt.link import Ports
from hilrt.solver import Port
from tests.stepping import make_session

PORTS = {
    "engine": Ports((Port("pedal", "%", min=0.0, max=100.0), Port("u", "N*m", size=2)), ()),
    "driver": Ports((), (Port("pedal", "%"),)),
}
STEP = {"shape": "step", "to": 60.0, "duration": 0.5}


def findings(*stimuli, bounds=None, folder=Path()):
    entries = [{"name": f"s{k}", "input": "engine.pedal", **one} for k, one in enumerate(stimuli)]
    tables = make_session(
        {
            "master": {"step": 1e-3},
            "subsystems": {"engine": {"inputs": {"pedal": bounds or {}}}, "driver": {}},
            "connections": [{"from": "driver.pedal", "to": "engine.pedal"}],
            "stimuli": entries,
        }
    )
    found = Findings()
    check_stimuli(Topology(tables, dict(PORTS), set()), folder, found)
    return [f"{p.level} {p}" for p in found.problems]


def test_a_sound_stimulus_has_no_findings():
    assert findings({"mode": "replace", "segments": [STEP]}) == []
    assert findings({"input": "engine.u[1]", "unit": "kN*m", "segments": [STEP]}) == []


@pytest.mark.parametrize(
    ("stimulus", "text"),
    [
        ({"input": "engine.pedall"}, "no input 'pedall'"),
        ({"input": "engine.u"}, "2 elements; a stimulus drives one"),
        ({"input": "engine.pedal[0]"}, "has one element"),
        ({"unit": "rad/s"}, "their dimensions differ"),
        ({"end": 0.5, "start": 0.5}, "is not after its start"),
        ({"start": 2.0}, "it never begins"),
        ({"segments": [{"shape": "sine", "amplitude": 1.0}]}, "frequency: is missing"),
        ({"segments": [{**STEP, "frequency": 1.0}]}, "is not a key of shape 'step'"),
        ({"segments": [{"shape": "ramp", "to": 1.0}]}, "needs a duration or a rate"),
        ({"segments": [{"shape": "points", "points": [[0.0, 1.0]]}]}, "has no length"),
        ({"segments": [{"shape": "points", "points": [[1.0, 1.0], [1.0, 2.0]]}]}, "must increase"),
        ({"segments": [{"shape": "points", "points": [[1.0]]}]}, "a time and a value"),
        ({"segments": [{"shape": "hold"}, STEP]}, "the next segments never begin"),
        ({"segments": [{"shape": "hold"}], "repeat": 2}, "the next segments never begin"),
        ({"segments": [{**STEP, "duration": 1e-4}], "repeat": 9}, "less than a step"),
        ({"mode": "replace", "segments": [{**STEP, "to": 150.0}]}, "limited to 0 to 100"),
        (
            {"segments": [{"shape": "sine", "amplitude": 1.0, "frequency": 900.0}]},
            "exceeds half the sampling rate",
        ),
    ],
)
def test_what_is_wrong_is_named(stimulus, text):
    found = findings({"segments": [STEP], **stimulus})
    assert len(found) >= 1
    assert text in found[0]
    assert found[0].split("[")[1].startswith("stimuli.0")


def test_a_jump_beyond_the_rate_is_a_warning():
    (found,) = findings({"segments": [STEP]}, bounds={"max_rate": 100.0})
    assert found.startswith("warning")
    assert "jumps by 60, which max_rate = 100 turns into a ramp of 0.6 s" in found


def test_two_that_replace_do_not_drive_one_input_at_a_time():
    first = {"mode": "replace", "segments": [STEP]}
    (found,) = findings(first, {**first, "start": 0.4})
    assert "while stimulus 's0' also does" in found
    assert findings(first, {**first, "start": 0.5}) == []
    assert findings(first, {"segments": [STEP]}) == []
    assert findings({**first, "then": "hold"}, {**first, "start": 0.5}) != []


def test_files_of_columns_are_looked_into(tmp_path):
    def told(**keys):
        column = {"shape": "column", "file": "a.csv", "signal": "pedal", **keys}
        return findings({"mode": "replace", "segments": [column]}, folder=tmp_path)

    assert "there is no such file" in told()[0]
    (tmp_path / "a.csv").write_text("time [s],pedal [%],n [rpm]\n0,1,2\n1,3,4\n")
    assert told() == []
    assert "has no signal 'pedall'" in told(signal="pedall")[0]
    assert "does not convert" in told(signal="n")[0]
    assert "no values after the start" in told(shift=-5.0)[0]
    assert "is missing" in findings({"segments": [{"shape": "column", "file": "a.csv"}]})[0]


def test_names_are_there_once():
    assert "exists twice" in findings({"segments": [STEP]}, {"name": "s0", "segments": [STEP]})[0]


def test_a_condition_may_let_two_drive_at_a_time():
    late = {"mode": "replace", "segments": [STEP], "start_when": "driver.pedal > 5"}
    first, second = {**late, "end": 0.6}, {**late, "start": 0.5}
    assert "may drive engine.pedal while stimulus 's0' also does" in findings(first, second)[0]
    assert findings(first, {**second, "start": 0.6}) == []
    assert findings(first, {**second, "mode": "add"}) == []
