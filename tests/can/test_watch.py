"""Rows of what is on a bus."""

from __future__ import annotations

from pathlib import Path

import cantools
import pytest
from rich.console import Console

from hilrt.can.show import live_table, stats_table
from hilrt.can.watch import BusWatcher
from hilrt_adapters.can_frame import ERROR, EXTENDED, Frame

DATABASE = Path(__file__).parents[2] / "bench_configs" / "engine_bench.dbc"
PLAIN = cantools.database.load_file(DATABASE)
MS = 1_000_000


def slow(count: int, state: int = 3) -> Frame:
    values = {
        "Enabled": 1,
        "State": state,
        "FaultCause": 0,
        "Mode": 0,
        "FuelRate": 1.5,
        "CoolantTemp": 80,
        "OilTemp": 90,
        "ExhaustTemp": 300,
        "Alive": count % 256,
    }
    data = PLAIN.get_message_by_name("EngineSlow").encode(values)
    return Frame(0x110, data, count * 10 * MS + 10**18)


@pytest.fixture
def watcher() -> BusWatcher:
    made = BusWatcher(PLAIN.messages)
    made.take([slow(k) for k in (0, 1, 2, 2, 5)], 0)
    made.take([Frame(EXTENDED | 0x123, b"\x01\x02"), Frame(0x110, b""), Frame(ERROR, b"")], 7)
    return made


def test_rows_have_names_values_and_counts(watcher: BusWatcher) -> None:
    row = watcher.rows[0x110]
    assert row.name == "EngineSlow"
    assert row.values["State"] == "ENABLED"
    assert row.values["FuelRate"] == "1.5 g/s"
    assert (row.stats.lost, row.stats.repeated, row.stats.decode_errors) == (2, 1, 1)
    assert watcher.rows[EXTENDED | 0x123].name == ""
    assert watcher.error_frames == 1


def test_load_is_about_what_the_wire_carries() -> None:
    watcher = BusWatcher()
    watcher.take([Frame(0x100, bytes(8), k) for k in range(1, 7001)], 0)
    # 7000 frames of 8 bytes fill 1 Mbit/s to some 85 %
    assert watcher.load(1.0, 1e6) == pytest.approx(0.85, abs=0.05)


def test_tables_show_what_is_there(watcher: BusWatcher) -> None:
    console = Console(width=300, record=True, file=None, quiet=True)
    with console.capture() as captured:
        console.quiet = False
        console.print(live_table(watcher))
        console.print(stats_table(watcher))
    text = captured.get()
    assert "EngineSlow" in text
    assert "State=ENABLED" in text
    assert "0x00000123" in text
