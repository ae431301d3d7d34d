"""What other settings would have decided, against what was decided."""

import html
import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from hilrt.analyze.comparison_page import write_comparison
from hilrt.analyze.log_comparison import compare_logs
from hilrt.cli.main import app
from hilrt.errors import ConfigError
from hilrt.record.reader import load_log
from hilrt.studies.what_if import what_if
from hilrt.studies.what_if_result import CAVEAT, as_json, describe
from tests.replay.recording_tools import record_file

CAP = "bonds.spring.correction.cap"
#: What the flags of a cause are in the log.
FLAGS = ["flag:connection_defect"]
FLAGS += [f"flags:connection_defect:{key}" for key in ("affected", "second")]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return record_file("two_mass.toml", tmp_path_factory.mktemp("log"), duration=0.5)


def test_settings_as_recorded_change_nothing(path):
    found = what_if(path, [f"{CAP}=1.0"])
    assert (found.signals, found.steps, found.compared) == ([], 501, 501)
    assert found.unchanged > 30
    assert any("no decision differs" in line for line in describe(found))


def test_a_changed_cap_shows_in_the_correction_and_in_what_follows_from_it(path):
    found = what_if(path, [f"{CAP}=0.01"])
    changed = {change.name: change for change in found.signals}
    correction = changed["spring:correction"]
    log = load_log(path)
    effort = log["mass1.force:corrected"]
    i = np.searchsorted(log.t, correction.t - 1e-9)
    assert correction.recorded == log["spring:correction"][i]
    assert abs(correction.recomputed) == pytest.approx(0.01 * abs(effort[i]))
    assert correction.unit == "N"
    assert {"mass2.force:sent", "flag:correction_capped", "spring:corrected_energy"} <= set(changed)
    # What was measured is the recorded one, and so is all that follows from it alone.
    assert not any(name.endswith(":corrected") for name in changed)
    assert [flag.cause for flag in found.flags] == ["correction_capped"]
    assert found.flags[0].recomputed > found.flags[0].recorded


def test_a_changed_correction_acts_on_the_log_of_a_shadow_run(tmp_path):
    path = record_file("two_mass.toml", tmp_path, duration=0.5, shadow=True)
    found = what_if(path, ["bonds.spring.correction.mu=0.4"])
    assert {"mass2.force:sent", "spring:corrected_energy"} <= {one.name for one in found.signals}
    assert "correction_shadow" in {flag.cause for flag in found.flags if not flag.recomputed}
    found = what_if(path, ["reliability.connection_defect=1e-7"])
    assert [change.name for change in found.signals] == FLAGS


def test_a_threshold_moves_flags_alone(path):
    found = what_if(path, ["reliability.connection_defect=1e-7"])
    assert [change.name for change in found.signals] == FLAGS
    assert found.verdicts[1] == "unreliable"


def test_an_operators_change_of_what_is_set_does_not_act(tmp_path):
    """Other changes do."""

    def on_master(master):
        master.numerics.changes.add("bonds.spring.cap", 0.02)
        master.numerics.changes.add("reliability.connection_defect", 1e-7)

    path = record_file("two_mass.toml", tmp_path, duration=0.1, on_master=on_master)
    found = what_if(path, ["reliability.tracking=0.5"])
    assert found.signals == []
    found = what_if(path, [f"{CAP}=1.0"])
    changed = {change.name: change for change in found.signals}
    assert abs(changed["spring:correction"].recomputed) > abs(changed["spring:correction"].recorded)
    assert "flag:connection_defect" not in changed
    assert [flag.cause for flag in what_if(path, [f"{CAP}=1.0"]).flags] == [
        "connection_defect",
        "correction_capped",
    ]
    found = what_if(path, ["reliability.connection_defect=0.05"])
    assert [change.name for change in found.signals] == FLAGS


def test_another_order_is_recomputed_from_the_beginning(path):
    found = what_if(path, ["master.extrapolation.order=2"], start=0.3, until=0.4)
    assert (found.steps, found.compared) == (401, 101)
    assert "mass2.force:sent_d2" in found.added
    assert any(change.name == "mass2.force:sent" for change in found.signals)


def test_the_recomputed_decisions_are_a_log_of_their_own(path, tmp_path):
    found = what_if(path, [f"{CAP}=0.01"], out=tmp_path / "new")
    before, after = load_log(path), load_log(found.written)
    for name in ("mass1.force", "mass2.x", "mass1:age"):
        np.testing.assert_array_equal(after[name], before[name])
    assert np.abs(after["spring:correction"] - before["spring:correction"]).max() > 0.0
    assert json.loads(after.metadata["what_if"]) == [f"{CAP}=0.01"]
    with pytest.raises(ConfigError, match="already contains a log"):
        what_if(path, [f"{CAP}=0.02"], out=tmp_path / "new")


def test_both_verdicts_are_of_one_yardstick(path):
    """The session itself knew more than its log: that is said apart."""
    same = what_if(path, [f"{CAP}=1.0"])
    assert same.signals == []
    assert same.verdicts[0] == same.verdicts[1]
    other = what_if(path, [f"{CAP}=0.01"])
    assert other.signals != []
    assert other.verdicts[0] == same.verdicts[0]
    other.in_summary = "unreliable"
    text = "\n".join(describe(other))
    said = f"verdict: recorded {other.verdicts[0]} (the session's own was unreliable), recomputed"
    assert said in text


def test_a_comparison_says_what_was_set_and_what_came_of_it(path, tmp_path):
    change = f"{CAP}=0.01"
    recomputed = what_if(path, [change], out=tmp_path / "b")
    found = compare_logs(path, recomputed.written)
    assert found.settings == [(CAP, "1.0", "0.01")]
    verdicts = [log.summary["verdict"] for log in (found.a, found.b)]
    assert (verdicts[1], verdicts[0] in ("good", "unverified")) == (recomputed.verdicts[1], True)
    page = write_comparison(found, tmp_path / "c.html").read_text()
    body = page[page.index("<header>") :]
    head = body[: body.index("Different settings")].replace("Estimated error: unknown for", "")
    assert "unknown" not in head
    assert CAVEAT in html.unescape(body)
    headings = re.findall(r"<h2>(.*?)</h2>", body)
    assert "The outputs are equal, but other signals differ" in body
    assert headings[1].endswith(":sent")
    assert headings[0] == "Different settings"
    assert headings[2] == f"{headings[1]}: A − B"  # a plot of both, and one of the difference
    tables = headings.index(next(h for h in headings if h.startswith("Signals that differ")))
    assert 2 < tables < len(headings) - 1
    assert not re.search(r"slowest.ticks", body)
    cells = re.findall(r"<tr>(.*?)</tr>", body)
    assert not [row for row in cells if "differs" in row and "<td>–</td>" in row]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("master.step=0.002", "recorded with 0.001 s"),
        ("subsystems.mass2.every=2", "recorded intervals"),
        ("master.stp=1", "did you mean 'step'"),
        ("bonds.spring.correction.method=model", "no Jacobian for mass1, mass2"),
    ],
)
def test_what_the_log_cannot_answer_is_refused(path, change, message):
    with pytest.raises(ConfigError, match=message):
        what_if(path, [change])


def test_the_command_begins_with_what_is_not_simulated(path):
    result = CliRunner().invoke(app, ["replay", str(path), "--set", f"{CAP}=0.01"])
    assert result.exit_code == 0
    assert result.stdout.startswith(CAVEAT)
    result = CliRunner().invoke(app, ["replay", str(path), "--set", f"{CAP}=0.01", "--json"])
    body = json.loads(result.stdout)
    assert body["caveat"] == CAVEAT
    assert body == json.loads(json.dumps(as_json(what_if(path, [f"{CAP}=0.01"])))) | {
        "wall_s": body["wall_s"]
    }
