"""Logs that earlier versions recorded stay readable.

The files are the first 0.05 s of ``bench_configs/two_mass.toml``, written by the first version that
kept logs and by one that kept replays. What must come out is what mcap's own reader decodes, and
what both of their recorders noted in the log's end.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from typer.testing import CliRunner

import hilrt
from hilrt.cli.main import app
from hilrt.errors import RecordError
from hilrt.replay.replay_log import replay

LOGS = sorted((Path(__file__).parents[1] / "data" / "logs").glob("*.mcap"))
STEPS = 51


@pytest.fixture(params=LOGS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def decoded(path: Path) -> dict[str, Any]:
    """Values by topic and field, as mcap's reader and its decoder of ROS 2 messages see them."""
    found: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    topics = ("/outputs", "/sent", "/bonds")
    with path.open("rb") as file:
        reader = make_reader(file, validate_crcs=True, decoder_factories=[DecoderFactory()])
        for _, channel, _, message in reader.iter_decoded_messages(topics):
            for subsystem in message.__slots__:
                part = getattr(message, subsystem)
                for port in getattr(part, "__slots__", ()):
                    found[channel.topic][f"{subsystem}.{port}"].append(getattr(part, port))
    return found


def test_values_are_those_that_another_reader_decodes(path: Path) -> None:
    log, other = hilrt.load_log(path), decoded(path)
    assert not log.truncated
    assert log.t == pytest.approx(1e-3 * np.arange(STEPS), abs=1e-12)
    assert len(other["/outputs"]) == 5
    for name, values in other["/outputs"].items():
        np.testing.assert_array_equal(log[name], values)
    for name, values in other["/sent"].items():
        np.testing.assert_array_equal(log[f"{name}:sent"], values)
    # One symplectic step of an uncoupled start: x = v h, v - h k x = v for x = 0.
    assert log["mass1.x"][:2] == pytest.approx([0.0, 100.0 * 1e-3])


def test_events_files_and_the_end_are_there(path: Path) -> None:
    log = hilrt.load_log(path)
    texts = [event.text for event in log.events]
    assert texts[-1] == "RUNNING -> STOPPED: finished"
    assert any("correction_capped raised: spring" in text for text in texts)
    assert b'name = "two-mass"' in log.attachments["two_mass.toml"]
    summary = json.loads(log.attachments["summary.json"])
    assert (summary["steps"], log.metadata["rows"]) == (STEPS - 1, str(STEPS))
    assert log["spring:corrected_energy"][-1] == pytest.approx(
        summary["bonds"]["spring"]["corrected_energy_j"], rel=1e-9
    )


@pytest.mark.parametrize("command", [["log", "info"], ["log", "ls"], ["report", "--json"]])
def test_commands_take_it(path: Path, command: list[str]) -> None:
    done = CliRunner().invoke(app, [*command, str(path)])
    assert done.exit_code == 0, done.output
    assert {"info": "two-mass", "ls": "mass1.x", "--json": "spring"}[command[1]] in done.output


def test_it_is_not_replayed_by_other_sources_and_says_why(path: Path) -> None:
    with pytest.raises(RecordError, match=r"recorded by (an older|another) version"):
        replay(path)
