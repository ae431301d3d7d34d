"""`hilrt expect` on recordings of another tool."""

import json
from xml.etree import ElementTree as ET

import pytest

from hilrt.cli import main as cli
from tests.expect.faulty_logs import faulty_log, write_csv

SPEC = """
[[expect]]
name = "slow"
always = "engine.speed < {limit}"

[[expect]]
name = "never asked"
when = "driver.pedal > {asked}"
eventually = "engine.speed > 0"
within = 0.1
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "logs").mkdir()
    for seed in range(2):
        write_csv(tmp_path / "logs" / f"{seed}.csv", *faulty_log(seed))
    return tmp_path


@pytest.fixture
def run(folder, capsys):
    """Function that judges the folder by `SPEC`: exit status, what was printed, errors."""

    def call(limit, asked, *options):
        (folder / "spec.toml").write_text(SPEC.format(limit=limit, asked=asked))
        arguments = ["expect", folder / "logs", folder / "spec.toml", *options]
        with pytest.raises(SystemExit) as ended:
            cli.main(lambda: cli.app([str(argument) for argument in arguments]))
        return int(ended.value.code or 0), *capsys.readouterr()

    return call


@pytest.mark.parametrize(
    ("limit", "asked", "status"), [(1e6, 0, 0), (50, 0, 1), (1e6, 1e6, 4), (50, 1e6, 1)]
)
def test_the_exit_status_says_the_worst(run, limit, asked, status):
    code, out, _ = run(limit, asked)
    assert code == status, out
    assert out.count("slow: always engine.speed < ") == 2


def test_results_as_json_and_as_junit(run, folder):
    _, out, _ = run(50, 1e6, "--json", "--junit", folder / "out" / "results.xml")
    found = json.loads(out)
    words = [[one["result"] for one in log] for log in found.values()]
    assert words == [["failed", "inconclusive"]] * 2
    root = ET.parse(folder / "out" / "results.xml").getroot()
    assert root.attrib == {"tests": "4", "failures": "2", "errors": "2"}
    case, _ = root[0]
    assert (case.get("name"), case[0].tag) == ("slow", "failure")
    assert "not engine.speed < 50" in case[0].get("message")


def test_a_log_that_cannot_be_read_is_named_and_the_others_are_judged(run, folder):
    (folder / "logs" / "0.mf4").write_bytes(b"none")
    code, out, said = run(1e6, 0, "--junit", folder / "results.xml")
    assert (code, out.count("slow: always engine.speed < ")) == (2, 2)
    assert "0.mf4" in said
    root = ET.parse(folder / "results.xml").getroot()
    assert root.attrib == {"tests": "5", "failures": "0", "errors": "1"}
    assert root[2].get("name") == str(folder / "logs" / "0.mf4")
    assert "0.mf4" in root[2][0][0].get("message")


def test_what_is_wrong_is_bad_input(run):
    code, _, said = run("x.y +", 0)
    assert (code, "[expect 1: slow] always: " in said) == (2, True), said
