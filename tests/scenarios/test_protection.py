"""Checksums from end to end: the bench damages what it has protected, and nothing of it counts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from e2e import p01

import hilrt
from tests.protected_bench import MESSAGES, protected_database
from tests.scenarios.sessions import LINUX, Listener, assert_brought_down, engine_run, inline

pytestmark = LINUX

SHARE = 0.2
SCENARIO = f"""
seed = 7

[[events]]
at = 0.0
kind = "damage"
messages = ["EngineFast"]
share = {SHARE}
"""


def test_damaged_frames_are_counted_and_reach_no_port(tmp_path: Path) -> None:
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "protected.dbc").write_text(protected_database())
    (configs / "bad_day.toml").write_text(SCENARIO)
    given = (
        'subsystems.engine.database="protected.dbc"',
        'subsystems.engine.scenario="bad_day.toml"',
        f"subsystems.engine.messages={inline(MESSAGES)}",
        "subsystems.engine.inputs.speed_demand.max=651.0",  # the database says 650
    )
    with Listener() as listener, engine_run(tmp_path, listener, *given, duration=2.0) as run:
        run.until_running()
        assert run.wait() == 0, run.stderr
        assert_brought_down(listener, listener.frames("EngineDemand")[-200].t)
        raw = [bytes(message.data) for message in listener.messages("EngineFast")]
        log = hilrt.load_log(run.folder)
        emulator = (run.folder / "logs" / "engine.emulator.log").read_text()
    damaged = [data for data in raw if not p01.e2e_p01_check(bytearray(data), 0x123)]
    assert 0.5 * SHARE < len(damaged) / len(raw) < 1.5 * SHARE
    (told,) = [event.text for event in log.events if event.cause == "can_messages"]
    found = re.search(r"EngineFast: [^;]*?([\d,]+) checksum errors", told)
    assert found, told
    assert {"can_bad_checksum", "narrower_limits"} <= {event.cause for event in log.events}
    # The listener began before the gateway, and misses none.
    assert 0 < int(found[1].replace(",", "")) <= len(damaged)
    # Some of them say that the shaft turns the other way: no such value reaches the port.
    speeds = [int.from_bytes(d[1:4], "little") >> 4 for d in damaged]
    assert max(speeds) >= 1 << 19
    measured = log["engine.speed"]
    assert np.nanmin(measured) > -5.0
    assert np.nanmax(measured) < 650.0
    # The bench checked every demand, and found nothing wrong.
    (ended,) = [line for line in emulator.splitlines() if "engine ended after" in line]
    assert " 0 with a wrong checksum" in ended
