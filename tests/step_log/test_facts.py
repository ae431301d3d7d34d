"""What a log says of its session beside the file: enough for a replay, and to know what ran."""

import hashlib
import json
from pathlib import Path

import pytest

from hilrt.errors import RecordError
from hilrt.models import two_mass
from hilrt.record.reader import load_log
from hilrt.step_log.facts import build_report, read_facts
from tests.replay.recording_tools import CONFIGS, record_file


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return load_log(record_file("two_mass.toml", tmp_path_factory.mktemp("log"), duration=0.01))


def test_facts_are_those_of_the_subsystems(log):
    facts = read_facts(log.attachments, "here")
    assert list(facts.subsystems) == ["mass1", "mass2"]
    assert tuple(facts.subsystems["mass1"].ports().outputs) == two_mass.Mass1().outputs
    assert not facts.subsystems["mass1"].physical
    names = ["mass1.force", "mass1.x", "mass1.v"]
    assert {float(log[name][0]) for name in names} <= set(facts.y0)


def test_models_are_known_by_their_hash(log):
    source = Path(two_mass.__file__).read_bytes()
    models = json.loads(log.attachments["models.json"])
    expected = {"hilrt.models.two_mass:Mass1": hashlib.sha256(source).hexdigest()}
    assert models["mass1"] == expected


def test_host_and_build_are_in_the_log(log):
    host = json.loads(log.attachments["host.json"])
    assert host["build"] == build_report()
    assert {"hilrt", "source", "python", "numpy", "numba", "processor"} <= set(host["build"])
    assert host["host"]["cpus"] >= 1
    assert log.attachments["two_mass.toml"] == (CONFIGS / "two_mass.toml").read_bytes()


def test_what_cannot_be_read_is_an_error_in_words(log):
    with pytest.raises(RecordError, match=r"here: contains no replay\.msgpack"):
        read_facts({}, "here")
    with pytest.raises(RecordError, match="damaged"):
        read_facts({"replay.msgpack": log.attachments["replay.msgpack"][:-9]}, "here")
