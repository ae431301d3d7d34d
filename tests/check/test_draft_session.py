from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import hilrt
from hilrt import Port
from hilrt.can.tools.session_draft import CHOOSE
from hilrt.check.check import check_file
from hilrt.check.draft_session import _step, draft_session
from hilrt.cli.main import app
from hilrt.errors import ConfigError
from tests.fmu.build import by_pythonfmu
from tests.scenarios.test_generated import ANONYMOUS, DATABASE

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(EXAMPLES / "quarter_car.py", tmp_path)
    (tmp_path / "rig.dbc").write_text(DATABASE)
    (tmp_path / "anonymous.dbc").write_text(ANONYMOUS)
    return tmp_path


def new(folder: Path, *words: str) -> dict[str, Any]:
    """Tables of a new session, which has no errors."""
    path = folder / "session.toml"
    result = CliRunner().invoke(app, ["new", str(path), *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    text = path.read_text("utf-8")
    assert CHOOSE not in text
    assert [str(p) for p in check_file(path) if p.level == "error"] == []
    return tomllib.loads(text)


def test_models_are_connected_by_name(folder: Path) -> None:
    tables = new(folder, "--model", "quarter_car.py:Wheel", "--model", "quarter_car:Body")
    assert {(c["from"], c["to"]) for c in tables["connections"]} == {
        ("body.x", "wheel.body_x"),
        ("body.v", "wheel.body_v"),
        ("wheel.force", "body.force"),
    }
    assert tables["subsystems"]["wheel"]["inputs"] == {"road": {"start": 0.0}}
    result = hilrt.simulate(folder / "session.toml", {"session.duration": 4.0})
    assert result.verdict == "good"
    # The road steps up by 1 m at 1 s, and in the end the body stands on it.
    assert result.log["body.x"][result.log.t < 1.0] == pytest.approx(0.0)
    assert result.log["body.x"][-1] == pytest.approx(1.0, abs=0.02)


def test_models_are_connected_by_their_only_unit(folder: Path) -> None:
    text = "from tests.hosting.test_database_bench import Rig\nfrom hilrt import Port\n\n"
    text += "class Drive(Rig):\n    inputs = (Port('load', 'N*m'), Port('spare', 'bar'))\n"
    text += "    outputs = (Port('omega', 'rad/s'),)\n"
    (folder / "drive.py").write_text(text)
    drafted = tomllib.loads(
        draft_session("s", ["drive:Drive", "tests.hosting.test_database_bench:Rig"], folder)
    )
    assert [(c["from"], c["to"]) for c in drafted["connections"]] == [
        ("drive.omega", "rig.speed_set")
    ]
    assert set(drafted["subsystems"]["drive"]["inputs"]) == {"load", "spare"}


def test_two_of_one_class_have_two_names(folder: Path) -> None:
    drafted = tomllib.loads(draft_session("s", 2 * ["quarter_car:Body"], folder))
    assert list(drafted["subsystems"]) == ["body", "body_2"]


def test_fmus_that_cannot_be_probed_are_judged_by_shorter_steps(folder: Path) -> None:
    models = []
    for name in ("Wheel", "Body"):
        source = (EXAMPLES / f"{name.lower()}_fmu.py").read_text("utf-8")
        models += ["--model", str(by_pythonfmu("pythonfmu", name, source))]
    tables = new(folder, *models)
    assert tables["reliability"] == {"repeat": "half"}
    text = (folder / "session.toml").read_text("utf-8")
    assert "# feedthrough = { x = [], v = [] }" in text
    result = hilrt.simulate(folder / "session.toml", {"session.duration": 2.0})
    assert result.verdict == "good"
    errors = result.summary["estimated_error"]
    assert all(error["how"] == "repeated at shorter steps" for error in errors.values())


def test_every_model_that_is_wrong_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        draft_session("s", ["quarter_car:Bod", "missing.fmu", "what"], folder)
    first, second, third = caught.value.problems
    assert "did you mean 'Body'" in first
    assert "no such file" in second
    assert "neither FILE.fmu nor module:Class" in third


def test_a_database_gets_an_emulated_bench(folder: Path) -> None:
    bench = new(folder, "--database", str(folder / "rig.dbc"))["subsystems"]["bench"]
    assert bench["emulator"] == "database"
    assert bench["bus"]["interface"] == "udp_multicast"
    assert bench["messages"]["RigCmd"]["protection"]["method"] == "crc8_j1850"
    assert bench["inputs"]["speed_set"]["realised"] == "speed"
    assert bench["inputs"]["speed_set"]["max_rate"] == 6000.0


def test_a_database_without_nodes_and_cycle_times(folder: Path) -> None:
    given = ("--database", str(folder / "anonymous.dbc"), "--send", "RigCmd", "--send", "MuxCmd")
    bench = new(folder, *given)["subsystems"]["bench"]
    assert bench["messages"]["RigFast"]["timeout"] == 0.5


def test_new_wants_one_of_the_two(folder: Path) -> None:
    for words in ([], ["--database", "a.dbc", "--model", "b.fmu"]):
        result = CliRunner().invoke(app, ["new", str(folder / "s.toml"), *words])
        assert result.exit_code == 2
        assert "give --database FILE, or --model" in result.output


def test_a_file_is_not_written_over(folder: Path) -> None:
    (folder / "s.toml").write_text("")
    with pytest.raises(ConfigError, match="already exists"):
        CliRunner().invoke(
            app,
            ["new", str(folder / "s.toml"), "--model", "quarter_car:Body"],
            catch_exceptions=False,
        )


@pytest.mark.parametrize(
    ("port", "size"),
    [
        (Port("u", "bar"), 1.0),
        (Port("u", "bar", start=20.0), 2.0),
        (Port("u", "%", start=100.0, min=0.0, max=100.0), -10.0),
        (Port("u", "m", min=-0.05, max=0.05), 0.01),
    ],
)
def test_the_first_held_input_steps_within_its_range(port: Port, size: float) -> None:
    (stimulus,) = tomllib.loads("\n".join(_step("a.u", port)))["stimuli"]
    assert stimulus["input"] == "a.u"
    assert stimulus["segments"] == [{"shape": "step", "to": size}]
