"""A generated session file needs its choices, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from hilrt.can.generate import CHOOSE, generate
from hilrt.check import check_file
from hilrt.errors import ConfigError

ROOT = Path(__file__).parents[2]
DATABASE = ROOT / "bench_configs" / "engine_bench.dbc"
BUS: dict[str, object] = {"interface": "udp_multicast", "channel": "239.74.163.9"}


def errors(path: Path) -> list[str]:
    return [str(problem) for problem in check_file(path, []) if problem.level == "error"]


def test_choices_are_named_and_suffice(tmp_path: Path) -> None:
    path = tmp_path / "session.toml"
    text = generate(DATABASE, None, BUS, tmp_path)
    path.write_text(text)
    assert text.count(f"= {CHOOSE}") == 12
    found = errors(path)
    for key in ("max_rate", "safe", "start"):
        for port in ("speed", "mode", "torque", "pedal"):
            assert any(f"inputs.{port}] {key}" in text for text in found), found
    filled = text.replace(f"max_rate = {CHOOSE}", "max_rate = 100.0").replace(CHOOSE, "0.0")
    path.write_text(filled)
    assert errors(path) == []


@pytest.mark.parametrize("name", ["car.dbc", "truck_j1939.dbc"])
def test_databases_of_others(name: str, tmp_path: Path) -> None:
    database = ROOT.parent / "shared" / "data" / name
    if not database.exists():
        pytest.skip("the recordings are not there")
    with pytest.raises(ConfigError, match=r"--node: .* in whose place hilrt is"):
        generate(database, None, BUS, tmp_path)


def test_a_node_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'Gateway'"):
        generate(DATABASE, "Gatway", BUS, tmp_path)
