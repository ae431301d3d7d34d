"""Summaries of many kinds of sessions have the keys and types of the schema, and no others."""

import json
from pathlib import Path

import jsonschema
import pytest

import hilrt
from hilrt.session.summary_layout import summary_schema

ROOT = Path(__file__).parent.parent.parent
TWO_MASS = ROOT / "bench_configs" / "two_mass.toml"


@pytest.fixture(scope="module")
def schema():
    schema = summary_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def summary_of(overrides, session=TWO_MASS):
    result = hilrt.simulate(session, {"session.duration": 0.3} | overrides)
    return json.loads(json.dumps(result.summary))


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"master.step": 0.016, "session.duration": 4.0},
        {"master.order_control.method": "derivatives"},
        {"subsystems.mass1.params.m": 1e-9},
    ],
    ids=["energy", "unreliable, with advice", "orders", "diverged"],
)
def test_what_a_session_leaves_is_what_the_schema_says(schema, overrides):
    summary = summary_of(overrides)
    assert [error.message for error in schema.iter_errors(summary)] == []


def test_results_and_alarms_are_in_the_schema(schema, tmp_path):
    path = tmp_path / "watched.toml"
    path.write_text(
        TWO_MASS.read_text("utf-8")
        + """
[[alarms]]
signal = "mass1.force"
max = 1.0

[[expect]]
name = "little force"
always = "mass1.force < 1.0"
""",
        "utf-8",
    )
    summary = summary_of({}, path)
    assert summary["alarms"]
    assert summary["results"]
    assert [error.message for error in schema.iter_errors(summary)] == []


def test_a_recorded_session_of_processes_leaves_what_the_schema_says(schema, tmp_path):
    session = hilrt.load_session(
        ROOT / "bench_configs" / "two_mass.toml",
        {"session.duration": 0.2, "session.pace": "realtime"}
        | {"subsystems.mass2": {"adapter": "zeromq", "spawn": ["hilrt", "solver", MASS2]}},
    )
    result = hilrt.run_session(session, options=hilrt.RunOptions(out=tmp_path))
    summary = json.loads((result.folder / "summary.json").read_text("utf-8"))
    assert summary["peers"]["mass2"]["compute_us"]
    assert summary["lateness_us"]
    assert [error.message for error in schema.iter_errors(summary)] == []


MASS2 = "hilrt.models.two_mass:Mass2"


def test_a_session_without_a_step_leaves_less(schema, tmp_path):
    session = hilrt.load_session(
        TWO_MASS,
        {"master.connect_timeout": 0.01} | {"subsystems.mass2": {"adapter": "zeromq"}},
    )
    result = hilrt.run_session(session, options=hilrt.RunOptions(out=tmp_path))
    summary = json.loads((result.folder / "summary.json").read_text("utf-8"))
    assert summary["steps"] == 0
    assert "ports" not in summary
    assert [error.message for error in schema.iter_errors(summary)] == []


def test_a_key_that_is_not_there_and_one_that_nobody_knows_are_refused(schema):
    summary = summary_of({})
    assert not schema.is_valid(summary | {"colour": "red"})
    assert not schema.is_valid(summary | {"steps": "many"})
    del summary["peers"]
    assert not schema.is_valid(summary)
