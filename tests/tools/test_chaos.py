"""What the tool that disturbs sessions draws, does to a line, and finds on a bus and in a log."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tools.qualification import (
    chaos_checks,
    chaos_link,
    chaos_listener,
    chaos_plan,
    chaos_session,
    chaos_strike,
)

NOW = 1e9


def test_a_round_is_the_same_alone_as_among_others() -> None:
    count = len(chaos_plan.CASES)
    rounds = [chaos_plan.draw(7, number) for number in range(2 * count)]
    assert rounds[count + 3] == chaos_plan.draw(7, count + 3)
    assert rounds != [chaos_plan.draw(8, number) for number in range(2 * count)]
    cases = [(one.session, one.fault, one.target) for one in rounds]
    assert sorted(cases[:count]) == sorted(cases[count:]) == sorted(chaos_plan.CASES)
    assert cases[:count] != cases[count:]


# ---- the bus -----------------------------------------------------------------------------------


def brought_down(after: float, *, last_speed: float = 0.0, step: float = 0.0) -> list[Any]:
    """Frames of a bench at 80 rad/s and 50 %, for `after` [s] from `NOW` on, then ramped down."""
    heard = chaos_listener.Heard
    messages = chaos_checks.MESSAGES
    found = []
    for i in range(int((after + 0.4) / 0.002)):
        t = 0.002 * i - 0.1
        down = max(0.0, t - after)
        speed = max(last_speed, 80.0 - 800.0 * max(0.0, down - 0.1) - (step if down else 0.0))
        values: dict[str, dict[str, float]] = {
            "EngineDemand": {"Pedal": max(0.0, 50.0 - 500.0 * down)},
            "DynoDemand": {"Speed": speed, "Torque": 0.0, "Mode": 0, "Enable": down < 0.25},
        }
        for name, signals in values.items():
            message = messages.get_message_by_name(name)
            data = message.encode({**signals, "Alive": i % 256}, strict=False)
            found.append(heard(NOW + t, message.frame_id, bytes(data)))
    return found


def bus_findings(heard: list[Any]) -> tuple[list[str], float]:
    """Of a round in which the master is killed at `NOW`."""
    one = chaos_plan.Round(0, 0, "engine", "kill", "master", False, 0.5, 0.0, 0.0)
    struck = chaos_strike.Struck(t=NOW, over=NOW, running=True)
    verdict = chaos_checks.Verdict()
    chaos_checks.check_bus(
        one, chaos_session.Seen(struck, chaos_plan.KILLED, heard=heard), None, verdict
    )
    return verdict.findings, verdict.safe_s


def test_a_bench_that_is_brought_down_in_time_is_no_finding() -> None:
    findings, safe_s = bus_findings(brought_down(0.2))
    assert findings == []
    assert safe_s == pytest.approx(0.4, abs=0.005)


@pytest.mark.parametrize(
    ("heard", "words"),
    [
        (lambda: brought_down(0.8), "safe values 0.99"),  # the gateway's 0.3 s have passed
        (lambda: brought_down(0.2, last_speed=20.0), "Speed ends at 20"),
        (lambda: brought_down(0.2, step=40.0), "Speed is not ramped"),
        (lambda: brought_down(0.2)[:300], "never withdrawn"),
    ],
)
def test_a_bench_that_is_not_is_one(heard: Any, words: str) -> None:
    findings, _ = bus_findings(heard())
    assert any(words in finding for finding in findings), findings


def test_a_machine_that_stood_still_is_left_out() -> None:
    stall = chaos_listener.Heard(
        NOW + 0.7, chaos_listener.STALL, chaos_listener.struct.pack("<d", 0.6)
    )
    assert bus_findings([*brought_down(0.8), stall])[0] == []


# ---- the log -----------------------------------------------------------------------------------


class Rows(dict[str, Any]):
    """As much of a log as is looked at."""

    def __init__(self, ticks: list[int], skipped: list[int]) -> None:
        super().__init__({"master:skipped": np.array(skipped, float)})
        self.t = 0.01 * np.array(ticks)


def test_a_row_is_missing_unless_the_master_left_its_tick_out() -> None:
    for skipped, words in (([0, 0, 2, 0], []), ([0, 0, 0, 0], ["2 rows are missing"])):
        findings: list[str] = []
        chaos_checks.check_rows(Rows([0, 1, 4, 5], skipped), findings)
        assert [finding[:18] for finding in findings] == words


# ---- the line ----------------------------------------------------------------------------------


class Writer:
    """As much of a connection's end as is used."""

    def __init__(self, sent: list[bytes]) -> None:
        self.write = sent.append

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("loss", "passed"), [(0.0, True), (1.0, False)])
async def test_messages_are_lost_whole_and_commands_are_not(loss: float, passed: bool) -> None:
    greeting, ready = bytes(chaos_link.GREETING_BYTES), b"\x04\x05READY"
    message = b"\x01\x00" + b"\x02" + (300).to_bytes(8, "big") + bytes(300)
    line = chaos_link.Line(Path("none"), 0)
    line.loss = loss
    source = asyncio.StreamReader()
    source.feed_data(greeting + ready + message)
    sent: list[bytes] = []
    source.feed_eof()
    await line.carry(source, Writer(sent))
    assert b"".join(sent) == greeting + ready + (message if passed else b"")
