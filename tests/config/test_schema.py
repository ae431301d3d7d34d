"""The schema accepts the sessions that run, and refuses what the reader refuses."""

import tomllib
from pathlib import Path

import jsonschema
import pytest

from hilrt.config.schema import field_comments, session_schema

ROOT = Path(__file__).parents[2]
SESSIONS = sorted((ROOT / "bench_configs").glob("*.toml"))


@pytest.fixture(scope="module")
def validator():
    schema = session_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.stem)
def test_sessions_are_valid(validator, path):
    problems = validator.iter_errors(tomllib.loads(path.read_text(encoding="utf-8")))
    assert [problem.message for problem in problems] == []


BASE = """
[session]
name = "x"
duration = 1.0
[master]
step = 0.001
[subsystems.a]
adapter = "inprocess"
model = "m:C"
"""


@pytest.mark.parametrize(
    "wrong",
    [
        BASE.replace("step = 0.001", "step = -1.0"),
        BASE.replace("step = 0.001", "stop = 0.001"),
        BASE.replace("duration = 1.0", "duration = inf"),
        BASE.replace("step = 0.001", "step = 0.001\narm_timeout = inf"),
        BASE.replace('model = "m:C"', 'modell = "m:C"'),
        BASE.replace('model = "m:C"', ""),
        BASE.replace('adapter = "inprocess"', ""),
        BASE + '[[connections]]\nsource = "a.b"\nto = "a.c"\n',
        BASE + '[[alarms]]\nsignal = "a.b"\naction = "panic"\n',
    ],
)
def test_mistakes_are_found(validator, wrong):
    assert validator.is_valid(tomllib.loads(BASE))
    assert not validator.is_valid(tomllib.loads(wrong))


def test_adapters_of_others_are_let_through(validator):
    theirs = BASE.replace('adapter = "inprocess"', 'adapter = "somebody_elses"')
    assert validator.is_valid(tomllib.loads(theirs))


def test_keys_have_the_comments_of_their_fields():
    properties = session_schema()["$defs"]["MasterTable"]["properties"]
    assert properties["step"]["description"].startswith("[s] Macro step, a whole number")
    assert properties["connect_timeout"]["description"].startswith("[s] Time limit for subsystems")


def test_comments_of_what_has_no_source():
    assert field_comments(type("Made", (), {})) == {}
